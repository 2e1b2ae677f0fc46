"""Aggregation by covering (section 5.1): which change of the roots a broker tells upstream, and under which constraints.

A broker presumes that its upstream neighbours know what it knows (formulas 4.1 to 4.3), and that may be wrong: whatever it does
not say because of a subscription that should be known there, it makes a condition. `roots_changed` is the part without
identities, which vectors need as well; `conditions` is C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluice.sim.gryphon.asked import AskedSet, Known
from sluice.sim.gryphon.change import Change
from sluice.sim.gryphon.conjunction import Conjunction, Conjunctions, roots
from sluice.sim.gryphon.constraint import Backed, Constraint, NobodyUnknown, SomeActive
from sluice.sim.gryphon.guard import Constraints, Kind


@dataclass(frozen=True, slots=True)
class Presumed:
    """What a broker knows of all its edges together, and presumes upstream: S(e), S̄(e) and the graph of Λ(e)."""

    known: Known
    conjunctions: Conjunctions

    @property
    def roots(self) -> Conjunctions:
        """What upstream should have."""
        return roots(self.conjunctions)


@dataclass(frozen=True, slots=True)
class RootsChanged:
    """ΔΛ for upstream, and the roots that stay and are not told again."""

    added: Conjunctions
    removed: Conjunctions
    staying: Conjunctions


def roots_changed(
    before: Conjunctions, after: Conjunctions, gone: Conjunctions, is_lasting: Callable[[Conjunction], bool]
) -> RootsChanged:
    """The change from one graph to another, where `gone` was taken away; a root that does not last is told again."""
    old, new = roots(before), roots(after)
    staying = tuple(one for one in new if one in old and is_lasting(one))
    return RootsChanged(
        added=tuple(one for one in new if one not in staying),
        removed=tuple(one for one in gone if not any(other.covers(one) for other in new)),
        staying=staying,
    )


def having(conjunction: Conjunction, subscriptions: AskedSet) -> AskedSet:
    """sub(λ): the subscriptions that have a conjunction."""
    return frozenset(asked for asked in subscriptions if conjunction in asked.conjunctions)


def aggregate(
    before: Presumed, after: Presumed, change: Change, gone: Conjunctions, shbs: frozenset[str], guard: Constraints
) -> Change:
    """What a broker tells upstream after it applied a change; `shbs` are all SHBs below it."""
    #: Those that were active before and still are: what upstream may know of them does not hang on this change.
    lasting = (before.known.active & after.known.active) - change.subscribed
    roots_now = roots_changed(before.conjunctions, after.conjunctions, gone, lambda one: bool(having(one, lasting)))
    conditions = _conditions(before, after, change.added, gone, roots_now, lasting, shbs, guard)
    return Change(
        change.subscribed,
        change.unsubscribed,
        roots_now.added,
        roots_now.removed,
        (*change.constraints, *(one for one in conditions if _kind(one) in guard.kinds)),
    )


def _kind(constraint: Constraint) -> Kind:
    match constraint:
        case SomeActive(kind, _):
            return kind
        case NobodyUnknown():
            return Kind.NOBODY_UNKNOWN
        case Backed():
            return Kind.BACKED


def _conditions(
    before: Presumed,
    after: Presumed,
    added: Conjunctions,
    gone: Conjunctions,
    told: RootsChanged,
    lasting: AskedSet,
    shbs: frozenset[str],
    guard: Constraints,
) -> Iterator[Constraint]:
    staying = tuple(one for one in after.conjunctions if one in before.conjunctions)

    def covered(kind: Kind, one: Conjunction, covering: Conjunctions) -> SomeActive:
        """Somebody who lasts, with a conjunction that covers this one, is active upstream."""
        those = (other for other in covering if other.covers(one))
        return SomeActive(kind, frozenset(asked for other in those for asked in having(other, lasting)))

    def is_withheld(one: Conjunction) -> bool:
        """Whether nothing that is told covers it, but a root that stays does."""
        return not any(other.covers(one) for other in told.added) and any(other.covers(one) for other in told.staying)

    # Adding or removing a conjunction that is not a root.
    for one in (*added, *gone):
        if is_withheld(one):
            yield covered(Kind.COVERED, one, staying)
    # Removing a root.
    if told.removed:
        yield NobodyUnknown(shbs, before.known.active)
    if guard.every_root:
        for one in told.staying:
            if any(one.overlaps(removed) for removed in told.removed):
                yield SomeActive(Kind.STILL_COVERED, having(one, lasting))
    else:
        for removed in told.removed:
            for one in _children(removed, before.conjunctions):
                if one in after.conjunctions and is_withheld(one):
                    yield covered(Kind.STILL_COVERED, one, tuple(other for other in staying if other != one))
    # What is added belongs to somebody.
    for one in told.added:
        if guard.every_addition or one in before.conjunctions:
            yield Backed(having(one, after.known.active))


def _children(conjunction: Conjunction, graph: Conjunctions) -> Conjunctions:
    """The conjunctions that one covers directly: no other one is between them."""
    under = tuple(one for one in graph if one != conjunction and conjunction.covers(one))
    return tuple(one for one in under if not any(other != one and other.covers(one) for other in under))
