"""With one broker in each node and no faults reliable delivery sends what covering-based routing sends, and nothing again."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from sluice.broker.core.config import BrokerConfig
from sluice.client.session import commands as client
from sluice.protocol.events import Received
from sluice.protocol.messages import Missing, Notify
from sluice.protocol.reliable.config import ReliableConfig
from sluice.sim.domain import POINTS, TEXTS, parsed
from sluice.sim.workload import tree
from sluice.sim.world.nodes import BrokerNode
from sluice.sim.world.world import World

NAMES = tuple(f"B{number}" for number in range(6))


def sent(seed: int, *, reliable: bool) -> tuple[Counter[tuple[str, str]], int, int]:
    """How often notifications went over each link, how often something was asked for again, and what programs got in all."""
    random = Random(f"cost {seed}")
    config = BrokerConfig(routing="covering", durable=True, reliable=ReliableConfig(gap_seconds=20.0))
    world = World(seed, config, min_delay_seconds=0.1, max_delay_seconds=1.0)
    for name in NAMES:
        world.add_broker(name)
    for pair in tree(random, NAMES):
        world.add_link(*pair)
    for name in NAMES:
        world.add_client(f"c-{name}", name)
    world.settle()
    for number in range(18):
        name = f"c-{random.choice(NAMES)}"
        world.command(name, client.Subscribe(f"{name}/{number}", parsed(random.choice(TEXTS)), None, reliable))
    world.run(world.now + 100.0)
    passed: Counter[tuple[str, str]] = Counter()
    asked: Counter[str] = Counter()

    def look(node: BrokerNode, event: object) -> None:
        if isinstance(event, Received) and event.peer in world.brokers:
            match event.message:
                case Notify(batch):
                    passed[event.peer, node.name] += len(batch)
                case Missing():
                    asked[node.name] += 1

    world.after_step = look
    before = len(world.trace.events)
    for _ in range(60):
        world.publish(f"c-{random.choice(NAMES)}", random.choice(POINTS))
        world.run(world.now + random.choice((0.0, 0.5, 5.0)))
    world.run(world.now + 100.0)
    got = sum(type(event).__name__ == "Notified" for event in world.trace.events[before:])
    return passed, asked.total(), got


@pytest.mark.parametrize("seed", range(5))
def test_reliable_delivery_costs_no_notification(seed: int) -> None:
    passed, asked, got = sent(seed, reliable=True)
    assert asked == 0
    assert (passed, 0, got) == sent(seed, reliable=False)
    assert passed.total() > 50 and got > 100
