"""A constraint is a set of values of one attribute, and this module is the algebra that all constraints share.

Concrete constraints are *atoms* (`Ordered` intervals, LIKE patterns, tests on elements, type tests, and whatever users
register); `Negation` and `AllOf` combine them. An atom only answers questions about its own class; how unlike atoms relate
is decided here, once, through their *hulls*: the smallest set of the canonical interval form that contains them. Where an
exact answer is out of reach `covers` says no and `overlaps` says yes, which is what routing relies on (section 4.3.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sluice.model.values import Value

if TYPE_CHECKING:
    from sluice.model.ordered import Ordered


class Constraint(ABC):
    """A set of values of one attribute, NULL (missing) among them."""

    __slots__ = ()

    @abstractmethod
    def matches(self, value: Value) -> bool:
        """Whether the value is in the set."""

    def matches_always(self, value: Value) -> bool:
        """Whether the value is in the set and will be: not the same as `matches` where what a test says may change."""
        return self.matches(value)

    def matches_ever(self, value: Value) -> bool:
        """Whether the value is in the set or may come to be."""
        return self.matches(value)

    @abstractmethod
    def to_sql(self, name: str) -> str:
        """A WHERE text that is TRUE exactly for the values in the set."""

    @abstractmethod
    def hull(self) -> Ordered:
        """A set of intervals that contains every value of this set."""

    def implied(self, name: str) -> Mapping[str, Ordered]:
        """What a match implies for attributes: the hook by which the index finds this constraint. More is faster."""
        return {name: self.hull()}

    @property
    def is_empty(self) -> bool:
        """Whether surely no value is in the set."""
        return self.hull().is_empty

    def covers(self, other: Constraint) -> bool:
        """Whether every value of `other` is surely in this set."""
        return covers(self, other)

    def overlaps(self, other: Constraint) -> bool:
        """Whether some value may be in both sets."""
        return overlaps(self, other)

    def identical(self, other: Constraint) -> bool:
        """Whether both are surely the same set."""
        return self == other or (covers(self, other) and covers(other, self))

    def intersect(self, other: Constraint) -> Constraint:
        """The values in both sets; always exact."""
        return all_of(self, other)

    def union(self, other: Constraint) -> Constraint | None:
        """One constraint for exactly the values of either set, or None where no such constraint is known."""
        if covers(self, other):
            return self
        if covers(other, self):
            return other
        if isinstance(self, Atom) and type(self) is type(other):
            return self.union_same(other)
        for test, negation in ((self, other), (other, self)):
            if isinstance(negation, Negation) and negation.inner == test and negation.inner.is_total:
                domain = negation.inner.domain()
                # What has no words stays two tests: there are none for the numbers together with NaN.
                return domain if domain == _in_words(domain) else None
        return None

    def widen(self, other: Constraint) -> tuple[Constraint, float]:
        """A constraint that covers both, and the estimated share of its values that neither had (0 = exact)."""
        exact = self.union(other)
        if exact is not None:
            return exact, 0.0
        if isinstance(self, Atom) and type(self) is type(other):
            better = self.widen_same(other)
            if better is not None:
                return better
        wider, waste = self.hull().widen(other.hull())
        return _in_words(wider.hull()), max(waste, UNKNOWN_WASTE)


def _in_words(whole: Ordered) -> Ordered:
    """The set itself, or one around it that the language has words for.

    What reaches beyond the ordered kinds is let through whole, because there are no words for a part of that.
    """
    from sluice.model.ordered import EXISTS, ORDERED, Ordered

    if ORDERED.covers_set(whole):
        return whole
    return EXISTS if EXISTS.covers_set(whole) else Ordered.EVERYTHING


#: What we say of a merge whose waste nobody can estimate: half of what it lets through is unwanted.
UNKNOWN_WASTE = 0.5


class Atom(Constraint):
    """A constraint with a class of its own. To make a new kind of constraint, derive from this and register it.

    Needed: `matches`, `to_sql`, `covers_same`, `overlaps_same`. Worth having: `domain` (the values the test is about; for
    others it is NULL), `hull` and `implied` (so that the index finds it fast), `union_same` and `widen_same` (merging). If the
    answer for a value may change one day, `matches_always` and `matches_ever` say so.
    """

    __slots__ = ()

    def domain(self) -> Ordered:
        """The values for which the test is TRUE or FALSE and not NULL."""
        from sluice.model.ordered import EXISTS

        return EXISTS

    def applies(self, value: Value) -> bool:
        """Whether the test is TRUE or FALSE, and not NULL, for this value."""
        return self.domain().matches(value)

    @property
    def is_total(self) -> bool:
        """Whether the test is never NULL within its domain, so that it and its negation make up the domain."""
        return type(self).applies is Atom.applies

    def hull(self) -> Ordered:
        return self.domain()

    @abstractmethod
    def covers_same(self, other: Self) -> bool:
        """Whether every value of `other`, of the same class, is surely in here."""

    @abstractmethod
    def overlaps_same(self, other: Self) -> bool:
        """Whether some value may be in this and in `other`, of the same class."""

    def union_same(self, other: Self) -> Constraint | None:
        """The exact union with one of the same class, where there is one."""
        return None

    def widen_same(self, other: Self) -> tuple[Constraint, float] | None:
        """A cover of both with its estimated waste, where there is a better one than the hull."""
        return None


@dataclass(frozen=True, slots=True)
class Negation(Constraint):
    """The values for which a test is FALSE (not those for which it is NULL)."""

    inner: Atom

    def matches(self, value: Value) -> bool:
        return self.inner.applies(value) and not self.inner.matches(value)

    def matches_always(self, value: Value) -> bool:
        return self.inner.applies(value) and not self.inner.matches_ever(value)

    def matches_ever(self, value: Value) -> bool:
        return self.inner.applies(value) and not self.inner.matches_always(value)

    def hull(self) -> Ordered:
        return self.inner.domain()

    def to_sql(self, name: str) -> str:
        return f"NOT {self.inner.to_sql(name)}"


@dataclass(frozen=True, slots=True)
class AllOf(Constraint):
    """The intersection of several constraints that have no common form; use `all_of` to make one."""

    parts: tuple[Constraint, ...]

    def matches(self, value: Value) -> bool:
        return all(part.matches(value) for part in self.parts)

    def matches_always(self, value: Value) -> bool:
        return all(part.matches_always(value) for part in self.parts)

    def matches_ever(self, value: Value) -> bool:
        return all(part.matches_ever(value) for part in self.parts)

    def hull(self) -> Ordered:
        whole = self.parts[0].hull()
        for part in self.parts[1:]:
            whole = whole.intersection(part.hull())
        return whole

    def implied(self, name: str) -> Mapping[str, Ordered]:
        found: dict[str, Ordered] = {}
        for part in self.parts:
            for key, value in part.implied(name).items():
                found[key] = found[key].intersection(value) if key in found else value
        return found

    @property
    def is_empty(self) -> bool:
        if self.hull().is_empty:
            return True
        return any(not overlaps(a, b) for i, a in enumerate(self.parts) for b in self.parts[i + 1 :])

    def to_sql(self, name: str) -> str:
        return " AND ".join(part.to_sql(name) for part in self.parts)


def all_of(*constraints: Constraint) -> Constraint:
    """The intersection, in canonical form: at most one set of intervals first, then the other parts in a fixed order."""
    from sluice.model.ordered import Ordered

    if len(constraints) == 2:
        a, b = constraints
        if isinstance(a, Ordered) and isinstance(b, Ordered):
            return a.intersection(b)
    parts: list[Constraint] = []
    for constraint in constraints:
        parts += constraint.parts if isinstance(constraint, AllOf) else (constraint,)
    intervals = Ordered.EVERYTHING
    others: dict[str, Constraint] = {}
    for part in parts:
        if isinstance(part, Ordered):
            intervals = intervals.intersection(part)
        else:
            others[part.to_sql("x")] = part
    kept = [others[text] for text in sorted(others)]
    kept = [
        a for i, a in enumerate(kept) if not any(_makes_redundant(b, j, a, i) for j, b in enumerate(kept) if j != i)
    ]
    if not kept:
        return intervals
    if not any(intervals.covers_set(part.hull()) for part in kept):
        return AllOf((intervals, *kept))
    return kept[0] if len(kept) == 1 else AllOf(tuple(kept))


def _makes_redundant(b: Constraint, j: int, a: Constraint, i: int) -> bool:
    """Whether `a` says nothing beyond `b` (of two that say the same, the first stays)."""
    return covers(a, b) and not (covers(b, a) and i < j)


def covers(a: Constraint, b: Constraint) -> bool:
    """Whether every value of `b` is surely in `a`."""
    from sluice.model.ordered import Ordered

    if isinstance(a, Ordered):
        return a.covers_set(b.hull()) or b.is_empty
    if b.is_empty or a == b:
        return True
    if isinstance(a, AllOf):
        return all(covers(part, b) for part in a.parts)
    if isinstance(b, AllOf) and any(covers(a, part) for part in b.parts):
        return True
    points = b.hull().points()
    if points is not None:
        return all(a.matches_always(value) for value in points if b.matches_ever(value))
    if isinstance(a, Negation):
        if isinstance(b, Negation) and type(a.inner) is type(b.inner):
            return b.inner.covers_same(a.inner)
        return a.inner.is_total and a.hull().covers_set(b.hull()) and not overlaps(a.inner, b)
    if isinstance(a, Atom) and type(a) is type(b):
        return a.covers_same(b)
    return False


def overlaps(a: Constraint, b: Constraint) -> bool:
    """Whether some value may be in both."""
    if a.is_empty or b.is_empty:
        return False
    common = a.hull().intersection(b.hull())
    if common.is_empty:
        return False
    points = common.points()
    if points is not None:
        return any(a.matches_ever(value) and b.matches_ever(value) for value in points)
    if isinstance(a, AllOf):
        return all(overlaps(part, b) for part in a.parts)
    if isinstance(b, AllOf):
        return all(overlaps(a, part) for part in b.parts)
    if isinstance(a, Negation):
        return not covers(a.inner, b)
    if isinstance(b, Negation):
        return not covers(b.inner, a)
    if isinstance(a, Atom) and type(a) is type(b):
        return a.overlaps_same(b)
    return True
