"""What runs and the generic algorithm deliver the same: one script of people and crashes, played to both."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import pytest

from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.protocol.reliable.config import ReliableConfig
from sluice.sim.domain import POINTS, TEXTS, Record, parsed
from sluice.sim.gryphon import Generic, Topology
from sluice.sim.trace import streamed
from sluice.sim.trace import trace as said
from sluice.sim.world.world import World

REST = 200.0


@dataclass(frozen=True)
class Action:
    """One thing that somebody does, or that happens."""

    name: str
    where: str = ""
    id: str = ""
    text: str = ""
    record: Record | None = None


@dataclass(frozen=True)
class Got:
    """What a subscription got: from its start to an end up to which it is sure to be all."""

    start: int
    end: int
    offsets: list[int]

    def within(self, start: int, end: int) -> list[int]:
        return [offset for offset in self.offsets if start <= offset <= end]


def script(random: Random, topology: Topology) -> list[Action]:
    """People who come, go and publish, while inner brokers crash and come back."""
    inner = [name for node, names in topology.brokers.items() for name in names if len(names) > 1]
    texts = random.sample(TEXTS, 8)
    actions: list[Action] = []
    held: dict[str, str] = {}
    down: dict[str, None] = {}
    for number in range(70):
        roll = random.random()
        if roll < 0.55:
            actions.append(Action("publish", record=random.choice(POINTS)))
        elif roll < 0.8 or (roll < 0.9 and not held):
            shb = random.choice(topology.shbs)
            held[f"q{number}"] = shb
            actions.append(Action("subscribe", shb, f"q{number}", random.choice(texts)))
        elif roll < 0.9:
            id = random.choice(list(held))
            actions.append(Action("unsubscribe", held.pop(id), id))
        elif inner:
            broker = random.choice(inner)
            actions.append(Action("restart" if broker in down else "crash", broker))
            if broker in down:
                del down[broker]
            else:
                down[broker] = None
    # Both have started by then what can start.
    return [*actions, Action("rest"), *(Action("publish", record=random.choice(POINTS)) for _ in range(15))]


def by_reference(random: Random, topology: Topology, actions: list[Action]) -> dict[str, Got]:
    network = Generic(topology, random)
    for action in actions:
        match action.name:
            case "publish":
                assert action.record is not None
                network.publish(action.record)
            case "subscribe":
                network.subscribe(action.where, action.id, action.text)
            case "unsubscribe":
                network.unsubscribe(action.where, action.id)
            case "crash":
                network.crash(action.where)
            case "restart":
                network.restart(action.where)
            case "rest":
                network.drain()
        for _ in range(random.randrange(40)):
            network.step()
        network.flush(random.choice(topology.shbs))
    network.drain()
    assert network.broken == []
    head = network.stream.head
    return {
        id: Got(each.start, head if each.end is None else each.end, [*each.delivered])
        for id, each in network.deliveries.items()
        if each.start is not None
    }


def by_what_runs(random: Random, topology: Topology, actions: list[Action]) -> dict[str, Got]:
    config = BrokerConfig(
        durable=True, reliable=ReliableConfig(silence_seconds=0.5, gap_seconds=4, patience_seconds=20)
    )
    world = World(random.randrange(1 << 30), config, min_delay_seconds=0.1, max_delay_seconds=1.0)
    for node, names in topology.brokers.items():
        for name in names:
            world.add_broker(name, node=node)
    for child, parent in topology.parents.items():
        for pair in product(topology.brokers[parent], topology.brokers[child]):
            world.add_link(*pair)
    for names in topology.brokers.values():
        for place, name in enumerate(names):
            for sibling in names[place + 1 :]:
                world.add_link(name, sibling)
    world.add_client("publisher", topology.phb)
    for shb in topology.shbs:
        world.add_client(f"c-{shb}", shb)
    world.settle()
    for action in actions:
        name = f"c-{action.where}"
        match action.name:
            case "publish":
                assert action.record is not None
                world.publish("publisher", action.record)
            case "subscribe":
                world.command(name, client.Subscribe(f"{name}/{action.id}", parsed(action.text), None, True))
            case "unsubscribe":
                world.command(name, client.Unsubscribe(f"{name}/{action.id}"))
            case "crash":
                world.stop_broker(action.where)
            case "restart":
                world.start_broker(action.where)
            case "rest":
                world.heal()
                world.run(world.now + REST)
        world.run(world.now + random.choice((0.0, 0.3, 3.0)))
    world.heal()
    world.run(world.now + REST)
    return _got(world, topology.phb)


def _got(world: World, stream: str) -> dict[str, Got]:
    """What the trace says of one stream. Who has unsubscribed is sure of what came up to the last that it got."""
    offsets: dict[tuple[str, int], int] = {}
    starts: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    ended: dict[str, None] = {}
    for event in world.trace.events:
        match event:
            case streamed.Logged(_, log, offset, publisher, number) if log == stream:
                offsets[publisher, number] = offset
            case streamed.Begun(_, _, id, log, offset) if log == stream:
                starts[id] = offset
            case said.Unsubscribed(_, _, id):
                ended[id] = None
            case said.Notified(_, _, publisher, number, ids):
                for id in ids:
                    found.setdefault(id, []).append(offsets[publisher, number])
    head = len(offsets)
    return {
        id.partition("/")[2]: Got(start, max(found.get(id, [0])) if id in ended else head, found.get(id, []))
        for id, start in starts.items()
    }


@pytest.mark.parametrize("seed", range(12))
def test_both_deliver_the_same(seed: int) -> None:
    random = Random(f"reference {seed}")
    topology = Topology.drawn(random)
    actions = script(random, topology)
    reference, running = by_reference(random, topology, actions), by_what_runs(random, topology, actions)
    compared = 0
    for id, one in reference.items():
        other = running.get(id)
        if other is not None:
            common = max(one.start, other.start), min(one.end, other.end)
            assert one.within(*common) == other.within(*common), id
            compared += len(one.within(*common))
    assert compared >= 5, "the two have hardly anything in common"
