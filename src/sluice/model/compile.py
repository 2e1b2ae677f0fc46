"""From a predicate to a union of boxes, under SQL's three-valued logic.

For every predicate there are the boxes where it is TRUE and the boxes where it is FALSE; NOT swaps the two, and what is in
neither is NULL. AND intersects TRUE boxes and unites FALSE ones, OR the other way round (section 4.3.2: any boolean
expression is a disjunction of conjunctive filters). What fits no box becomes a residual predicate of its box.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any, assert_never, cast

from sluice.errors import LimitError
from sluice.limits import MAX_FILTERS
from sluice.model import ordered, registry
from sluice.model.constraint import Atom, Constraint, Negation, all_of
from sluice.model.elements import Elements
from sluice.model.expression import bind, evaluate, names
from sluice.model.filter import Filter, Residual
from sluice.model.ordered import ABSENT, EXISTS, Ordered
from sluice.model.pattern import like, substring, suffix
from sluice.model.predicate import (
    Among,
    And,
    AtomTest,
    Attribute,
    Comparison,
    Constant,
    Constants,
    ElementTest,
    Expression,
    IsNull,
    Like,
    Not,
    Or,
    Parameter,
    Predicate,
    StringTest,
    Truth,
)
from sluice.model.values import Kind, Scalar, kind_of

#: A box under construction: its sides and its residuals.
Box = tuple[dict[str, Constraint], tuple[Residual, ...]]

_ALWAYS: list[Box] = [({}, ())]
_NEVER: list[Box] = []
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_TRUE_SET = {
    "=": ordered.equals,
    "!=": ordered.differs,
    "<": ordered.less_than,
    "<=": ordered.at_most,
    ">": ordered.greater_than,
    ">=": ordered.at_least,
}
#: Sets of strings up to so many characters are kept, and lists of so many values.
_KEPT_LENGTH, _KEPT_VALUES = 64, 16
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def compile_filters(predicate: Predicate, constants: Constants = ()) -> tuple[Filter, ...]:
    """The boxes in which the predicate is TRUE, with `constants` in place of its parameters."""
    return tuple(Filter.of(sides, residuals) for sides, residuals in _boxes(predicate, True, constants))


def _boxes(node: Predicate, wanted: bool, constants: Constants) -> list[Box]:
    """The boxes in which `node` is TRUE, or FALSE if that is wanted."""
    match node:
        case Comparison():
            return _comparison(node, wanted, constants)
        case And(items) | Or(items):
            parts = [_boxes(item, wanted, constants) for item in items]
            return _product(parts) if isinstance(node, And) == wanted else _sum(parts)
        case Not(item):
            return _boxes(item, not wanted, constants)
        case Truth(operand):
            return _truth(node, operand, wanted, constants)
        case IsNull(operand):
            return _is_null(node, operand, wanted, constants)
        case Among(operand, items):
            return _among(node, operand, items, wanted, constants)
        case Like(operand, pattern, escape):
            text = _constant(pattern, constants)
            test = like(text, escape) if isinstance(text, str) else None
            return _string_test(node, operand, test, wanted, constants)
        case StringTest(how, operand, text_node):
            text = _constant(text_node, constants)
            maker = {"startswith": ordered.prefix, "endswith": suffix, "contains": substring}[how]
            return _string_test(node, operand, maker(text) if isinstance(text, str) else None, wanted, constants)
        case ElementTest(quantifier, operand, body):
            # NOT exists(p) is forall(NOT p): an element for which p is NULL makes both of them NULL.
            other = "all" if quantifier == "any" else "any"
            inner = tuple(Filter.of(sides, residuals) for sides, residuals in _boxes(body, wanted, constants))
            return _one(operand.name, Elements(quantifier if wanted else cast(Any, other), inner))
        case AtomTest(function, operand, arguments):
            atom = registry.make(function, *(_constant(argument, constants) for argument in arguments))
            return _one(operand.name, atom if wanted else Negation(atom))
    assert_never(node)


def _one(name: str, side: Constraint) -> list[Box]:
    return [({name: side}, ())]


def _product(parts: list[list[Box]]) -> list[Box]:
    """Every way to take one box from each part, intersected."""
    single = [boxes[0] for boxes in parts if len(boxes) == 1]
    if len(single) == len(parts):
        only = _intersect_all(single)
        return [] if only is None else [only]
    result = _ALWAYS
    for boxes in parts:
        if len(result) * len(boxes) > 4 * MAX_FILTERS:
            raise _too_many(len(result) * len(boxes))
        result = [box for a in result for b in boxes if (box := _intersect_all([a, b])) is not None]
        if len(result) > MAX_FILTERS:
            raise _too_many(len(result))
    return result


def _intersect_all(boxes: list[Box]) -> Box | None:
    """The box that lies in all of them, or None if there is nothing in it."""
    sides: dict[str, Constraint] = {}
    residuals: tuple[Residual, ...] = ()
    for more, others in boxes:
        for name, side in more.items():
            if name in sides:
                side = all_of(sides[name], side)
                if side.is_empty:
                    return None
            sides[name] = side
        residuals += others
    return sides, residuals


def _sum(parts: list[list[Box]]) -> list[Box]:
    """All the boxes; those with intervals of one and the same attribute are one box already."""
    result: list[Box] = []
    single: dict[str, Ordered] = {}
    for sides, residuals in (box for boxes in parts for box in boxes):
        if len(sides) == 1 and not residuals:
            name, side = next(iter(sides.items()))
            if isinstance(side, Ordered):
                single[name] = cast(Ordered, single[name].union(side)) if name in single else side
                continue
        result.append((sides, residuals))
    result += [({name: side}, ()) for name, side in single.items()]
    if len(result) > MAX_FILTERS:
        raise _too_many(len(result))
    return result


def _too_many(count: int) -> LimitError:
    return LimitError(
        f"the filter expands to {count} or more boxes (an OR of ANDs), more than the limit of {MAX_FILTERS}: "
        "split it into several subscriptions, or write ORs of one attribute as IN"
    )


def _comparison(node: Comparison, wanted: bool, constants: Constants) -> list[Box]:
    left, right, op = node.left, node.right, node.op
    if isinstance(right, Attribute) and not isinstance(left, Attribute):
        left, right, op = right, left, cast(Any, _FLIPPED[op])
    if not isinstance(left, Attribute) or not _is_constant(right):
        return _residual(node, wanted, constants)
    value = _scalar(right, constants)
    if op == "<=>":
        same = ABSENT if value is None else ordered.equals(value)
        return _one(left.name, same if wanted else same.complement())
    if value is None:
        return _NEVER
    op = op if wanted else cast(Any, _OPPOSITE[op])
    return _one(left.name, _kept(op, value) if _is_small(value) else _TRUE_SET[op](value))


# Millions of texts ask for the same few thousand sets, so these are made once. None that is large is kept.


@lru_cache(maxsize=32_768, typed=True)
def _kept(op: str, value: Scalar) -> Ordered:
    return _TRUE_SET[op](value)


@lru_cache(maxsize=4_096)
def _kept_list(types: tuple[type, ...], values: tuple[Scalar, ...]) -> Ordered:
    """Any of these values; their types are given because 1 and 1.0 are equal, and are not written the same."""
    return ordered.one_of(values)


def _is_small(value: Scalar) -> bool:
    if type(value) is str:
        return len(value) <= _KEPT_LENGTH
    # 0.0 and -0.0 are equal, and one must not be written as the other.
    return value != 0.0 if type(value) is float else type(value) is int and value.bit_length() <= 64


def _truth(node: Truth, operand: Expression, wanted: bool, constants: Constants) -> list[Box]:
    if isinstance(operand, Attribute):
        return _one(operand.name, ordered.equals(wanted))
    if _is_constant(operand):
        return _ALWAYS if _scalar(operand, constants) is wanted else _NEVER
    return _residual(node, wanted, constants)


def _is_null(node: IsNull, operand: Expression, wanted: bool, constants: Constants) -> list[Box]:
    if isinstance(operand, Attribute):
        return _one(operand.name, ABSENT if wanted else EXISTS)
    if _is_constant(operand):
        return _ALWAYS if (_scalar(operand, constants) is None) is wanted else _NEVER
    return _residual(node, wanted, constants)


def _among(
    node: Among, operand: Expression, items: tuple[Expression, ...], wanted: bool, constants: Constants
) -> list[Box]:
    if not isinstance(operand, Attribute):
        return _residual(node, wanted, constants)
    values = [_scalar(item, constants) for item in items]
    known = [value for value in values if value is not None]
    if wanted:
        if len(known) <= _KEPT_VALUES and all(map(_is_small, known)):
            return _one(operand.name, _kept_list(tuple(map(type, known)), tuple(known)))
        return _one(operand.name, ordered.one_of(known))
    kinds = {kind_of(value) for value in known}
    # NOT IN is FALSE or NULL if the list has a NULL, and NULL for a value that cannot be compared with every member.
    if len(known) < len(values) or len(kinds) != 1:
        return _NEVER
    return _one(operand.name, ordered.none_of(known))


def _string_test(
    node: Predicate, operand: Expression, test: Constraint | None, wanted: bool, constants: Constants
) -> list[Box]:
    if test is None:
        return _NEVER
    if not isinstance(operand, Attribute):
        return _residual(node, wanted, constants)
    if wanted:
        return _one(operand.name, test)
    if isinstance(test, Ordered):
        return _one(operand.name, ordered.of_kind(Kind.STRING).difference(test))
    return _one(operand.name, Negation(cast(Atom, test)))


def _residual(node: Predicate, wanted: bool, constants: Constants) -> list[Box]:
    """A box that holds only what a comparison needs to be other than NULL, and the comparison as its residual."""
    sides: dict[str, Constraint] = {}
    if isinstance(node, Comparison) and node.op != "<=>":
        sides = dict.fromkeys((*names(node.left), *names(node.right)), EXISTS)
    return [(sides, (Residual(bind(node, constants), wanted),))]


def _is_constant(node: Expression) -> bool:
    return isinstance(node, Parameter | Constant) or next(names(node), None) is None


def _constant(node: Expression, constants: Constants) -> Any:
    if isinstance(node, Parameter):
        return constants[node.index]
    if isinstance(node, Constant):
        return node.value
    return evaluate(bind(node, constants), {})


def _scalar(node: Expression, constants: Constants) -> Scalar | None:
    """A constant as a value: a SQL decimal is the integer it is, or else the nearest double, as for Spark beside doubles."""
    value = _constant(node, constants)
    if isinstance(value, Decimal):
        near = float(value)
        whole = near.is_integer() and value == value.to_integral_value()
        return int(value) if whole else near
    return value  # type: ignore[no-any-return]
