"""A broker, pure: events in, messages out. It composes the cores and decides nothing that they can decide.

Four tables, two of which steer the other two: subscriptions go where advertisements came from (if they are used), interest
goes where watches came from. Everything that peers tell comes as versioned exports; `_spread` is the one place where a change
of a table has its consequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from sluice.errors import MatcherError
from sluice.protocol.complete import Cache, CacheConfig, Completion
from sluice.protocol.export import Delta, Replica
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Ack,
    Change,
    Deliver,
    Delivery,
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
    Notify,
    Peer,
    Received,
    Refused,
    ReplayEvent,
    Role,
    Send,
    Snapshot,
    Tick,
    Version,
)
from sluice.protocol.route.forward import Forwarding
from sluice.protocol.route.reduce import RoutingOptions, algorithm
from sluice.protocol.route.table import Table

#: The tables whose changes somebody waits for.
_ACKNOWLEDGED = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)
#: What a client tells its broker.
_HEARD_FROM_CLIENTS = (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """How a broker does its work. All brokers of a network use the same algorithms."""

    #: How subscriptions are told to neighbours, see `sluice.protocol.route.reduce`.
    routing: str = "covering"
    #: The same for advertisements; None: there are none, and everybody may publish everything.
    advertisements: str | None = None
    options: RoutingOptions = field(default_factory=RoutingOptions)
    #: Without a cache a subscriber misses what is published before its subscription is complete.
    cache: CacheConfig | None = None
    #: Without leases a table is believed until its sender changes it or the link goes down.
    lease: LeaseConfig | None = None


class Broker:
    """One broker of a tree."""

    def __init__(self, name: Peer, config: BrokerConfig | None = None, incarnation: int = 1) -> None:
        self.name = name
        self.config = config = config or BrokerConfig()
        self.incarnation = incarnation
        self.roles: dict[Peer, Role] = {}
        reducers = {
            Kind.SUBSCRIPTIONS: config.routing,
            Kind.ADVERTISEMENTS: config.advertisements or "simple",
            Kind.WATCHES: "covering",
            Kind.INTEREST: "simple",
        }
        make = {kind: partial(algorithm(name), config.options) for kind, name in reducers.items()}
        advertisements = Table(Kind.ADVERTISEMENTS, make[Kind.ADVERTISEMENTS])
        watches = Table(Kind.WATCHES, make[Kind.WATCHES])
        steering = advertisements if config.advertisements else None
        self.tables = {
            Kind.SUBSCRIPTIONS: Table(Kind.SUBSCRIPTIONS, make[Kind.SUBSCRIPTIONS], steering),
            Kind.ADVERTISEMENTS: advertisements,
            Kind.WATCHES: watches,
            Kind.INTEREST: Table(Kind.INTEREST, make[Kind.INTEREST], watches),
        }
        self.forwarding = Forwarding(self.tables[Kind.SUBSCRIPTIONS])
        self.completion = {kind: Completion() for kind in _ACKNOWLEDGED}
        self.cache = None if config.cache is None else Cache(config.cache)
        #: Where the way to a subscription begins, for replays.
        self._askers: dict[EntryId, Peer] = {}
        self._renewal = -math.inf
        #: Before this no replica expires.
        self._expiry = math.inf
        self._out: list[Send] = []
        self._now = 0.0

    @property
    def deadline(self) -> float:
        """When a `Tick` is due; infinity if nothing waits for time."""
        if self.config.lease is None:
            return math.inf
        return min(self._renewal, self._expiry)

    def step(self, event: Event, now: float) -> list[Send]:
        """Takes one event in; returns what is to be sent, in order."""
        self._out, self._now = [], now
        match event:
            case Received(peer, message):
                if peer in self.roles:
                    self._receive(peer, message)
            case LinkUp(peer, role):
                self._link_down(peer)
                self._link_up(peer, role)
            case LinkDown(peer):
                self._link_down(peer)
            case Tick():
                self._tick()
            case _:
                assert_never(event)
        for kind, completion in self.completion.items():
            if completion.is_waiting:
                for peer, version in completion.settle(self.tables[kind].exports):
                    self._send(peer, Ack(kind, version))
        return self._out

    def _send(self, peer: Peer, message: Message) -> None:
        self._out.append(Send(peer, message))

    # --- links --------------------------------------------------------------------------------------------------------

    def _heard(self, role: Role) -> Iterable[Kind]:
        if role == Role.CLIENT:
            return _HEARD_FROM_CLIENTS
        return Kind if self.config.advertisements else [kind for kind in Kind if kind != Kind.ADVERTISEMENTS]

    def _hears(self, kind: Kind, peer: Peer) -> bool:
        return peer in self.roles and kind in self._heard(self.roles[peer])

    def _told(self, role: Role) -> Iterable[Kind]:
        return [Kind.INTEREST] if role == Role.CLIENT else self._heard(role)

    def _tells(self, kind: Kind, peer: Peer) -> bool:
        return peer in self.roles and kind in self._told(self.roles[peer])

    def _link_up(self, peer: Peer, role: Role) -> None:
        self.roles[peer] = role
        for kind in self._heard(role):
            self.tables[kind].replica(peer, self._now)
        if self.config.lease is not None:
            self._expiry = min(self._expiry, self._now + self.config.lease.lease_seconds)
        for kind in self._told(role):
            table = self.tables[kind]
            table.tell(peer, self.incarnation, partial(self._contents, kind))
            export = table.exports[peer]
            self._send(peer, export.snapshot())
            if kind in self.completion:
                self.completion[kind].await_also(peer, export.version.sequence)

    def _link_down(self, peer: Peer) -> None:
        if peer not in self.roles:
            return
        for table in self.tables.values():
            table.stop_telling(peer)
        for completion in self.completion.values():
            completion.forget(peer)
        for kind, table in self.tables.items():
            self._spread(kind, peer, table.stop_hearing(peer))
        del self.roles[peer]

    # --- tables -------------------------------------------------------------------------------------------------------

    def _receive(self, peer: Peer, message: Message) -> None:
        match message:
            case Notify(notifications):
                self._publish(peer, notifications)
            case ReplayEvent():
                self._replay(message)
            case Change(kind=kind) | Snapshot(kind=kind) | Digest(kind=kind):
                if self._hears(kind, peer):
                    self._hear(peer, message)
            case Lost(kind):
                export = self.tables[kind].exports.get(peer)
                if export is not None:
                    self._send(peer, export.snapshot())
            case Ack(kind, version):
                export = self.tables[kind].exports.get(peer)
                if export is not None:
                    export.acknowledge(version)
            case Deliver() | Refused():
                pass  # these are for clients
            case _:
                assert_never(message)

    def _hear(self, peer: Peer, message: Change | Snapshot | Digest) -> None:
        """Takes over what a peer tells of one of its tables, or asks for a snapshot if that cannot be done."""
        kind = message.kind
        replica = self.tables[kind].replica(peer, self._now)
        delta: Delta | None = None
        match message:
            case Change():
                delta = replica.change(message)
            case Snapshot():
                delta = replica.snapshot(message)
            case Digest():
                replica.asked = False  # the snapshot may have been lost on its way
                delta = ([], []) if replica.agrees(message) else None
        if delta is None:
            if not replica.asked:
                replica.asked = True
                self._send(peer, Lost(kind))
            return
        replica.renewed = self._now
        self._spread(kind, peer, delta)
        self._owe(kind, peer, message.version)

    def _owe(self, kind: Kind, peer: Peer, version: Version) -> None:
        if kind in self.completion:
            self.completion[kind].owe(peer, version, self.tables[kind].exports.items())

    def _spread(self, kind: Kind, peer: Peer, delta: Delta) -> None:
        """A peer's entries have changed: everything that follows from it."""
        added, removed = delta
        if not added and not removed:
            return
        try:
            self._send_changes(self.tables[kind].update(peer, added, removed))
            if kind == Kind.ADVERTISEMENTS:
                self._steer(Kind.SUBSCRIPTIONS, peer, delta)
            elif kind == Kind.WATCHES:
                self._steer(Kind.INTEREST, peer, delta)
            elif kind == Kind.INTEREST:
                self._note_askers(peer, delta)
            elif kind == Kind.SUBSCRIPTIONS:
                self.forwarding.update(peer, added, removed)
                if self.roles.get(peer) == Role.CLIENT:
                    self._send_changes(self.tables[Kind.INTEREST].update(peer, added, removed))
                    self._note_askers(peer, delta)
                self._catch_up(peer, added)
        except (KeyError, MatcherError):
            if self.config.lease is None:
                raise
            self._rebuild()  # what was derived from the tables contradicts them: it was damaged

    def _steer(self, kind: Kind, peer: Peer, delta: Delta) -> None:
        added, removed = delta
        self._send_changes(self.tables[kind].steer(peer, added, removed, partial(self._contents, kind)))

    def _note_askers(self, peer: Peer, delta: Delta) -> None:
        added, removed = delta
        for entry in removed:
            if entry.id is not None and self._askers.get(entry.id) == peer:
                del self._askers[entry.id]
        self._askers.update((entry.id, peer) for entry in added if entry.id is not None)

    def _send_changes(self, changes: Iterator[tuple[Peer, Change]]) -> None:
        for peer, change in changes:
            self._send(peer, change)

    def _contents(self, kind: Kind) -> Iterator[tuple[Peer, Entry]]:
        """What a table tells about: its entries, and for interest also what the local clients subscribe to."""
        yield from self.tables[kind].contents()
        if kind == Kind.INTEREST:
            for peer, entry in self.tables[Kind.SUBSCRIPTIONS].contents():
                if self.roles.get(peer) == Role.CLIENT:
                    yield peer, entry

    # --- notifications ------------------------------------------------------------------------------------------------

    def _publish(self, source: Peer, notifications: Sequence[Notification]) -> None:
        """Sends notifications on, to every peer that has a matching entry, except back to the broker they came from."""
        if self.roles[source] == Role.CLIENT:
            notifications = [each for each in notifications if self._may_publish(source, each)]
        if self.cache is not None:
            notifications = [each for each in notifications if self.cache.keep(each, source, self._now)]
        if not notifications:
            return
        batches: dict[Peer, list[Notification]] = {}
        deliveries: dict[Peer, list[Delivery]] = {}
        found = self.forwarding.find([each.record for each in notifications])
        for notification, peers in zip(notifications, found, strict=True):
            for peer, entries in peers.items():
                role = self.roles.get(peer)
                reached: Iterable[Peer | EntryId] = (peer,)
                if role == Role.CLIENT:
                    reached = _ids(entries)
                    deliveries.setdefault(peer, []).append(Delivery(notification, _ids(entries)))
                elif role == Role.BROKER and peer != source:
                    batches.setdefault(peer, []).append(notification)
                if self.cache is not None:
                    self.cache.reached(notification.id, reached)
        for peer, delivered in deliveries.items():
            self._send(peer, Deliver(tuple(delivered)))
        for peer, batch in batches.items():
            self._send(peer, Notify(tuple(batch)))

    def _may_publish(self, client: Peer, notification: Notification) -> bool:
        """Whether a client may publish this; tells it if not."""
        reason = None
        if notification.id.publisher != client:
            reason = f"it says it is from {notification.id.publisher!r}: publish under your own name"
        elif self.config.advertisements:
            advertised = self.tables[Kind.ADVERTISEMENTS].replica(client, self._now).entries
            if not any(entry.where.matches(notification.record) for entry in advertised):
                reason = f"it matches none of the {len(advertised)} advertisements of {client!r}: advertise it first"
        if reason is not None:
            self._send(client, Refused(notification.id, reason))
        return reason is None

    def _catch_up(self, peer: Peer, added: Iterable[Entry]) -> None:
        """Sends a peer what its new entries would have got it, had they come a moment earlier."""
        if self.cache is None or peer not in self.roles:
            return
        if self.roles[peer] == Role.CLIENT:
            deliveries = tuple(self.cache.missed_by_client(peer, added, self._now))
            if deliveries:
                self._send(peer, Deliver(deliveries))
        else:
            notifications = tuple(self.cache.missed(peer, added, self._now))
            if notifications:
                self._send(peer, Notify(notifications))

    def _replay(self, message: ReplayEvent) -> None:
        """Sends past notifications towards the one subscription they are for, along the way its interest came."""
        peer = self._askers.get(message.subscription)
        if peer in self.roles:
            self._send(peer, message)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _replicas(self) -> Iterator[tuple[Kind, Peer, Replica]]:
        for kind, table in self.tables.items():
            for peer, replica in table.replicas.items():
                yield kind, peer, replica

    def _tick(self) -> None:
        lease = self.config.lease
        if lease is None:
            return
        for kind, peer, replica in list(self._replicas()):
            # A renewal in the future is damage: it would never expire. The sum is that of the deadline, to the last bit.
            if not replica.renewed <= self._now < replica.renewed + lease.lease_seconds:
                replica.renewed = self._now
                self._spread(kind, peer, replica.clear())
        self._expiry = lease.lease_seconds + min((each.renewed for _, _, each in self._replicas()), default=math.inf)
        if not self._now < self._renewal <= self._now + lease.renew_seconds:
            self._renewal = self._now + lease.renew_seconds
            self._renew()

    def _renew(self) -> None:
        """Works out anew all that is derived, and tells every peer where its export stands."""
        self._rebuild()
        if self.cache is not None:
            self.cache.clamp(self._now)
        for table in self.tables.values():
            for peer, export in table.exports.items():
                self._send(peer, export.digest())

    def _rebuild(self) -> None:
        for kind, table in self.tables.items():
            for peer in [peer for peer in table.replicas if not self._hears(kind, peer)]:
                table.stop_hearing(peer)
            for peer in [peer for peer in table.exports if not self._tells(kind, peer)]:
                table.stop_telling(peer)
            self._send_changes(table.rebuild(partial(self._contents, kind)))
        for kind, completion in self.completion.items():
            completion.clamp(self.tables[kind].exports)
        self.forwarding.reset()
        self._askers = {entry.id: peer for peer, entry in self._contents(Kind.INTEREST) if entry.id is not None}


def _ids(entries: Iterable[Entry]) -> tuple[EntryId, ...]:
    return tuple(entry.id for entry in entries if entry.id is not None)
