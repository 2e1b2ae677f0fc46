"""The same connection for programs without asyncio: every call waits until it is done, or until its timeout.

An event loop in a background thread does the work. Events come over in whole batches, and publications are put together before
they go over, so that a single event costs no change of threads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, Self, TypeVar, overload

import pyarrow as pa

from sluice.client.background import Background, within
from sluice.client.bus import Bus, Delivery, Order, check_choice, check_order
from sluice.client.durable import DurableSubscription, Start
from sluice.client.engine import Engine
from sluice.client.event import Event
from sluice.client.gap import Gap
from sluice.client.inbox import Inbox, Portion
from sluice.client.interest import Advertisement, Interest, InterestChange
from sluice.client.publisher import MAX_TOGETHER, Columns, Part, Publisher, encoded, encoded_columns
from sluice.client.reading import Reading
from sluice.client.replay import Duration
from sluice.client.subscription import AnySubscription, LiveSubscription, ReliableSubscription
from sluice.errors import PublishError
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Entry, EntryId
from sluice.protocol.questions import Fetched

T = TypeVar("T")

#: Publications that wait to go over to the background before `publish` waits for them.
MAX_WAITING = 4 * MAX_TOGETHER
#: How often a durable subscription is told how far the program is within a batch.
TELL_SECONDS = 0.05


class BlockingBus:
    """One connection; `sluice.connect` makes it, for a plain `with`."""

    def __init__(self, engine: Engine, background: Background) -> None:
        self._engine = engine
        self._bus = Bus(engine)
        self._background = background
        #: Whether the broker was found to take what is to be in order: to ask costs a change of threads.
        self._can_order = False
        self._outbox = _Outbox(engine.publisher, background)

    @property
    def name(self) -> str:
        """The name of this client."""
        return self._bus.name

    @property
    def published(self) -> int:
        """The number of the last publication, as in `Bus`."""
        return self._outbox.last

    @property
    def is_durable(self) -> bool:
        """Whether the broker at the other end has what it accepts on disk."""
        return self._bus.is_durable

    def broker(self, timeout: float | None = None) -> Peer:
        """The name of the broker at the other end; waits for a link."""
        return self._run(self._bus.broker(), timeout)

    def _run(self, work: Coroutine[Any, Any, T], timeout: float | None) -> T:
        return self._background.run(work, timeout)

    def hand_over(self, timeout: float) -> None:
        """Has what was published leave this thread; it is not accepted yet then."""
        try:
            self._run(self._outbox.drain(), timeout)
        except TimeoutError:
            raise self._background.call(self._outbox.failure) from None

    def end(self, last: Coroutine[Any, Any, None]) -> None:
        """Does something last, and ends the background."""
        try:
            self._run(last, None)
        finally:
            self._background.stop()

    # --- subscribe ----------------------------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, where: str | Subscription, *, delivery: Literal["reliable"], order: Order = "none"
    ) -> BlockingReliableSubscription: ...
    @overload
    def subscribe(
        self,
        where: str | Subscription,
        *,
        delivery: Literal["best-effort"] = "best-effort",
        order: Order = "none",
        replay: Duration | None = None,
        last: int | None = None,
    ) -> BlockingSubscription: ...
    @overload
    def subscribe(
        self, where: str | Subscription, *, durable: str | None = None, start: Start | None = None
    ) -> BlockingDurableSubscription: ...
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
    ) -> BlockingSubscription:
        """A subscription, to be used with `with`; see `Bus.subscribe`."""
        background, bus = self._background, self._bus
        has_past, has_log = replay is not None or last is not None, durable is not None or start is not None
        check_choice(delivery, order, has_past=has_past, has_log=has_log)
        if delivery == "reliable":
            reliable = background.call(lambda: bus.subscribe(where, delivery="reliable", order=order))
            return BlockingReliableSubscription(reliable, background)
        if not has_log:
            live = background.call(lambda: bus.subscribe(where, order=order, replay=replay, last=last))
            return BlockingSubscription(live, background)
        made = background.call(lambda: bus.subscribe(where, durable=durable, start=start))
        return BlockingDurableSubscription(made, background)

    def events(self) -> BlockingEvents:
        """What comes for any subscription of this connection, each notification once; see `Bus.events`."""
        return BlockingEvents(self._background.call(self._bus.events), self._background)

    # --- publish ------------------------------------------------------------------------------------------------------

    def publish(self, record: object, timeout: float | None = None, *, order: Order = "none") -> int:
        """Publishes a record and returns its number. Waits only while too much is not accepted, or there is no link.

        `order` is as in `Bus.publish`.
        """
        return self._outbox.put((encoded(record),), timeout, ordered=self._is_ordered(order, timeout))

    def publish_many(self, records: Iterable[object], timeout: float | None = None, *, order: Order = "none") -> int:
        """Publishes records, all or none if one cannot be published; returns the number of the last."""
        parts = [encoded(record) for record in records]
        return self._outbox.put(parts, timeout, ordered=self._is_ordered(order, timeout))

    def publish_arrow(
        self, table: pa.RecordBatch | pa.Table, timeout: float | None = None, *, order: Order = "none"
    ) -> int:
        """Publishes the rows of Arrow columns, which stay columns on their way; returns the number of the last."""
        return self._outbox.put(encoded_columns(table), timeout, ordered=self._is_ordered(order, timeout))

    def _is_ordered(self, order: Order, timeout: float | None) -> bool:
        if order != "none" and not self._can_order:
            check_order(order)
            self._run(self._engine.check_ordered(), timeout)
            self._can_order = True
        return order == "total"

    def skip_to(self, number: int, timeout: float | None = None) -> None:
        """Has the next publication get this number, as in `Bus`."""
        self._background.run(self._outbox.skip_to(number), timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Returns when all that was published before is accepted; raises `PublishError` if something was not."""
        self._background.run(self._outbox.flush(), timeout)

    def advertise(self, where: str | Subscription) -> BlockingAdvertisement:
        """A promise of what will be published, to be used with `with`."""
        return BlockingAdvertisement(self._background.call(lambda: self._bus.advertise(where)), self._background)

    def watch(self, where: str | Subscription) -> BlockingInterest:
        """Who is interested in what matches, to be used with `with`."""
        return BlockingInterest(self._background.call(lambda: self._bus.watch(where)), self._background)

    # --- ask ----------------------------------------------------------------------------------------------------------

    def fetch(
        self, stream: Peer, start: int = 1, end: int | None = None, where: str | Subscription = "true"
    ) -> BlockingReading:
        """What the log of a broker holds from one offset to before another; see `Bus.fetch`."""
        return BlockingReading(self._bus.fetch(stream, start, end, where), self._background)

    def streams(self, timeout: float | None = None) -> dict[Peer, range]:
        """The offsets that every log holds now, by the name of its broker, of the brokers that can be reached."""
        return self._run(self._bus.streams(), timeout)

    def pages(
        self, stream: Peer, start: int, end: int, where: str | Subscription = "true", timeout: float | None = None
    ) -> Generator[Fetched, None, None]:
        """A range of a log, page by page; the next page is on its way while one is looked at. `timeout` is for each page."""
        pages = self._bus.pages(stream, start, end, where)
        coming = self._background.start(within(pages.next(), timeout))
        try:
            while True:
                page = coming.result()
                if page.through >= end - 1:
                    break
                coming = self._background.start(within(pages.next(), timeout))
                yield page
            yield page
        finally:
            coming.cancel()

    def describe(self, broker: Peer | None = None, timeout: float | None = None) -> dict[str, Any]:
        """A broker's account of itself, by default that of the one at the other end."""
        return self._run(self._bus.describe(broker), timeout)

    def hold(self, name: str, stream: Peer, after: int, timeout: float | None = None) -> None:
        """Has a broker keep all that its log has after an offset, whatever its retention; see `Bus.hold`."""
        self._run(self._bus.hold(name, stream, after), timeout)

    def forget(self, durable: str, broker: Peer | None = None, timeout: float | None = None) -> None:
        """Ends a durable subscription for good, by default at all brokers; see `Bus.forget`."""
        self._run(self._bus.forget(durable, broker), timeout)


