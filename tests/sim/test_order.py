"""Order in the simulator: small networks in which others fail, every algorithm, and a check that sees what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sluice.sim import Network
from sluice.sim.mutants import MUTANTS
from sluice.sim.scenario import ROUTINGS, Choices, scenario_named


@dataclass(frozen=True)
class Case:
    """A network with delays of 1 in which the published algorithm reverses a pair."""

    links: tuple[str, ...]
    #: Where publishers and subscribers are, and what subscribers want, as numbers.
    publishers: dict[str, str]
    subscribers: dict[str, tuple[str, tuple[int, ...]]]
    #: Who publishes which number at what time.
    publications: tuple[tuple[float, str, int], ...]


CASES = {
    "whole queue": Case(
        ("B0-B1",),
        {"x": "B1", "y": "B1", "z": "B0"},
        {"s0": ("B1", (1,)), "s1": ("B0", (1,))},
        ((0, "y", 1), (1, "x", 1)),
    ),
    "progressive": Case(
        ("B1-B0", "B0-B2"),
        {"a": "B0", "b": "B2", "c": "B1"},
        {"s0": ("B1", (2,)), "s1": ("B2", (0, 2))},
        ((0, "c", 2), (2, "a", 2)),
    ),
    "two on one broker": Case(
        ("B0-B1",),
        {"u": "B1", "w": "B0"},
        {"s0": ("B0", (1, 3)), "s1": ("B0", (1, 2, 3)), "s2": ("B1", (2, 3))},
        ((0, "u", 1), (0, "w", 3)),
    ),
    "stamps for ids": Case(
        ("B0-B1", "B1-B2"),
        {"a": "B0", "b": "B1", "c": "B2"},
        {"s0": ("B1", (1,)), "s1": ("B2", (1,))},
        ((0, "a", 1), (0, "b", 1)),
    ),
}


@pytest.mark.parametrize("algorithm", ["floors", "rooted"])
@pytest.mark.parametrize("advertisements", [None, "covering"])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_reverses_a_pair_elsewhere_does_not_here(
    name: str, marked: bool, advertisements: str | None, algorithm: str
) -> None:
    case = CASES[name]
    net = Network(
        seed=1,
        advertisements=advertisements,
        order_algorithm=algorithm,
        min_delay_seconds=1.0,
        max_delay_seconds=1.0,
    )
    for broker in sorted({broker for link in case.links for broker in link.split("-")}):
        net.broker(broker)
    for link in case.links:
        net.link(*link.split("-"))
    publishers = {name: net.client(name, at=at) for name, at in case.publishers.items()}
    for publisher in publishers.values():
        publisher.advertise("value >= 0")
    for subscriber, (at, values) in case.subscribers.items():
        wanted = ", ".join(map(str, values))
        net.client(subscriber, at=at).subscribe(f"value IN ({wanted})", ordered=not marked)
    net.run()
    start = net.now
    for seconds, who, value in case.publications:
        net.run(start + seconds - net.now)
        publishers[who].publish({"value": value}, ordered=marked)
    net.run()
    net.check()
    net.check("pairwise", "per-publisher", "withheld")


@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_algorithm_keeps_the_order(routing: str, advertisements: bool) -> None:
    for seed in (200, 201):
        choices = Choices(routing=routing, advertisements=advertisements)
        assert scenario_named("order").run(seed, choices).violations == []


def test_both_ways_to_put_publications_in_order_are_drawn() -> None:
    plans = [scenario_named("order").plan(seed, Choices()) for seed in range(20)]
    drawn = {(plan.config.order_algorithm, plan.config.order_root is not None) for plan in plans}
    assert drawn == {("floors", False), ("rooted", False), ("rooted", True)}


def test_without_order_the_same_seeds_break_it() -> None:
    """Otherwise the check would see nothing."""
    scenario = scenario_named("order")
    fifo = next(mutant for mutant in MUTANTS if mutant.name == "fifo-only")
    seeds = range(8)
    kept = [scenario.run(seed, Choices(faults=())).violations for seed in seeds]
    with fifo.apply():
        broken = [{each.check for each in scenario.run(seed, Choices(faults=())).violations} for seed in seeds]
    assert not any(kept)
    assert sum("pairwise" in checks for checks in broken) >= 3, broken


@pytest.mark.parametrize("algorithm", ["floors", "rooted"])
def test_a_partition_that_heals_reorders_nothing_and_ends(algorithm: str) -> None:
    net = Network(seed=3, order_algorithm=algorithm, min_delay_seconds=1.0, max_delay_seconds=1.0)
    for name in "abc":
        net.broker(name)
    net.link("a", "b")
    net.link("b", "c")
    clients = {name: net.client(name, at=name.lower()) for name in "ABC"}
    for client in clients.values():
        client.subscribe("n > 0", ordered=True)
    net.run()
    net.cut("b", "c")
    net.run(5)
    for n in range(1, 21):
        clients["C"].publish({"n": n})
    net.run(5)
    # What A publishes is on its way when the link comes back, with a time that C has passed long ago.
    clients["A"].publish({"n": 100})
    net.heal("b", "c")
    net.run()
    clients["A"].publish({"n": 101})
    net.run()
    net.check("pairwise", "per-publisher", "withheld", "live")
    assert all(client.received[-1] == {"n": 101} for client in clients.values())
    assert clients["C"].received[:20] == [{"n": n} for n in range(1, 21)]


@pytest.mark.parametrize("advertisements", [None, "covering"])
@pytest.mark.parametrize("routing", ["simple", "merging"])
def test_without_its_root_a_network_goes_on(routing: str, advertisements: str | None) -> None:
    """The first by name is at the end of a line, so that the others stay linked, and b is the root when a is gone."""
    net = Network(seed=5, routing=routing, advertisements=advertisements, order_algorithm="rooted", min_delay_seconds=0)
    brokers = {name: net.broker(name) for name in "cbda"}
    for link in ("cb", "bd", "da"):
        net.link(*link)
    clients = [net.client(name.upper(), at=name) for name in "cbd"]
    for client in clients:
        client.advertise("n >= 0")
        client.subscribe("n > 0", ordered=True)
        client.subscribe("n % 2 = 0")
    net.run()

    def publish(first: int) -> None:
        for n in range(first, first + 30):
            clients[n % 3].publish({"n": n})
        net.run()

    publish(1)
    assert brokers["a"].core.order.stamped == 30
    brokers["a"].crash()
    net.run()
    publish(31)
    assert brokers["b"].core.order.stamped == 30
    brokers["a"].restart()
    net.run()
    publish(61)
    assert brokers["a"].core.order.stamped == 30, "it has forgotten the first 30"
    seen = [[record["n"] for record in client.received] for client in clients]
    assert seen[0] == seen[1] == seen[2] and sorted(seen[0]) == [*range(1, 91)]
    assert not any(client.withheld for client in clients)
    net.check()
