"""A filter is a box: at most one constraint per attribute, plus residual predicates for what no box can hold.

Because every attribute is constrained at most once, questions about filters break down into questions about constraints
(section 4.3.4 to 4.3.7): a box covers another if each of its sides does, two boxes are disjoint if one pair of sides is, and
two boxes that differ in one side merge exactly when that side does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sluice.model import expression
from sluice.model.constraint import Constraint, all_of
from sluice.model.ordered import Ordered
from sluice.model.predicate import Predicate
from sluice.model.values import Value


@dataclass(frozen=True, slots=True)
class Residual:
    """A predicate that must come out as `wanted`, evaluated after the box matched."""

    predicate: Predicate
    wanted: bool

    def matches(self, record: Mapping[str, Value]) -> bool:
        """Whether the predicate is TRUE (or FALSE, if that is wanted) for a flat record."""
        return expression.truth(self.predicate, record) is self.wanted

    def to_sql(self) -> str:
        """The predicate as text."""
        text = f"({expression.to_sql(self.predicate)})"
        return text if self.wanted else f"NOT {text}"


class Merger(NamedTuple):
    """One filter for two, and the estimated share of what it matches that neither of them did (0 = exact)."""

    filter: Filter
    waste: float


class Filter:
    """A conjunction of constraints, one per attribute. Immutable.

    >>> from sluice.model.ordered import at_least, between, equals
    >>> wide = Filter.of({"symbol": equals("IBM"), "price": at_least(100)})
    >>> narrow = Filter.of({"symbol": equals("IBM"), "price": between(120, 130)})
    >>> wide.covers(narrow), narrow.covers(wide), wide.matches({"symbol": "IBM", "price": 101})
    (True, False, True)
    >>> print(wide.merge(Filter.of({"symbol": equals("SUN"), "price": at_least(100)})))
    price >= 100 AND symbol IN ('IBM', 'SUN')
    """

    __slots__ = ("_hash", "constraints", "residuals")

    constraints: Mapping[str, Constraint]
    residuals: tuple[Residual, ...]

    def __init__(self, constraints: Mapping[str, Constraint], residuals: tuple[Residual, ...] = ()) -> None:
        self.constraints = constraints
        self.residuals = residuals
        self._hash: int | None = None

    @classmethod
    def of(cls, constraints: Mapping[str, Constraint], residuals: tuple[Residual, ...] = ()) -> Filter:
        """A filter in canonical form: sides in the order of their names, those that say nothing left out."""
        sides = {name: constraints[name] for name in sorted(constraints) if not _says_nothing(constraints[name])}
        if len(residuals) > 1:
            residuals = tuple(sorted(set(residuals), key=Residual.to_sql))
        return cls(sides, residuals)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return self.constraints == other.constraints and self.residuals == other.residuals

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((tuple(self.constraints.items()), self.residuals))
        return self._hash

    def __repr__(self) -> str:
        return f"Filter({self.to_sql()})"

    def __str__(self) -> str:
        return self.to_sql()

    @property
    def is_empty(self) -> bool:
        """Whether surely nothing matches."""
        return any(side.is_empty for side in self.constraints.values())

    def matches(self, record: Mapping[str, Value]) -> bool:
        """Whether a flat record (see `sluice.model.notification.attributes`) lies in the box."""
        for name, side in self.constraints.items():
            if not side.matches(record.get(name)):
                return False
        return all(residual.matches(record) for residual in self.residuals)

    def covers(self, other: Filter) -> bool:
        """Whether everything that matches `other` surely matches this (Cor. 4.2)."""
        if other.is_empty:
            return True
        if any(residual not in other.residuals for residual in self.residuals):
            return False
        return all(side.covers(other.side(name)) for name, side in self.constraints.items())

    def overlaps(self, other: Filter) -> bool:
        """Whether something may match both (Cor. 4.3)."""
        if self.is_empty or other.is_empty:
            return False
        if any(Residual(r.predicate, not r.wanted) in other.residuals for r in self.residuals):
            return False
        return all(
            side.overlaps(other.side(name)) for name, side in self.constraints.items() if name in other.constraints
        )

    def identical(self, other: Filter) -> bool:
        """Whether both surely match the same (Cor. 4.1)."""
        return self == other or (self.covers(other) and other.covers(self))

    def side(self, name: str) -> Constraint:
        """The constraint on an attribute; without one, everything."""
        return self.constraints.get(name, Ordered.EVERYTHING)

    def intersect(self, other: Filter) -> Filter:
        """The filter that matches what both match."""
        sides = dict(self.constraints)
        for name, side in other.constraints.items():
            sides[name] = all_of(sides[name], side) if name in sides else side
        return Filter.of(sides, self.residuals + other.residuals)

    def merge(self, other: Filter) -> Filter | None:
        """The one box that matches exactly what either matches, where there is one (section 4.3.7, perfect merging)."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        if set(self.residuals) != set(other.residuals) or self.constraints.keys() != other.constraints.keys():
            return None
        differing = [name for name, side in self.constraints.items() if side != other.constraints[name]]
        if len(differing) != 1:
            return None
        union = self.constraints[differing[0]].union(other.constraints[differing[0]])
        return None if union is None else Filter.of({**self.constraints, differing[0]: union}, self.residuals)

    def widen(self, other: Filter) -> Merger:
        """One box that covers both, with its estimated waste (imperfect merging).

        The waste treats attributes as independent: each side keeps a share of what it lets through, and what is left of
        the product is wanted. A side that only one of the two has is dropped, and counts as half wasted.
        """
        exact = self.merge(other)
        if exact is not None:
            return Merger(exact, 0.0)
        wanted = 1.0
        sides: dict[str, Constraint] = {}
        for name in sorted({*self.constraints, *other.constraints}):
            if name in self.constraints and name in other.constraints:
                mine, theirs = self.constraints[name], other.constraints[name]
                sides[name], waste = mine.widen(theirs)
                # Two sides that differ multiply: the corners of the hull box belong to neither, even if each side is exact.
                corner = 0.0 if mine == theirs else 0.25
                wanted *= (1.0 - waste) * (1.0 - corner)
            else:
                wanted *= 0.5
        shared = tuple(residual for residual in self.residuals if residual in other.residuals)
        wanted *= 0.5 ** (len(self.residuals) + len(other.residuals) - 2 * len(shared))
        return Merger(Filter.of(sides, shared), 1.0 - wanted)

    def to_sql(self) -> str:
        """The filter as the text of a WHERE."""
        terms = [side.to_sql(name) for name, side in self.constraints.items()]
        terms += [residual.to_sql() for residual in self.residuals]
        return " AND ".join(terms) if terms else "true"


def _says_nothing(side: Constraint) -> bool:
    return isinstance(side, Ordered) and side.cuts == Ordered.EVERYTHING.cuts


#: Matches every notification.
EVERYTHING = Filter({})
