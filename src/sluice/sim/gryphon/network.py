"""The generic algorithm at work on a tree of nodes: one stream, brokers that crash, links that lose, delay and reorder.

Nothing happens by itself: `step` performs one of the deliveries that are possible, chosen by the source of chance that the
caller hands in, and what people and timers do are calls as well. After each of them the checks run; what they find is in
`broken`. `drain` ends the faults and goes on until everything is at rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import assert_never

from sluice.errors import SluiceError
from sluice.sim.broken import Broken
from sluice.sim.domain import Record
from sluice.sim.gryphon import checks
from sluice.sim.gryphon.asked import Known, Oracle
from sluice.sim.gryphon.change import Advance, Change, Snapshot, Upward
from sluice.sim.gryphon.conjunction import Conjunctions, conjunctions_of, position_of
from sluice.sim.gryphon.constrained import ConstrainedLeaf, ConstrainedRouter
from sluice.sim.gryphon.guard import REPAIRED, Constraints, Guard
from sluice.sim.gryphon.message import Ack, Asking, Message, Nack
from sluice.sim.gryphon.publisher import Stream
from sluice.sim.gryphon.router import Leaf, Router
from sluice.sim.gryphon.subscriber import Delivery, Subscriber
from sluice.sim.gryphon.timed import TimedLeaf, TimedRouter
from sluice.sim.gryphon.topology import Topology

Packet = Upward | Asking | Message
Link = tuple[str, str]

#: Rounds after which a network that does not come to rest never will.
MAX_ROUNDS = 200


class Generic:
    """A network under one guard.

    >>> network = Generic(Topology.of({"inner": "phb", "a": "inner"}, inner=2), Random(1))
    >>> network.subscribe("a", "cheap", "price < 3")
    >>> network.drain()
    >>> [network.publish({"price": price}) for price in (2, 5, 1)]
    [1, 2, 3]
    >>> network.drain()
    >>> cheap = network.deliveries["cheap"]
    >>> cheap.start, cheap.delivered, network.broken
    (1, [1, 3], [])
    """

    def __init__(
        self,
        topology: Topology,
        random: Random,
        guard: Guard = REPAIRED,
        *,
        loss: float = 0.0,
        keeps_order: bool = False,
    ) -> None:
        self.topology = topology
        self.guard = guard
        #: The chance that a packet is lost.
        self.loss = loss
        #: Whether packets of one link arrive in the order they were sent in.
        self.keeps_order = keeps_order
        self.oracle = Oracle()
        self.stream = Stream(topology.shbs)
        self.subscribers = {shb: Subscriber(shb, self._leaf(shb)) for shb in topology.shbs}
        #: What was delivered to each subscription that ever was.
        self.deliveries: dict[str, Delivery] = {}
        #: The checks that failed.
        self.broken: list[Broken] = []
        #: How many packets were sent, by their names.
        self.sent: dict[str, int] = {}
        self.in_flight: dict[Link, list[Packet]] = {}
        self._random = random
        self._node = {broker: node for node, brokers in topology.brokers.items() for broker in brokers}
        self._children = {node: topology.children(node) for node in topology.brokers}
        self._below = {node: topology.below(node) for node in topology.brokers}
        self.routers = {broker: self._router(broker) for broker in self._node if broker not in self.subscribers}
        self._dead: dict[str, None] = {}
        #: Every broker's edges to the nodes below it.
        self._edges = [(broker, child) for broker in self.routers for child in self._children[self._node[broker]]]

    # What people do.

    def subscribe(self, shb: str, id: str, where: str) -> None:
        """Makes a subscription; its identity must be new."""
        if id in self.deliveries:
            raise SluiceError(f"there was a subscription {id!r} before: give each an identity of its own")
        self._must_live(shb)
        subscriber = self.subscribers[shb]
        asked, told = subscriber.leaf.subscribe(id, conjunctions_of(where))
        self.oracle.subscribed[id] = asked
        self.deliveries[id] = subscriber.deliveries[id] = Delivery(asked)
        self._tell(shb, told)
        self._check(self._edges)

    def unsubscribe(self, shb: str, id: str) -> None:
        """Ends a subscription with what its SHB has dealt with."""
        self._must_live(shb)
        subscriber = self.subscribers[shb]
        delivery = subscriber.deliveries.get(id)
        if delivery is None or delivery.end is not None:
            raise SluiceError(f"{shb} has no subscription {id!r}: it was never made there, or is unsubscribed already")
        delivery.end = subscriber.cursor
        self.oracle.unsubscribed[id], told = subscriber.leaf.unsubscribe(delivery.asked)
        self._tell(shb, told)
        self._check(self._edges)

    def publish(self, record: Record) -> int:
        """Publishes a record of the domain and returns its number in the stream."""
        self._must_live(self.topology.phb)
        message = self.stream.publish(position_of(record), self.routers[self.topology.phb].stamp())
        self._route(self.topology.phb, message)
        return message.sequence

    # What timers do.

    def flush(self, shb: str) -> None:
        """Lets an SHB tell what it has not told yet."""
        if self.is_up(shb):
            self._tell(shb, self.subscribers[shb].leaf.flush())
            self._check(self._edges)

    def restate(self, broker: str) -> None:
        """Lets a broker tell its upstream neighbours everything anew."""
        if self.is_up(broker):
            tables = self.subscribers[broker].leaf if broker in self.subscribers else self.routers[broker]
            self._tell(broker, tables.restated())

    def ask(self, shb: str) -> None:
        """Lets an SHB ask for what it lacks."""
        if self.is_up(shb):
            self._ask(shb, self.subscribers[shb].nack())

    def acknowledge(self, shb: str) -> None:
        """Lets an SHB say what it has dealt with."""
        if self.is_up(shb):
            self._ask(shb, self.subscribers[shb].ack())

    # What goes wrong.

    def is_up(self, broker: str) -> bool:
        """Whether a broker is alive."""
        return broker not in self._dead

    def crash(self, broker: str) -> None:
        """Kills a broker: tables go, the PHB's log and what an SHB has on disk stay."""
        self._must_live(broker)
        self._dead[broker] = None
        if broker in self.subscribers:
            self.subscribers[broker].crash()
        else:
            self.routers[broker] = self._router(broker)
            if broker == self.topology.phb:
                self.stream.crash()

    def restart(self, broker: str) -> None:
        """Brings a broker back."""
        del self._dead[broker]

    def lose(self, sender: str, receiver: str) -> None:
        """Loses everything that is under way from one broker to another."""
        self.in_flight.pop((sender, receiver), None)

    # What happens.

    def step(self) -> bool:
        """Delivers, or loses, one packet; False if there is none."""
        links = [link for link, packets in self.in_flight.items() if packets]
        if not links:
            return False
        link = self._random.choice(links)
        packets = self.in_flight[link]
        packet = packets.pop(0 if self.keeps_order else self._random.randrange(len(packets)))
        if self._random.random() >= self.loss:
            self._arrive(*link, packet)
        return True

    def deliver(self, sender: str, receiver: str) -> None:
        """Delivers everything that is under way from one broker to another, in order, and nothing that comes of it."""
        for packet in self.in_flight.pop((sender, receiver), []):
            self._arrive(sender, receiver, packet)

    def settle(self) -> None:
        """Delivers until nothing is under way, without any timer."""
        while self.step():
            pass

    def drain(self, *dead: str) -> None:
        """Ends all faults, but for brokers that stay dead, and goes on until nothing changes any more."""
        for broker in tuple(self._dead):
            if broker not in dead:
                self.restart(broker)
        loss, self.loss = self.loss, 0.0
        for _ in range(MAX_ROUNDS):
            before = self._state()
            self.settle()
            for node in self.topology.upward():
                for broker in self.topology.brokers[node]:
                    if broker in self.subscribers:
                        self.flush(broker)
                    if node in self.topology.parents:
                        self.restate(broker)
                self.settle()
            for shb in self.subscribers:
                self.ask(shb)
                self.acknowledge(shb)
            self.settle()
            if self._state() == before:
                break
        else:
            raise SluiceError(f"the network is not at rest after {MAX_ROUNDS} rounds: something goes round in circles")
        self.loss = loss
        self.judge()
        if not self._dead:
            for broker, child in self._edges:
                known, _ = self._table(broker, child)
                self.broken += checks.up_to_date(_where(broker, child), known, self._below[child], self.oracle)

    def _state(self) -> object:
        cursors = [subscriber.cursor for subscriber in self.subscribers.values()]
        return [self._table(*edge) for edge in self._edges], cursors, self.stream.trimmed

    # How packets move.

    def _tell(self, broker: str, told: tuple[Upward, ...]) -> None:
        for upstream in self._upstream(broker):
            for change in told:
                self._send(broker, upstream, change)

    def _ask(self, broker: str, asking: Asking) -> None:
        upstream = self._upstream(broker)
        if upstream:
            self._send(broker, self._random.choice(upstream), asking)

    def _upstream(self, broker: str) -> list[str]:
        parent = self.topology.parents.get(self._node[broker])
        return [] if parent is None else [one for one in self.topology.brokers[parent] if self.is_up(one)]

    def _route(self, broker: str, message: Message) -> None:
        router = self.routers[broker]
        for child in self._children[self._node[broker]]:
            if message.to is not None and message.to not in self._below[child]:
                continue
            alive = [one for one in self.topology.brokers[child] if self.is_up(one)]
            routed = router.route(child, self._below[child], message)
            self.broken += checks.silence(broker, routed, self.stream.record(message.sequence), self.oracle)
            if alive:
                self._send(broker, self._random.choice(alive), routed)

    def _send(self, sender: str, receiver: str, packet: Packet) -> None:
        self.in_flight.setdefault((sender, receiver), []).append(packet)
        name = type(packet).__name__
        self.sent[name] = self.sent.get(name, 0) + 1

    def _arrive(self, sender: str, receiver: str, packet: Packet) -> None:
        if not self.is_up(receiver):
            return
        match packet:
            case Message():
                self._take(receiver, packet)
            case Nack() if receiver == self.topology.phb:
                for message in self.stream.answer(packet):
                    self._route(receiver, message)
            case Ack() if receiver == self.topology.phb:
                self.stream.acknowledge(packet)
            case Nack() | Ack():
                self._ask(receiver, packet)
            case Change() | Advance() | Snapshot():
                self._hear(receiver, self._node[sender], packet)
            case _:
                assert_never(packet)

    def _hear(self, broker: str, child: str, change: Upward) -> None:
        was = self._table(broker, child)
        told = self.routers[broker].hear(child, change)
        now = self._table(broker, child)
        if now != was:
            self.broken += checks.theorem_two(_where(broker, child), was, now)
            self._tell(broker, told)
            self._check([(broker, child)])

    def _take(self, broker: str, message: Message) -> None:
        if broker not in self.subscribers:
            self._route(broker, self.routers[broker].raised(message))
            return
        subscriber = self.subscribers[broker]
        for silence in subscriber.receive(message):
            self.broken += checks.passed_over(subscriber, silence, self.stream.record(silence))

    # What is watched.

    def _table(self, broker: str, child: str) -> tuple[Known, Conjunctions]:
        router = self.routers[broker]
        return router.known(child, self.oracle), router.conjunctions(child)

    def _check(self, edges: Iterable[Link]) -> None:
        """Invariant 1 and theorem 3, on the edges that may have changed."""
        for broker, child in edges:
            table = self._table(broker, child)
            self.broken += checks.invariant(_where(broker, child), *table)
            self.broken += checks.theorem_three(_where(broker, child), *table)

    def judge(self) -> None:
        """The history, once everything is at rest."""
        for shb, subscriber in self.subscribers.items():
            if self.is_up(shb) and subscriber.cursor < self.stream.head:
                says = f"{shb} is at {subscriber.cursor} of {self.stream.head} and gets nothing more"
                self.broken.append(Broken("stuck", says))
            for delivery in subscriber.deliveries.values():
                self.broken += checks.history(delivery, subscriber.cursor, self.stream)

    def _must_live(self, broker: str) -> None:
        if not self.is_up(broker):
            raise SluiceError(f"{broker} is down: restart it first")

    def _leaf(self, shb: str) -> Leaf:
        return ConstrainedLeaf(shb, self.guard) if isinstance(self.guard, Constraints) else TimedLeaf(shb)

    def _router(self, broker: str) -> Router:
        if isinstance(self.guard, Constraints):
            return ConstrainedRouter(self._below[self._node[broker]], self.guard)
        return TimedRouter(self.guard)


def _where(broker: str, child: str) -> str:
    return f"{broker}, on its edge to {child},"
