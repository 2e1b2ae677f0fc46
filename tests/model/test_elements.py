"""Element tests against brute force: every multi-value of up to three small elements."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.constraint import Constraint, all_of
from sluice.model.elements import (
    Elements,
    contains,
    disjoint,
    not_contains,
    overlapping,
    subset,
    superset,
)
from sluice.model.filter import Filter, Residual
from sluice.model.ordered import ABSENT, EXISTS, Ordered, at_least, equals, of_kind, one_of
from sluice.model.parse import parse
from sluice.model.predicate import Arithmetic, Attribute, Comparison, Constant, ElementTest
from sluice.model.values import Kind, Scalar

#: Elements: numbers, a string, NULL, and records (with one inner array).
ELEMENTS: tuple[Any, ...] = (1, 2, 3, "a", None, {}, {"p": 1}, {"p": 1, "q": 1}, {"p": 2, "q": 1})
MULTIS = [multi for length in range(4) for multi in product(ELEMENTS, repeat=length)]

SCALARS: list[Scalar] = [1, 2, 3, "a"]
SIDES = st.one_of(
    st.lists(st.sampled_from(SCALARS), max_size=3).map(one_of),
    st.sampled_from([EXISTS, ABSENT, EXISTS.difference(equals(1)), at_least(2), Ordered.NOTHING]),
)
BOXES = st.dictionaries(st.sampled_from(["", "p", "q"]), SIDES, max_size=2).map(Filter.of)
TESTS = st.builds(Elements, st.sampled_from(["any", "all"]), st.lists(BOXES, max_size=3).map(tuple[Filter, ...]))


def members(constraint: Constraint) -> set[int]:
    return {i for i, multi in enumerate(MULTIS) if constraint.matches(multi)}


@settings(deadline=None)
@given(TESTS, TESTS)
def test_the_algebra_agrees_with_matching(a: Elements, b: Elements) -> None:
    in_a, in_b = members(a), members(b)
    if a.covers(b):
        assert in_a >= in_b
    if in_a & in_b:
        assert a.overlaps(b)
    if a.is_empty:
        assert not in_a
    assert members(all_of(a, b)) == in_a & in_b
    union = a.union(b)
    if union is not None:
        assert members(union) == in_a | in_b
    wider, waste = a.widen(b)
    assert members(wider) >= in_a | in_b
    assert 0.0 <= waste <= 1.0
    assert wider.covers(a) and wider.covers(b)
    assert same_test(wider)


@settings(deadline=None)
@given(TESTS)
def test_a_test_covers_and_equals_itself(a: Elements) -> None:
    assert a.covers(a)
    assert a == Elements(a.quantifier, a.filters[::-1])
    assert hash(a) == hash(Elements(a.quantifier, a.filters[::-1]))


@settings(deadline=None)
@given(TESTS, TESTS)
def test_two_tests_of_some_element_always_merge(a: Elements, b: Elements) -> None:
    if a.quantifier == b.quantifier == "any":
        assert a.union(b) is not None


VALUES = st.frozensets(st.sampled_from([1, 2, 3, "a"]), max_size=3)


@settings(deadline=None)
@given(VALUES)
def test_the_operators_mean_what_the_dissertation_says(values: frozenset[Any]) -> None:
    for multi in MULTIS:
        if None in multi or any(isinstance(element, dict) for element in multi):
            continue
        found = set(multi)
        assert subset(values).matches(multi) == (found <= values)
        assert superset(values).matches(multi) == (found >= values)
        assert disjoint(values).matches(multi) == found.isdisjoint(values)
        assert overlapping(values).matches(multi) == (not found.isdisjoint(values))
        for value in values:
            assert contains(value).matches(multi) == (value in found)
            assert not_contains(value).matches(multi) == (value not in found)


def test_disjunct_does_not_merge_perfectly() -> None:
    """Table 4.8 merges `X disjunct M1` and `X disjunct M2` to `X disjunct M1 ∩ M2`, but see X = {a, b}."""
    first, second = disjoint(["a"]), disjoint(["b"])
    both = ("a", "b")
    assert not first.matches(both) and not second.matches(both)
    assert disjoint([]).matches(both), "the merger of the table would let it through"
    assert first.union(second) is None
    wider, waste = first.widen(second)
    assert wider.covers(first) and wider.covers(second)
    assert waste > 0


def test_disjunct_merges_where_one_covers_the_other() -> None:
    assert disjoint(["a"]).union(disjoint(["a", "b"])) == disjoint(["a"])


def test_merged_boxes_become_one() -> None:
    assert contains(1).union(contains(2)) == overlapping([1, 2])


def test_the_waste_of_a_wider_test_grows_with_what_differs() -> None:
    near = Elements("all", tuple(Filter.of({"p": equals(n), "q": equals(n)}) for n in range(4)))
    nearer = Elements("all", tuple(Filter.of({"p": equals(n), "q": equals(n)}) for n in range(1, 5)))
    far = Elements("all", tuple(Filter.of({"p": equals(n), "q": equals(n)}) for n in range(4, 8)))
    assert 0 < near.widen(nearer)[1] < near.widen(far)[1] == pytest.approx(0.5)


def test_one_element_must_satisfy_the_whole_box() -> None:
    test = Elements("any", (Filter.of({"price": at_least(10), "qty": at_least(2)}),))
    assert test.matches(({"price": 12, "qty": 3},))
    assert not test.matches(({"price": 12, "qty": 1}, {"price": 1, "qty": 3}))


def test_some_element_and_every_element_overlap_where_two_boxes_do() -> None:
    some = Elements("any", (Filter.of({"p": equals(1)}), Filter.of({"q": equals(1)})))
    near = Elements("all", (Filter.of({"p": equals(2), "q": equals(1)}), Filter.of({"p": equals(3), "q": equals(3)})))
    far = Elements("all", (Filter.of({"p": equals(2), "q": equals(2)}), Filter.of({"p": equals(3), "q": equals(3)})))
    assert some.overlaps(near) and near.overlaps(some)
    assert not some.overlaps(far) and not far.overlaps(some)
    assert contains(1).overlaps(contains(2)) and subset([1]).overlaps(subset([2]))
    assert not contains(1).overlaps(not_contains(1))


def test_other_kinds_are_outside() -> None:
    for value in (None, 1, "a", {"a": 1}):
        assert not subset([1]).matches(value)
        assert not contains(1).matches(value)
    assert of_kind(Kind.MULTI).covers(contains(1))
    assert not contains(1).overlaps(equals(1))


def test_every_element_of_nothing_in_particular_is_any_multi_value() -> None:
    every = Elements("all", (Filter.of({}),))
    assert every.covers(contains(1)) and every.covers(subset([1]))


def nested(quantifier: Literal["any", "all"], name: str, box: Filter) -> Filter:
    return Filter.of({name: Elements(quantifier, (box,))})


PRODUCT = Arithmetic("*", Attribute("price"), Attribute("qty"))
LARGE = Residual(Comparison(">", PRODUCT, Constant(100)), True)
INNER = Residual(ElementTest("any", Attribute("tags"), Comparison("=", Attribute(""), Attribute("n"))), False)


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (contains(5), "array_contains(tags, 5)"),
        (contains("it's"), r"array_contains(tags, 'it\'s')"),
        (overlapping(["a", "b"]), "arrays_overlap(tags, array('a', 'b'))"),
        (overlapping([]), "exists(tags, e -> false)"),
        (subset([1, 2]), "forall(tags, e -> e IN (1, 2))"),
        (subset([]), "forall(tags, e -> false)"),
        (not_contains(5), "forall(tags, e -> (e IS NOT NULL AND NOT e <=> 5))"),
        (Elements("any", (Filter.of({}),)), "exists(tags, e -> true)"),
        (
            Elements("any", (Filter.of({"unit price": at_least(5), "a.b": equals(1)}),)),
            "exists(tags, e -> e.a.b = 1 AND e.`unit price` >= 5)",
        ),
        (
            Elements("all", (Filter.of({"a": equals(1)}), Filter.of({"b": equals(2)}))),
            "forall(tags, e -> (e.a = 1) OR (e.b = 2))",
        ),
        (
            Elements("any", (nested("all", "parts", nested("any", "", Filter.of({"": at_least(3)}))),)),
            "exists(tags, e -> forall(e.parts, e1 -> exists(e1, e2 -> e2 >= 3)))",
        ),
        (Elements("any", (Filter.of({}, (LARGE,)),)), "exists(tags, e -> (e.price * e.qty > 100))"),
        (Elements("all", (Filter.of({}, (INNER,)),)), "forall(tags, e -> NOT (exists(e.tags, e -> e = e.n)))"),
        (superset([]), "forall(tags, e -> true)"),
        (superset([1, 2]), "array_contains(tags, 1) AND array_contains(tags, 2)"),
    ],
)
def test_the_text(test: Constraint, text: str) -> None:
    assert test.to_sql("tags") == text
    assert same_test(test)


@settings(deadline=None)
@given(TESTS)
def test_the_text_is_read_as_the_same_test(test: Elements) -> None:
    assert same_test(test)


def same_test(test: Constraint) -> bool:
    """Whether the text of a test is read as a test with the same members."""
    read = parse(test.to_sql("tags"))
    return all(read.matches({"tags": multi}) == test.matches(multi) for multi in MULTIS)


def test_an_attribute_may_be_named_like_the_variable() -> None:
    assert subset([1]).to_sql("e") == "forall(e, e1 -> e1 = 1)"
    assert subset([1]).to_sql("e7.y") == "forall(e7.y, e8 -> e8 = 1)"