class _Outbox:
    """Publications on their way over to the background, in order; for any number of threads."""

    def __init__(self, publisher: Publisher, background: Background) -> None:
        self._publisher = publisher
        self._background = background
        self._lock = threading.Lock()
        #: What is to go over, and whether it is to be in order for all.
        self._waiting: list[tuple[Part, bool]] = []
        self._is_due = False
        self._turn = asyncio.Lock()
        #: The number of the last publication.
        self.last = publisher.last

    def put(self, parts: Sequence[Part], timeout: float | None, *, ordered: bool = False) -> int:
        """Hands publications over; waits first while too many wait already."""
        if len(self._waiting) >= MAX_WAITING:
            self._background.run(self.drain(), timeout)
        if self._publisher.error is not None:
            raise self._publisher.error
        with self._lock:
            self._waiting += ((part, ordered) for part in parts)
            for part in parts:
                self.last += part.rows if isinstance(part, Columns) else 1
            number = self.last
            is_due, self._is_due = self._is_due, True
        if not is_due:
            self._background.start(self.drain())
        return number

    def failure(self) -> PublishError:
        """What was not accepted, also because it has not gone over."""
        return self._publisher.failure(self.last)

    async def skip_to(self, number: int) -> None:
        """Numbers go on from there, as in `Publisher.skip_to`."""
        await self.drain()
        await self._publisher.skip_to(number)
        with self._lock:
            self.last = self._publisher.last

    async def flush(self) -> None:
        """Everything is accepted, as in `Publisher.flush`."""
        await self.drain()
        await self._publisher.flush()

    async def drain(self) -> None:
        """Publishes what waits. Whoever gives up before there is room has published nothing, and it waits on."""
        async with self._turn:
            while self._waiting:
                await self._publisher.room()
                with self._lock:
                    parts, self._waiting = self._waiting, []
                    self._is_due = False
                for ordered, group in groupby(parts, lambda part: part[1]):
                    self._publisher.put([part for part, _ in group], ordered=ordered)


