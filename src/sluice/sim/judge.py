"""Judges a run: the specification over its trace, and its tables against those of a network that was built fresh."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.sim.faults import GHOST
from sluice.sim.fresh import difference, fresh, is_perfect
from sluice.sim.spec import Check, Violation, check
from sluice.sim.world import World


def judge_tables(world: World) -> list[Violation]:
    """What is wrong with the tables of a network at rest."""
    expected, perfect = fresh(world), is_perfect(world.config)
    found = []
    for name, node in world.brokers.items():
        if node.core is not None:
            wrong = difference(node.core, expected[name], perfect)
            if wrong is not None:
                found.append(Violation("as-built-fresh", world.now, wrong))
    return found


def judge_trace(world: World, checks: Sequence[Check]) -> list[Violation]:
    """What is wrong with what the clients saw, and with what the cores did to each other."""
    found = check(world.trace, checks)
    for at, says in world.complaints:
        # Damage may make a core believe in a peer that never was.
        if GHOST not in says:
            found.append(Violation("speaks-on-links", at, says))
    return found
