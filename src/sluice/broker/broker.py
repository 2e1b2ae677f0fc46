"""A broker, pure: events in, messages out. It composes the cores and decides nothing that they can decide.

Five tables, two of which steer two others: subscriptions go where advertisements came from (if they are used), interest goes
where watches came from, and the names of the brokers go everywhere. Everything that peers tell comes as versioned exports;
`_spread` is the one place where a change of a table has its consequences. A durable broker has publications stored first and
forwards them when they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from sluice.errors import MatcherError
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Peer, batches_of
from sluice.protocol.complete import Cache, CacheConfig, Completion
from sluice.protocol.export import Delta, Replica
from sluice.protocol.intake import Intake
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Answered,
    Ask,
    Change,
    Deliver,
    Digest,
    Effect,
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
    Received,
    Refused,
    ReplayEvent,
    Reply,
    Request,
    Role,
    Send,
    Snapshot,
    Store,
    Stored,
    Tick,
    Version,
)
from sluice.protocol.request import Requests
from sluice.protocol.route.forward import Forwarding, Route
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
    #: Whether publications are stored before they are accepted and forwarded.
    durable: bool = False


class Broker:
    """One broker of a tree."""

    def __init__(
        self,
        name: Peer,
        config: BrokerConfig | None = None,
        incarnation: int = 1,
        accepted: Mapping[Peer, int] | None = None,
    ) -> None:
        self.name = name
        self.config = config = config or BrokerConfig()
        self.incarnation = incarnation
        self.roles: dict[Peer, Role] = {}
        reducers = {
            Kind.SUBSCRIPTIONS: config.routing,
            Kind.ADVERTISEMENTS: config.advertisements or "simple",
            Kind.WATCHES: "covering",
            Kind.INTEREST: "simple",
            Kind.BROKERS: "simple",
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
            Kind.BROKERS: Table(Kind.BROKERS, make[Kind.BROKERS]),
        }
        self._itself = Entry(Subscription([EVERYTHING]), name)
        self.forwarding = Forwarding(self.tables[Kind.SUBSCRIPTIONS])
        self.completion = {kind: Completion() for kind in _ACKNOWLEDGED}
        self.cache = None if config.cache is None else Cache(config.cache)
        self.intake = Intake(accepted or {}, stores=config.durable)
        self.requests = Requests(name)
        #: Where the way begins to a subscription that others see, for replays, and to a broker, for requests.
        self.ways: dict[Kind, dict[EntryId, Peer]] = {Kind.INTEREST: {}, Kind.BROKERS: {}}
        self._renewal = -math.inf
        #: Before this no replica expires.
        self._expiry = math.inf
        self._out: list[Effect] = []
        self._now = 0.0

    @property
    def deadline(self) -> float:
        """When a `Tick` is due; infinity if nothing waits for time."""
        if self.config.lease is None:
            return math.inf
        return min(self._renewal, self._expiry)

    def step(self, event: Event, now: float) -> list[Effect]:
        """Takes one event in; returns what is to be done about it, in order."""
        return self.step_all((event,), now)

    def step_all(self, events: Iterable[Event], now: float) -> list[Effect]:
        """Takes in events that came together, in order: publications that follow each other are matched as one batch."""
        self._out, self._now = [], now
        arrived: list[tuple[Peer, Batch]] = []
        for event in events:
            batch = self._taken_in(event)
            if batch is not None:
                arrived.append(batch)
                continue
            if arrived:
                self._publish(arrived)
                arrived = []
            self._handle(event)
        if arrived:
            self._publish(arrived)
        for kind, completion in self.completion.items():
            if completion.is_waiting:
                for peer, version in completion.settle(self.tables[kind].exports):
                    self._send(peer, Ack(kind, version))
        return self._out

    def _handle(self, event: Event) -> None:
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
            case Stored():
                pass  # nobody had it before
            case NotStored(batch, accepted, reason):
                if self.intake.failed(batch, accepted) and batch.publisher in self.roles:
                    self.intake.halt(batch.publisher)
                    # What came again with it may be on disk already.
                    self._send(batch.publisher, Accepted(self.intake.settled(batch.publisher)))
                    self._send(batch.publisher, Halted(batch.numbers[0], reason))
            case Answered(reply):
                self._answer(self.name, reply)
            case _:
                assert_never(event)

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
        self.intake.unlinked(peer)
        for asker, reply in self.requests.forget(peer):
            self._send(asker, reply)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _receive(self, peer: Peer, message: Message) -> None:
        match message:
            case Notify():
                pass  # there was nothing new in it
            case Request():
                self._ask(peer, message)
            case Reply():
                self._answer(peer, message)
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
            case Heard():
                self.intake.heard(peer)
            case Deliver() | Accepted() | Refused() | Halted():
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
            elif kind in self.ways:
                self._note_ways(kind, peer, delta)
            elif kind == Kind.SUBSCRIPTIONS:
                self.forwarding.update(peer, added, removed)
                if self.roles.get(peer) == Role.CLIENT:
                    self._send_changes(self.tables[Kind.INTEREST].update(peer, added, removed))
                    self._note_ways(Kind.INTEREST, peer, delta)
                self._catch_up(peer, added)
        except (KeyError, MatcherError):
            if self.config.lease is None:
                raise
            self._rebuild()  # what was derived from the tables contradicts them: it was damaged

    def _steer(self, kind: Kind, peer: Peer, delta: Delta) -> None:
        added, removed = delta
        self._send_changes(self.tables[kind].steer(peer, added, removed, partial(self._contents, kind)))

    def _note_ways(self, kind: Kind, peer: Peer, delta: Delta) -> None:
        added, removed = delta
        ways = self.ways[kind]
        for entry in removed:
            if entry.id is not None and ways.get(entry.id) == peer:
                del ways[entry.id]
        ways.update((entry.id, peer) for entry in added if entry.id is not None)

    def _send_changes(self, changes: Iterator[tuple[Peer, Change]]) -> None:
        for peer, change in changes:
            self._send(peer, change)

    def _contents(self, kind: Kind) -> Iterator[tuple[Peer, Entry]]:
        """What a table tells about: its entries, for interest also what the local clients subscribe to, and itself."""
        yield from self.tables[kind].contents()
        if kind == Kind.BROKERS:
            yield self.name, self._itself
        if kind == Kind.INTEREST:
            for peer, entry in self.tables[Kind.SUBSCRIPTIONS].contents():
                if self.roles.get(peer) == Role.CLIENT:
                    yield peer, entry

    # --- notifications ------------------------------------------------------------------------------------------------

    def _taken_in(self, event: Event) -> tuple[Peer, Batch] | None:
        """The publications that an event brings and that may go on, with the peer they came from."""
        if type(event) is Stored:
            settled = self.intake.stored(event.batch)
            if event.batch.publisher in self.roles:
                self._send(event.batch.publisher, Accepted(settled))
            return event.batch.publisher, event.batch
        if type(event) is not Received or type(event.message) is not Notify or event.peer not in self.roles:
            return None
        source, batch = event.peer, event.message.batch
        if not batch:
            return None
        if self.roles[source] == Role.BROKER:
            return source, batch
        if batch.publisher != source:
            reason = f"it says it is from {batch.publisher!r}: publish under your own name"
            self._send(source, Refused(tuple(batch.numbers), reason))
            return None
        fresh = self.intake.fresh(batch)
        if fresh is None:
            self._send(source, Accepted(self.intake.settled(source)))
            return None
        admitted = self._admitted(source, fresh)
        if admitted is None:
            return None
        after = self.intake.take(admitted)
        if self.config.durable:
            self._out.append(Store(admitted, after))
            return None
        self._send(source, Accepted(admitted.numbers[-1]))
        return source, admitted

    def _admitted(self, client: Peer, batch: Batch) -> Batch | None:
        """What a client has advertised and so may publish; tells it of the rest."""
        if not self.config.advertisements:
            return batch
        advertised = self.tables[Kind.ADVERTISEMENTS].replica(client, self._now).entries
        may = [any(entry.where.matches(record) for entry in advertised) for record in batch.records]
        if all(may):
            return batch
        refused = tuple(number for number, is_advertised in zip(batch.numbers, may, strict=True) if not is_advertised)
        reason = f"it matches none of the {len(advertised)} advertisements of {client!r}: advertise it first"
        self._send(client, Refused(refused, reason))
        rows = [row for row, is_advertised in enumerate(may) if is_advertised]
        if self.config.durable:
            # The client sends what follows again, once it has heard.
            self.intake.halt(client)
            rows = rows[: may.index(False)]
        return batch.take(rows) if rows else None

    def _publish(self, arrived: list[tuple[Peer, Batch]]) -> None:
        """Sends notifications on, to every peer that has a matching entry, except back to the broker they came from."""
        if self.cache is not None:
            kept = ((source, batch, self.cache.keep(batch, source, self._now)) for source, batch in arrived)
            arrived = [(source, batch.whole_or(rows)) for source, batch, rows in kept if rows]
        for (source, batch), routes in zip(arrived, self.forwarding.find([batch for _, batch in arrived]), strict=True):
            for peer, route in routes.items():
                self._forward(source, batch, peer, route)

    def _forward(self, source: Peer, batch: Batch, peer: Peer, route: Route) -> None:
        role = self.roles.get(peer)
        if role == Role.CLIENT:
            self._send(peer, Deliver(batch.whole_or(route.rows), route.combinations, route.which))
        elif role == Role.BROKER and peer != source:
            self._send(peer, Notify(batch.whole_or(route.rows)))
        if self.cache is not None:
            for place, row in enumerate(route.rows):
                ids = route.combinations[route.which[place] if route.which else 0]
                self.cache.reached(batch.id(row), ids if role == Role.CLIENT else (peer,))

    def _catch_up(self, peer: Peer, added: Iterable[Entry]) -> None:
        """Sends a peer what its new entries would have got it, had they come a moment earlier."""
        if self.cache is None or peer not in self.roles:
            return
        if self.roles[peer] == Role.CLIENT:
            for notification, ids in self.cache.missed_by_client(peer, added, self._now):
                for batch in batches_of([notification]):
                    self._send(peer, Deliver(batch, (ids,)))
        else:
            for batch in batches_of(self.cache.missed(peer, added, self._now)):
                self._send(peer, Notify(batch))

    # --- questions ----------------------------------------------------------------------------------------------------

    def _ask(self, peer: Peer, request: Request) -> None:
        """Takes a question in, or passes it on: to a broker, or for a replay along the way on which the interest came."""
        if self.roles[peer] == Role.CLIENT and request.id.rpartition("/")[0] != peer:
            return  # an answer to somebody else's question is none of its business
        way = self.ways[Kind.INTEREST if type(request.question) is ReplayEvent else Kind.BROKERS].get(request.to)
        if way not in self.roles or (way == peer and self.roles[peer] == Role.BROKER):
            way = None  # brokers and links are a tree, so a way that leads back is damaged
        for asker, reply in self.requests.ask(peer, request, way):
            self._send(asker, reply)
        if request.to == self.name:
            self._out.append(Ask(request))
        elif way is not None:
            self._send(way, request)

    def _answer(self, peer: Peer, reply: Reply) -> None:
        asker = self.requests.answer(peer, reply.id)
        if asker in self.roles:
            self._send(asker, reply)

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
        for kind, ways in self.ways.items():
            ways.clear()
            ways.update((entry.id, peer) for peer, entry in self._contents(kind) if entry.id is not None)
