"""A client's side of the conversation with its broker, pure: commands and events in, messages and news out.

What a client asks for is a versioned export like any other, so a lost link, a broker's restart and a lease are nothing special:
at every new link the whole export goes out again, and `Completed` says from when on nothing is missed. Commands may be given
while there is no link. What a durable broker had not accepted when a link broke is sent again over the next one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from sluice.client.session.commands import (
    Advertise,
    Command,
    Completed,
    Delivered,
    Inquire,
    InterestChanged,
    Lagged,
    Proceed,
    Publish,
    PublishAccepted,
    Published,
    PublishRefused,
    PublishUnknown,
    Subscribe,
    Told,
    Unadvertise,
    Unsubscribe,
    Unwatch,
    Upcall,
    Watch,
    Withheld,
)
from sluice.client.session.inorder import InOrder
from sluice.client.session.merged import Merged
from sluice.client.session.seam import HISTORY_SECONDS, PAGE_BYTES, Live, Seam, SeamNews
from sluice.client.session.taken import Taken
from sluice.client.session.tracked import Tracked
from sluice.errors import ProtocolError
from sluice.protocol.batch import MARKED, Batch, NotificationId, Peer, Records, portable
from sluice.protocol.events import (
    Answered,
    Event,
    LinkDown,
    LinkUp,
    NotStored,
    Received,
    Reserved,
    Send,
    Stored,
    Tick,
)
from sluice.protocol.export import Delta, Export, Replica
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Await,
    Change,
    Deliver,
    Digest,
    Entry,
    EntryId,
    Floor,
    Gone,
    Halted,
    Head,
    Heard,
    Kind,
    Lost,
    Message,
    Missing,
    Notify,
    Passed,
    Quiet,
    Reached,
    Ready,
    Refused,
    Reply,
    Request,
    Skipped,
    Snapshot,
    Started,
    Version,
)
from sluice.protocol.questions import Answer, Question, ReplayEvent, Replaying
from sluice.protocol.reshape.messages import Allow, ReshapeMessage, Substitute, Unreachable

_TOLD = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)


class Session:
    """One client and the link to its broker."""

    def __init__(
        self,
        name: Peer,
        *,
        lease: LeaseConfig | None = None,
        incarnation: int = 1,
        published: int | None = None,
        history_seconds: float = HISTORY_SECONDS,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self.name = name
        #: For subscriptions with a past: how long a history may be silent, and how much of a log to read at a time.
        self._seam_limits = history_seconds, page_bytes
        self.broker: Peer | None = None
        #: The broker that it was linked to last.
        self._home: Peer | None = None
        #: Which of its lives this is: numbers of an earlier one are never used again.
        self._life = incarnation
        self.entries: dict[Kind, dict[EntryId, Entry]] = {kind: {} for kind in _TOLD}
        self._exports = {kind: Export(kind, Version(incarnation, 0)) for kind in _TOLD}
        #: For each thing asked for that is not complete: the version of the export that carries it.
        self._pending: dict[Kind, dict[EntryId, int]] = {kind: {} for kind in _TOLD}
        self._taken = Taken()
        self._order = InOrder()
        #: Of subscriptions with a replay: where it meets what is live; of reliable ones: how far they are; and for which of
        #: them a question was asked.
        self.seams: dict[EntryId, Seam | Tracked] = {}
        self._asked: dict[EntryId, EntryId] = {}
        self._interest = Replica(0.0)
        self._lease = lease
        self._renewal = -math.inf
        self._numbers = 0
        #: The number of the last publication; those of an earlier life are never used again.
        self.published = (incarnation - 1) << 32 if published is None else published
        #: What the broker has not accepted yet.
        self._unaccepted: deque[Batch] = deque()
        #: Whether the broker keeps what it accepts, so that what it did not is to be sent again.
        self._durable = False
        self._out: list[Send | Upcall] = []
        self._now = 0.0

    def new_id(self) -> EntryId:
        """An id for the next thing to ask for."""
        self._numbers += 1
        return f"{self.name}/{self._numbers}" if self._life == 1 else f"{self.name}/{self._life}.{self._numbers}"

    def batch(self, records: Iterable[object], *, ordered: bool = False) -> Records:
        """Records as the next publications of this client; `ordered`: everybody gets them in the order of all."""
        batch = Records.of(self.name, self.published + 1, [portable(record) for record in records])
        batch.stamp = MARKED if ordered else None
        return batch

    @property
    def settled(self) -> int:
        """The number up to which every publication was accepted, refused or given up."""
        return self._unaccepted[0].numbers[0] - 1 if self._unaccepted else self.published

    @property
    def is_durable(self) -> bool:
        """Whether the broker keeps what it accepts."""
        return self._durable

    @property
    def interest(self) -> Iterable[Entry]:
        """The subscriptions of others that overlap what is watched."""
        return self._of_others(self._interest.entries)

    @property
    def deadline(self) -> float:
        """When a `Tick` is due: a renewal, the end of the lease on interest, or of a seam's patience."""
        if self.broker is None:
            return math.inf
        due = min((seam.deadline for seam in self.seams.values()), default=math.inf)
        if self._lease is None:
            return due
        return min(due, self._interest.renewed + self._lease.lease_seconds, self._renewal)

    def step(self, event: Event | Command, now: float) -> list[Send | Upcall]:
        """Takes one event or command in; returns what is to be sent and what is new, in order."""
        self._out, self._now = [], now
        match event:
            case Received(peer, message):
                if peer == self.broker:
                    self._receive(message)
            case LinkUp(peer, _, accepted):
                self._link_up(peer, accepted)
            case LinkDown():
                self.broker = None
                self._unlink_seams()
                self._tell_interest(self._interest.clear())
                if not self._durable:
                    self._give_up()
            case Tick():
                self._tick()
            case Subscribe(id, where, replay, reliable, ordered):
                self._ask(Kind.SUBSCRIPTIONS, Entry(where, id, replay, reliable, ordered))
            case Unsubscribe(id):
                self._unask(Kind.SUBSCRIPTIONS, id)
            case Advertise(id, where):
                self._ask(Kind.ADVERTISEMENTS, Entry(where, id))
            case Unadvertise(id):
                self._unask(Kind.ADVERTISEMENTS, id)
            case Watch(id, where):
                self._ask(Kind.WATCHES, Entry(where, id))
            case Unwatch(id):
                self._unask(Kind.WATCHES, id)
            case Publish(batch):
                self._publish(batch)
            case Proceed(id):
                if id in self.seams:
                    self.seams[id].proceed(now)
            case Lagged():
                for seam in self.seams.values():
                    seam.lagged(now)
            case Inquire(id, to, question):
                self._send(Request(id, to, question))
            case Stored() | NotStored() | Reserved() | Answered() | Substitute() | Unreachable() | Allow():
                pass  # these happen to brokers
            case _:
                assert_never(event)
        return self._out

    def _send(self, message: Message) -> None:
        if self.broker is not None:
            self._out.append(Send(self.broker, message))

    # --- what is asked for --------------------------------------------------------------------------------------------

    def _ask(self, kind: Kind, entry: Entry) -> None:
        assert entry.id is not None
        held = self.entries[kind].get(entry.id)
        if held == entry:
            return
        if held is not None:
            raise ProtocolError(f"the id {entry.id!r} is taken by {held.where}: take that back first, or use a new id")
        if entry.reliable and entry.replay is not None:
            raise ProtocolError("a reliable subscription has no replay: read the past with fetch, then subscribe")
        if entry.ordered and entry.replay is not None:
            raise ProtocolError("an ordered subscription has no replay: its order is that of what is live")
        self.entries[kind][entry.id] = entry
        if entry.reliable:
            tracked = Merged if entry.ordered else Tracked
            self.seams[entry.id] = tracked(entry.id, entry.where.to_sql(), _Voice(self, entry.id), self._seam_limits[1])
        if entry.replay is not None:
            self.seams[entry.id] = Seam(entry.id, entry.where.to_sql(), _Voice(self, entry.id), *self._seam_limits)
        self._change(kind, [entry], [])
        self._pending[kind][entry.id] = self._exports[kind].version.sequence

    def _unask(self, kind: Kind, id: EntryId) -> None:
        entry = self.entries[kind].pop(id, None)
        if entry is not None:
            self._pending[kind].pop(id, None)
            self.seams.pop(id, None)
            self._change(kind, [], [entry])

    def _change(self, kind: Kind, added: list[Entry], removed: list[Entry]) -> None:
        change = self._exports[kind].change(added, removed)
        if change is not None:
            self._send(change)

    def _publish(self, batch: Batch) -> None:
        if batch.publisher != self.name or batch.numbers[0] <= self.published:
            raise ProtocolError(
                f"{self.name!r} has published {self.published} notifications: number what follows from there, in its own name"
            )
        self.published = batch.numbers[-1]
        if self.broker is None and not self._durable:
            reason = "there is no link to a broker: publish again once there is"
            self._out.extend(PublishRefused(batch.id(row), reason) for row in range(len(batch)))
            return
        self._unaccepted.append(batch)
        self._out.append(Published(batch))
        self._send(Notify(batch))

    def _accept(self, number: int) -> None:
        waiting = self._unaccepted
        while waiting and waiting[0].numbers[-1] <= number:
            waiting.popleft()
        self._out.append(PublishAccepted(number))

    def _refuse(self, refused: frozenset[int], reason: str) -> None:
        for _ in range(len(self._unaccepted)):
            batch = self._unaccepted.popleft()
            rows = [row for row, number in enumerate(batch.numbers) if number not in refused]
            if rows:
                self._unaccepted.append(batch.whole_or(rows))
        self._out.extend(PublishRefused(NotificationId(self.name, number), reason) for number in sorted(refused))

    def _halt(self, number: int, reason: str) -> None:
        """From a number on the broker has stored nothing; if that is of an earlier life, what it dropped is sent again."""
        waiting = [each for batch in self._unaccepted for each in batch.numbers]
        self._send(Heard())
        if number in waiting:
            self._refuse(frozenset(each for each in waiting if each >= number), reason)
        else:
            self._send_unaccepted()

    def _send_unaccepted(self) -> None:
        for batch in self._unaccepted:
            self._send(Notify(batch))

    def _give_up(self) -> None:
        self._out.extend(map(PublishUnknown, self._unaccepted))
        self._unaccepted.clear()

    # --- links and messages -------------------------------------------------------------------------------------------

    def _link_up(self, broker: Peer, accepted: int | None) -> None:
        has_moved = self._home not in (None, broker)
        self.broker = self._home = broker
        self._unlink_seams()
        self._tell_interest(self._interest.clear())
        self._interest.renewed = self._now
        if self._order.time:
            self._send(
                Await(self._order.time)
            )  # before it asks for anything: what it gets comes later than what it got
        for kind, export in self._exports.items():
            self._pending[kind] = dict.fromkeys(self.entries[kind], export.version.sequence)
            self._send(export.snapshot())
        self._durable = accepted is not None
        if accepted is None:
            self._give_up()
            return
        if has_moved and self._unaccepted and accepted >= self._unaccepted[0].numbers[0]:
            self._give_up()  # what has these numbers here is from another time, and these would pass for it
        self.published = max(self.published, accepted)
        self._accept(accepted)
        self._send_unaccepted()

    def _unlink_seams(self) -> None:
        self._asked.clear()
        for seam in self.seams.values():
            seam.unlinked()

    def _receive(self, message: Message) -> None:
        match message:
            case Deliver():
                self._deliver(message)
            case Started(stream, offset, ids):
                for _, tracked in self._tracked(ids):
                    tracked.started(stream, offset, self._now)
            case Ready(ids):
                self._out.extend(Completed(Kind.SUBSCRIPTIONS, id) for id, _ in self._tracked(ids))
            case Skipped(stream, runs, ids):
                for _, tracked in self._tracked(ids):
                    tracked.skipped(stream, runs)
            case Passed(offsets, ids, moment):
                for _, tracked in self._tracked(ids):
                    tracked.passed(offsets, moment, self._now)
            case Accepted(number):
                self._accept(number)
            case Ack(kind, version):
                self._acknowledge(kind, version.incarnation, version.sequence)
            case Change(kind=Kind.INTEREST) | Snapshot(kind=Kind.INTEREST) | Digest(kind=Kind.INTEREST):
                self._hear_interest(message)
            case Lost(kind):
                if kind in self._exports:
                    self._send(self._exports[kind].snapshot())
            case Refused(numbers, reason):
                self._refuse(frozenset(numbers), reason)
                if self._durable:
                    # It takes nothing behind these before we have heard: what was under way comes again.
                    self._send(Heard())
                    self._send_unaccepted()
            case Halted(number, reason):
                self._halt(number, reason)
            case Reply(id, answer):
                seam = self.seams.get(self._asked.get(id, ""))
                if self._asked.pop(id, None) is None:
                    self._out.append(Told(id, answer))
                elif seam is not None:
                    seam.told(id, answer, self._now)
            case Request(id, to, ReplayEvent() as event):
                if to in self.seams:
                    self.seams[to].asked(id, event, self._now)
                else:
                    self._send(Reply(id, Replaying(None, is_over=True)))
            case Change() | Snapshot() | Digest() | Notify() | Request() | Heard():
                pass  # these are for brokers
            case Quiet() | Head() | Missing() | Gone() | Reached() | Floor() | Await() | ReshapeMessage():
                pass  # and these
            case _:
                assert_never(message)

    def _tracked(self, ids: Iterable[EntryId]) -> Iterator[tuple[EntryId, Tracked]]:
        for id in ids:
            tracked = self.seams.get(id)
            if isinstance(tracked, Tracked):
                yield id, tracked

    def _deliver(self, message: Deliver) -> None:
        """Passes on what is new, for the subscriptions that are still held."""
        batch, which = message.batch, message.which
        held = self.entries[Kind.SUBSCRIPTIONS]
        combinations = tuple(tuple(id for id in ids if id in held) for ids in message.combinations)
        rows: Sequence[int] = range(len(batch))
        if not all(combinations):
            rows = [row for row in rows if combinations[which[row] if which else 0]]
        if not message.reliable:
            rows = self._taken.new(batch, rows)
        if message.ordered:
            # Reliable deliveries have their own order, that of their streams.
            rows, late = self._order.take(batch, rows, -1 if message.reliable else self._taken.last(batch.publisher))
            if late:
                ids = dict.fromkeys(id for row in late for id in combinations[which[row] if which else 0])
                self._out.append(Withheld(batch.whole_or(late), tuple(ids)))
        if not rows:
            return
        which = [which[row] for row in rows] if which and len(rows) < len(batch) else which
        delivered = Delivered(batch.whole_or(rows), combinations, which)
        if self.seams and any(id in self.seams for ids in combinations for id in ids):
            joined = self._join(delivered)
            if joined is None:
                return
            delivered = joined
        if not message.reliable:
            self._taken.take(delivered.batch)
        self._out.append(delivered)

    def _join(self, delivered: Delivered) -> Delivered | None:
        """The same where some subscriptions have a past: these get what is live when it is its turn."""
        batch, combinations = delivered.batch, delivered.combinations
        which = delivered.which or [0] * len(batch)
        passes: dict[EntryId, set[int]] = {}
        for id in dict.fromkeys(id for ids in combinations for id in ids if id in self.seams):
            rows = [row for row in range(len(batch)) if id in combinations[which[row]]]
            turns = self.seams[id].came(batch.whole_or(rows), self._now) if rows else ()
            passes[id] = {rows[turn] for turn in turns}
        numbers: dict[tuple[EntryId, ...], int] = {}
        found: list[int] = []
        rows = []
        for row in range(len(batch)):
            ids = tuple(id for id in combinations[which[row]] if id not in passes or row in passes[id])
            if ids:
                rows.append(row)
                found.append(numbers.setdefault(ids, len(numbers)))
        if not rows:
            return None
        return Delivered(batch.whole_or(rows), tuple(numbers), found if len(numbers) > 1 else ())

    def _acknowledge(self, kind: Kind, incarnation: int, sequence: int) -> None:
        if kind not in self._exports or incarnation != self._exports[kind].version.incarnation:
            return
        pending = self._pending[kind]
        for id in [id for id, needed in pending.items() if needed <= sequence]:
            del pending[id]
            if kind == Kind.SUBSCRIPTIONS and self.entries[kind][id].reliable:
                continue  # its broker says when it is ready
            self._out.append(Completed(kind, id))
            if kind == Kind.SUBSCRIPTIONS and id in self.seams:
                self.seams[id].completed(self._now)

    def _hear_interest(self, message: Change | Snapshot | Digest) -> None:
        delta: Delta | None = None
        match message:
            case Change():
                delta = self._interest.change(message)
            case Snapshot():
                delta = self._interest.snapshot(message)
            case Digest():
                delta = ([], []) if self._interest.agrees(message) else None
                if self._lease is None:
                    self._renew()  # a broker that renews what it tells expects the same of those who tell it something
        if delta is None:
            self._send(Lost(Kind.INTEREST))
        else:
            self._interest.renewed = self._now
            self._tell_interest(delta)

    def _tell_interest(self, delta: Delta) -> None:
        added, removed = map(self._of_others, delta)
        if added or removed:
            self._out.append(InterestChanged(added, removed))

    def _of_others(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """The subscriptions that are not its own: after it has moved, brokers may still hold what it told the one before."""
        return tuple(entry for entry in entries if not (entry.id or "").startswith(f"{self.name}/"))

    def _tick(self) -> None:
        if self.broker is None:
            return
        for seam in self.seams.values():
            if seam.deadline <= self._now:
                seam.tick(self._now)
        if self._lease is None:
            return
        if not self._interest.renewed <= self._now < self._interest.renewed + self._lease.lease_seconds:
            self._interest.renewed = self._now
            self._tell_interest(self._interest.clear())
        # A renewal too far in the future is damage: it would never come.
        if not self._now < self._renewal <= self._now + self._lease.renew_seconds:
            self._renewal = self._now + self._lease.renew_seconds
            self._renew()

    def _renew(self) -> None:
        for export in self._exports.values():
            self._send(export.digest())


class _Voice:
    """What the seam of one subscription says goes out with everything else that its session says."""

    __slots__ = ("_id", "_session")

    def __init__(self, session: Session, id: EntryId) -> None:
        self._session = session
        self._id = id

    def say(self, news: SeamNews | Live) -> None:
        self._session._out.append(Delivered(news.batch, ((self._id,),)) if isinstance(news, Live) else news)

    def ask(self, to: Peer | None, question: Question) -> EntryId:
        session = self._session
        assert session.broker is not None
        id = session.new_id()
        session._asked[id] = self._id
        session._send(Request(id, to or session.broker, question))
        return id

    def answer(self, id: EntryId, answer: Answer) -> None:
        self._session._send(Reply(id, answer))
