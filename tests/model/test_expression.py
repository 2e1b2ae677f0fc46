"""Evaluation: facts about Spark (4.3, ANSI off, each tried there), and laws of three-valued logic."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sluice  # noqa: F401  (registers instanceof)
from sluice.model.expression import bind, compare, evaluate, to_sql, truth
from sluice.model.language import parse_predicate
from sluice.model.predicate import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Minus,
    Not,
    Or,
    Parameter,
    Predicate,
)
from tests.model.predicates import expressions, moments, names, predicates

RECORD: dict[str, Any] = {
    "i": 7,
    "f": 2.5,
    "tenth": 0.1,
    "s": "abc",
    "t": True,
    "y": b"\x01",
    "m": datetime(2026, 3, 1, tzinfo=UTC),
    "nan": math.nan,
    "inf": math.inf,
    "big": 2**63 - 1,
    "huge": 10**400,
    "a": (1, 2, 3),
    "n": (1, None),
    "e": (),
    "r": {"b": 1},
    "o": ({"p": 5, "q": 1}, {"p": 1, "q": 5}),
    "words": ("x", "y"),
    "aa": ((1, 2), ()),
}

FIXTURE = Path(__file__).parent / "fixtures" / "facts.txt"
FACTS = [
    re.split(r"\s+=> ", row) for row in FIXTURE.read_text().splitlines() if "=> " in row and not row.startswith("#")
]
ANSWERS = {"TRUE": True, "FALSE": False, "NULL": None}


@pytest.mark.parametrize(("text", "expected"), FACTS)
def test_facts(text: str, expected: str) -> None:
    assert truth(parse_predicate(text), RECORD) is ANSWERS[expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2", 3),
        ("7 / 2", 3.5),
        ("4 / 2", 2.0),
        ("1.5 / 3", 0.5),
        ("1.5 + 1", Decimal("2.5")),
        ("1.5 * 2D", 3.0),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("-7.5D % 2", -1.5),
        ("- 1.5", Decimal("-1.5")),
        ("10000000000000000000 - 9999999999999999999", 1),
        ("9223372036854775807 * 2", None),
        ("-9223372036854775808 - 1", None),
        ("'1' + 1", None),
    ],
)
def test_values_and_their_types(text: str, expected: object) -> None:
    node = parse_predicate(f"{text} = 0")
    assert isinstance(node, Comparison)
    value = evaluate(node.left, {})
    assert value == expected
    assert type(value) is type(expected)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=2),
    st.binary(max_size=2),
    moments,
    st.tuples(st.integers(0, 2)),
    st.just({"b": 1}),
    st.sampled_from([10**400, -(10**400), 2**63, -(2**63), math.nan, math.inf, 1.5]),
)
records = st.dictionaries(st.sampled_from(["a", "b", "price", "x", ""]), values)


@given(predicates(), records)
@settings(max_examples=300, deadline=None)
def test_truth_never_raises(predicate: Predicate, record: dict[str, Any]) -> None:
    assert truth(predicate, record) in (True, False, None)


@given(expressions(st.sampled_from(["a", "b"])), records)
def test_evaluate_never_raises(node: Expression, record: dict[str, Any]) -> None:
    evaluate(node, record)


@given(predicates(), predicates(), records)
@settings(deadline=None)
def test_the_laws_of_three_valued_logic(one: Predicate, other: Predicate, record: dict[str, Any]) -> None:
    a, b = truth(one, record), truth(other, record)
    order = [False, None, True]
    assert truth(And((one, other)), record) is min((a, b), key=order.index)
    assert truth(Or((one, other)), record) is max((a, b), key=order.index)
    assert truth(Not(one), record) is order[2 - order.index(a)]
    assert truth(Not(And((one, other))), record) is truth(Or((Not(one), Not(other))), record)


@given(values, values)
def test_comparisons_of_two_values_agree(left: Any, right: Any) -> None:
    equal, less, more = (compare(op, left, right) for op in ("=", "<", ">"))
    if equal is None:
        assert (less, more) == (None, None)
        assert compare("<=>", left, right) is (left is None and right is None)
    else:
        assert [equal, less, more].count(True) == 1
        assert compare("<=>", left, right) is equal
        assert compare("!=", left, right) is (not equal)
        assert compare("<=", left, right) is (not more)
        assert compare(">=", left, right) is (not less)
    assert compare(">", right, left) is less


@given(predicates(st.sampled_from(["a", "b"])), st.randoms())
@settings(deadline=None)
def test_bind_puts_constants_where_parameters_were(predicate: Predicate, random: Any) -> None:
    constants: list[Any] = []

    def cut(node: Any) -> Any:
        if isinstance(node, Constant) and random.random() < 0.5:
            constants.append(node.value)
            return Parameter(len(constants) - 1)
        if isinstance(node, tuple):
            return tuple(cut(item) for item in node)
        if hasattr(node, "__dataclass_fields__"):
            return type(node)(*(cut(getattr(node, name)) for name in node.__dataclass_fields__))
        return node

    assert repr(bind(cut(predicate), constants)) == repr(predicate)


@given(names, expressions(names))
def test_expressions_round_trip(name: str, node: Expression) -> None:
    text = f"{to_sql(Attribute(name))} = {to_sql(Minus(node) if isinstance(node, Arithmetic) else node)}"
    assert to_sql(parse_predicate(text)).startswith(to_sql(Attribute(name)))


def test_a_parameter_has_no_value() -> None:
    with pytest.raises(TypeError, match="bind"):
        evaluate(Parameter(0), {})
