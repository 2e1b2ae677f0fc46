"""Crashes and cuts: weak order and continued service for what holds, waiting for ever for the published algorithm."""

from __future__ import annotations

import pytest

from sluice.sim.padres import ALGORITHMS, Crash, Cut, Plan, Publisher, Subscriber, Tree, broken, compare, run
from sluice.sim.padres.floors import Floors
from sluice.sim.padres.rooted import Rooted


@pytest.mark.parametrize(("name", "seeds"), [("floors", 100), ("rooted", 150), ("skeen", 40)])
def test_order_is_weak_and_service_goes_on(name: str, seeds: int) -> None:
    """Faults take something, but nothing from those who are still connected with its publisher."""
    taken = 0
    for seed in range(seeds):
        history = run(Plan.drawn(seed, faults=True), ALGORITHMS[name])
        assert broken(history) == [], f"seed {seed}"
        wanted = [
            one
            for subscriber in history.plan.subscribers
            for one in history.published
            if one.value in subscriber.wanted
        ]
        taken += len(wanted) - sum(map(len, history.delivered.values()))
    assert taken > 0


def test_the_published_rule_waits_for_ever() -> None:
    names = ("published, exact, whole queue", "published, fast, progressive")
    plans = [Plan.drawn(seed, faults=True) for seed in range(30)]
    for tally in compare(plans, {name: ALGORITHMS[name] for name in names}).values():
        assert tally.share("lost") > 0.3


def test_nothing_goes_on_without_the_sequencer() -> None:
    tally = compare((Plan.drawn(seed, faults=True) for seed in range(30)), {"": ALGORITHMS["sequencer"]})[""]
    assert set(tally.broken) == {"lost"}


ROW = Tree.line("B0", "B1", "B2")
CLIENTS = (
    (Publisher("left", "B0", frozenset({1})), Publisher("right", "B2", frozenset({1}))),
    (Subscriber("s0", "B0", frozenset({1})), Subscriber("s2", "B2", frozenset({1}))),
)


@pytest.mark.parametrize("fault", [Crash(5.0, "B1"), Cut(5.0, ("B0", "B1"))], ids=["crash", "cut"])
@pytest.mark.parametrize("algorithm", [Floors, Rooted])
def test_both_sides_go_on_alone(fault: Crash | Cut, algorithm: type[Floors] | type[Rooted]) -> None:
    times = (0.0, 4.5, 8.0, 9.0)
    schedule = sorted((time, name, 1) for time in times for name in ("left", "right"))
    history = run(Plan(ROW, *CLIENTS, tuple(schedule), faults=(fault,)), algorithm)
    streams = {name: [str(one) for one in got] for name, got in history.streams().items()}
    assert broken(history) == []
    assert set(streams["s0"][:2]) == {"left#1", "right#1"} == set(streams["s2"][:2])
    assert streams["s0"][:2] == streams["s2"][:2]
    assert streams["s0"][-3:] == ["left#2", "left#3", "left#4"]
    assert streams["s2"][-3:] == ["right#2", "right#3", "right#4"]


def test_a_crashed_broker_says_nothing_more() -> None:
    history = run(Plan(ROW, *CLIENTS, ((1.0, "left", 1), (6.0, "left", 1)), faults=(Crash(5.0, "B0"),)), Floors)
    assert [str(one) for one in history.published] == ["left#1"]
    assert [str(one) for one in history.streams()["s2"]] == ["left#1"]
