"""A broker, pure: events in, messages out. It composes the cores and decides nothing that they can decide.

Five tables, two of which steer two others: subscriptions go where advertisements came from (if they are used), interest goes
where watches came from, and the names of the brokers go everywhere. Everything that peers tell comes as versioned exports;
`_spread` is the one place where a change of a table has its consequences. A durable broker has publications stored first and
forwards them when they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import assert_never

from sluice.broker.core.config import BrokerConfig
from sluice.broker.core.links import HEARD_FROM_CLIENTS, Links
from sluice.errors import MatcherError
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import Batch, Peer, batches_of
from sluice.protocol.complete import Cache, Completion
from sluice.protocol.effects import Effects
from sluice.protocol.events import (
    Answered,
    Ask,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    NotStored,
    Received,
    Reserved,
    Send,
    Store,
    Stored,
    Tick,
)
from sluice.protocol.export import Delta, Replica
from sluice.protocol.intake import Intake
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Change,
    ClientMessage,
    Digest,
    Entry,
    Halted,
    Heard,
    Kind,
    Lost,
    Message,
    Notify,
    OrderMessage,
    Refused,
    ReliableMessage,
    Reply,
    Request,
    Role,
    Snapshot,
    Version,
)
from sluice.protocol.order.ordering import Ordering, algorithm_named
from sluice.protocol.questions import ReplayEvent
from sluice.protocol.reliable.reliable import Reliable
from sluice.protocol.request import Requests
from sluice.protocol.reshape.channel import link_of
from sluice.protocol.reshape.messages import Allow, Mark, ReshapeMessage, Substitute, Unreachable
from sluice.protocol.reshape.reshape import Reshape
from sluice.protocol.route.directions import Direction, Directions
from sluice.protocol.route.forward import Forwarding, Route
from sluice.protocol.route.reduce import algorithm
from sluice.protocol.route.table import Table
from sluice.protocol.route.ways import Ways


class Broker(Links):
    """One broker of a tree."""

    def __init__(
        self,
        name: Peer,
        config: BrokerConfig | None = None,
        incarnation: int = 1,
        accepted: Mapping[Peer, int] | None = None,
        *,
        node: str | None = None,
        head: int = 0,
        moment: int = 0,
        marks: Mapping[Peer, Mark] | None = None,
    ) -> None:
        self.name = name
        self.directions = Directions(name, node)
        self.config = config = config or BrokerConfig()
        self.incarnation = incarnation
        self.roles: dict[Peer, Role] = {}
        self.held: dict[Peer, None] = {}
        reducers = {
            Kind.SUBSCRIPTIONS: config.routing,
            Kind.ADVERTISEMENTS: config.advertisements or "simple",
            Kind.WATCHES: "covering",
            Kind.INTEREST: "simple",
            Kind.BROKERS: "simple",
        }
        make = {kind: partial(algorithm(name), config.options) for kind, name in reducers.items()}
        table = partial(Table, directions=self.directions)
        advertisements = table(Kind.ADVERTISEMENTS, make[Kind.ADVERTISEMENTS])
        watches = table(Kind.WATCHES, make[Kind.WATCHES])
        steering = advertisements if config.advertisements else None
        self.tables = {
            Kind.SUBSCRIPTIONS: table(Kind.SUBSCRIPTIONS, make[Kind.SUBSCRIPTIONS], steering=steering),
            Kind.ADVERTISEMENTS: advertisements,
            Kind.WATCHES: watches,
            Kind.INTEREST: table(Kind.INTEREST, make[Kind.INTEREST], steering=watches),
            Kind.BROKERS: table(Kind.BROKERS, make[Kind.BROKERS]),
        }
        self._itself = Entry(Subscription([EVERYTHING] if node is None else []), name)  # what can be in order here
        self.forwarding = Forwarding(self.tables[Kind.SUBSCRIPTIONS], self.directions)
        self.completion = {kind: Completion() for kind in HEARD_FROM_CLIENTS}
        self.cache = None if config.cache is None else Cache(config.cache)
        self.intake = Intake(accepted or {}, stores=config.durable)
        self.requests = Requests(name)
        #: Where ways begin to a subscription that others see, for replays, and to a broker, for requests.
        self.ways = {Kind.INTEREST: Ways(), Kind.BROKERS: Ways()}
        self.order = Ordering(
            name,
            algorithm_named(config.order_algorithm, self.directions, self.ways[Kind.BROKERS], config.order_root),
            roles=self.roles,
            tables=self.tables,
            is_unanswered=self.completion[Kind.ADVERTISEMENTS].is_owed if config.advertisements else None,
            send=self._send,
            promise=lambda peer, floor: self._out.promise(peer, floor),
            orders_all=config.orders_all,
        )
        self.order.algorithm.see(moment)
        self.reliable = Reliable(
            config.reliable,
            self.directions,
            table=self.tables[Kind.SUBSCRIPTIONS],
            forwarding=self.forwarding,
            algorithm=self.order.algorithm,
            home=self._home,
            streams=lambda: (self.name, *self.ways[Kind.BROKERS]),
            send=self._pass_on,
            act=self.do,
            incarnation=incarnation,
            head=head,
            moment=moment,
        )
        self.reshape = Reshape(self, config.reshape, marks or {})
        #: When tables are renewed, and before when no replica expires.
        self._renewal, self._expiry = -math.inf, math.inf
        self._out = Effects()
        self._now = 0.0

    @property
    def deadline(self) -> float:
        """When a `Tick` is due; infinity if nothing waits for time."""
        due = min(self.reliable.deadline, self.reshape.deadline)
        if self.config.lease is None:
            return due
        return min(due, self._renewal, self._expiry)

    def step(self, event: Event, now: float) -> list[Effect]:
        """Takes one event in; returns what is to be done about it, in order."""
        return self.step_all((event,), now)

    def step_all(self, events: Iterable[Event], now: float) -> list[Effect]:
        """Takes in events that came together, in order: publications that follow each other are matched as one batch."""
        self._out, self._now = Effects(), now
        order, arrived, is_settled = self.order, list[Arrival](), True
        for event in events:
            if order.waiting and order.defers(event):
                continue
            arrival = self._taken_in(event)
            if arrival is not None:
                arrived.append(arrival)
                continue
            is_settled = False
            if arrived:
                self._publish(order.admit(arrived, now))
                arrived = []
            if not order.waiting or not order.defers(event):  # what has just been published may wait
                self._handle(event)
        if arrived:
            self._publish(order.admit(arrived, now))
        if not is_settled:  # a publication changes nothing that anybody waits for
            self._acknowledge()
        self.reliable.settle(now)
        order.settle(now)
        return self._out.all

    def _acknowledge(self) -> None:
        """Acknowledges what has spread everywhere, and takes in what has waited for that."""
        while True:
            for kind, completion in self.completion.items():
                if completion.is_waiting:
                    for peer, version in completion.settle(self.tables[kind].exports):
                        self._send(peer, Ack(kind, version))
            waited = self.order.answered() if self.order.waiting else None
            if waited is None:
                return
            arrival = waited if isinstance(waited, Arrival) else self._taken_in(waited)
            if arrival is not None:
                self._publish(self.order.stamp(arrival, self._now))
            elif not isinstance(waited, Arrival):
                self._handle(waited)

    def _handle(self, event: Event) -> None:
        match event:
            case Received(peer, message):
                if isinstance(message, ReshapeMessage):
                    self.reshape.receive(peer, message, self._now)
                elif peer in self.roles and peer not in self.held:
                    self._receive(peer, message)
            case LinkUp(peer, role, node=node):
                if role == Role.BROKER:
                    self.reshape.linked(event, self._now)
                else:
                    self.link_down(peer)
                    self.link_up(peer, role, node)
            case LinkDown(peer, is_final):
                if not self.reshape.unlinked(peer, self._now, is_final=is_final):
                    self.link_down(peer)
            case Tick():
                self._tick()
            case Stored():
                pass  # nobody had it before
            case NotStored(batch, accepted, reason):
                self.order.stored(event.moment)
                if self.intake.failed(batch, accepted) and batch.publisher in self.roles:
                    self.intake.halt(batch.publisher)
                    # What came again with it may be on disk already.
                    self._send(batch.publisher, Accepted(self.intake.settled(batch.publisher)))
                    self._send(batch.publisher, Halted(batch.numbers[0], reason))
            case Reserved(moment):
                self.reliable.reserved(moment, self._now)
            case Substitute(plan):
                self.reshape.substitute(plan, self._now)
            case Allow(peer):
                self.reshape.allow(peer)
            case Unreachable(peer, job, reason):
                self.reshape.unreachable(peer, job, reason)
            case Answered(reply):
                if not self.reliable.answered(reply.id, reply.answer):
                    self._answer(self.name, reply)
            case _:
                assert_never(event)

    def _send(self, peer: Peer, message: Message) -> None:
        """Has a message sent, unless the link is broken and only what came over it is still believed."""
        if peer not in self.held:
            self._out.all.append(Send(peer, message))

    def _pass_on(self, peer: Peer, message: Message) -> None:
        """Sends a broker something that may be a publication: a stamped one goes with a promise."""
        if peer in self.held:
            return
        if type(message) is Notify and message.batch.stamp is not None:
            message = self.order.onward(peer, message)
            self._out.note(peer, message)
        self._out.all.append(Send(peer, message))

    # --- tables -------------------------------------------------------------------------------------------------------

    def _receive(self, peer: Peer, message: Message) -> None:
        if isinstance(message, OrderMessage):
            self.order.receive(peer, message, self._now)
            return
        if isinstance(message, ReliableMessage):
            if self.roles[peer] == Role.BROKER:
                self.reliable.receive(peer, message, self._now)
            return
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
            case ReshapeMessage():
                pass  # these belong to links
            case _:
                if not isinstance(message, ClientMessage):  # which is not for a broker
                    assert_never(message)

    def _hear(self, peer: Peer, message: Change | Snapshot | Digest) -> None:
        """Takes over what a peer tells of one of its tables, or asks for a snapshot if that cannot be done."""
        kind = message.kind
        replica = self.tables[kind].replica(peer, self._now)
        tags, delta = replica.tags, None
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
        self._spread(kind, peer, delta, replica.tags != tags)
        self._owe(kind, peer, message.version)

    def _owe(self, kind: Kind, peer: Peer, version: Version) -> None:
        """A peer waits for a version to take effect."""
        if kind in self.completion:
            exports = self.tables[kind].exports.items()
            told = ((other, export) for other, export in exports if self.directions.tells(peer, other))
            self.completion[kind].owe(peer, version, told)

    def _spread(self, kind: Kind, peer: Peer, delta: Delta, is_later: bool = False, *, catches_up: bool = True) -> None:
        """A peer's entries have changed, or only what it says with them: everything that follows from it."""
        added, removed = delta
        if not added and not removed and not is_later:
            return
        try:
            if kind == Kind.SUBSCRIPTIONS and self.roles.get(peer) == Role.CLIENT:
                self.reliable.subscribed(peer, added, removed)
                self.order.subscribed(peer, added, removed)
            if kind == Kind.ADVERTISEMENTS and self.roles.get(peer) == Role.BROKER:
                held = self.tables[kind].replicas.get(peer)
                self.order.carries(peer, held is not None and bool(held.entries))
            self._send_changes(self.tables[kind].update(peer, added, removed))
            if kind == Kind.ADVERTISEMENTS:
                self._steer(Kind.SUBSCRIPTIONS, peer, delta)
            elif kind == Kind.WATCHES:
                self._steer(Kind.INTEREST, peer, delta)
            elif kind in self.ways:
                self.ways[kind].update(peer, added, removed)
                self._survey()
                self.reliable.heard(self._now)
            elif kind == Kind.SUBSCRIPTIONS:
                self.forwarding.update(peer, added, removed)
                if self.roles.get(peer) == Role.CLIENT:
                    self._send_changes(self.tables[Kind.INTEREST].update(peer, added, removed))
                    self.ways[Kind.INTEREST].update(peer, added, removed)
                if catches_up:
                    self._catch_up(peer, [entry for entry in added if not entry.reliable])
                self.reliable.heard(self._now)
        except (KeyError, MatcherError):
            if self.config.lease is None:
                raise
            self._rebuild()  # what was derived from the tables contradicts them: it was damaged

    def _steer(self, kind: Kind, peer: Peer, delta: Delta) -> None:
        self._send_changes(self.tables[kind].steer(peer, *delta, partial(self._contents, kind)))

    def _survey(self) -> None:
        """Looks who stamps what all publish: it advertises everything, so that all subscriptions find their way there."""
        was_root, is_root = self.order.is_root, self.order.survey()
        if was_root != is_root:
            own = [self._itself]
            self._spread(Kind.ADVERTISEMENTS, self.name, (own, []) if is_root else ([], own))

    def _home(self, broker: Peer, source: Peer | None = None) -> Direction | None:
        """The direction in which a broker lies, for what comes from a peer; None: nothing is known of it."""
        if broker == self.name:
            return broker
        peer = self.way(broker, source or self.name)
        return None if peer is None else self.directions.of(peer)

    def _send_changes(self, changes: Iterator[tuple[Peer, Change]]) -> None:
        """Has peers told what has changed for them."""
        for peer, change in changes:
            self._send(peer, change)

    def _contents(self, kind: Kind) -> Iterator[tuple[Peer, Entry]]:
        """What a table tells about: its entries, for interest also what the local clients subscribe to, and itself."""
        yield from self.tables[kind].contents()
        if kind == Kind.BROKERS or (kind == Kind.ADVERTISEMENTS and self.order.is_root):
            yield self.name, self._itself
        if kind == Kind.INTEREST:
            for peer, entry in self.tables[Kind.SUBSCRIPTIONS].contents():
                if self.roles.get(peer) == Role.CLIENT:
                    yield peer, entry

    # --- notifications ------------------------------------------------------------------------------------------------

    def _taken_in(self, event: Event) -> Arrival | None:
        """The publications that an event brings and that may go on, with the peer they came from."""
        if type(event) is Stored:
            settled = self.intake.stored(event.batch)
            self.order.stored(0 if event.batch.logged is None else event.batch.logged.moment)
            if event.batch.publisher in self.roles:
                self._send(event.batch.publisher, Accepted(settled))
            return Arrival(event.batch.publisher, event.batch)
        if type(event) is not Received or type(event.message) is not Notify or event.peer not in self.roles:
            return None
        if event.peer in self.held:
            return None
        source, batch = event.peer, event.message.batch
        if not batch:
            return None
        if self.roles[source] == Role.BROKER:
            return Arrival(source, batch, event.message.passage, event.message.floor)
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
            self._out.all.append(Store(admitted, after, self.order.moment()))
            return None
        self._send(source, Accepted(admitted.numbers[-1]))
        return Arrival(source, admitted)

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

    def _publish(self, arrived: list[Arrival]) -> None:
        """Sends notifications on, in every direction with a matching entry, except back to where they came from."""
        if self.cache is not None:
            arrived = [each for one in arrived if (each := self.cache.fresh(one, self._now)) is not None]
        found = iter(self.forwarding.find([each.batch for each in arrived if each.upward is None]))
        for each in arrived:
            if each.upward is not None:
                self._send(each.upward, Notify(each.batch))
                continue
            logged, routes = each.batch.logged, next(found)
            if logged is not None and logged.stream == self.name:
                self.reliable.source.stored(logged.offsets[-1], logged.moment)
            # What reliable subscriptions may rely on goes to other brokers with an account of what was left out.
            is_accounted = logged is not None and (each.passage is not None or self.reliable.is_needed)
            if not each.comes_again:
                for direction, route in routes.items():
                    self._forward(each, direction, route, is_accounted)
            if is_accounted:
                self.reliable.publish(each.source, each.batch, routes, each.passage, self._now)

    def _forward(self, arrival: Arrival, direction: Direction, route: Route, is_accounted: bool) -> None:
        """Gives a client what it wants, and another direction too, unless that is accounted for there."""
        batch, role = arrival.batch, self.roles.get(direction)
        if arrival.fresh is not None:
            route = route.among(arrival.fresh)
        if not route.rows:
            return
        if role == Role.CLIENT:
            self.order.deliver(direction, batch.whole_or(route.rows), route.combinations, route.which, self._now)
        elif self.directions.passes(arrival.source, direction) and not is_accounted:
            peer = self.directions.choose(direction, batch.logged.stream if batch.logged else batch.publisher)
            if peer is not None:
                self._pass_on(peer, Notify(batch.whole_or(route.rows)))
        if self.cache is not None:
            for place, row in enumerate(route.rows):
                ids = route.combinations[route.which[place] if route.which else 0]
                self.cache.reached(batch.id(row), ids if role == Role.CLIENT else (link_of(direction),))

    def _catch_up(self, peer: Peer, added: Iterable[Entry]) -> None:
        """Sends a peer what its new entries would have got it, had they come a moment earlier."""
        if self.cache is None or peer not in self.roles:
            return
        if self.roles[peer] == Role.CLIENT:
            for notification, ids in self.cache.missed_by_client(peer, added, self._now):
                for batch in batches_of([notification]):
                    self.order.deliver(peer, batch, (ids,), (), self._now)
        else:
            direction = self.directions.of(peer)
            link = link_of(direction)  # whatever channel it was when something went there, or came from there

            def passes(source: Peer) -> bool:
                return link_of(source) != link and self.directions.passes(source, direction)

            for batch in batches_of(self.cache.missed(link, added, passes, self._now)):
                self._pass_on(peer, Notify(batch))

    # --- questions ----------------------------------------------------------------------------------------------------

    def _ask(self, peer: Peer, request: Request) -> None:
        """Takes a question in, or passes it on: to a broker, or for a replay along the way on which the interest came."""
        if self.roles[peer] == Role.CLIENT and request.id.rpartition("/")[0] != peer:
            return  # an answer to somebody else's question is none of its business
        kind = Kind.INTEREST if type(request.question) is ReplayEvent else Kind.BROKERS
        way = self.ways[kind].get(
            request.to, lambda each: each not in self.held and self.directions.leads(self.name, each)
        )
        if way not in self.roles or not self.directions.differ(peer, way):
            way = None  # nodes and links are a tree, so a way that leads back is damaged
        for asker, reply in self.requests.ask(peer, request, way):
            self._send(asker, reply)
        if request.to == self.name:
            self._out.all.append(Ask(request))
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
        self.reliable.tick(self._now)
        self.reshape.tick(self._now)
        lease = self.config.lease
        if lease is None:
            return
        for kind, peer, replica in list(self._replicas()):
            # A renewal in the future is damage: it would never expire. The sum is that of the deadline, to the last bit.
            if not replica.renewed <= self._now < replica.renewed + lease.lease_seconds:
                replica.renewed = self._now
                is_tagged = any(replica.tags)
                self._spread(kind, peer, replica.clear(), is_tagged)
        self._expiry = lease.lease_seconds + min((each.renewed for _, _, each in self._replicas()), default=math.inf)
        if not self._now < self._renewal <= self._now + lease.renew_seconds:
            self._renewal = self._now + lease.renew_seconds
            self._renew()

    def _renew(self) -> None:
        """Works out anew all that is derived, and tells every peer where its export stands."""
        self.order.renew()
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
            for peer, entry in self._contents(kind):
                ways.add(entry.id, peer)
        self._survey()
