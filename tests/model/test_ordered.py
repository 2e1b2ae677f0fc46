"""Unions of many sets in one sweep, and the short ways for single intervals, against the general ones."""

from __future__ import annotations

import functools
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import SluiceError
from sluice.model import compile, ordered
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered, at_least, at_most, between, equals, greater_than, less_than, prefix, union_of
from sluice.model.parse import parse
from sluice.model.subscription import Subscription
from sluice.model.values import Kind, literal_sql

VALUES: tuple[list[Any], ...] = (
    [-3, -1, 0, 0.5, 1, 2, 2.0, 3, 7, float("inf"), float("-inf"), 2**53, 2**53 + 1],
    ["", "a", "a\0", "ab", "b", "\U0010ffff"],
    [b"", b"\0", b"a", b"\xff"],
    [False, True],
    [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)],
)
POINTS = [None, float("nan"), (), (1,), *(value for pool in VALUES for value in pool)]


def interval(source: random.Random) -> Ordered:
    """One interval, of any kind and with any ends."""
    pool = source.choice(VALUES)
    a, b = source.choice(pool), source.choice(pool)
    makers = [
        lambda: equals(a), lambda: less_than(a), lambda: greater_than(a), lambda: at_least(a), lambda: at_most(a),
        lambda: between(a, b), lambda: between(a, b), lambda: at_least(a).intersection(less_than(b)),
        lambda: ordered.of_kind(source.choice(list(Kind))), lambda: ordered.EXISTS, lambda: Ordered.EVERYTHING,
        lambda: prefix(a) if isinstance(a, str) else equals(a),
    ]  # fmt: skip
    return source.choice(makers)()


def union(source: random.Random) -> Ordered:
    """A few intervals, joined two by two."""
    parts = [interval(source) for _ in range(source.randint(0, 4))]
    return functools.reduce(_join, parts, Ordered.NOTHING)


def _join(a: Ordered, b: Ordered) -> Ordered:
    return Ordered(ordered._combine(a.cuts, b.cuts, lambda x, y: x or y))


_sources = st.randoms(use_true_random=False)


@given(_sources)
def test_one_sweep_is_as_good_as_many_unions(source: random.Random) -> None:
    sets = [union(source) for _ in range(source.randint(0, 6))]
    whole = union_of(sets)
    assert whole == functools.reduce(_join, sets, Ordered.NOTHING)
    assert all(low < high for low, high in zip(whole.cuts, whole.cuts[1:], strict=False))
    for value in POINTS:
        assert whole.matches(value) == any(each.matches(value) for each in sets)


@given(_sources)
def test_the_order_of_the_sets_does_not_matter(source: random.Random) -> None:
    sets = [union(source) for _ in range(5)]
    whole = union_of(sets)
    source.shuffle(sets)
    assert union_of(sets) == whole
    assert union_of([whole, *sets, whole]) == whole


@given(_sources)
def test_the_short_ways_say_what_the_long_ones_say(source: random.Random) -> None:
    a, b = interval(source), interval(source)
    assert a.covers_set(b) == (ordered._combine(a.cuts, b.cuts, lambda x, y: y and not x) == ())
    assert a.overlaps_set(b) == (ordered._combine(a.cuts, b.cuts, lambda x, y: x and y) != ())
    assert a.intersection(b).cuts == ordered._combine(a.cuts, b.cuts, lambda x, y: x and y)


@pytest.mark.parametrize(
    ("a", "b", "covers", "overlaps"),
    [
        (between(1, 3), between(1, 3), True, True),
        (between(1, 3), between(3, 5), False, True),
        (between(1, 3), greater_than(3), False, False),
        (less_than(3), at_least(3), False, False),
        (at_most(3), less_than(3), True, True),
        (less_than(3), at_most(3), False, True),
        (ordered.EXISTS, equals("a"), True, True),
        (equals("a"), equals("a\0"), False, False),
        (equals(1), equals(True), False, False),
    ],
    ids=str,
)
def test_intervals_that_touch(a: Ordered, b: Ordered, covers: bool, overlaps: bool) -> None:
    assert (a.covers_set(b), a.overlaps_set(b), b.overlaps_set(a)) == (covers, overlaps, overlaps)