class BlockingEvents(Iterator[Event]):
    """What comes, for `for`."""

    def __init__(self, inbox: Inbox, background: Background) -> None:
        self._inbox = inbox
        self._background = background
        self._events: Iterator[Event] = iter(())

    def __next__(self) -> Event:
        return self.get()

    def get(self, timeout: float | None = None) -> Event:
        """The next event; raises `TimeoutError` if none comes in time, and `StopIteration` at the end."""
        while (event := next(self._events, None)) is None:
            try:
                self._background.run(self._more(), timeout)
            except StopAsyncIteration:
                raise StopIteration from None
        return event

    def batches(self) -> Iterator[list[Event] | pa.RecordBatch]:
        """What came together: lists of events, or Arrow record batches where they were published as such."""
        if left := [*self._events]:
            yield left
        while True:
            try:
                self._background.run(self._more(), None)
            except StopAsyncIteration:
                return
            self._events, portion = iter(()), self._inbox.portion
            assert portion is not None
            self._took(portion)
            yield portion.together()

    def _took(self, portion: Portion) -> None:
        """The program gets this whole portion."""

    async def _more(self) -> None:
        # Kept here, and not returned: an interrupted program has not lost what came in that moment.
        self._events = (await self._inbox.take()).events()


class BlockingSubscription(BlockingEvents):
    """A live subscription, for `with` and `for`."""

    def __init__(self, inner: AnySubscription, background: Background) -> None:
        super().__init__(inner.inbox, background)
        self._inner = inner

    def replayed(self, timeout: float | None = None) -> None:
        """Returns when all of the past has come that was wished for; if it never will, a gap was told."""
        if isinstance(self._inner, LiveSubscription):
            self._background.run(self._inner.replayed(), timeout)

    @property
    def id(self) -> EntryId:
        """Under which id it was made."""
        return self._inner.id

    @property
    def where(self) -> Subscription:
        """What it asks for."""
        return self._inner.where

    @property
    def gaps(self) -> list[Gap]:
        """What may have been missed, the latest last."""
        return [*self._inner.gaps]

    def complete(self, timeout: float | None = None) -> dict[Peer, int] | None:
        """Returns at the moment from which nothing is missed."""
        return self._background.run(self._inner.complete(), timeout)

    def __enter__(self) -> Self:
        self._background.run(self._inner.__aenter__())
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._background.run(self._inner.__aexit__(kind, error, trace))


