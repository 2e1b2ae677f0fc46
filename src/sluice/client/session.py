"""A client's side of the conversation with its broker, pure: commands and events in, messages and news out.

What a client asks for is a versioned export like any other, so a lost link, a broker's restart and a lease are nothing special:
at every new link the whole export goes out again, and `Completed` says from when on nothing is missed. Commands may be given
while there is no link. What a durable broker had not accepted when a link broke is sent again over the next one.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from sluice.errors import ProtocolError
from sluice.limits import MAX_SEEN
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Notification, NotificationId, Peer, Records, portable
from sluice.protocol.export import Delta, Export, Replica
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Answer,
    Answered,
    Change,
    Deliver,
    Delivery,
    Digest,
    Entry,
    EntryId,
    Event,
    Halted,
    Heard,
    Kind,
    LinkDown,
    LinkUp,
    Lost,
    Message,
    Notify,
    NotStored,
    Question,
    Received,
    Refused,
    Replay,
    ReplayEvent,
    Reply,
    Request,
    Send,
    Snapshot,
    Stored,
    Tick,
    Version,
)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Asks for what matches a filter, and for a part of its past if a replay is wished."""

    id: EntryId
    where: Subscription
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Takes a subscription back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Advertise:
    """Says what will be published."""

    id: EntryId
    where: Subscription


@dataclass(frozen=True, slots=True)
class Unadvertise:
    """Takes an advertisement back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Watch:
    """Asks who is interested in anything that overlaps a filter."""

    id: EntryId
    where: Subscription


@dataclass(frozen=True, slots=True)
class Unwatch:
    """Takes a watch back."""

    id: EntryId


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes records, under the numbers that they have."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class SendReplay:
    """Sends past notifications to one subscription alone, as histories do."""

    subscription: EntryId
    notifications: tuple[Notification, ...]


@dataclass(frozen=True, slots=True)
class Inquire:
    """Asks a broker something."""

    id: EntryId
    to: Peer
    question: Question


Command = Inquire | Subscribe | Unsubscribe | Advertise | Unadvertise | Watch | Unwatch | Publish | SendReplay


@dataclass(frozen=True, slots=True)
class Completed:
    """What was asked for under this id has taken effect everywhere; nothing is missed from now on."""

    kind: Kind
    id: EntryId


@dataclass(frozen=True, slots=True)
class Delivered:
    """Notifications came; `combinations` and `which` say for which subscriptions, as in `Deliver`."""

    batch: Batch
    combinations: tuple[tuple[EntryId, ...], ...]
    which: Sequence[int] = ()

    @property
    def deliveries(self) -> Iterator[Delivery]:
        """One by one."""
        return Deliver(self.batch, self.combinations, self.which).deliveries


@dataclass(frozen=True, slots=True)
class Published:
    """Records were published, as far as this client can do it."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class PublishAccepted:
    """The broker has everything up to a number; a durable one has it on disk."""

    number: int


@dataclass(frozen=True, slots=True)
class PublishUnknown:
    """The link to a broker that keeps no log broke before it said whether it has this."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """A publication was not accepted, and why."""

    id: NotificationId
    reason: str


@dataclass(frozen=True, slots=True)
class InterestChanged:
    """Subscriptions of others that overlap what is watched came or went."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Past notifications came for a subscription."""

    subscription: EntryId
    notifications: tuple[Notification, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """The answer to an inquiry came, or the reason why there is none."""

    id: EntryId
    answer: Answer


Upcall = (
    Completed
    | Delivered
    | Published
    | PublishAccepted
    | PublishUnknown
    | PublishRefused
    | InterestChanged
    | Replayed
    | Told
)

_TOLD = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)


