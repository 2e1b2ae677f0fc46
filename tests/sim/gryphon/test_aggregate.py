"""What a broker tells upstream, and under which constraints: the cases of figure 3, one by one."""

from __future__ import annotations

from sluice.sim.gryphon import REPAIRED, Constraints, Kind
from sluice.sim.gryphon.aggregate import Presumed, aggregate
from sluice.sim.gryphon.asked import Asked, Known
from sluice.sim.gryphon.change import Change
from sluice.sim.gryphon.conjunction import Conjunctions, conjunctions_of, ordered
from sluice.sim.gryphon.constraint import Backed, NobodyUnknown, SomeActive, holds

ALL, HIGH, LOW, THREE, FOUR = (
    Asked(text, "a", conjunctions_of(text))
    for text in ("price >= 0", "price >= 2", "price <= 4", "price = 3", "price = 4")
)
SHBS = frozenset({"a"})
PAPER = Constraints(every_root=False, every_addition=False)


def presumed(*active: Asked) -> Presumed:
    return Presumed(Known(frozenset(active)), ordered(one for asked in active for one in asked.conjunctions))


def subscribed(asked: Asked, *before: Asked, guard: Constraints = PAPER) -> Change:
    """What is told after a new subscription beside some older ones."""
    change = Change(subscribed=frozenset({asked}), added=asked.conjunctions)
    return aggregate(presumed(*before), presumed(*before, asked), change, (), SHBS, guard)


def unsubscribed(asked: Asked, *left: Asked, guard: Constraints = PAPER) -> Change:
    """What is told after one subscription goes and some are left."""
    change = Change(unsubscribed=frozenset({asked}), removed=asked.conjunctions)
    after = presumed(*left)
    known = Known(frozenset({asked, *left}), frozenset({asked}))
    return aggregate(
        presumed(asked, *left), Presumed(known, after.conjunctions), change, asked.conjunctions, SHBS, guard
    )


def roots(*some: Asked) -> Conjunctions:
    return ordered(one for asked in some for one in asked.conjunctions)


def test_a_new_root_is_told_without_conditions() -> None:
    told = subscribed(HIGH, THREE)
    assert (told.added, told.removed, told.constraints) == (roots(HIGH), (), ())
    assert subscribed(HIGH, THREE, guard=REPAIRED).constraints == (Backed(frozenset({HIGH})),)


def test_what_is_covered_is_withheld_if_somebody_who_covers_it_is_known() -> None:
    told = subscribed(THREE, HIGH, LOW)
    assert (told.added, told.removed) == ((), ())
    assert told.constraints == (SomeActive(Kind.COVERED, frozenset({HIGH, LOW})),)
    told = unsubscribed(THREE, HIGH)
    assert (told.added, told.removed) == ((), ())
    assert told.constraints == (SomeActive(Kind.COVERED, frozenset({HIGH})),)


def test_an_equal_one_covers_as_well() -> None:
    twin = Asked("twin", "a", THREE.conjunctions)
    assert subscribed(twin, THREE).constraints == (SomeActive(Kind.COVERED, frozenset({THREE})),)
    assert unsubscribed(THREE, twin).constraints == (SomeActive(Kind.COVERED, frozenset({twin})),)


def test_when_a_root_goes_what_it_covered_comes_back() -> None:
    told = unsubscribed(ALL, THREE, FOUR)
    assert (told.added, told.removed) == (roots(THREE, FOUR), roots(ALL))
    assert told.constraints == (
        NobodyUnknown(SHBS, frozenset({ALL, THREE, FOUR})),
        Backed(frozenset({THREE})),
        Backed(frozenset({FOUR})),
    )


def test_what_another_root_still_covers_does_not_come_back() -> None:
    told = unsubscribed(HIGH, LOW, THREE)
    assert (told.added, told.removed) == ((), roots(HIGH))
    assert told.constraints == (
        NobodyUnknown(SHBS, frozenset({HIGH, LOW, THREE})),
        SomeActive(Kind.STILL_COVERED, frozenset({LOW})),
    )


def test_repaired_every_root_that_overlaps_must_be_known() -> None:
    """LOW may cover upstream what nobody here remembers to be covered by both."""
    assert unsubscribed(HIGH, LOW).constraints == (NobodyUnknown(SHBS, frozenset({HIGH, LOW})),)
    assert unsubscribed(HIGH, LOW, guard=REPAIRED).constraints == (
        NobodyUnknown(SHBS, frozenset({HIGH, LOW})),
        SomeActive(Kind.STILL_COVERED, frozenset({LOW})),
    )
    assert unsubscribed(FOUR, THREE, guard=REPAIRED).constraints == (NobodyUnknown(SHBS, frozenset({FOUR, THREE})),)


def test_a_root_of_nobody_is_told_again() -> None:
    """Who held a root is exchanged in one change: nobody lasts who could vouch for it."""
    twin = Asked("twin", "a", THREE.conjunctions)
    change = Change(frozenset({twin}), frozenset({THREE}), THREE.conjunctions, THREE.conjunctions)
    after = Presumed(Known(frozenset({THREE, twin}), frozenset({THREE})), THREE.conjunctions)
    told = aggregate(presumed(THREE), after, change, THREE.conjunctions, SHBS, REPAIRED)
    assert (told.added, told.removed, told.constraints) == (roots(THREE), (), (Backed(frozenset({twin})),))


def test_when_constraints_hold() -> None:
    far = Asked("far", "b", THREE.conjunctions)
    before = Known(frozenset({HIGH, LOW, far}), frozenset({LOW}))
    after = Known(frozenset({HIGH, LOW, far, THREE}), frozenset({LOW, HIGH}))
    assert holds(SomeActive(Kind.COVERED, frozenset({HIGH, LOW})), before, after)
    assert not holds(SomeActive(Kind.COVERED, frozenset({LOW, THREE})), before, after)
    assert holds(NobodyUnknown(SHBS, frozenset({HIGH})), before, after)
    assert not holds(NobodyUnknown(frozenset({"a", "b"}), frozenset({HIGH})), before, after)
    assert holds(Backed(frozenset({THREE})), before, after)
    assert not holds(Backed(frozenset({HIGH, LOW})), before, after)
