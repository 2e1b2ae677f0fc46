"""A conjunction λ is the set of records that match it, M(λ) of section 3, as bits over the small domain of simulated runs.

With every record at hand, covering (definitions 3.3 and 3.4) is set inclusion and nothing else, so what the reference finds is
never an accident of how two filters were compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_

from sluice.errors import SluiceError
from sluice.model.notification import attributes
from sluice.sim.domain import POINTS, Record, parsed

_FLAT = tuple(attributes(point) for point in POINTS)
_POSITIONS = {tuple(sorted(point.items())): position for position, point in enumerate(POINTS)}


@dataclass(frozen=True, slots=True)
class Conjunction:
    """One box of a subscription; two that match the same records are the same."""

    matched: int
    text: str = field(compare=False)

    def matches(self, record: int) -> bool:
        """Whether a record of the domain, by its position, matches."""
        return bool(self.matched >> record & 1)

    def covers(self, other: Conjunction) -> bool:
        """Whether all that matches the other matches this: λ ⊒ λ' (definition 3.3)."""
        return self.matched & other.matched == other.matched

    def overlaps(self, other: Conjunction) -> bool:
        """Whether some record matches both."""
        return bool(self.matched & other.matched)

    def __str__(self) -> str:
        return self.text


#: A set of conjunctions, in a fixed order.
Conjunctions = tuple[Conjunction, ...]


@cache
def conjunctions_of(where: str) -> Conjunctions:
    """conj(s): the boxes of a text; those that nothing matches are left out."""
    boxes = (
        Conjunction(sum(box.matches(flat) << position for position, flat in enumerate(_FLAT)), str(box))
        for box in parsed(where).filters
    )
    return ordered(box for box in boxes if box.matched)


def position_of(record: Record) -> int:
    """Where a record stands in the domain."""
    try:
        return _POSITIONS[tuple(sorted(record.items()))]
    except KeyError:
        raise SluiceError(
            f"{dict(record)} is no record of the simulated domain: publish one of sluice.sim.domain.POINTS"
        ) from None


def ordered(conjunctions: Iterable[Conjunction]) -> Conjunctions:
    """Each once, in an order that depends on nothing but the set."""
    return tuple(sorted(dict.fromkeys(conjunctions), key=lambda one: one.matched))


def roots(conjunctions: Iterable[Conjunction]) -> Conjunctions:
    """The conjunctions that no other one covers: the roots of the graph of section 5.1."""
    every = ordered(conjunctions)
    return tuple(one for one in every if not any(other.covers(one) for other in every if other is not one))


def union(conjunctions: Iterable[Conjunction]) -> int:
    """All that matches one of them, as bits."""
    return reduce(or_, (one.matched for one in conjunctions), 0)
