"""What brokers tell their upstream neighbours: a change with its constraints, or, where there are clocks, a step of a vector.

Both say which conjunctions come and go (ΔΛ); a restatement says all of them anew, for a neighbour that has missed something.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.sim.gryphon.asked import NOBODY, AskedSet, Known
from sluice.sim.gryphon.conjunction import Conjunctions, ordered, roots
from sluice.sim.gryphon.constraint import Constraint
from sluice.sim.gryphon.vector import Vector


@dataclass(frozen=True, slots=True)
class Change:
    """ΔS, ΔS̄, ΔΛ and C of section 4.1."""

    subscribed: AskedSet = NOBODY
    unsubscribed: AskedSet = NOBODY
    added: Conjunctions = ()
    removed: Conjunctions = ()
    constraints: tuple[Constraint, ...] = ()
    #: Everything that was not added goes.
    is_anew: bool = False

    def knowledge(self, known: Known) -> Known:
        """What a broker knows after the change."""
        return known.plus(Known(self.subscribed, self.unsubscribed))

    def conjunctions(self, held: Conjunctions) -> Conjunctions:
        """Λ(e) after the change: only roots are kept (section 5.1)."""
        kept = () if self.is_anew else tuple(one for one in held if one not in self.removed)
        return roots((*kept, *self.added))

    def gone(self, held: Conjunctions) -> Conjunctions:
        """The conjunctions that it takes away from those that are held, and those of all that it says are unsubscribed."""
        if not self.is_anew:
            return self.removed
        return ordered(
            (
                *(one for one in held if one not in self.added),
                *(one for asked in self.unsubscribed for one in asked.conjunctions),
            )
        )


@dataclass(frozen=True, slots=True)
class Advance:
    """A change between two vectors (section 6.2): it fits where the vector is `base`."""

    base: Vector
    to: Vector
    added: Conjunctions
    removed: Conjunctions


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All conjunctions at a vector."""

    vector: Vector
    conjunctions: Conjunctions


Upward = Change | Advance | Snapshot
