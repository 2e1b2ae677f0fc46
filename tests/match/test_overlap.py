"""Overlap of filters: the matcher says what the plain matcher says, at the ends of intervals and in large numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.match import naive
from sluice.model.constraint import Atom
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered, of_kind
from sluice.model.values import Kind

OTHER = sluice.parse("s = 'other' AND n = 77")


@pytest.mark.parametrize(
    ("query", "stored"),
    [
        ("n <= 9007199254740993", "n >= 9007199254740993"),  # they share a number that is no double
        ("n = 9007199254740993", "n > 9007199254740992 AND n < 9007199254740994"),
        ("n < 9007199254740993", "n > 9007199254740992"),  # nothing lies between, which the algebra does not know
        ("n <= 5", "n >= 5"),
        ("n < 5", "n >= 5"),
        ("n < 5", "n > 4.999999999999999"),
        ("n IN (1, 5, 9)", "n IN (2, 4, 8)"),
        ("n IN (1, 5, 9)", "n IN (2, 5, 8) AND s = 'x'"),
        ("n != 5", "n = 5"),
        ("t < TIMESTAMP '1970-01-01 00:00:00.000001'", "t > TIMESTAMP '1970-01-01'"),
        ("t <= TIMESTAMP '1970-01-01'", "t >= TIMESTAMP '1970-01-01'"),
        ("t < TIMESTAMP '1970-01-01'", "t >= TIMESTAMP '1970-01-01'"),
        ("s < 'abcdefgi'", "s > 'abcdefgh'"),
        ("s < 'abcdefgh'", "s > 'abcdefgh'"),
        ("s LIKE 'ab%'", "s = 'abc' AND n = 1"),
        ("s LIKE 'ab%'", "s IN ('b', 'bc') AND n = 1"),
        ("s LIKE '%c' AND s > 'b'", "s = 'abc'"),
        ("s NOT IN ('a', 'b')", "s IN ('a', 'b') AND n = 1"),
        ("s NOT IN ('a', 'b')", "s = 'unheard of'"),
        ("s > '' OR s < X'ff'", "s = 'x'"),
        ("s = 'x' OR s = 1 OR s IS NULL", "s = true OR s = 2"),
        ("s IS NULL", "s IS NOT NULL"),
        ("s IS NULL", "s NOT LIKE 'a%'"),
        ("b = true", "b = false"),
        ("b = true", "b IS NOT NULL AND n > 3"),
        ("other = 1", "n = 1"),
        ("n + m > 3", "NOT (n + m > 3)"),
        ("n + m > 3 AND n = 1", "n + m > 3"),
        ("place.lat < 5", "geo_within(place, 10, 10, 20, 20)"),  # the algebra compares attribute by attribute
        ("place.lat = 5 AND n = 1", "geo_within(place, 10, 10, 20, 20) AND n = 1"),
        ("geo_within(place, 10, 10, 20, 20)", "geo_within(place, 30, 30, 40, 40)"),
        ("true", "geo_within(place, 10, 10, 20, 20) AND place.lat < 5"),
        ("true", "false"),
    ],
)
def test_overlap_at_the_ends(query: str, stored: str) -> None:
    for a, b in ((query, stored), (stored, query), (query, query), (stored, "true"), ("true", stored)):
        matcher = sluice.Matcher()
        subscriptions = {matcher.add(b): sluice.parse(b), matcher.add("s = 'other' AND n = 77"): OTHER}
        want = naive.overlapping(sluice.parse(a), subscriptions)
        assert matcher.overlapping(a) == want
        assert matcher.overlaps(a) == bool(want)


def test_what_a_constraint_implies_stays_known_when_saved(tmp_path: Path) -> None:
    """What the index knows beyond the algebra must not make its answer differ, also after opening."""
    matcher = sluice.Matcher()
    id = matcher.add("geo_within(place, 10, 10, 20, 20)")
    matcher.save(tmp_path / "index")
    assert sluice.Matcher.open(tmp_path / "index").overlapping("place.lat < 5") == [id]


@pytest.mark.parametrize("count", [3, 40, 2_000])
def test_overlap_of_many_values(count: int) -> None:
    """Values one by one, and beyond a limit all at once."""
    matcher = sluice.Matcher()
    texts = [f"symbol = 'S{i}' AND price BETWEEN {i} AND {i + 1}" for i in range(0, 3_000, 7)]
    texts += [f"symbol IN ('S{i}', 'S{i + 1}') AND venue = 'X'" for i in range(0, 3_000, 11)]
    matcher.load(enumerate(texts))
    subscriptions = dict(enumerate(map(sluice.parse, texts)))
    symbols = ", ".join(f"'S{i}'" for i in range(0, 3 * count, 3))
    for text in (
        f"symbol IN ({symbols})",
        f"symbol IN ({symbols}) AND (price < 100 OR price > 300)",
        f"symbol IN ({symbols}) AND venue IN ('X', 'Y', 'Z')",
        f"symbol NOT IN ({symbols})",
    ):
        assert matcher.overlapping(text) == naive.overlapping(sluice.parse(text), subscriptions), text[-60:]


def test_overlap_in_large_groups() -> None:
    """Rows in leaves with bounds of their own, some of them gone again, and keys of two values."""
    source = random.Random(3)
    texts = []
    for i in range(6_000):
        low = source.randrange(10_000)
        wide = f"price BETWEEN {low} AND {low + source.randrange(50)}"
        texts.append(source.choice((wide, f"{wide} AND size > {i % 7}", f"a = 1 AND b = {i % 3} AND {wide}")))
    matcher = sluice.Matcher()
    matcher.load(enumerate(texts))
    subscriptions = dict(enumerate(map(sluice.parse, texts)))
    for id in range(0, 6_000, 5):
        matcher.remove(id)
        del subscriptions[id]
    for text in (
        "price = 5000",
        "price < 20 AND size < 3",
        "a = 1 AND price > 9990",
        "b = 2 AND a = 1",
        "b = 9",
        "size = 0",
    ):
        assert matcher.overlapping(text) == naive.overlapping(sluice.parse(text), subscriptions), text


class Even(Atom):
    """Even numbers: a constraint of which the index knows the hull only."""

    def matches(self, value: Any) -> bool:
        return type(value) is int and value % 2 == 0

    def domain(self) -> Ordered:
        return of_kind(Kind.NUMBER)

    def to_sql(self, name: str) -> str:
        return f"even({name})"

    def covers_same(self, other: Even) -> bool:
        return True

    def overlaps_same(self, other: Even) -> bool:
        return True


def test_overlap_with_a_constraint_that_no_interval_says() -> None:
    matcher = sluice.Matcher()
    texts = ["n = 4", "n = 5", "n > 5", "n IN (5, 7) AND s = 'x'", "n = 'x'", "m = 5"]
    matcher.load(enumerate(texts))
    assert matcher.overlapping(Filter.of({"n": Even()})) == [0, 2, 5]


def test_nothing_overlaps_an_empty_matcher_or_filter() -> None:
    matcher = sluice.Matcher()
    assert matcher.overlapping("true") == [] and not matcher.overlaps("true")
    matcher.remove(matcher.add("a = 1"))
    assert matcher.overlapping("a = 1") == [] and not matcher.overlaps("true")
    matcher.add("a = 1")
    assert matcher.overlapping("false") == [] and not matcher.overlaps("false")
