"""What an imperfect merger may waste: supersets, within the budget, and the same for the same input."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.model.filter import Filter
from sluice.model.ordered import (
    ABSENT,
    EXISTS,
    Ordered,
    at_least,
    at_most,
    between,
    equals,
    less_than,
    prefix,
    union_of,
)
from sluice.model.statistics import Statistics
from sluice.protocol.route.policy import Policy, Ratio, Traffic

FAR = 10**400


#: Out of 1,000 quotes: half are of IBM, one is of SUN; prices are 0 to 99, ten times each.
QUOTES = Statistics.of(
    {"symbol": "IBM" if i % 2 else "SUN" if i == 0 else f"S{i % 50:02d}", "price": i % 100} for i in range(1000)
)


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
    wide = Traffic(Statistics.of({"x": value} for value in sample), budget).close_gaps("x", whole)
    assert wide.covers_set(whole)
    unwanted = [value for value in sample if wide.matches(value) and not whole.matches(value)]
    gaps = len(list(whole.intervals())) - len(list(wide.intervals()))
    assert len(unwanted) <= gaps * budget * len(sample)


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
        assert Traffic(QUOTES, 1.0).close_gaps("x", whole) == whole


def test_a_gap_costs_what_lies_in_it() -> None:
    """Between 10 and 12 lies 11 alone: ten of 1,000 notifications."""
    apart = between(0, 10), between(12, 20)
    joined, kept = "x BETWEEN 0 AND 20", "(x BETWEEN 0 AND 10 OR x BETWEEN 12 AND 20)"
    assert text(Traffic(QUOTES, 0.0101), *apart, name="price") == joined
    assert text(Traffic(QUOTES, 0.0099), *apart, name="price") == kept
    assert text(Traffic(QUOTES, 0.0), between(0, 10), between(11, 20), name="price") == (
        "(x BETWEEN 0 AND 10 OR x BETWEEN 11 AND 20)"
    ), "a thousand notifications do not tell that nothing is ever there"
    assert text(Traffic(QUOTES, 0.001), between(0, 10), between(11, 20), name="price") == joined
    assert text(Traffic(QUOTES, 0.99), *apart, name="never seen") == kept


def test_the_other_sides_count() -> None:
    """The same gap is cheap where the symbol is rare and dear where it is frequent."""
    whole = union_of([between(0, 10), between(50, 60)])
    policy = Traffic(QUOTES, 0.001)
    rare, frequent = (Filter.of({"symbol": equals(symbol)}) for symbol in ("SUN", "IBM"))
    assert policy.close_gaps("price", whole, rare) == between(0, 60)
    assert policy.close_gaps("price", whole, frequent) == whole


def test_texts_have_gaps_too() -> None:
    policy = Traffic(QUOTES, 0.002)
    assert text(policy, equals("S02"), equals("S03"), name="symbol") == "x BETWEEN 'S02' AND 'S03'"
    assert text(policy, equals("A"), equals("J"), name="symbol") == "x IN ('A', 'J')", "IBM lies between"
    assert text(policy, equals("A"), equals(5), name="symbol") == "(x = 5 OR x = 'A')", "kinds stay apart"


def test_sides_that_keep_out_little_go() -> None:
    policy = Traffic(QUOTES, 0.001)
    rare = Filter.of({"symbol": equals("SUN"), "price": between(3, 4)})
    assert policy.loosen(rare).to_sql() == "symbol = 'SUN'"
    frequent = Filter.of({"symbol": equals("IBM"), "price": between(3, 4)})
    assert policy.loosen(frequent) == frequent
    nearly_all = Filter.of({"symbol": equals("IBM"), "price": between(0, 99)})
    assert policy.loosen(nearly_all).to_sql() == "symbol = 'IBM'"
    unknown = Filter.of({"symbol": equals("IBM"), "colour": equals("red")})
    assert policy.loosen(unknown) == unknown, "nobody knows what the colour keeps out"
    assert Traffic(QUOTES, 1.0).loosen(frequent).constraints.keys() in ({"symbol"}, {"price"}), "one side stays"


def test_many_intervals_may_cost_more_than_one() -> None:
    """Three notifications in ten are too many for one interval and not for five."""
    policy = Traffic(QUOTES, 0.08)
    one = Filter.of({"price": between(0, 39), "symbol": equals("IBM")})
    five = Filter.of({"price": union_of([between(k, k + 7) for k in range(0, 100, 20)]), "symbol": equals("IBM")})
    assert "price" in policy.loosen(one).constraints
    assert "price" not in policy.loosen(five).constraints


@pytest.mark.parametrize("limit", [0.99, 0.0, -1.0, math.nan])
def test_a_ratio_below_one_is_refused(limit: float) -> None:
    with pytest.raises(ConfigurationError, match="below 1"):
        Ratio(limit)


@pytest.mark.parametrize("budget", [-0.1, 1.1, math.nan])
def test_a_budget_that_is_no_share_is_refused(budget: float) -> None:
    with pytest.raises(ConfigurationError, match="share"):
        Traffic(QUOTES, budget)