def test_neighbours_become_one() -> None:
    assert union_of([less_than(3), equals(3), greater_than(3)]) == ordered.of_kind(Kind.NUMBER)
    assert union_of([less_than(3), greater_than(3)]) == ordered.differs(3)
    assert union_of([between(0, 9), between(2, 3)]) == between(0, 9)
    assert union_of([]) == Ordered.NOTHING == union_of([Ordered.NOTHING])
    assert union_of([ordered.EXISTS, ordered.ABSENT]) == Ordered.EVERYTHING


#: Rows of values with nothing between them, some across kinds: what is one interval without being one value.
NEIGHBOURS: tuple[tuple[Any, ...], ...] = (
    (False, True, float("-inf")),
    (float("inf"), "", "\0", "\0\0"),
    ("x", "x\0", "x\0\0"),
    (b"", b"\0", b"\0\0"),
    (b"x", b"x\0"),
    (5, "x\0y", "b", b"\xff", datetime(2020, 1, 1, tzinfo=UTC)),
)
neighbours = st.lists(st.sampled_from([value for row in NEIGHBOURS for value in row]), min_size=1, unique_by=repr)


@given(neighbours)
@pytest.mark.parametrize(
    "make",
    [
        ordered.one_of,
        ordered.none_of,
        lambda values: ordered.one_of(values).complement(),
        lambda values: ordered.EXISTS.difference(ordered.one_of(values)),
        lambda values: ordered.one_of(values).union(ordered.ABSENT),
        lambda values: ordered.none_of(values).union(ordered.ABSENT),
    ],
    ids=["in", "not in", "other", "other and there", "in or null", "not in or null"],
)
def test_a_text_keeps_values_that_are_neighbours(make: Any, values: list[Any]) -> None:
    where = Subscription([Filter.of({"a": make(values)})])
    assert parse(where.to_sql()) == where


@given(neighbours, st.sampled_from(["a", "a IS NOT NULL AND a", "exists(a, e -> e", "forall(a, e -> e"]))
def test_what_excludes_neighbours_reads_back(values: list[Any], start: str) -> None:
    first, name = start.rpartition(" ")[::2]
    terms = " AND ".join(f"NOT {name} <=> {literal_sql(value)}" for value in values)
    where = parse(f"{first} {terms}{')' if '(' in first else ''}")
    assert parse(where.to_sql()) == where
    for value in (*POINTS, *values):
        record = {"a": [value] if "(" in first else value}
        assert parse(where.to_sql()).matches(record) == where.matches(record)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a IS NOT TRUE AND a IS NOT FALSE", "(NOT a <=> false AND NOT a <=> true)"),
        (
            "a IS NOT NULL AND a IS NOT TRUE AND a IS NOT FALSE",
            "(a IS NOT NULL AND NOT a <=> false AND NOT a <=> true)",
        ),
        (r"NOT a <=> 'x\u0000' AND NOT a <=> 'x'", r"(NOT a <=> 'x' AND NOT a <=> 'x\u0000')"),
    ],
)
def test_neighbours_are_excluded_one_by_one(text: str, written: str) -> None:
    assert parse(text).to_sql() == written


def test_what_has_no_words_is_not_written_as_something_else() -> None:
    for gone in (between(1, 2), less_than("b"), prefix("a"), at_most(b"a"), at_least("x\0")):
        with pytest.raises(SluiceError, match="no words"):
            gone.complement().to_sql("a")


@pytest.mark.parametrize(
    "texts",
    [
        ("x = 1", "x = 1e0", "x = true", "x = '1'"),
        ("x IN (1, 2)", "x IN (1e0, 2)", "x IN (true, 2)", "x IN ('1', 2)"),
        ("x = 0e0", "x = -0e0", "x = 0"),
        ("x = 'a'", "x > 'a'", "x != 'a'", "NOT x > 'a'"),
    ],
)
def test_sets_that_are_kept_are_not_taken_for_others_that_equal_in_python(texts: tuple[str, ...]) -> None:
    def cuts(text: str) -> str:
        return repr([box.constraints["x"].hull().cuts for box in parse(text).filters])

    alone = {}
    for text in texts:
        compile._kept.cache_clear()
        compile._kept_list.cache_clear()
        alone[text] = cuts(text)
    for text in (*texts, *reversed(texts)):
        assert cuts(text) == alone[text]
