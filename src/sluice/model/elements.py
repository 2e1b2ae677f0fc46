"""Tests on the elements of a multi-value: some element, or every element, lies in a union of boxes.

`exists(items, e -> e.price > 10 AND e.qty > 2)` is one box over the fields of an element, so one element must satisfy
all of it; the element itself is the attribute `""`. The six operators of the dissertation (contains, notContains,
subset, superset, disjunct, overlaps) are special cases, and tables 4.7 and 4.8 follow from the rules here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sluice.limits import MAX_FILTERS
from sluice.model.constraint import UNKNOWN_WASTE, Atom, Constraint, all_of
from sluice.model.filter import EVERYTHING, Filter
from sluice.model.ordered import EXISTS, Ordered, equals, of_kind, one_of
from sluice.model.predicate import Attribute, ElementTest
from sluice.model.values import Kind, Scalar, Value, as_record, literal_sql, name_sql


@dataclass(frozen=True, slots=True)
class Elements(Atom):
    """The multi-values of which any (or every) element lies in one of the boxes.

    Boxes inside others are dropped and the rest sorted, so that equal tests are mostly equal objects.

    >>> contains("red").matches(("blue", "red")), subset(["red"]).matches(())
    (True, True)
    >>> overlapping([1, 2, 3]).covers(contains(2))
    True
    """

    quantifier: Literal["any", "all"]
    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", _reduced(self.filters))

    def domain(self) -> Ordered:
        return of_kind(Kind.MULTI)

    @property
    def is_empty(self) -> bool:
        # Of `all`, at least the empty multi-value is a member.
        return self.quantifier == "any" and not self.filters

    def matches(self, value: Value) -> bool:
        if type(value) is not tuple:
            return False
        if self.quantifier == "any":
            return any(self._has(element) for element in value)
        return all(self._has(element) for element in value)

    def _has(self, element: Value) -> bool:
        record = as_record(element)
        return any(box.matches(record) for box in self.filters)

    def covers_same(self, other: Elements) -> bool:
        if self.quantifier == "all" and self._has_everything():
            return True
        # `any` never covers `all`: the empty multi-value is in the latter only. `all` covers `any` only when no element
        # can fail, which was just said.
        return self.quantifier == other.quantifier and _covers_boxes(self.filters, other.filters)

    def overlaps_same(self, other: Elements) -> bool:
        if self.quantifier == other.quantifier:
            # any/any: a multi-value with an element for each test. all/all: the empty multi-value.
            return True
        return any(a.overlaps(b) for a in self.filters for b in other.filters)

    def union_same(self, other: Elements) -> Constraint | None:
        if self.quantifier != other.quantifier or self.quantifier == "all":
            # Not even `disjunct` merges perfectly, whatever table 4.8 says: {a, b} is disjoint from neither {a} nor
            # {b}, yet it is disjoint from their empty intersection.
            return None
        boxes = _merged(self.filters + other.filters)
        return Elements("any", boxes) if len(boxes) <= MAX_FILTERS else None

    def widen_same(self, other: Elements) -> tuple[Constraint, float]:
        if self.quantifier != other.quantifier or len(self.filters) + len(other.filters) > MAX_FILTERS:
            return _any_multi_value(), UNKNOWN_WASTE
        both = _reduced(self.filters + other.filters)
        wider = Elements(self.quantifier, _merged(both))
        if self.quantifier == "any" or not both:
            return wider, 0.0
        # As if every box were hit equally often and a multi-value had two elements: wasted are those with one element
        # only here and one only there.
        here = sum(_covers_boxes(self.filters, (box,)) for box in both) / len(both)
        there = sum(_covers_boxes(other.filters, (box,)) for box in both) / len(both)
        shared = max(0.0, here + there - 1.0)
        return wider, max(0.0, 1.0 - here**2 - there**2 + shared**2)

    def to_sql(self, name: str) -> str:
        if self.quantifier == "any" and len(self.filters) == 1:
            short = _as_function(name, self.filters[0])
            if short is not None:
                return short
        variable = _variable(name)
        boxes = [_box_sql(box, variable) for box in self.filters]
        body = " OR ".join(boxes if len(boxes) == 1 else [f"({box})" for box in boxes]) or "false"
        function = "exists" if self.quantifier == "any" else "forall"
        return f"{function}({name_sql(name)}, {variable} -> {body})"

    def _has_everything(self) -> bool:
        return any(not box.constraints and not box.residuals for box in self.filters)


def contains(value: Scalar) -> Constraint:
    """Some element is this value."""
    return Elements("any", (_box(equals(value)),))


def not_contains(value: Scalar) -> Constraint:
    """No element is this value (and none is NULL)."""
    return disjoint((value,))


def subset(values: Iterable[Scalar]) -> Constraint:
    """Every element is one of these."""
    return Elements("all", (_box(one_of(values)),))


def superset(values: Iterable[Scalar]) -> Constraint:
    """Each of these is an element."""
    tests = [contains(value) for value in values]
    return all_of(*tests) if tests else _any_multi_value()


def disjoint(values: Iterable[Scalar]) -> Constraint:
    """No element is one of these (and none is NULL)."""
    return Elements("all", (_box(EXISTS.difference(one_of(values))),))


def overlapping(values: Iterable[Scalar]) -> Constraint:
    """Some element is one of these."""
    return Elements("any", (_box(one_of(values)),))


def _any_multi_value() -> Elements:
    """Every element may be anything: like `of_kind(Kind.MULTI)`, but with a text that the language reads."""
    return Elements("all", (EVERYTHING,))


def _box(constraint: Constraint) -> Filter:
    return Filter.of({"": constraint})


def _covers_boxes(outer: Iterable[Filter], inner: Iterable[Filter]) -> bool:
    outer = tuple(outer)
    return all(any(a.covers(b) for a in outer) for b in inner)


def _reduced(boxes: Iterable[Filter]) -> tuple[Filter, ...]:
    """The boxes without those inside others, in a fixed order."""
    kept: list[Filter] = []
    for box in boxes:
        if box.is_empty or any(other.covers(box) for other in kept):
            continue
        kept = [other for other in kept if not box.covers(other)]
        kept.append(box)
    return tuple(sorted(kept, key=lambda box: _box_sql(box, "e"))) if len(kept) > 1 else tuple(kept)


def _merged(boxes: Iterable[Filter]) -> tuple[Filter, ...]:
    """The boxes with every exact merger of two in place of the two."""
    kept: list[Filter] = []
    waiting = list(_reduced(boxes))
    while waiting:
        box = waiting.pop()
        for i, other in enumerate(kept):
            merger = other.merge(box)
            if merger is not None:
                del kept[i]
                waiting.append(merger)
                break
        else:
            kept.append(box)
    return _reduced(kept)


def _as_function(name: str, box: Filter) -> str | None:
    """`array_contains` or `arrays_overlap`, where the box is a list of values for the element itself."""
    if set(box.constraints) != {""} or box.residuals:
        return None
    points = box.constraints[""].hull().points() if isinstance(box.constraints[""], Ordered) else None
    if not points:
        return None
    values = [literal_sql(value) for value in points]
    if len(values) == 1:
        return f"array_contains({name_sql(name)}, {values[0]})"
    return f"arrays_overlap({name_sql(name)}, array({', '.join(values)}))"


def _variable(name: str) -> str:
    """A name for the element that differs from the one of the test around this one: e, e1, e2 and so on."""
    outer = name.split(".")[0]
    if outer == "e":
        return "e1"
    return f"e{int(outer[1:]) + 1}" if outer[:1] == "e" and outer[1:].isdecimal() else "e"


def _box_sql(box: Filter, variable: str) -> str:
    """The box with its attributes written as fields of the variable."""
    terms = [box.constraints[name].to_sql(_field(variable, name)) for name in sorted(box.constraints)]
    terms += [
        dataclasses.replace(residual, predicate=_qualified(residual.predicate, variable)).to_sql()
        for residual in box.residuals
    ]
    return " AND ".join(terms) or "true"


def _field(variable: str, name: str) -> str:
    return f"{variable}.{name}" if name else variable


def _qualified(node: Any, variable: str) -> Any:
    """A predicate about fields, as one about the variable. The body of an inner test is about its own element."""
    if isinstance(node, Attribute):
        return Attribute(_field(variable, node.name))
    if isinstance(node, ElementTest):
        return dataclasses.replace(node, operand=_qualified(node.operand, variable))
    if isinstance(node, tuple):
        return tuple(_qualified(item, variable) for item in node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
        return dataclasses.replace(node, **{name: _qualified(value, variable) for name, value in fields.items()})
    return node