class Session:
    """One client and the link to its broker."""

    def __init__(
        self, name: Peer, *, lease: LeaseConfig | None = None, incarnation: int = 1, published: int | None = None
    ) -> None:
        self.name = name
        self.broker: Peer | None = None
        #: Which of its lives this is: numbers of an earlier one are never used again.
        self._life = incarnation
        self.entries: dict[Kind, dict[EntryId, Entry]] = {kind: {} for kind in _TOLD}
        self._exports = {kind: Export(kind, Version(incarnation, 0)) for kind in _TOLD}
        #: For each thing asked for that is not complete: the version of the export that carries it.
        self._pending: dict[Kind, dict[EntryId, int]] = {kind: {} for kind in _TOLD}
        self._taken = Taken()
        #: Of subscriptions with a replay: what has come already, live or replayed.
        self._seen: dict[EntryId, OrderedDict[NotificationId, None]] = {}
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

    def batch(self, records: Iterable[object]) -> Records:
        """Records as the next publications of this client."""
        return Records.of(self.name, self.published + 1, [portable(record) for record in records])

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
        return self._interest.entries

    @property
    def deadline(self) -> float:
        """When a `Tick` is due: a renewal, or the end of the lease on interest."""
        if self._lease is None or self.broker is None:
            return math.inf
        return min(self._interest.renewed + self._lease.lease_seconds, self._renewal)

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
                self._tell_interest(self._interest.clear())
                if not self._durable:
                    self._give_up()
            case Tick():
                self._tick()
            case Subscribe(id, where, replay):
                self._ask(Kind.SUBSCRIPTIONS, Entry(where, id, replay))
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
            case SendReplay(subscription, notifications):
                self._send(ReplayEvent(subscription, notifications))
            case Inquire(id, to, question):
                self._send(Request(id, to, question))
            case Stored() | NotStored() | Answered():
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
        self.entries[kind][entry.id] = entry
        self._change(kind, [entry], [])
        self._pending[kind][entry.id] = self._exports[kind].version.sequence

    def _unask(self, kind: Kind, id: EntryId) -> None:
        entry = self.entries[kind].pop(id, None)
        if entry is not None:
            self._pending[kind].pop(id, None)
            self._seen.pop(id, None)
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
        self.broker = broker
        self._tell_interest(self._interest.clear())
        self._interest.renewed = self._now
        for kind, export in self._exports.items():
            self._pending[kind] = dict.fromkeys(self.entries[kind], export.version.sequence)
            self._send(export.snapshot())
        self._durable = accepted is not None
        if accepted is None:
            self._give_up()
            return
        self.published = max(self.published, accepted)
        self._accept(accepted)
        self._send_unaccepted()

    def _receive(self, message: Message) -> None:
        match message:
            case Deliver():
                self._deliver(message)
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
                self._out.append(Told(id, answer))
            case ReplayEvent(subscription, notifications):
                new = tuple(each for each in notifications if self._is_new(subscription, each.id))
                if new:
                    self._out.append(Replayed(subscription, new))
            case Change() | Snapshot() | Digest() | Notify() | Request() | Heard():
                pass  # these are for brokers
            case _:
                assert_never(message)

    def _deliver(self, message: Deliver) -> None:
        """Passes on what is new, for the subscriptions that are still held."""
        batch, which = message.batch, message.which
        held = self.entries[Kind.SUBSCRIPTIONS]
        combinations = tuple(tuple(id for id in ids if id in held) for ids in message.combinations)
        rows: Sequence[int] = range(len(batch))
        if not all(combinations):
            rows = [row for row in rows if combinations[which[row] if which else 0]]
        if any(held[id].replay for ids in combinations for id in ids):
            self._deliver_each(message, rows)
            return
        rows = self._taken.new(batch, rows)
        if not rows:
            return
        which = [which[row] for row in rows] if which and len(rows) < len(batch) else which
        self._out.append(Delivered(batch.whole_or(rows), combinations, which))

    def _deliver_each(self, message: Deliver, rows: Sequence[int]) -> None:
        """The same where some of it may have come as a replay already."""
        deliveries = tuple(message.deliveries)
        for row in rows:
            ids = tuple(id for id in deliveries[row].subscriptions if self._is_new(id, message.batch.id(row)))
            if ids and self._taken.new(message.batch, [row]):
                self._out.append(Delivered(message.batch.whole_or([row]), (ids,)))

    def _is_new(self, id: EntryId, notification: NotificationId) -> bool:
        """Whether a notification is wanted for a subscription; what is both live and replayed counts once."""
        entry = self.entries[Kind.SUBSCRIPTIONS].get(id)
        if entry is None or entry.replay is None:
            return entry is not None
        seen = self._seen.setdefault(id, OrderedDict())
        if notification in seen:
            return False
        seen[notification] = None
        if len(seen) > MAX_SEEN:
            seen.popitem(last=False)
        return True

    def _acknowledge(self, kind: Kind, incarnation: int, sequence: int) -> None:
        if kind not in self._exports or incarnation != self._exports[kind].version.incarnation:
            return
        pending = self._pending[kind]
        for id in [id for id, needed in pending.items() if needed <= sequence]:
            del pending[id]
            self._out.append(Completed(kind, id))

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
        added, removed = delta
        if added or removed:
            self._out.append(InterestChanged(tuple(added), tuple(removed)))

    def _tick(self) -> None:
        if self._lease is None or self.broker is None:
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


class Taken:
    """What was delivered lately: a cache may send a notification again, for a newer subscription.

    Publications of one publisher come in order, so that nearly always a look at the last number says that a batch is new.
    """

    __slots__ = ("_count", "_last", "_lately")

    def __init__(self) -> None:
        self._last: dict[Peer, int] = {}
        self._lately: deque[tuple[Peer, Sequence[int]]] = deque()
        self._count = 0

    def new(self, batch: Batch, rows: Sequence[int]) -> Sequence[int]:
        """The rows that come for the first time; they count as taken from now on."""
        publisher, numbers = batch.publisher, batch.numbers
        if rows and numbers[rows[0]] <= self._last.get(publisher, -1):
            old = {number for name, taken in self._lately if name == publisher for number in taken}
            rows = [row for row in rows if numbers[row] not in old]
        if rows:
            self._note(publisher, [numbers[row] for row in rows] if len(rows) < len(numbers) else numbers)
        return rows

    def _note(self, publisher: Peer, numbers: Sequence[int]) -> None:
        self._last[publisher] = max(self._last.get(publisher, -1), numbers[-1])
        self._lately.append((publisher, numbers))
        self._count += len(numbers)
        while self._count - len(self._lately[0][1]) >= MAX_SEEN:
            _, gone = self._lately.popleft()
            self._count -= len(gone)
        if len(self._last) > MAX_SEEN:
            lately = {name for name, _ in self._lately}
            self._last = {name: number for name, number in self._last.items() if name in lately}
