"""The steps of which algorithms are made, each on its own."""

from __future__ import annotations

import itertools

import pytest

from sluice import parse
from sluice.match import filterset
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.protocol.route.policy import Ratio
from sluice.protocol.route.stages import Counted, Distinct, Maximal, Merged, Net
from tests.protocol.drive import entry


def subs(*texts: str) -> list[Subscription]:
    return [parse(text) for text in texts]


def test_net_tells_what_is_left() -> None:
    net: Net[str] = Net()
    for item, count in [("a", 1), ("b", -1), ("a", -1), ("c", 1), ("c", 1), ("c", -1), ("b", 1), ("d", -2), ("d", 1)]:
        net.add(item, count)
    assert net.result() == (["c"], ["d"])


def test_counted_is_there_as_long_as_one_side_holds_it() -> None:
    counted: Counted[str] = Counted()
    assert counted.update("aab", "") == (["a", "b"], [])
    assert counted.update("c", "abc") == ([], ["b"])
    assert counted.update("a", "aa") == ([], ["a"])
    with pytest.raises(KeyError):
        counted.update("", "a")


def test_distinct_takes_unions_apart_or_leaves_them() -> None:
    union = entry("x = 1 OR y = 1", "a/1")
    assert Distinct(split=False).update([union], []) == ([union.where], [])
    apart = Distinct(split=True)
    assert apart.update([union, entry("x = 1", "b/1")], []) == (subs("x = 1", "y = 1"), [])
    assert apart.update([], [union]) == ([], subs("y = 1"))


CHAIN = ("x > 1", "x > 2", "x > 3", "x > 4")


@pytest.mark.parametrize("scan_up_to", [0, 24])
def test_maximal_in_every_order_of_comings_and_goings(scan_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters below filters below filters: whichever goes, the widest of the rest stays."""
    monkeypatch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
    orders = list(itertools.permutations(subs(*CHAIN)))
    for coming, going in itertools.product(orders[::5], orders[::5]):
        maximal = Maximal()
        told: set[Subscription] = set()
        for where in coming:
            added, removed = maximal.update([where], [])
            told = told - set(removed) | set(added)
        assert told == set(subs("x > 1"))
        left = list(coming)
        for where in going:
            left.remove(where)
            added, removed = maximal.update([], [where])
            assert (added, removed) == ([], []) or removed == [where]
            told = told - set(removed) | set(added)
            assert told == {each for each in left if not any(other.covers(each) for other in left if other != each)}
        assert not told


def test_maximal_lets_a_cover_be_replaced_in_one_step() -> None:
    maximal = Maximal()
    maximal.update(subs("x > 1", "x > 2", "y > 1"), [])
    assert maximal.update(subs("x > 0"), subs("x > 1")) == (subs("x > 0"), subs("x > 1"))
    assert maximal.update(subs("x > 1"), subs("x > 0")) == (subs("x > 1"), subs("x > 0"))
    assert maximal.update([], subs("x > 2", "x > 1")) == ([], subs("x > 1"))
    with pytest.raises(KeyError):
        maximal.update([], subs("x > 1"))


def test_merged_groups_by_all_but_one_attribute() -> None:
    merged = Merged(0, None)
    assert merged.update(subs("x = 1 AND y = 1", "x = 2 AND y = 1"), []) == (subs("x IN (1, 2) AND y = 1"), [])
    assert merged.update(subs("x = 3 AND y = 2"), []) == (subs("x = 3 AND y = 2"), [])
    assert merged.update(subs("x = 3 AND y = 1"), subs("x = 1 AND y = 1")) == (
        subs("x IN (2, 3) AND y = 1"),
        subs("x IN (1, 2) AND y = 1"),
    )
    assert merged.update([], subs("x = 2 AND y = 1")) == (subs("x = 3 AND y = 1"), subs("x IN (2, 3) AND y = 1"))


def test_merged_along_another_attribute() -> None:
    assert Merged(1, None).update(subs("x = 1 AND y = 1", "x = 1 AND y = 2"), [])[0] == subs("x = 1 AND y IN (1, 2)")
    assert Merged(1, None).update(subs("x = 1", "x = 2"), [])[0] == subs("x = 1", "x = 2")


def test_merged_keeps_residuals_apart() -> None:
    parts = subs("x = 1 AND y > z", "x = 2 AND y > z", "x = 3 AND y < z")
    assert Merged(0, None).update(parts, [])[0] == subs("x IN (1, 2) AND y > z", "x = 3 AND y < z")


def test_merged_leaves_patterns_alone() -> None:
    parts = subs("s LIKE '%a%'", "s LIKE '%b%'", "s = 'c'", "s = 'd'")
    assert set(Merged(0, None).update(parts, [])[0]) == set(subs("s LIKE '%a%'", "s LIKE '%b%'", "s IN ('c', 'd')"))


def test_merged_drops_a_side_that_lets_everything_through() -> None:
    merged = Merged(0, None)
    assert merged.update(subs("x IS NULL AND y = 1", "x IS NOT NULL AND y = 1"), [])[0] == subs("y = 1")
    assert Merged(0, None).update(subs("x IS NULL", "x IS NOT NULL"), [])[0] == subs("true")


def test_merged_asks_the_policy_with_the_name_and_the_rest() -> None:
    asked = []

    class Asked(Ratio):
        def close_gaps(self, name, whole, rest=EVERYTHING):  # type: ignore[no-untyped-def]
            asked.append((name, rest.to_sql()))
            return whole

    Merged(1, Asked()).update(subs("x = 1 AND y = 1", "x = 1 AND y = 2"), [])
    assert asked == [("y", "x = 1")]
