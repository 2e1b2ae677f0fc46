"""A client's side of the conversation with its broker, pure: commands and events in, messages and news out.

What a client asks for is a versioned export like any other, so a lost link, a broker's restart and a lease are nothing special:
at every new link the whole export goes out again, and `Completed` says from when on nothing is missed. Commands may be given
while there is no link.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from sluice.errors import ProtocolError
from sluice.limits import MAX_SEEN
from sluice.model.notification import attributes
from sluice.model.subscription import Subscription
from sluice.protocol.export import Delta, Export, Replica
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Ack,
    Change,
    Deliver,
    Digest,
    Entry,
    EntryId,
    Event,
    Kind,
    LinkDown,
    LinkUp,
    Lost,
    Message,
    Notification,
    NotificationId,
    Notify,
    Peer,
    Received,
    Refused,
    Replay,
    ReplayEvent,
    Send,
    Snapshot,
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
    """Publishes a record."""

    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SendReplay:
    """Sends past notifications to one subscription alone, as histories do."""

    subscription: EntryId
    notifications: tuple[Notification, ...]


Command = Subscribe | Unsubscribe | Advertise | Unadvertise | Watch | Unwatch | Publish | SendReplay


@dataclass(frozen=True, slots=True)
class Completed:
    """What was asked for under this id has taken effect everywhere; nothing is missed from now on."""

    kind: Kind
    id: EntryId


@dataclass(frozen=True, slots=True)
class Delivered:
    """A notification came, for these subscriptions."""

    notification: Notification
    subscriptions: tuple[EntryId, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A record was published under this identity."""

    notification: Notification


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


Upcall = Completed | Delivered | Published | PublishRefused | InterestChanged | Replayed

_TOLD = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)


class Session:
    """One client and the link to its broker."""

    def __init__(self, name: Peer, *, lease: LeaseConfig | None = None, incarnation: int = 1) -> None:
        self.name = name
        self.broker: Peer | None = None
        #: Which of its lives this is: numbers of an earlier one are never used again.
        self._life = incarnation
        self.entries: dict[Kind, dict[EntryId, Entry]] = {kind: {} for kind in _TOLD}
        self._exports = {kind: Export(kind, Version(incarnation, 0)) for kind in _TOLD}
        #: For each thing asked for that is not complete: the version of the export that carries it.
        self._pending: dict[Kind, dict[EntryId, int]] = {kind: {} for kind in _TOLD}
        #: What was delivered lately.
        self._taken: OrderedDict[NotificationId, None] = OrderedDict()
        #: Of subscriptions with a replay: what has come already, live or replayed.
        self._seen: dict[EntryId, OrderedDict[NotificationId, None]] = {}
        self._interest = Replica(0.0)
        self._lease = lease
        self._renewal = -math.inf
        self._numbers = 0
        self._published = (incarnation - 1) << 32
        self._out: list[Send | Upcall] = []
        self._now = 0.0

    def new_id(self) -> EntryId:
        """An id for the next thing to ask for."""
        self._numbers += 1
        return f"{self.name}/{self._numbers}" if self._life == 1 else f"{self.name}/{self._life}.{self._numbers}"

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
            case LinkUp(peer, _):
                self._link_up(peer)
            case LinkDown():
                self.broker = None
                self._tell_interest(self._interest.clear())
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
            case Publish(record):
                self._publish(record)
            case SendReplay(subscription, notifications):
                self._send(ReplayEvent(subscription, notifications))
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

    def _publish(self, record: Mapping[str, Any]) -> None:
        flat = attributes(record)
        self._published += 1
        notification = Notification(NotificationId(self.name, self._published), flat)
        if self.broker is None:
            self._out.append(
                PublishRefused(notification.id, "there is no link to a broker: publish again once there is")
            )
            return
        self._out.append(Published(notification))
        self._send(Notify((notification,)))

    # --- links and messages -------------------------------------------------------------------------------------------

    def _link_up(self, broker: Peer) -> None:
        self.broker = broker
        self._tell_interest(self._interest.clear())
        self._interest.renewed = self._now
        for kind, export in self._exports.items():
            self._pending[kind] = dict.fromkeys(self.entries[kind], export.version.sequence)
            self._send(export.snapshot())

    def _receive(self, message: Message) -> None:
        match message:
            case Deliver(deliveries):
                for notification, subscriptions in deliveries:
                    wanted = tuple(id for id in subscriptions if self._is_new(id, notification.id))
                    if wanted and self._take(notification.id):
                        self._out.append(Delivered(notification, wanted))
            case Ack(kind, version):
                self._acknowledge(kind, version.incarnation, version.sequence)
            case Change(kind=Kind.INTEREST) | Snapshot(kind=Kind.INTEREST) | Digest(kind=Kind.INTEREST):
                self._hear_interest(message)
            case Lost(kind):
                if kind in self._exports:
                    self._send(self._exports[kind].snapshot())
            case Refused(id, reason):
                self._out.append(PublishRefused(id, reason))
            case ReplayEvent(subscription, notifications):
                new = tuple(each for each in notifications if self._is_new(subscription, each.id))
                if new:
                    self._out.append(Replayed(subscription, new))
            case Change() | Snapshot() | Digest() | Notify():
                pass  # these are for brokers
            case _:
                assert_never(message)

    def _take(self, notification: NotificationId) -> bool:
        """Whether a notification is delivered for the first time: a cache may send it again, for a newer subscription."""
        if notification in self._taken:
            return False
        self._taken[notification] = None
        if len(self._taken) > MAX_SEEN:
            self._taken.popitem(last=False)
        return True

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
            for export in self._exports.values():
                self._send(export.digest())
