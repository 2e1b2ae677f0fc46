"""What an imperfect merger may waste: supersets, within the budget, and the same for the same input."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.model.ordered import (
    ABSENT,
    EXISTS,
    Ordered,
    at_least,
    at_most,
    between,
    equals,
    less_than,
    one_of,
    prefix,
    union_of,
)
from sluice.protocol.route.policy import Policy, Ratio, Selectivity

FAR = 10**400


def text(policy: Policy, *sets: Ordered, name: str = "x") -> str:
    return policy.close_gaps(name, union_of(sets)).to_sql("x")


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 6)), max_size=8), st.integers(0, 3))
def test_a_policy_gives_a_superset_within_its_budget(ends: list[tuple[int, int]], which: int) -> None:
    whole = union_of([between(low, low + length) for low, length in ends])
    sample = [random.Random(1).uniform(-20, 26) for _ in range(40)]
    limit = (1.0, 1.2, 2.0, 5.0)[which]
    wide = Ratio(limit).close_gaps("x", whole)
    assert wide.covers_set(whole) and Ratio(limit).close_gaps("x", whole) == wide
    for low, high in wide.intervals():
        parts = [(a, b) for a, b in whole.intervals() if low <= a and b <= high]
        if len(parts) > 1:
            # Each closing multiplies the length by at most the limit.
            assert high[1] - low[1] <= limit ** (len(parts) - 1) * sum(b[1] - a[1] for a, b in parts) + 1e-9
    budget = (0.0, 0.1, 0.3, 0.8)[which]
    wide = Selectivity({"x": sample}, budget).close_gaps("x", whole)
    assert wide.covers_set(whole)
    if budget == 0.0:
        assert [value for value in sample if wide.matches(value) and not whole.matches(value)] == []


def test_the_ratio_of_the_paper() -> None:
    assert text(Ratio(1.5), between(0, 10), between(20, 30)) == "x BETWEEN 0 AND 30"
    assert text(Ratio(1.49), between(0, 10), between(20, 30)) == "(x BETWEEN 0 AND 10 OR x BETWEEN 20 AND 30)"
    assert text(Ratio(1.0), between(0, 10), between(10.5, 30)) == "(x BETWEEN 0 AND 10 OR x BETWEEN 10.5 AND 30)"


def test_the_cheapest_gap_is_closed_first() -> None:
    """At first 0..3 is too wasteful; once 2..13 is one interval, 0..13 is not."""
    assert text(Ratio(1.1), between(0, 1), between(2, 3), between(3.1, 13)) == "x BETWEEN 0 AND 13"
    assert (
        text(Ratio(1.05), between(0, 1), between(2, 3), between(3.1, 13)) == "(x BETWEEN 0 AND 1 OR x BETWEEN 2 AND 13)"
    )


@pytest.mark.parametrize(
    "sets",
    [
        (prefix("a"), prefix("c")),
        (at_most(1), between(2, 3)),
        (between(2, 3), at_least(4)),
        (equals(1), equals(2)),
        (ABSENT, between(1, 2)),
        (between(1, 2), equals("a")),
        (between(-3, -1), between(1, FAR)),
        (between(-FAR, -1), between(1, FAR)),
        (between(0, 1), at_least(2).intersection(less_than(math.inf))),
        (between(-1.7e308, 0), between(1, 1.7e308)),
    ],
    ids=str,
)
def test_a_gap_without_a_length_is_not_closed(sets: tuple[Ordered, ...]) -> None:
    assert Ratio(1e9).close_gaps("x", union_of(sets)) == union_of(sets)


def test_points_join_an_interval_when_that_is_long_enough() -> None:
    assert text(Ratio(1.5), between(0, 10), equals(12)) == "x BETWEEN 0 AND 12"


def test_nothing_and_one_interval_are_left_alone() -> None:
    for whole in (Ordered.NOTHING, between(1, 2), EXISTS):
        assert Ratio().close_gaps("x", whole) == whole
        assert Selectivity({"x": [1.0]}).close_gaps("x", whole) == whole


def test_selectivity_looks_at_the_sample() -> None:
    apart = between(0, 10), between(12, 20)
    joined, kept = "x BETWEEN 0 AND 20", "(x BETWEEN 0 AND 10 OR x BETWEEN 12 AND 20)"
    assert text(Selectivity({"x": [1, 2, 11, 15]}, budget=0.25), *apart) == joined
    assert text(Selectivity({"x": [1, 2, 11, 15]}, budget=0.24), *apart) == kept
    assert text(Selectivity({"x": [1, 10, 12, 15]}, budget=0.0), *apart) == joined, "ends belong to the intervals"
    assert text(Selectivity({"x": [500]}, budget=0.0), *apart) == joined, "nothing seen, nothing wasted"
    assert text(Selectivity({"y": [1]}, budget=0.9), *apart) == kept, "no sample, no merger"
    assert text(Selectivity({"x": []}, budget=0.9), *apart) == kept


def test_selectivity_knows_open_ends_and_huge_numbers() -> None:
    policy = Selectivity({"x": [3, 1, 2]}, budget=0.5)
    assert text(policy, at_most(1), at_least(3)) == "(x < 0 OR x >= 0)"
    assert policy.close_gaps("x", union_of([between(0, 1), between(FAR, FAR + 1)])).matches(2) is False
    assert text(policy, one_of([1, 3])) == "x BETWEEN 1 AND 3"


@pytest.mark.parametrize("limit", [0.99, 0.0, -1.0, math.nan])
def test_a_ratio_below_one_is_refused(limit: float) -> None:
    with pytest.raises(ConfigurationError, match="below 1"):
        Ratio(limit)


@pytest.mark.parametrize("budget", [-0.1, 1.0, math.nan])
def test_a_budget_that_is_no_share_is_refused(budget: float) -> None:
    with pytest.raises(ConfigurationError, match="share"):
        Selectivity({}, budget)
