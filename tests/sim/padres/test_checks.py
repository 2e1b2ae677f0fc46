"""The checks themselves, on histories made by hand; and what a plan refuses."""

from __future__ import annotations

import pytest

from sluice.errors import ConfigurationError
from sluice.sim.padres import (
    Crash,
    History,
    Plan,
    Publication,
    Publisher,
    Subscriber,
    Tally,
    Tree,
    broken,
    degrees,
    ordering_degree,
    run,
)
from sluice.sim.padres.fifo import Fifo

ONE = frozenset({1})
A, A2, B, OTHER = Publication("a", 1, 1), Publication("a", 2, 1), Publication("b", 1, 1), Publication("b", 2, 2)
PUBLISHERS = (Publisher("a", "B0", ONE), Publisher("b", "B1", frozenset({1, 2})))
SUBSCRIBERS = (Subscriber("s", "B0", ONE), Subscriber("t", "B1", ONE))


def history(s: list[Publication], t: list[Publication], *faults: Crash) -> History:
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, SUBSCRIBERS, (), faults=faults)
    found = History(plan, delivered={name: [(one, 0.0) for one in got] for name, got in (("s", s), ("t", t))})
    found.published = dict.fromkeys([A, A2, B, OTHER], 1.0)
    return found


@pytest.mark.parametrize(
    ("s", "t", "checks"),
    [
        ([A, A2, B], [A, A2, B], []),
        ([A, B, A2], [A, A2, B], ["pairwise order"]),
        ([A2, A, B], [A2, A, B], ["publisher order", "publisher order"]),
        ([A, A2, B, A], [A, A2, B], ["pairwise order", "publisher order", "twice"]),
        ([A, A2, B, OTHER], [A, A2, B], ["unwanted"]),
        ([A, B], [A, A2, B], ["lost"]),
        ([], [A, A2, B], ["lost"]),
    ],
    ids=["right", "pairs", "publisher", "twice", "unwanted", "lost", "nothing"],
)
def test_a_wrong_history_is_seen(s: list[Publication], t: list[Publication], checks: list[str]) -> None:
    assert [one.check for one in broken(history(s, t))] == checks


def test_order_counts_only_what_both_get() -> None:
    """Three subscribers may go round in a circle: no pair of them has a pair in common."""
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, (*SUBSCRIBERS, Subscriber("u", "B1", ONE)), ())
    found = History(plan, published=dict.fromkeys([A, B, OTHER], 1.0))
    found.delivered = {"s": [(A, 0), (B, 0)], "t": [(B, 0), (OTHER, 0)], "u": [(OTHER, 0), (A, 0)]}
    assert "pairwise order" not in {one.check for one in broken(found)}


def test_what_is_cut_off_may_be_missing() -> None:
    assert broken(history([A, A2], [B], Crash(2.0, "B1"))) == []
    assert [str(one) for one in broken(history([A], [B], Crash(2.0, "B1")))] == ["lost: s never gets a#2"]


def test_ordering_degree() -> None:
    """Two neighbours of four that changed places: (4 + 4 + 3 + 3) / 16."""
    p, q, r, s = (Publication("p", number, 0) for number in range(4))
    assert ordering_degree([p, q, r, s], [p, q, s, r]) == 14 / 16
    assert ordering_degree([p, q, r, s], [s, r, q, p]) == (1 + 3 + 3 + 1) / 16
    assert ordering_degree([p, r], [q, p, s, r]) == 1.0
    assert ordering_degree([p], [q]) == 1.0
    assert list(degrees(history([A, B], [B, A]))) == [0.5]
    assert list(degrees(history([A], [A]))) == []


def test_a_tally_adds_up() -> None:
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, SUBSCRIBERS, ((0.0, "a", 1), (0.0, "b", 1)))
    tally = Tally()
    tally.add(run(plan, Fifo))
    assert tally.share("pairwise order") == 1.0
    assert (tally.publications, tally.carried_per_publication, tally.control_per_publication) == (2, 1.0, 0.0)
    assert (tally.mean_added, tally.added_at(0.95), tally.degree) == (0.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ((), "no tree"),
        ((("a", "b"), ("b", "c"), ("c", "a")), "no tree"),
        ((("a", "b"), ("c", "d"), ("d", "e"), ("e", "c")), "no tree"),
    ],
    ids=["nothing", "a circle", "two parts"],
)
def test_what_is_no_tree_is_refused(links: tuple[tuple[str, str], ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Tree(links)


def test_what_no_plan_may_say() -> None:
    tree = Tree.line("B0", "B1")
    with pytest.raises(ConfigurationError, match="must differ"):
        Plan(tree, PUBLISHERS, (Subscriber("a", "B0", ONE),), ())
    with pytest.raises(ConfigurationError, match="has not advertised"):
        Plan(tree, PUBLISHERS, SUBSCRIBERS, ((0.0, "a", 2),))


def test_the_topology_of_the_paper() -> None:
    tree = Tree.data_centres(16)
    assert len(tree.brokers) == 96
    assert tree.distance("E0.0", "E15.4") == 17
    assert tree.without(frozenset({"C1"}), frozenset())["E0.0"] == {"C0", *(f"E0.{edge}" for edge in range(5))}


def test_a_broker_does_one_thing_after_the_other() -> None:
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, SUBSCRIBERS, ((0.0, "a", 1), (0.0, "a", 1)), work=0.5)
    found = run(plan, Fifo)
    assert {name: [time for _, time in got] for name, got in found.delivered.items()} == {
        "s": [0.5, 1.0],
        "t": [2.0, 2.5],
    }
    assert set(found.published.values()) == {0.0}


@pytest.mark.parametrize("delays", ["uniform", "exponential"])
def test_links_keep_order_and_take_one_unit_on_average(delays: str) -> None:
    schedule = tuple((10.0 * number, "a", 1) for number in range(400))
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, SUBSCRIBERS, schedule, delays)  # type: ignore[arg-type]
    times = [
        time - published
        for (_, time), published in zip(run(plan, Fifo).delivered["t"], range(0, 4000, 10), strict=True)
    ]
    assert 0.85 < sum(times) / len(times) < 1.15
    crowded = tuple((0.01 * number, "a", 1) for number in range(400))
    plan = Plan(Tree.line("B0", "B1"), PUBLISHERS, SUBSCRIBERS, crowded, delays)  # type: ignore[arg-type]
    assert broken(run(plan, Fifo)) == []