class BlockingReliableSubscription(BlockingSubscription):
    """A live subscription that misses nothing from its start on, for `with` and `for`."""

    def __init__(self, inner: ReliableSubscription, background: Background) -> None:
        super().__init__(inner, background)
        self._reliable = inner

    def complete(self, timeout: float | None = None) -> dict[Peer, int]:
        """Returns the starts when it has begun to get all streams that there are."""
        return self._background.run(self._reliable.complete(), timeout)

    @property
    def starts(self) -> dict[Peer, int]:
        """The first offset of each stream that it gets, of the streams that it has begun to get."""
        return self._background.call(lambda: dict(self._reliable.starts))

    @property
    def positions(self) -> dict[Peer, int]:
        """For each stream the first offset that has not come to this process."""
        return self._background.call(lambda: self._reliable.positions)

    @property
    def waits_for(self) -> list[Peer]:
        """The streams that an ordered one holds something back for."""
        return self._background.call(lambda: self._reliable.waits_for)


class BlockingDurableSubscription(BlockingSubscription):
    """A subscription that reads logs by position; an event counts as handled when the program asks for the next one."""

    def __init__(self, inner: DurableSubscription, background: Background) -> None:
        super().__init__(inner, background)
        self._durable = inner
        #: Where the event is that the program has now, and when the subscription was last told.
        self._given: tuple[Peer, int] | None = None
        self._told = 0.0

    @property
    def positions(self) -> dict[Peer, int]:
        """Where to go on: for each stream the first offset that is not handled."""
        return self._background.call(self._positions)

    def _positions(self) -> dict[Peer, int]:
        self._tell()
        return self._durable.positions

    def get(self, timeout: float | None = None) -> Event:
        """As in `BlockingEvents`; what was given out before is handled."""
        event = super().get(timeout)
        assert event.stream is not None and event.offset is not None
        self._given = event.stream, event.offset
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._background.loop.call_soon_threadsafe(self._tell)
        return event

    def commit(self, timeout: float | None = None) -> None:
        """Counts all that was given out as handled, and returns when that is noted on disk."""
        self._background.run(self._commit(), timeout)

    async def _commit(self) -> None:
        self._tell()
        await self._durable.commit()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._background.call(self._tell)
        super().__exit__(kind, error, trace)

    def _tell(self) -> None:
        """Tells the subscription where the program is."""
        if self._given is not None:
            self._durable.give(*self._given)

    def _took(self, portion: Portion) -> None:
        logged = portion.parcel.batch.logged
        assert logged is not None
        self._given = logged.stream, logged.offsets[portion.rows[-1]]

    async def _more(self) -> None:
        self._tell()
        self._durable.handle()
        await super()._more()


class BlockingReading(Iterator[list[Event] | pa.RecordBatch]):
    """A range of a log, for `for`; see `Reading`."""

    def __init__(self, inner: Reading, background: Background) -> None:
        self._inner = inner
        self._background = background

    @property
    def missing(self) -> list[range]:
        """The offsets that are gone."""
        return self._inner.missing

    def __next__(self) -> list[Event] | pa.RecordBatch:
        try:
            return self._background.run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class BlockingAdvertisement:
    """A promise of what will be published, for `with`."""

    def __init__(self, inner: Advertisement, background: Background) -> None:
        self._inner = inner
        self._background = background

    def complete(self, timeout: float | None = None) -> None:
        """Returns when everybody who could be interested knows of it."""
        self._background.run(self._inner.complete(), timeout)

    def __enter__(self) -> Self:
        self._background.run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._background.run(self._inner.__aexit__(*error))


class BlockingInterest(Iterator[InterestChange]):
    """Who is interested, for `with` and `for`."""

    def __init__(self, inner: Interest, background: Background) -> None:
        self._inner = inner
        self._background = background

    @property
    def subscriptions(self) -> dict[EntryId | None, Entry]:
        """The subscriptions of others that overlap."""
        return self._background.call(lambda: dict(self._inner.subscriptions))

    def complete(self, timeout: float | None = None) -> None:
        """Returns when everybody knows that somebody watches."""
        self._background.run(self._inner.complete(), timeout)

    def __next__(self) -> InterestChange:
        return self.get()

    def get(self, timeout: float | None = None) -> InterestChange:
        """The next change; raises `TimeoutError` if none comes in time, and `StopIteration` at the end."""
        try:
            return self._background.run(self._inner.__anext__(), timeout)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        self._background.run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._background.run(self._inner.__aexit__(*error))
