"""Theorems 2 and 3 as what they are, statements about neighbours: whatever both know, a change that is applied does no harm.

No run has to lead there: each of three brokers in a row has heard any part of what was ever said, also of what a message on its
way does not know of. The tables are as they must be under invariant 1 and theorem 3: the roots of what is active.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from sluice.sim.gryphon import LITERAL, REPAIRED, Constraints, Kind, checks
from sluice.sim.gryphon.asked import Asked, Known
from sluice.sim.gryphon.change import Upward
from sluice.sim.gryphon.conjunction import conjunctions_of, roots
from sluice.sim.gryphon.constrained import ConstrainedLeaf, ConstrainedRouter, Edge

TEXTS = ("symbol = 'A'", "price = 3", "symbol = 'A' AND price = 3", "price >= 2 OR volume = 1")
SAMPLES = 3000


class Case:
    """Three brokers in a row, `a` below `middle` below `upper`, and `b` beside `a`; they agree on most things, not on all."""

    def __init__(self, random: Random, guard: Constraints) -> None:
        self.random = random
        self.subscriptions = [
            Asked(f"q{number}", "ab"[number % 2], conjunctions_of(random.choice(TEXTS))) for number in range(4)
        ]
        #: Of each subscription: nothing was said, it came, or it came and went.
        self.truth = [random.randrange(3) for _ in self.subscriptions]
        self.leaf = ConstrainedLeaf("a", guard)
        self.middle = ConstrainedRouter(frozenset("ab"), guard)
        self.upper = ConstrainedRouter(frozenset("ab"), guard)
        for router, children in (
            (self.leaf, {asked.id: {asked.id} for asked in self.subscriptions if asked.shb == "a"}),
            (self.middle, {shb: {asked.id for asked in self.subscriptions if asked.shb == shb} for shb in "ab"}),
            (self.upper, {"x": {asked.id for asked in self.subscriptions}}),
        ):
            router.edges = {child: self.edge(ids) for child, ids in children.items()}
            router.presume()

    def edge(self, ids: Iterable[str]) -> Edge:
        """What a broker knows of some subscriptions: mostly the truth."""
        states = [
            (asked, truth if self.random.random() < 0.7 else self.random.randrange(3))
            for asked, truth in zip(self.subscriptions, self.truth, strict=True)
            if asked.id in ids
        ]
        came, went = (frozenset(asked for asked, state in states if state >= least) for least in (1, 2))
        return Edge(Known(came, went), roots(one for asked in came - went for one in asked.conjunctions))

    def told(self) -> tuple[Upward, ...]:
        """What the SHB says that makes, ends or restates a subscription."""
        asked = self.random.choice([asked for asked in self.subscriptions if asked.shb == "a"])
        known = self.leaf.edges[asked.id].known
        if self.random.random() < 0.2 or asked in known.unsubscribed:
            return self.leaf.restated()
        if asked in known.subscribed:
            return self.leaf.unsubscribe(asked)[1]
        return self.leaf.subscribe(asked.id, asked.conjunctions)[1]

    def broken(self) -> set[str]:
        """The checks that a change breaks at the two brokers above its SHB."""
        for change in self.told():
            for further in self.middle.hear("a", change):
                self.upper.hear("x", further)
        return {
            one.check
            for here in (self.middle.edge("a"), self.upper.edge("x"))
            for check in (checks.invariant, checks.theorem_three)
            for one in check("here", here.known, here.conjunctions)
        }


def found(guard: Constraints, expected: set[str]) -> set[str]:
    """What is broken in some cases; enough of them to find what is expected."""
    random = Random("local")
    seen = set[str]()
    for _ in range(SAMPLES):
        seen |= Case(random, guard).broken()
        if expected and expected <= seen:
            break
    return seen


def test_the_repaired_constraints_keep_both_theorems() -> None:
    assert found(REPAIRED, set()) == set()


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        (replace(REPAIRED, every_root=False), {"invariant 1"}),
        (replace(REPAIRED, every_addition=False), {"theorem 3"}),
        (LITERAL, {"invariant 1", "theorem 3"}),
        (replace(REPAIRED, kinds=REPAIRED.kinds - {Kind.COVERED}), {"invariant 1", "theorem 3"}),
        (replace(REPAIRED, kinds=REPAIRED.kinds - {Kind.NOBODY_UNKNOWN}), {"invariant 1"}),
        (replace(REPAIRED, kinds=REPAIRED.kinds - {Kind.STILL_COVERED}), {"invariant 1"}),
        (replace(REPAIRED, kinds=REPAIRED.kinds - {Kind.BACKED}), {"theorem 3"}),
    ],
    ids=["children only", "restored only", "literal", "no I", "no II", "no III", "no IV"],
)
def test_every_part_of_them_is_needed(guard: Constraints, expected: set[str]) -> None:
    assert found(guard, expected) >= expected
