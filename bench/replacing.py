"""What it costs to replace a link: by the brokers that run, in the simulator's world, and by the protocols of the lab.

A network is built once, from a plan of `sluice.sim.cugola`; then each way in turn replaces the link and takes it back, so that
all ways get the same two substitutions. Messages are counted where they are sent, publications where they are delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from sluice import parse
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Subscribe
from sluice.errors import SluiceError
from sluice.protocol.messages import Change, Deliver, Digest, Kind, Lost, Message, Snapshot
from sluice.protocol.reshape import messages as reshape
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.messages import Neighbours, ReshapeMessage, Stage
from sluice.sim.cugola import Plan, Protocol, Publication, Substitution, run
from sluice.sim.world.world import World

#: How long a link of the simulated network takes; costs are in link delays.
DELAY_SECONDS = 0.01
#: Brokers that would repair a link by themselves, but only long after they have been ordered to.
HOLDING = ReshapeConfig(repairs=True, hold_seconds=1e6)


@dataclass(slots=True)
class Cost:
    """What one substitution cost by itself."""

    #: Brokers on the path, from one end of the old link to the other.
    path: int = 0
    #: Messages that tell of subscriptions, or steer the substitution, and the filters in them.
    messages: int = 0
    entries: int = 0
    #: Those that tell of any table, or who is around whom. Acknowledgements are not among them.
    all_messages: int = 0
    all_entries: int = 0
    acknowledgements: int = 0
    #: Brokers that sent or got any of them, and those that are not on the path.
    touched: int = 0
    off_the_path: int = 0
    #: Deliveries that should have been, and those that were not.
    due: int = 0
    lost: int = 0
    #: From the beginning until the last of the messages arrives, in link delays.
    repair_time: float = 0.0


def both(plan: Plan) -> Iterator[Plan]:
    """A plan, and the plan that takes it back."""
    substitution = plan.substitution
    yield plan
    back = Substitution(substitution.head[::-1], substitution.tail[::-1])
    yield replace(plan, tree=substitution.applied_to(plan.tree), substitution=back)


def in_the_lab(plan: Plan, protocol: Protocol) -> Cost:
    """What a substitution costs with a protocol of the lab; its dispatchers have one table and acknowledge nothing."""
    history = run(plan, protocol)
    return Cost(
        path=len(plan.substitution.chain),
        messages=history.messages,
        entries=history.entries,
        all_messages=history.messages,
        all_entries=history.entries,
        touched=len(history.touched),
        off_the_path=len(history.off_the_path),
        due=history.due(),
        lost=len(history.lost()),
        repair_time=history.repair_time,
    )


@dataclass(slots=True)
class Meter:
    """Counts what is said in a world while a link is replaced."""

    world: World
    start: float
    cost: Cost
    touched: dict[str, None] = field(default_factory=dict)
    delivered: set[tuple[str, object]] = field(default_factory=set)

    def hear(self, sender: str, receiver: str, message: Message) -> None:
        """Counts one message."""
        if isinstance(message, Deliver):
            self.delivered.update((id, one.id) for one, ids in message.deliveries for id in ids)
        if sender not in self.world.brokers or receiver not in self.world.brokers:
            return
        if type(message).__name__ == "Ack":
            self.cost.acknowledgements += 1
        elif isinstance(message, Neighbours):
            self.cost.all_messages += 1
        elif isinstance(message, Change | Snapshot | Digest | Lost | ReshapeMessage):
            self._count(message)
            self.touched |= dict.fromkeys((sender, receiver))
            self.cost.repair_time = (self.world.now - self.start) / DELAY_SECONDS + 1.0

    def _count(self, message: Change | Snapshot | Digest | Lost | ReshapeMessage) -> None:
        if isinstance(message, ReshapeMessage):
            tables = getattr(message, "tables", ())
            is_counted = True
        else:
            tables = (message,) if isinstance(message, Change | Snapshot) else ()
            is_counted = message.kind is Kind.SUBSCRIPTIONS
        self.cost.all_messages += 1
        self.cost.messages += is_counted
        for table in tables:
            entries = _entries(table)
            self.cost.all_entries += entries
            if table.kind is Kind.SUBSCRIPTIONS:
                self.cost.entries += entries


def _entries(table: Change | Snapshot) -> int:
    return len(table.entries) if isinstance(table, Snapshot) else len(table.added) + len(table.removed)


#: Replaces a link in a world.
Way = Callable[["Running", Substitution], None]


class Running:
    """A network of brokers that run, built from a plan: all that subscribe at a broker are one client."""

    def __init__(self, plan: Plan, routing: str, *, holds: bool = False) -> None:
        """With `holds`, brokers believe what came over a link that breaks until it is replaced."""
        self.plan = plan
        config = BrokerConfig(routing=routing, reshape=HOLDING if holds else ReshapeConfig())
        self.world = World(plan.seed, config, min_delay_seconds=DELAY_SECONDS, max_delay_seconds=DELAY_SECONDS)
        self._jobs = count(1)
        for broker in plan.tree.brokers:
            self.world.add_broker(broker)
            for role in ("subscriber", "publisher"):
                self.world.add_client(f"{role}-{broker}", broker)
        self.world.settle()
        for client in plan.clients:
            where = parse(f"value >= {client.pattern.low} AND value <= {client.pattern.high}")
            name = f"subscriber-{client.dispatcher}"
            id = self.world.new_id(name)
            assert id is not None
            self.world.command(name, Subscribe(id, where))
        self.world.settle()
        # From the leaves up, so that little is told twice.
        for link in reversed(plan.tree.links):
            self.join(*link)
            self.world.settle()

    def join(self, one: str, other: str) -> None:
        """Joins two brokers, for the first time or again."""
        link = self.world.shape.link(one, other)
        if link is None:
            self.world.add_link(one, other)
        else:
            link.members |= dict.fromkeys((one, other))
            self.world.refresh(link)

    def part(self, one: str, other: str) -> None:
        """Takes a link out of the tree, whatever is under way on it."""
        link = self.world.shape.link(one, other)
        assert link is not None
        link.members.clear()
        self.world.close(link)

    def lose(self, one: str, other: str) -> None:
        """Breaks a link of the tree."""
        self.world.lose_link(*((one, other) if (one, other) in self.world.links else (other, one)))

    def order(self, substitution: Substitution) -> None:
        """Orders the brokers to replace a link."""
        (a, b), (c, d) = substitution.old, substitution.new
        self.world.shape.submit(reshape.Plan(f"bench/{next(self._jobs)}", a, b, c, d))

    def measure(self, way: Way, substitution: Substitution) -> Cost:
        """Replaces a link, with publications meanwhile, and counts until everything is quiet."""
        world, plan = self.world, self.plan
        meter = Meter(world, world.now, Cost(path=len(substitution.chain)))
        for publication in plan.publications:
            world.call(
                meter.start + (publication.time - plan.time) * DELAY_SECONDS, partial(self._publish, publication)
            )
        world.on_send = meter.hear
        way(self, substitution)
        world.settle()
        world.on_send = None
        # What broke was replaced, and can be dialled again.
        for link in world.links:
            world.heal_link(*link)
        cost = meter.cost
        cost.touched = len(meter.touched)
        cost.off_the_path = len([one for one in meter.touched if one not in substitution.chain])
        cost.due = sum(
            client.pattern.matches(publication.value) for publication in plan.publications for client in plan.clients
        )
        cost.lost = cost.due - len(meter.delivered)
        return cost

    def _publish(self, publication: Publication) -> None:
        self.world.publish(f"publisher-{publication.dispatcher}", {"value": publication.value})


def straightforward(network: Running, substitution: Substitution) -> None:
    """The old link goes, and the new one comes as soon as both ends know it; sooner, they would tell what they must forget."""
    network.part(*substitution.old)
    network.world.call(network.world.now + DELAY_SECONDS, partial(network.join, *substitution.new))


def by_order(network: Running, substitution: Substitution) -> None:
    """The brokers are ordered to replace the link, and use the old one until they are done."""
    network.order(substitution)


def after_a_break(network: Running, substitution: Substitution) -> None:
    """The old link breaks, and the brokers are ordered to replace it as soon as both ends know it."""
    network.lose(*substitution.old)
    network.world.call(network.world.now + DELAY_SECONDS, partial(network.order, substitution))


def check(network: Running) -> None:
    """Raises if any order came to something else than it should."""
    for order in network.world.shape.orders.values():
        if order.stage is not Stage.DONE:
            raise SluiceError(
                f"{order.plan} came to {order.stage}, {order.reason}: nothing has failed, so it must be done"
            )
