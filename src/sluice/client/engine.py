"""What runs a client: carries messages between its link and its `Session`, and hands what is new to whom it concerns.

It decides nothing that the session can decide. Everything here happens in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import assert_never

from sluice.client.allowance import Allowance
from sluice.client.gap import Gap
from sluice.client.inbox import Inbox, Parcel
from sluice.client.interest import Advertisement, Interest
from sluice.client.link import Dial, Link
from sluice.client.options import POLICIES, Options
from sluice.client.publisher import Publisher
from sluice.client.questions import ANSWER_SECONDS, Questions
from sluice.client.session.commands import (
    Command,
    Completed,
    Delivered,
    InterestChanged,
    Lagged,
    Proceed,
    Publish,
    PublishAccepted,
    Published,
    PublishRefused,
    PublishUnknown,
    Told,
    Unsubscribe,
    Upcall,
    Withheld,
)
from sluice.client.session.seam import HISTORY_SECONDS, Begun, CaughtUp, Ended, Full, Missed, Phase, Replayed
from sluice.client.session.session import Session
from sluice.client.session.tracked import Tracked
from sluice.client.signal import Signal
from sluice.client.subscription import AnySubscription, LiveSubscription, ReliableSubscription
from sluice.errors import ConfigurationError, LinkError, ProtocolError, SluiceError
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.events import Event, LinkDown, LinkUp, Received, Send, Tick
from sluice.protocol.messages import Deliver, EntryId, Role
from sluice.protocol.questions import Answer, Question
from sluice.protocol.wire.link import (
    PROTOCOL,
    Anything,
    Bye,
    Channel,
    Credit,
    Dropped,
    Elsewhere,
    Hello,
    Ping,
    Welcome,
)

logger = logging.getLogger("sluice.client")

#: While fewer notifications of a subscription's past than this wait for the program, more of it is asked for.
AHEAD = 4_096

#: What a client can ask its broker for.
Wish = LiveSubscription | Advertisement | Interest


class Engine:
    """One client, in one event loop."""

    def __init__(self, addresses: Sequence[str], dial: Dial, options: Options) -> None:
        self.options = options
        self._loop = asyncio.get_running_loop()
        self._named = options.name is not None
        name = options.name or f"client-{secrets.token_hex(6)}"
        # Every life of a name must tell its tables anew; an unused name has one life only.
        self._incarnation = time.time_ns() // 1_000_000 if self._named else 1
        self.session = Session(name, incarnation=self._incarnation, published=0, history_seconds=HISTORY_SECONDS)
        self.link = Link(addresses, dial, self, options)
        self.publisher = Publisher(self.session, self._publish)
        self.questions = Questions(self.session.new_id, self.step)
        self._allowance = Allowance(options.prefetch, self._grant)
        self._wishes: dict[EntryId, Wish] = {}
        #: Subscriptions that ask for themselves what they want.
        self._followers: dict[EntryId, AnySubscription] = {}
        #: What takes everything that comes, instead of the subscriptions, once somebody has asked for that.
        self._everything: Inbox | None = None
        self._broker: Peer | None = None
        #: Why the broker takes no reliable subscriptions, if it does not, and why others cannot be in order there.
        self._unreliable: str | None = None
        self._unordered: str | None = None
        self._changed = Signal()
        self._error: SluiceError | None = None
        #: When the broker was last heard, and when it last said that it has dropped something.
        self._heard = self._dropped = self._loop.time()
        #: Subscriptions that are complete again, by when and why they were not.
        self._recovered: dict[tuple[float, str], list[LiveSubscription]] = {}
        #: How many notifications of the past of a subscription wait for the program, and which subscriptions wait for that.
        self._ahead: dict[EntryId, int] = {}
        self._full: dict[EntryId, None] = {}
        self._tick: asyncio.TimerHandle | None = None

    # --- its life -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connects."""
        await self.link.open()

    async def close(self, *, flush: bool) -> None:
        """Ends everything; waits, if asked to, until what was published is accepted."""
        try:
            if flush and self._error is None:
                async with asyncio.timeout(self.options.close_seconds):
                    await self.publisher.flush()
        except TimeoutError:
            raise self.publisher.failure(self.publisher.last) from None
        finally:
            await self.link.close()
            self._end(LinkError("this connection is closed: open a new one"), is_clean=True)

    def _end(self, error: SluiceError, *, is_clean: bool) -> None:
        self._error = self._error or error
        self._set_tick(math.inf)
        self.publisher.over(error)
        self.questions.fail(str(error))
        for wish in (*self._wishes.values(), *self._followers.values()):
            wish.end(error, is_clean=is_clean)
        if self._everything is not None:
            self._everything.end(None if is_clean else error)
        self._changed.notify()

    async def home(self) -> Peer:
        """The name of the broker at the other end, once there is a link."""
        while True:
            if self._error is not None:
                raise self._error
            if self.session.broker is not None:
                return self.session.broker
            await self._changed.wait()

    async def ask(
        self, to: Peer | EntryId | None, question: Question, timeout_seconds: float | None = ANSWER_SECONDS
    ) -> Answer:
        """The answer of a broker, by default the one at the other end, or of the holder of a subscription."""
        home = await self.home()
        return await self.questions.ask(to or home, question, timeout_seconds)

    # --- what handles ask for -----------------------------------------------------------------------------------------

    def ask_for(self, wish: Wish, command: Command) -> None:
        """Something is wished for from now on."""
        if self._error is not None:
            raise self._error
        self._wishes[wish.id] = wish
        self.step(command)

    def take_back(self, wish: Wish, command: Command) -> None:
        """It is not any more."""
        if self._wishes.pop(wish.id, None) is not None and self._error is None:
            self.step(command)
        self._ahead.pop(wish.id, None)
        self._full.pop(wish.id, None)

    async def check_reliable(self) -> None:
        """Raises an error if the broker at the other end takes no reliable subscriptions; waits for a link."""
        await self.home()
        if self._unreliable is not None:
            raise ConfigurationError(self._unreliable)

    async def check_ordered(self) -> None:
        """Raises an error if nothing can be in order at the broker at the other end; waits for a link."""
        await self.home()
        if self._unordered is not None:
            raise ConfigurationError(self._unordered)

    def _refuse(self, welcome: Welcome) -> None:
        """The broker says what it does not take; it may be another one than before."""
        self._unreliable, self._unordered = welcome.unreliable, welcome.unordered
        for wish in [wish for wish in self._wishes.values() if isinstance(wish, LiveSubscription)]:
            reason = welcome.unordered if wish.is_ordered else None
            if isinstance(wish, ReliableSubscription):
                reason = welcome.unreliable  # what is in a log has its place there, whatever way it comes
            if reason is not None:
                wish.end(ConfigurationError(reason), is_clean=False)
                self.take_back(wish, Unsubscribe(wish.id))

    def follow(self, subscription: AnySubscription) -> None:
        """A subscription wants to know when all is over."""
        if self._error is not None:
            raise self._error
        self._followers[subscription.id] = subscription

    def unfollow(self, subscription: AnySubscription) -> None:
        """It does not any more."""
        self._followers.pop(subscription.id, None)

    @property
    def has_ended(self) -> bool:
        """Whether there will never be a link again."""
        return self._error is not None

    def everything(self) -> Inbox:
        """What takes all that comes from now on, and what waits with the subscriptions now."""
        if self._everything is None:
            self._everything = Inbox()
            waiting: dict[Parcel, set[int]] = {}
            for wish in self._wishes.values():
                if isinstance(wish, LiveSubscription):
                    for parcel, rows in wish.inbox.waiting():
                        waiting.setdefault(parcel, set()).update(rows)
            for parcel in sorted(waiting, key=lambda parcel: parcel.number):
                self._everything.put(parcel, sorted(waiting[parcel]))
            for wish in self._wishes.values():
                if isinstance(wish, LiveSubscription):
                    wish.inbox.clear()
        return self._everything

    # --- what happens on the link -------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Who this is."""
        credit = self._allowance.begin()
        policy = POLICIES[self.options.policy]
        token = self.options.token
        return Hello(PROTOCOL, Role.CLIENT, self.session.name, self._incarnation, credit, policy, token)

    def up(self, welcome: Welcome) -> None:
        """The broker has answered."""
        if self._broker is None:
            if self._named and welcome.accepted is None:
                # This broker does not know what an earlier life of this name has published: count from the time on.
                self.session.published = time.time_ns() // 1_000
        elif welcome.name == self._broker and welcome.accepted is not None and welcome.accepted > self.publisher.last:
            self.over(ProtocolError(f"somebody else publishes as {self.session.name!r}: give each client its own name"))
            return
        is_first, self._broker = self._broker is None, welcome.name
        self._refuse(welcome)
        self._heard = self._dropped = self._loop.time()
        self.step(LinkUp(welcome.name, Role.BROKER, welcome.accepted))
        if is_first:
            self.publisher.last = self.session.published
        self.publisher.up()
        self._allowance.opened()
        self._changed.notify()

    def messages(self, messages: list[Anything]) -> None:
        """These came together."""
        self._heard = self._loop.time()
        broker = self._broker
        assert broker is not None
        for message in messages:
            match message:
                case Deliver(batch):
                    self._allowance.came(len(batch))
                    self.step(Received(broker, message))
                case Dropped(count):
                    self._note_dropped(count)
                case Ping() | Bye() | Hello() | Welcome() | Credit() | Channel() | Elsewhere():
                    pass  # said of the link, or to brokers
                case _:
                    self.step(Received(broker, message))
        self._allowance.renew()
        if self._recovered:
            self._tell_gaps()

    def down(self, reason: str) -> None:
        """The link broke."""
        logger.info("the link to %s is gone: %s", self._broker, reason)
        for wish in self._wishes.values():
            wish.asked.lost(self._heard, reason)
        self.publisher.down()
        assert self._broker is not None
        self.step(LinkDown(self._broker))
        self.questions.fail(f"the link to {self._broker} broke: {reason}")
        self._changed.notify()

    def over(self, error: SluiceError) -> None:
        """There will be no link any more."""
        logger.error("%s", error)
        self._end(error, is_clean=False)

    def _grant(self, total: int) -> None:
        if self.link.connection is not None:
            self.link.connection.send(Credit(total))

    # --- what is new --------------------------------------------------------------------------------------------------

    def step(self, event: Event | Command) -> None:
        """One step of the session, and what follows from it."""
        connection = self.link.connection
        for effect in self.session.step(event, self._loop.time()):
            if type(effect) is Send:
                if connection is not None:
                    connection.send(effect.message)
            else:
                assert not isinstance(effect, Send)
                self._hear(effect)
        if self.session.seams:
            self._set_tick(self.session.deadline)

    def _set_tick(self, deadline: float) -> None:
        """The session wants to know when this moment is here."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick = None if deadline == math.inf else self._loop.call_at(deadline, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self.step(Tick())

    def _publish(self, command: Publish) -> None:
        """Publications leave at once: they have waited for the end of the turn already."""
        self.step(command)
        if self.link.connection is not None:
            self.link.connection.flush()

    def _hear(self, news: Upcall) -> None:
        match news:
            case Delivered(batch, combinations, which):
                self._deliver(batch, combinations, which)
            case PublishAccepted():
                self.publisher.accepted()
            case Published():
                pass
            case PublishRefused():
                self.publisher.refused(news)
            case PublishUnknown():
                self.publisher.unknown(news)
            case Completed(id=id):
                if id in self._wishes:
                    self._complete(self._wishes[id])
            case Withheld(batch, ids):
                self._withhold(len(batch), ids)
            case Begun(id, stream, offset):
                wish = self._wishes.get(id)
                assert isinstance(wish, ReliableSubscription), "what is not wished for has no start"
                wish.starts[stream] = offset
            case InterestChanged(added, removed):
                for wish in self._wishes.values():
                    if isinstance(wish, Interest):
                        wish.change(added, removed)
            case Replayed(subscription, batch):
                self._give(subscription, batch, is_past=True)
            case Ended(subscription):
                self._replayed(subscription)
            case CaughtUp(subscription, batch):
                self._give(subscription, batch, is_past=False)
            case Full(subscription):
                self._full[subscription] = None
                self._make_room(subscription)
            case Missed():
                self._miss(news)
            case Told():
                self.questions.told(news)
            case _:
                assert_never(news)

    def _deliver(self, batch: Batch, combinations: Iterable[Sequence[EntryId]], which: Sequence[int]) -> None:
        wishes = self._wishes
        found: list[tuple[LiveSubscription, ...]] = [
            tuple(wish for id in ids if isinstance(wish := wishes.get(id), LiveSubscription)) for ids in combinations
        ]
        self._allowance.holds(len(batch))
        parcel = Parcel(batch, found, which, self._allowance.taken)
        everything = range(len(batch))
        if self._everything is not None:
            self._everything.put(parcel, everything)
        elif not which:
            for subscription in found[0]:
                subscription.inbox.put(parcel, everything)
        else:
            rows: dict[LiveSubscription, list[int]] = {}
            for row, combination in enumerate(which):
                for subscription in found[combination]:
                    rows.setdefault(subscription, []).append(row)
            for subscription, some in rows.items():
                subscription.inbox.put(parcel, some)
        parcel.release()

    def _give(self, id: EntryId, batch: Batch, *, is_past: bool) -> None:
        """Gives out what was asked for beside what is live: it comes as fast as the program takes it, without credit."""
        wish = self._wishes.get(id)
        assert isinstance(wish, LiveSubscription), "what is not wished for has no seam"
        self._ahead[id] = self._ahead.get(id, 0) + len(batch)
        parcel = Parcel(batch, ((wish,),), (), partial(self._took, id), is_past=is_past)
        (self._everything or wish.inbox).put(parcel, range(len(batch)))
        parcel.release()

    def _took(self, id: EntryId, count: int) -> None:
        if id in self._ahead:
            self._ahead[id] -= count
            self._make_room(id)

    def _make_room(self, id: EntryId) -> None:
        """Asks for more of a subscription's past if the program has taken enough of it."""
        if id in self._full and self._ahead.get(id, 0) < AHEAD:
            del self._full[id]
            self._loop.call_soon(self._proceed, id)

    def _proceed(self, id: EntryId) -> None:
        if self._error is None:
            self.step(Proceed(id))

    # --- gaps ---------------------------------------------------------------------------------------------------------

    def _complete(self, wish: Wish) -> None:
        lost_at, reason = wish.asked.lost_at, wish.asked.lost_reason
        wish.asked.completed()
        if lost_at is not None and isinstance(wish, LiveSubscription) and not self._rereads(wish):
            self._recovered.setdefault((lost_at, reason), []).append(wish)

    def _note_dropped(self, count: int) -> None:
        now = self._loop.time()
        live = [wish for wish in self._wishes.values() if isinstance(wish, LiveSubscription)]
        missing = tuple(wish for wish in live if not self._rereads(wish))
        if missing:
            reason = "this client took them too slowly, and the broker dropped the oldest"
            self.tell(Gap(reason, missing, self._clock(self._dropped), self._clock(now), count))
        self._dropped = now
        self.step(Lagged())

    def _rereads(self, wish: LiveSubscription) -> bool:
        """Whether a subscription reads from the logs what was live and has not reached it."""
        seam = self.session.seams.get(wish.id)
        return isinstance(seam, Tracked) or (seam is not None and seam.phase is not Phase.GIVEN_UP)

    def _miss(self, news: Missed) -> None:
        wish = self._wishes.get(news.subscription)
        if isinstance(wish, LiveSubscription):
            now = datetime.now(UTC)
            offsets = None if news.stream is None else range(news.first, news.last + 1)
            count = None if offsets is None else len(offsets)
            self.tell(Gap(news.reason, (wish,), now, now, count, news.stream, offsets))
            if not self._rereads(wish):
                wish.past.completed()

    def _withhold(self, count: int, ids: tuple[EntryId, ...]) -> None:
        found = (self._wishes.get(id) for id in ids)
        wishes = tuple(wish for wish in found if isinstance(wish, LiveSubscription))
        now = datetime.now(UTC)
        reason = "they came too late to keep the order, after a link or a broker was gone, and are withheld"
        self.tell(Gap(reason, wishes, now, now, count))

    def _replayed(self, id: EntryId) -> None:
        wish = self._wishes.get(id)
        if isinstance(wish, LiveSubscription):
            wish.past.completed()

    def _clock(self, at: float) -> datetime:
        """A moment of the event loop's clock, as people write it."""
        return datetime.now(UTC) - timedelta(seconds=self._loop.time() - at)

    def _tell_gaps(self) -> None:
        """Tells what was missed while there was no link, once for all subscriptions that are complete again."""
        recovered, self._recovered = self._recovered, {}
        for (lost_at, reason), subscriptions in recovered.items():
            self.tell(Gap(reason, tuple(subscriptions), self._clock(lost_at), self._clock(self._loop.time())))

    def tell(self, gap: Gap) -> None:
        """Something may have been missed."""
        logger.warning("%s", gap)
        for subscription in gap.subscriptions:
            subscription.gaps.append(gap)
        if self.options.on_gap is not None:
            try:
                self.options.on_gap(gap)
            except Exception:
                logger.exception("on_gap has failed")
