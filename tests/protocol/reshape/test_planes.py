"""Planes: what a broker of the chain tells to whom, and where publications go, before and after it flips."""

from __future__ import annotations

import pytest

from sluice.protocol.messages import Role
from sluice.protocol.reshape.channel import channel_of, link_of
from sluice.protocol.route.directions import Directions, Plane

SIDE, OLD, OTHER_OLD, NEW, OTHER_NEW = "side", "x", "y", channel_of("x", "job/1"), channel_of("z", "job/1")


def chain(*, is_flipped: bool) -> Directions:
    directions = Directions("b")
    for name in (SIDE, OLD, OTHER_OLD, NEW, OTHER_NEW):
        directions.linked(name, Role.BROKER, None)
    directions.part([OLD, OTHER_OLD], Plane.OLD)
    directions.part([NEW, OTHER_NEW], Plane.NEW)
    if is_flipped:
        directions.flip()
    return directions


@pytest.mark.parametrize("is_flipped", [False, True])
def test_sides_are_told_in_both_planes_and_hear_of_the_one_that_is_entered(is_flipped: bool) -> None:
    tells = chain(is_flipped=is_flipped).tells
    assert all(tells(SIDE, peer) for peer in (OLD, NEW)) and tells("b", OLD) and tells("b", NEW)
    assert tells(OLD, OTHER_OLD) and tells(NEW, OTHER_NEW)
    assert not tells(OLD, NEW) and not tells(NEW, OLD) and not tells(OLD, OTHER_NEW)
    assert (tells(OLD, SIDE), tells(NEW, SIDE)) == (not is_flipped, is_flipped)


@pytest.mark.parametrize("is_flipped", [False, True])
def test_a_publication_enters_one_plane_stays_in_it_and_leaves_it_sideways(is_flipped: bool) -> None:
    passes = chain(is_flipped=is_flipped).passes
    assert (passes(SIDE, OLD), passes(SIDE, NEW)) == (not is_flipped, is_flipped)
    assert passes(OLD, SIDE) and passes(NEW, SIDE) and passes(OLD, OTHER_OLD) and passes(NEW, OTHER_NEW)
    assert not passes(OLD, NEW) and not passes(NEW, OTHER_OLD)


def test_promises_count_what_may_ever_come() -> None:
    reaches = chain(is_flipped=True).reaches
    assert reaches(SIDE, Plane.OLD) and reaches(SIDE, Plane.NEW)
    assert reaches(OLD, Plane.SIDE) and not reaches(OLD, Plane.NEW) and not reaches(NEW, Plane.OLD)


def test_afterwards_there_is_one_plane() -> None:
    directions = chain(is_flipped=True)
    directions.unite()
    assert directions.tells(OLD, NEW) and directions.passes(SIDE, OLD)


def test_a_channel_knows_its_link() -> None:
    assert link_of(NEW) == "x" and link_of("x") == "x"
