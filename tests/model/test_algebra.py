"""The laws of the algebra, for constraints of every class, filters and subscriptions, checked on points at every interval end.

`covers` may say no too often and `overlaps` yes too often, never the reverse; everything else is exact. A point is a value
for constraints and a record for filters.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sluice
from sluice.model.constraint import AllOf, Atom, Constraint, Negation
from sluice.model.elements import Elements
from sluice.model.filter import Filter
from sluice.model.geo import GeoRectangle
from sluice.model.notification import attributes
from sluice.model.ordered import Ordered
from sluice.model.pattern import Pattern
from sluice.model.types import InstanceOf
from sluice.model.xml import XPath
from tests.generate import (
    BLOBS,
    CLASSES,
    DOCUMENTS,
    EDGES,
    FRACTIONS,
    LARGE,
    PATHS,
    SMALL,
    TEXTS,
    TIMES,
    Generator,
    corner_records,
    ends_of,
    literal,
)

KINDS = (Ordered, Pattern, Elements, XPath, InstanceOf, GeoRectangle, Negation, AllOf)
SCALARS = (*SMALL, *FRACTIONS, *LARGE, *EDGES, *TEXTS, *BLOBS, *TIMES, True, False)


def term(generator: Generator, kind: type) -> str:
    """A condition on `v` that tends to be a constraint of this class."""
    pick = generator.random.choice
    if kind is Pattern:
        return pick(
            (
                f"v LIKE {generator.pattern()}",
                f"contains(v, {literal(pick(TEXTS))})",
                f"endswith(v, {literal(pick(TEXTS))})",
            )
        )
    if kind is Elements:
        inner = generator.random.randrange(4)
        if inner == 0:
            return generator.elements("v", SMALL, generator.tests("x", SMALL))
        if inner == 1:
            return generator.elements("v", TEXTS[:6], generator.strings("x"))
        bodies = [generator.tests("x.p", SMALL), generator.strings("x.q")]
        return generator.quantified("v", " AND ".join(bodies[: generator.random.randint(1, 2)]))
    if kind is XPath:
        return f"xpath_boolean(v, {literal(pick(PATHS))})"
    if kind is InstanceOf:
        return f"instanceof(v, {literal(pick(tuple(CLASSES)))})"
    if kind is GeoRectangle:
        return generator.places().removeprefix("NOT ").replace("place", "v")
    if kind is Negation:
        return f"NOT {term(generator, pick((Pattern, XPath, InstanceOf, GeoRectangle)))}"
    if kind is AllOf:
        kinds = pick(
            (
                (Pattern, Pattern),
                (Pattern, Ordered),
                (Elements, Elements),
                (XPath, XPath),
                (Negation, Pattern),
                (InstanceOf, Pattern),
            )
        )
        return " AND ".join(term(generator, one) for one in kinds)
    return generator.tests("v", pick((SCALARS, SMALL, TEXTS, (*FRACTIONS, *SMALL))))


def constraint(generator: Generator, kind: type | None = None) -> Constraint:
    for _ in range(50):
        boxes = sluice.parse(term(generator, kind or generator.random.choice(KINDS))).filters
        if len(boxes) == 1 and "v" in boxes[0].constraints:
            return boxes[0].constraints["v"]
    return Ordered.NOTHING


@st.composite
def constraints(draw: st.DrawFn, count: int) -> tuple[tuple[Constraint, ...], list[Any]]:
    """Some constraints, mostly of one class, and points of all kinds around all of their ends."""
    source = draw(st.randoms(use_true_random=False))
    generator = Generator(source)
    found = related(generator, count)
    return found, points(generator, found)


def related(generator: Generator, count: int) -> tuple[Constraint, ...]:
    """Constraints mostly of one class, of which later ones are often part of earlier ones."""
    kind = None if generator.chance(0.3) else generator.random.choice(KINDS)
    found = [constraint(generator, kind) for _ in range(count)]
    for i in range(1, count):
        if generator.chance(0.3):
            found[i] = found[i - 1].intersect(found[i])
    return tuple(found)


def points(generator: Generator, found: tuple[Constraint, ...]) -> list[Any]:
    values: list[Any] = [None, float("nan"), *SCALARS, *DOCUMENTS, *CLASSES]
    values += [generator.value(name) for name in ("tags", "nums", "items", "place") for _ in range(6)]
    values += [
        {"lat": lat, "lon": lon} for lat in (-90, 0, 10.5, 46, 46.5, 90) for lon in (-180, -170, 0, 8, 8.5, 175, 180)
    ]
    values += [generator.anything() for _ in range(10)]
    values += [value for one in found for value in ends_of(one)]
    return [attributes({"v": value}).get("v") for value in values]


@given(constraints(3))
def test_covers_is_a_partial_order(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    (a, b, c), _ = given_
    for one in (a, b, c):
        assert one.covers(one) and one.identical(one)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    assert a.identical(b) == (a.covers(b) and b.covers(a))


@given(constraints(2))
def test_covers_is_never_wrong(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    (a, b), values = given_
    if a.covers(b):
        assert [value for value in values if b.matches(value) and not a.matches(value)] == []
        assert a.overlaps(b) or b.is_empty
    if b.is_empty:
        assert not any(b.matches(value) for value in values)


@given(constraints(2))
def test_overlaps_never_misses(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    (a, b), values = given_
    assert a.overlaps(b) == b.overlaps(a)
    if any(a.matches(value) and b.matches(value) for value in values):
        assert a.overlaps(b)


@given(constraints(2))
def test_intersection_and_union(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    (a, b), values = given_
    both, either = a.intersect(b), a.union(b)
    for value in values:
        assert both.matches(value) == (a.matches(value) and b.matches(value)), value
        if either is not None:
            assert either.matches(value) == (a.matches(value) or b.matches(value)), value
    assert a.covers(both) and b.covers(both)
    if either is not None:
        assert either.covers(a) and either.covers(b)


@given(constraints(2))
def test_widening_loses_nothing_and_tells_its_waste(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    (a, b), values = given_
    wide, waste = a.widen(b)
    assert 0.0 <= waste <= 1.0
    assert wide.covers(a) and wide.covers(b)
    for value in values:
        wanted = a.matches(value) or b.matches(value)
        assert wide.matches(value) or not wanted, value
        assert waste > 0.0 or wide.matches(value) == wanted, value


#: One or two of every class, NULL and the kinds without an order among them: what the generator rarely puts side by side.
SIDES = (
    "v IS NULL", "v IS NOT NULL", "v = 1", "v > 5", "v IS NULL OR v = 'x'", "NOT v <=> 'xy'",
    "v IS NOT TRUE AND v IS NOT FALSE", "isnan(v)", "NOT isnan(v)", "v LIKE '%x_'", "NOT v LIKE '%x_'", "array_contains(v, 1)",
    "exists(v, e -> e.p > 1)", "forall(v, e -> e > 1)", "forall(v, e -> true)", "geo_within(v, 0, 0, 10, 10)",
    "NOT geo_within(v, 0, 0, 10, 10)", "instanceof(v, 'T')", "NOT instanceof(v, 'T')", "xpath_boolean(v, '//x')",
    "NOT xpath_boolean(v, '//x')", "v LIKE '%x_' AND NOT v LIKE '%xx'",
)  # fmt: skip
VALUES = [
    attributes({"v": value}).get("v")
    for value in (
        None, float("nan"), *SCALARS, *DOCUMENTS, *CLASSES, "xy", "axy", "T", [], [1], [2, 3], [{"p": 2}],
        {"lat": 5, "lon": 5}, {"lat": 5, "lon": 50}, {},
    )
]  # fmt: skip


@pytest.mark.parametrize("text", SIDES)
def test_a_side_beside_any_other(text: str) -> None:
    """They widen to what covers both, and are united exactly; what comes of it has a text that says the same."""
    one = sluice.parse(text)
    for other in SIDES:
        two = sluice.parse(other)
        ((a,), (b,)), both = (one.filters, two.filters), one | two
        wide = a.widen(b).filter
        assert wide.covers(a) and wide.covers(b), other
        assert sluice.parse(both.to_sql()) == both and sluice.parse(f"({text}) OR ({other})") == both, other
        again = sluice.parse(wide.to_sql())
        for value in VALUES:
            record = {"v": value}
            wanted = a.matches(record) or b.matches(record)
            assert any(box.matches(record) for box in both.filters) == wanted, (other, value)
            assert wide.matches(record) or not wanted, (other, value)
            assert any(box.matches(record) for box in again.filters) == wide.matches(record), (other, value)


@given(constraints(1))
def test_negation(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    """NOT is TRUE where a test is FALSE, and neither is where the test is NULL."""
    (a,), values = given_
    assume(isinstance(a, Atom))
    assert isinstance(a, Atom)
    other = Negation(a)
    for value in values:
        assert other.matches(value) == (a.applies(value) and not a.matches(value)), value
    assert not a.overlaps(other) and not other.overlaps(a)
    assert a.is_empty or not other.covers(a)


@given(constraints(1))
def test_hull_and_text(given_: tuple[tuple[Constraint, ...], list[Any]]) -> None:
    """A hull has every value, and a text every value and no other."""
    (a,), values = given_
    again = sluice.parse(a.to_sql("v"))
    for value in values:
        assert a.hull().matches(value) or not a.matches(value), value
        assert again.matches({"v": value}) == a.matches(value), value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_class_is_among_the_generated(kind: type) -> None:
    """And says something: for some pair covers is true, for some overlaps is false, and a point is in and one is out."""
    generator = Generator(random.Random(kind.__name__))
    found = [one for one in (constraint(generator, kind) for _ in range(120)) if isinstance(one, kind)]
    assert len(found) > 20
    values = points(generator, tuple(found[:20]))
    assert any(one.matches(value) for one in found for value in values)
    assert any(not one.matches(value) for one in found for value in values)
    pairs = [(a, b) for a in found[:40] for b in found[:40] if a != b]
    assert any(a.covers(b) for a, b in pairs)
    # Of two types a third may be a subtype, and one document may have elements for two paths: these always may overlap.
    assert kind in (InstanceOf, XPath) or any(not a.overlaps(b) for a, b in pairs)


# --- filters --------------------------------------------------------------------------------------------------------


@st.composite
def subscriptions(draw: st.DrawFn, count: int) -> tuple[list[sluice.Subscription], list[dict[str, Any]]]:
    """Subscriptions with much in common, and records at their ends and elsewhere."""
    source = draw(st.randoms(use_true_random=False))
    generator = Generator(source)
    shared = [generator.term() for _ in range(3)]
    found = []
    for _ in range(count):
        parts = [
            source.choice(shared) if generator.chance(0.6) else generator.term() for _ in range(source.randint(1, 3))
        ]
        try:
            found.append(sluice.parse(source.choice((" AND ", " AND ", " OR ")).join(f"({part})" for part in parts)))
        except sluice.LimitError:
            assume(False)
    records = [generator.record(typed=generator.chance(0.5)) for _ in range(10)]
    for one in found:
        corners = list(corner_records(one, source, 8))
        records += source.sample(corners, min(len(corners), 30))
    return found, [attributes(record) for record in records]


def box(subscription: sluice.Subscription) -> Filter:
    assume(not subscription.is_empty)
    return subscription.filters[0]


@given(subscriptions(3))
def test_filters_covering(given_: tuple[list[sluice.Subscription], list[dict[str, Any]]]) -> None:
    a, b, c = map(box, given_[0])
    assert a.covers(a) and a.identical(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    assert a.identical(b) == (a.covers(b) and b.covers(a))
    if a.covers(b):
        assert a.overlaps(b) or b.is_empty
    for record in given_[1]:
        if b.matches(record):
            assert a.matches(record) or not a.covers(b), record
            assert a.overlaps(b) or not a.matches(record), record


@given(subscriptions(2))
def test_filters_merging(given_: tuple[list[sluice.Subscription], list[dict[str, Any]]]) -> None:
    a, b = map(box, given_[0])
    both, one, wide = a.intersect(b), a.merge(b), a.widen(b)
    assert 0.0 <= wide.waste <= 1.0
    assert wide.filter.covers(a) and wide.filter.covers(b)
    assert a.covers(both) and b.covers(both)
    for record in given_[1]:
        in_a, in_b = a.matches(record), b.matches(record)
        assert both.matches(record) == (in_a and in_b), record
        if one is not None:
            assert one.matches(record) == (in_a or in_b), record
        assert wide.filter.matches(record) or not (in_a or in_b), record
        if wide.waste == 0.0:
            assert wide.filter.matches(record) == (in_a or in_b), record


@given(subscriptions(3))
def test_subscriptions(given_: tuple[list[sluice.Subscription], list[dict[str, Any]]]) -> None:
    (a, b, c), records = given_
    try:
        both, either = a & b, a | b
    except sluice.LimitError:
        assume(False)
    assert a.covers(a) and a.identical(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    assert a.identical(b) == (a.covers(b) and b.covers(a))
    if a.covers(b):
        assert a.overlaps(b) or b.is_empty
    for record in records:
        in_a, in_b = a.matches(record), b.matches(record)
        assert both.matches(record) == (in_a and in_b), record
        assert either.matches(record) == (in_a or in_b), record
        assert not (a.covers(b) and in_b and not in_a), record
        assert not (in_a and in_b) or a.overlaps(b), record
        assert not (a.is_empty and in_a), record


def test_generated_pairs_are_worth_it() -> None:
    """The laws above say something only where covers is true and overlaps is false: often enough, they are."""
    covered = apart = merged = 0
    for seed in range(300):
        generator = Generator(random.Random(seed))
        a, b = related(generator, 2)
        covered += a.covers(b) and a != b and not b.is_empty
        apart += not a.overlaps(b)
        merged += not a.covers(b) and not b.covers(a) and a.union(b) is not None
    assert min(covered, apart, merged) >= 10, (covered, apart, merged)
