"""A connection to a network of brokers, for asyncio: publish, subscribe, advertise, watch, and read streams again.

>>> import asyncio, sluice
>>> async def main():
...     async with sluice.connect("memory://tour") as bus, bus.subscribe("price > 120") as quotes:
...         await quotes.complete()
...         await bus.publish({"symbol": "IBM", "price": 121.5})
...         async for quote in quotes:
...             return quote
>>> asyncio.run(main())
{'symbol': 'IBM', 'price': 121.5}
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Literal, get_args, overload

import pyarrow as pa

from sluice.client.durable import DurableSubscription, Start
from sluice.client.engine import Engine
from sluice.client.inbox import Inbox
from sluice.client.interest import Advertisement, Interest
from sluice.client.publisher import encoded, encoded_columns
from sluice.client.reading import MAX_PAGE_BYTES, Pages, Reading, bounds
from sluice.client.replay import Duration, wish
from sluice.client.subscription import LiveSubscription, ReliableSubscription
from sluice.errors import ConfigurationError, RequestError
from sluice.model import parse
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import EntryId
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Failed,
    Forget,
    Question,
    ReplayEvent,
    Replaying,
    Resume,
)

#: What a subscription can rely on.
Delivery = Literal["best-effort", "reliable"]

#: Whether publications come in the order of all, or only those of each publisher in its own.
Order = Literal["none", "total"]

#: What every notification satisfies.
EVERY = parse("true")


class Bus:
    """One connection; `sluice.connect` makes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """The name of this client."""
        return self._engine.session.name

    @property
    def published(self) -> int:
        """The number of the last publication. With a durable broker, a named client goes on from what was accepted."""
        return self._engine.publisher.last

    @property
    def is_durable(self) -> bool:
        """Whether the broker at the other end has what it accepts on disk."""
        return self._engine.session.is_durable

    async def broker(self) -> Peer:
        """The name of the broker at the other end; waits for a link."""
        return await self._engine.home()

    # --- subscribe ----------------------------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, where: str | Subscription, *, delivery: Literal["reliable"], order: Order = "none"
    ) -> ReliableSubscription: ...
    @overload
    def subscribe(
        self,
        where: str | Subscription,
        *,
        delivery: Literal["best-effort"] = "best-effort",
        order: Order = "none",
        replay: Duration | None = None,
        last: int | None = None,
    ) -> LiveSubscription: ...
    @overload
    def subscribe(
        self, where: str | Subscription, *, durable: str | None = None, start: Start | None = None
    ) -> DurableSubscription: ...
    def subscribe(
        self,
        where: str | Subscription,
        *,
        delivery: Delivery = "best-effort",
        order: Order = "none",
        replay: Duration | None = None,
        last: int | None = None,
        durable: str | None = None,
        start: Start | None = None,
    ) -> LiveSubscription | DurableSubscription:
        """A subscription, to be used with `async with`: live, or, with `durable` or `start`, read from the brokers' logs.

        With `delivery="reliable"` nothing is missed from its start on, whatever fails on the way; its brokers keep logs.
        With `order="total"` it gets everything in an order that is the same for all who ask for it, whoever published it. With
        both, it waits for a broker that is away, since what that has may come first.
        `replay` and `last` ask a history for the past: as far back as "2h", a timedelta or seconds, at most so many, or both.
        It comes first, its events have `replayed` set, and what is live follows without a gap or a duplicate.
        `durable` is a name under which the subscription goes on where it
        stopped. `start` says where reading begins: "latest" (for a durable one as it begins: the default), "earliest", or the
        first offset of each stream; streams that it does not name are read from their beginning.
        """
        has_past, has_log = replay is not None or last is not None, durable is not None or start is not None
        check_choice(delivery, order, has_past=has_past, has_log=has_log)
        if delivery == "reliable":
            return ReliableSubscription(self._engine, _parsed(where), is_ordered=order == "total")
        if not has_log:
            return LiveSubscription(self._engine, _parsed(where), wish(replay, last), is_ordered=order == "total")
        return DurableSubscription(self._engine, _parsed(where), durable, start or "latest")

    def events(self) -> Inbox:
        """What comes for any subscription of this connection, each notification once.

        One that satisfies reliable subscriptions and others comes once for the reliable ones and once for the others.
        From the first call on everything comes here, and the subscriptions' own iterators get nothing new.
        """
        return self._engine.everything()

    # --- publish ------------------------------------------------------------------------------------------------------

    def publish(self, record: object, *, order: Order = "none") -> Coroutine[Any, Any, int]:
        """Publishes a record and returns its number. Waits only while too much is not accepted, or there is no link.

        With `order="total"` all who get it and something else that was published so get both in the same order.
        """
        if order == "none":
            return self._engine.publisher.publish(record)
        return self._publish_ordered(record, order)

    async def _publish_ordered(self, record: object, order: Order) -> int:
        return await self._engine.publisher.publish(record, ordered=await self._is_ordered(order))

    async def publish_many(self, records: Iterable[object], *, order: Order = "none") -> int:
        """Publishes records, all or none if one cannot be published; returns the number of the last."""
        parts = [encoded(record) for record in records]
        return await self._engine.publisher.publish_all(parts, ordered=await self._is_ordered(order))

    async def publish_arrow(self, table: pa.RecordBatch | pa.Table, *, order: Order = "none") -> int:
        """Publishes the rows of Arrow columns, which stay columns on their way; returns the number of the last."""
        parts = encoded_columns(table)
        return await self._engine.publisher.publish_all(parts, ordered=await self._is_ordered(order))

    async def _is_ordered(self, order: Order) -> bool:
        """Whether that is what is asked for; raises an error if the broker cannot give it."""
        check_order(order)
        if order == "total":
            await self._engine.check_ordered()
        return order == "total"

    async def skip_to(self, number: int) -> None:
        """Has the next publication get this number, so that a program can count by a rule of its own.

        Numbers never go back. A named client of a durable broker finds in `published` how far it came in an earlier life, and
        what it publishes under numbers by rule is then never stored twice, however often it is run.
        """
        await self._engine.publisher.skip_to(number)

    async def flush(self) -> None:
        """Returns when all that was published before is accepted; raises `PublishError` if something was not.

        A durable broker has on disk what it has accepted.
        """
        await self._engine.publisher.flush()

    def advertise(self, where: str | Subscription) -> Advertisement:
        """A promise of what will be published, to be used with `async with`."""
        return Advertisement(self._engine, _parsed(where))

    def watch(self, where: str | Subscription) -> Interest:
        """Who is interested in what matches, to be used with `async with`."""
        return Interest(self._engine, _parsed(where))

    async def offer(self, subscription: EntryId, past: ReplayEvent) -> Replaying:
        """Offers notifications of the past to the holder of a subscription, as histories do; returns how far it is then.

        That takes as long as it does: the holder answers when it has room for more.
        """
        answer = await self._engine.ask(subscription, past, None)
        if isinstance(answer, Failed):
            raise RequestError(answer.reason)
        assert isinstance(answer, Replaying)
        return answer

    # --- ask ----------------------------------------------------------------------------------------------------------

    def fetch(
        self, stream: Peer, start: int = 1, end: int | None = None, where: str | Subscription = "true"
    ) -> Reading:
        """What the log of a broker holds from one offset to before another, as far as it matches; an iterator of batches.

        Without an end it goes as far as the log does when the reading begins.
        """
        return Reading(self._engine, stream, start, end, _parsed(where))

    async def streams(self) -> dict[Peer, range]:
        """The offsets that every log holds now, by the name of its broker, of the brokers that can be reached."""
        report = await self.describe()
        found = {}
        for stream in report["brokers"]:
            with suppress(RequestError):  # it keeps no log, or is gone again
                found[stream] = await bounds(self._engine, stream, EVERY, max_attempts=2)
        return found

    def pages(
        self,
        stream: Peer,
        start: int,
        end: int,
        where: str | Subscription = "true",
        max_attempts: int | None = None,
    ) -> Pages:
        """A range of a log as the broker gives it out, page by page, for programs that keep what they read elsewhere."""
        return Pages(
            self._engine,
            stream,
            _parsed(where),
            after=start - 1,
            until=end - 1,
            max_attempts=max_attempts,
            page_bytes=MAX_PAGE_BYTES,
        )

    async def describe(self, broker: Peer | None = None) -> dict[str, Any]:
        """A broker's account of itself, by default that of the one at the other end."""
        answer = await self._engine.ask(broker, Describe())
        if isinstance(answer, Failed):
            raise RequestError(answer.reason)
        assert isinstance(answer, Described)
        return dict(answer.report)

    async def hold(self, name: str, stream: Peer, after: int) -> None:
        """Has a broker keep all that its log has after an offset, whatever its retention; returns when that is on disk.

        A hold is a durable subscription of this name at that broker. It moves when it is asked for again, and ends with
        `forget`.
        """
        await self._asked(stream, Resume(name, EVERY.to_sql(), {stream: after}, holds=True))
        await self._asked(stream, Commit(name, {stream: after}))

    async def forget(self, durable: str, broker: Peer | None = None) -> None:
        """Ends a durable subscription for good, by default at all brokers that it may have been at and that can be reached."""
        if broker is not None:
            await self._asked(broker, Forget(durable))
            return
        report = await self.describe()
        results = await asyncio.gather(
            *(self._asked(each, Forget(durable)) for each in report["brokers"]), return_exceptions=True
        )
        problems = [result for result in results if isinstance(result, BaseException)]
        if len(problems) == len(results):
            raise problems[0]

    async def ask(self, broker: Peer, question: Question) -> Answer:
        """The answer of a broker to a question; for programs that look after a network."""
        return await self._engine.ask(broker, question)

    async def _asked(self, broker: Peer | None, question: Question) -> None:
        answer = await self._engine.ask(broker, question)
        if isinstance(answer, Failed):
            raise RequestError(answer.reason)


def check_order(order: str) -> None:
    """Raises an error if there is no such order."""
    if order not in get_args(Order):
        raise ConfigurationError(f"order is {order!r}: take one of {', '.join(get_args(Order))}")


def check_choice(delivery: str, order: str, *, has_past: bool, has_log: bool) -> None:
    """Raises an error if what is said of a subscription does not go together."""
    check_order(order)
    if order == "total" and (has_past or has_log):
        raise ConfigurationError(
            "the order of all is that of what is live, and logs keep each stream in its own: "
            "replay, last, durable and start are for subscriptions without order"
        )
    if delivery not in get_args(Delivery):
        raise ConfigurationError(f"delivery is {delivery!r}: take one of {', '.join(get_args(Delivery))}")
    if delivery == "reliable" and (has_past or has_log):
        raise ConfigurationError(
            "a reliable subscription begins now: replay, last, durable and start are for others. "
            "To have the past too, read the logs up to its starts with fetch"
        )
    if has_past and has_log:
        raise ConfigurationError("replay and last are for live subscriptions: a log is read from where start says")


def _parsed(where: str | Subscription) -> Subscription:
    return parse(where) if isinstance(where, str) else where
