"""Strategies that make predicates: what `to_sql` can write and the language gives back unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from sluice.model.predicate import (
    Among,
    And,
    Arithmetic,
    AtomTest,
    Attribute,
    Comparison,
    Constant,
    ElementTest,
    Expression,
    IsNull,
    Like,
    Minus,
    Not,
    Or,
    Predicate,
    StringTest,
    Truth,
)

texts = st.one_of(
    st.text(max_size=8),
    st.text(alphabet="ab'\"\\%_`\n\t\0 01xu", max_size=8),
    st.sampled_from(["it's", 'say "x"', "a\\b", "--", "/*", "\0" + "12", "AND", "\U0001f600", "\ufeff"]),
)
names = st.one_of(
    st.sampled_from(
        ["a", "b", "price", "order.total", "a.b.c", "case", "select", "x", "date", "1a", "unit price", "é", "."]
    ),
    st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6),
)
decimals = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places), st.integers(-(10**30), 10**30), st.integers(0, 35)
)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)).map(
    lambda m: m.replace(tzinfo=UTC, fold=0)
)
numbers = st.one_of(
    st.integers(-100, 100),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    decimals,
    st.just(2**63),
    st.just(10**300),
)
constants: st.SearchStrategy[Constant] = st.one_of(
    st.none(), st.booleans(), numbers, texts, st.binary(max_size=4), moments
).map(Constant)


def expressions(fields: st.SearchStrategy[str]) -> st.SearchStrategy[Expression]:
    """Values; `fields` are the names in scope."""
    leaves: st.SearchStrategy[Any] = st.one_of(fields.map(Attribute), constants)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
            # A minus before a number belongs to the number.
            st.builds(Minus, inner.filter(lambda node: not is_number(node))),
        ),
        max_leaves=4,
    )


def is_number(node: Expression) -> bool:
    return (
        isinstance(node, Constant)
        and isinstance(node.value, int | float | Decimal)
        and not isinstance(node.value, bool)
    )


@st.composite
def likes(draw: st.DrawFn, operand: st.SearchStrategy[Expression]) -> Like:
    """LIKE with a pattern that is right for its escape character."""
    escape = draw(st.sampled_from("\\\\\\!%_'a"))
    pieces = st.one_of(
        st.sampled_from([escape + "%", escape + "_", escape * 2]),
        st.sampled_from("_%").filter(lambda sign: sign != escape),
        st.text(max_size=3).map(lambda text: text.replace(escape, "")),
    )
    pattern = draw(st.one_of(st.none(), st.lists(pieces, max_size=5).map("".join)))
    return Like(draw(operand), Constant(pattern), escape)


def predicates(scope: st.SearchStrategy[str] = names, depth: int = 2) -> st.SearchStrategy[Predicate]:
    """Conditions of every construct, as the parser makes them: connectives flat, minus folded into numbers."""
    values = expressions(scope)
    strings = st.one_of(st.none(), texts).map(Constant)
    leaves: list[st.SearchStrategy[Any]] = [
        st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]), values, values),
        st.builds(
            Truth, st.one_of(scope.map(Attribute), st.sampled_from([Constant(True), Constant(False), Constant(None)]))
        ),
        st.builds(IsNull, values),
        st.builds(Among, values, st.lists(constants, min_size=1, max_size=3).map(tuple)),
        likes(values),
        st.builds(StringTest, st.sampled_from(["startswith", "endswith", "contains"]), values, strings),
        st.builds(AtomTest, st.just("instanceof"), scope.map(Attribute), st.tuples(st.just(Constant("T")))),
    ]
    if depth:
        elements = st.one_of(st.just(""), names)
        leaves.append(
            st.builds(
                ElementTest, st.sampled_from(["any", "all"]), scope.map(Attribute), predicates(elements, depth - 1)
            )
        )

    def connect(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(And).map(flattened), several.map(Or).map(flattened), inner.map(Not))

    return st.recursive(st.one_of(leaves), connect, max_leaves=5)


def flattened(node: And | Or) -> Predicate:
    kind = type(node)
    items: list[Predicate] = []
    for item in node.items:
        items += item.items if isinstance(item, kind) else (item,)
    return kind(tuple(items))
