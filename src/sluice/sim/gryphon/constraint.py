"""C: what must be so at an upstream broker before it may apply a change, because the sender only presumes what it knows (4.1).

Types I and III ask for a covering subscription that is active there, type II that nothing is active there that the sender does
not know, type IV that a conjunction belongs to somebody. All speak of identities, and of those below the sender only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sluice.sim.gryphon.asked import AskedSet, Known
from sluice.sim.gryphon.guard import Kind


@dataclass(frozen=True, slots=True)
class SomeActive:
    """Types I and III: one of these subscriptions is active before the change."""

    kind: Kind
    subscriptions: AskedSet


@dataclass(frozen=True, slots=True)
class NobodyUnknown:
    """Type II: what is active before the change, at these SHBs, is among these subscriptions."""

    shbs: frozenset[str]
    subscriptions: AskedSet


@dataclass(frozen=True, slots=True)
class Backed:
    """Type IV: one of these subscriptions, which all have the added conjunction, is active after the change."""

    subscriptions: AskedSet


Constraint = SomeActive | NobodyUnknown | Backed


def holds(constraint: Constraint, before: Known, after: Known) -> bool:
    """Whether a broker that knows `before`, and will know `after`, satisfies a constraint."""
    match constraint:
        case SomeActive(_, subscriptions):
            return not subscriptions.isdisjoint(before.active)
        case NobodyUnknown(shbs, subscriptions):
            return all(asked in subscriptions for asked in before.active if asked.shb in shbs)
        case Backed(subscriptions):
            return not subscriptions.isdisjoint(after.active)
        case _:
            assert_never(constraint)
