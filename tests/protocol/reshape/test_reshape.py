"""Replacing links in small networks: who takes part, what is refused and why, and what is left of the old link."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sluice import parse
from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Subscribe
from sluice.protocol.complete import CacheConfig
from sluice.protocol.messages import Change, Kind, Message, Notify, Snapshot
from sluice.protocol.reshape.config import ReshapeConfig
from sluice.protocol.reshape.messages import Mark, Plan, Stage
from sluice.sim.judge import judge_tables
from sluice.sim.locality import Locality
from sluice.sim.world.shape import Order
from sluice.sim.world.world import World

#: a - b - c - d, and a side of each.
LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "sa"), ("b", "sb"), ("c", "sc"), ("d", "sd"))
CONFIG = BrokerConfig(reshape=ReshapeConfig(patience_seconds=100.0, hold_seconds=10.0))


def network(config: BrokerConfig = CONFIG, nodes: dict[str, str] | None = None) -> World:
    world = World(1, config)
    for name in dict.fromkeys(name for link in LINKS for name in link):
        world.add_broker(name, node=(nodes or {}).get(name))
    for link in LINKS:
        world.add_link(*link)
    for name in world.brokers:
        world.add_client(f"client-{name}", name)
    world.settle()
    return world


def order(world: World, a: str, b: str, c: str, d: str) -> Order:
    plan = Plan(f"test/{len(world.shape.orders)}", a, b, c, d)
    world.shape.submit(plan)
    world.settle()
    return world.shape.orders[plan.job]


def tables_spoken(world: World) -> dict[str, None]:
    spoken: dict[str, None] = {}

    def listen(sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Change | Snapshot):
            spoken.update({sender: None, receiver: None})

    world.on_send = listen
    return spoken


def subscribe_everywhere(world: World) -> None:
    for number, name in enumerate(world.brokers):
        id = world.new_id(f"client-{name}")
        assert id is not None
        world.command(f"client-{name}", Subscribe(id, parse(f"n = {number}")))
    world.settle()


@pytest.mark.parametrize("advertisements", [None, "covering"])
def test_a_link_is_replaced_and_only_the_chain_hears_of_it(advertisements: str | None) -> None:
    world = network(replace(CONFIG, advertisements=advertisements))
    subscribe_everywhere(world)
    spoken = tables_spoken(world)
    done = order(world, "b", "c", "a", "d")
    assert done.stage == Stage.DONE and done.path == ("b", "a", "d", "c")
    assert set(spoken) <= {"a", "b", "c", "d"}
    assert ("a", "d") in world.shape.tree and ("b", "c") not in world.shape.tree
    assert not world.links["b", "c"].is_open and world.links["a", "d"].is_open
    assert judge_tables(world) == []


def test_links_are_replaced_again_and_again_also_back() -> None:
    world = network()
    subscribe_everywhere(world)
    for plan in (("b", "c", "a", "d"), ("a", "d", "b", "c"), ("b", "c", "a", "d"), ("d", "a", "d", "sb")):
        assert order(world, *plan).stage == Stage.DONE
        assert judge_tables(world) == []
    core = world.brokers["b"].core
    assert core is not None and core.reshape.marks["c"] == Mark(3, is_member=False)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (("a", "b", "a", "b"), "by itself"),
        (("a", "b", "sb", "sb"), "needs two ends"),
        (("a", "c", "a", "d"), "there is no link a - c: a reaches c through b"),
        (("b", "c", "d", "a"), "knows no way to d that does not use the old link"),
        (("b", "c", "a", "sa"), "there is a link a - sa already"),
        (("b", "c", "sb", "sa"), "on the way twice|knows no way"),
        (("b", "c", "a", "nobody"), "cannot reach nobody"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(plan: tuple[str, str, str, str], reason: str) -> None:
    world = network()
    refused = order(world, *plan)
    assert refused.stage == Stage.REFUSED and re.search(reason, refused.reason), refused.reason
    world.settle()
    assert judge_tables(world) == []
    assert all(node.core is not None and node.core.reshape.job is None for node in world.brokers.values())


def test_nodes_with_several_brokers_are_refused() -> None:
    world = network(nodes={"c": "node"})
    refused = order(world, "c", "d", "b", "d")
    assert refused.stage == Stage.REFUSED and "shares its node" in refused.reason


def test_a_broken_link_is_replaced_too() -> None:
    world = network()
    subscribe_everywhere(world)
    world.lose_link("b", "c")
    world.settle()
    assert order(world, "b", "c", "b", "d").stage == Stage.DONE
    world.heal()
    world.settle()
    assert ("b", "c") not in world.shape.tree and judge_tables(world) == []


def account(world: World, name: str) -> dict[str, Any]:
    core = world.brokers[name].core
    assert core is not None
    return core.reshape.account(world.now)


def repairing() -> World:
    return network(replace(CONFIG, reshape=ReshapeConfig(patience_seconds=100.0, hold_seconds=10.0, repairs=True)))


def test_a_link_that_breaks_is_replaced_by_the_brokers_themselves() -> None:
    world = repairing()
    subscribe_everywhere(world)
    spoken = tables_spoken(world)
    world.lose_link("b", "c")
    world.run(world.now + 400.0)
    assert len(world.shape.side("a", ("", ""))) == len(world.brokers) and judge_tables(world) == []
    assert not {"sa", "sb", "sc", "sd"} & set(spoken), "what came over the broken link is held until it is replaced"
    assert [account(world, end)["repaired"] for end in "bc"] == [1, 1] and account(world, "b")["done"] == 1


def test_a_link_that_comes_back_is_not_replaced() -> None:
    world = repairing()
    subscribe_everywhere(world)
    spoken = tables_spoken(world)
    world.lose_link("b", "c")
    world.run(world.now + 0.2)
    world.heal_link("b", "c")
    world.run(world.now + 400.0)
    assert ("b", "c") in world.shape.tree and judge_tables(world) == []
    assert set(spoken) == {"b", "c"} and [account(world, end)["returned"] for end in "bc"] == [1, 1]


def test_the_neighbours_of_a_broker_that_dies_find_together() -> None:
    world = repairing()
    subscribe_everywhere(world)
    world.stop_broker("c")
    world.run(world.now + 800.0)
    assert {"a", "b", "d", "sa", "sb", "sc", "sd"} <= set(world.shape.side("b", ("", "")))
    world.start_broker("c")
    world.run(world.now + 800.0)
    assert len(world.shape.side("c", ("", ""))) == len(world.brokers) and judge_tables(world) == []


def test_a_dead_broker_is_replaced_by_its_neighbours_and_others_hear_only_of_what_is_gone() -> None:
    world = repairing()
    subscribe_everywhere(world)
    locality = Locality(world)
    world.stop_broker("c")
    world.run(world.now + 9.0)
    assert world.shape.link("b", "d") and world.shape.link("b", "sc"), "b comes first, so it is joined"
    assert locality.beside(("b", "d", "sc")) == []
    per_table = Counter(kind for (_, _, kind), times in locality.spoken.items() for _ in range(times))
    assert per_table[Kind.SUBSCRIPTIONS] == 5, "each of the two tells b everything and is told, and one of the other"
    world.run(world.now + 800.0)
    assert locality.beside(("b", "d", "sc")) and not list(locality.vain(("b", "d", "sc")))


def test_a_link_that_is_taken_away_is_not_replaced() -> None:
    world = repairing()
    world.shape.take_away("b", "c")
    world.run(world.now + 800.0)
    assert len(world.shape.side("a", ("", ""))) == 4 and judge_tables(world) == []


def test_what_has_passed_does_not_come_again_over_the_channel_that_follows() -> None:
    world = network(replace(CONFIG, cache=CacheConfig(seconds=1000.0)))
    subscribe_everywhere(world)
    assert order(world, "b", "c", "a", "d").stage == Stage.DONE
    world.publish("client-sa", {"n": list(world.brokers).index("sd")})
    world.settle()
    passed: list[Message] = []
    world.on_send = lambda sender, receiver, message: passed.append(message) if isinstance(message, Notify) else None
    world.lose_link("a", "d")
    world.settle()
    world.heal_link("a", "d")
    world.settle()
    assert passed == []


def test_nothing_is_left_of_channels_that_are_gone() -> None:
    world = network(replace(CONFIG, durable=True))
    id = world.new_id("client-sa")
    assert id is not None
    world.command("client-sa", Subscribe(id, parse("true"), reliable=True))
    world.run(world.now + 10.0)
    for plan in (("b", "c", "a", "d"), ("a", "d", "b", "c")) * 3:
        assert order(world, *plan).stage == Stage.DONE
        world.run(world.now + 10.0)
    told = {name: set(node.core.reliable.source.told) for name, node in world.brokers.items() if node.core is not None}
    assert told["c"] and told["d"], "somebody behind b relies on them"
    for name, node in world.brokers.items():
        assert node.core is not None and told[name] <= set(node.core.roles)
