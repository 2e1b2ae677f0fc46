"""`isnan(a)`: the one test that a number which is none can pass.

NaN compares with nothing here, and is the greatest of all numbers in Spark. Whoever wants what Spark's `a > 5` selects says
`a > 5 OR isnan(a)`; that is how Spark's filters are pushed into the brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.model.constraint import Atom, Constraint
from sluice.model.ordered import Ordered, of_kind, union_of
from sluice.model.values import Kind, Value, kind_of, name_sql


@dataclass(frozen=True, slots=True)
class IsNan(Atom):
    """The values that are NaN; of what is no number at all, nobody knows."""

    def domain(self) -> Ordered:
        return union_of((of_kind(Kind.NUMBER), of_kind(Kind.NAN)))

    def hull(self) -> Ordered:
        return of_kind(Kind.NAN)

    def matches(self, value: Value) -> bool:
        return kind_of(value) == Kind.NAN

    def covers_same(self, other: IsNan) -> bool:
        return True

    def overlaps_same(self, other: IsNan) -> bool:
        return True

    def union_same(self, other: IsNan) -> Constraint:
        return self

    def to_sql(self, name: str) -> str:
        return f"isnan({name_sql(name)})"


def isnan() -> IsNan:
    """The test that `isnan(attribute)` is."""
    return IsNan()
