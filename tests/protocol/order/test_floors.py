"""Floors: promises, the questions for them, and the clock that both move."""

from __future__ import annotations

import math

from sluice.protocol.batch import Stamp
from sluice.protocol.messages import Await, Floor, Role
from sluice.protocol.order.floors import Floors
from sluice.protocol.route.directions import Directions


def floors(*peers: str) -> Floors:
    """The floors of a broker `b`, whose links may all carry something."""
    directions = Directions("b")
    made = Floors(directions)
    for peer in peers:
        directions.linked(peer, Role.BROKER, None)
        made.linked(peer)
        assert [*made.carries(peer, True)] == []
    return made


def test_a_stamp_is_later_than_all_that_was_seen() -> None:
    broker = floors("x")
    assert broker.stamp(False, 0) == Stamp(1, "b")
    broker.arrived("x", 5, None)
    assert broker.stamp(True, 0) == Stamp(6, "b", is_marked=True)
    broker.hear("x", Floor(10))
    broker.hear("x", Await(12))
    assert broker.stamp(False, 0).time == 13


def test_the_least_floor_of_all_links_is_the_limit() -> None:
    broker = floors("x", "y")
    assert broker.limit == 0
    broker.hear("x", Floor(7))
    broker.hear("y", Floor(4))
    broker.hear("y", Floor(3))
    assert broker.limit == 4
    broker.unlinked("y")
    assert broker.limit == 7
    assert [*broker.carries("x", False)] == [] and broker.limit == math.inf


def test_a_promise_is_the_least_of_the_clock_and_of_the_other_links() -> None:
    broker = floors("x", "y", "z")
    broker.hear("x", Await(9))
    assert dict(broker.settle(0)) == {"y": Await(9), "z": Await(9)}, "nothing can be promised yet"
    broker.hear("y", Floor(5))
    assert [*broker.settle(0)] == []
    broker.hear("z", Floor(20))
    assert [*broker.settle(0)] == [("x", Floor(5))], "what there is, though more is asked for"
    broker.hear("y", Floor(30))
    assert [*broker.settle(0)] == [("x", Floor(20))]
    assert [*broker.settle(0)] == [], "it has what it asked for"


def test_what_a_link_brings_does_not_count_for_itself() -> None:
    broker = floors("x")
    broker.hear("x", Await(9))
    assert [*broker.settle(0)] == [("x", Floor(9))]


def test_what_is_held_back_is_asked_for_once() -> None:
    broker = floors("x", "y")
    broker.hear("y", Floor(8))
    assert [*broker.settle(8)] == [("x", Await(8))]
    assert [*broker.settle(8)] == []
    assert dict(broker.settle(11)) == {"x": Await(11), "y": Await(11)}


def test_what_comes_with_a_floor_need_not_be_asked_for() -> None:
    broker = floors("x")
    broker.arrived("x", 6, 2)
    assert broker.limit == 2 and [*broker.settle(6)] == []
    broker.arrived("x", 7, None)
    assert [*broker.settle(7)] == [("x", Await(7))]


def test_what_goes_on_is_followed_by_floors() -> None:
    broker = floors("x", "y")
    broker.arrived("y", 6, 3)
    assert broker.onward("x", 6) == 0
    assert [*broker.settle(0)] == [("x", Floor(3))]
    broker.hear("y", Floor(6))
    assert [*broker.settle(0)] == [("x", Floor(6))]
    assert broker.onward("x", 9) == 6
    assert broker.onward("nobody", 9) is None


def test_where_somebody_begins_to_publish_the_time_is_asked_for() -> None:
    directions = Directions("b")
    broker = Floors(directions)
    directions.linked("x", Role.BROKER, None)
    broker.linked("x")
    for _ in range(5):
        broker.stamp(False, 0)
    assert broker.limit == math.inf
    assert [*broker.carries("x", True)] == [("x", Await(5))]
    assert [*broker.carries("x", True)] == [] and broker.limit == 0


def test_what_a_client_has_seen_moves_all_clocks() -> None:
    broker = floors("x", "y")
    broker.hear("x", Floor(50))
    broker.reach(40)
    assert [*broker.settle(0)] == [("y", Await(40))]
    assert broker.stamp(False, 0).time == 51


def test_a_renewal_says_and_asks_everything_again() -> None:
    broker = floors("x", "y")
    broker.hear("x", Await(4))
    broker.hear("y", Floor(4))
    assert [*broker.settle(9)] == [("x", Floor(4)), ("x", Await(9)), ("y", Await(9))]
    broker.renew()
    assert [*broker.settle(9)] == [("x", Floor(4)), ("x", Await(9)), ("y", Await(9))]


def test_brokers_of_one_node_wait_for_no_floor_of_each_other() -> None:
    directions = Directions("b")
    broker = Floors(directions)
    for peer, node in (("n1", "n"), ("n2", "n"), ("m", "m")):
        directions.linked(peer, Role.BROKER, node)
        broker.linked(peer)
        assert [*broker.carries(peer, True)] == []
    broker.hear("n1", Await(5))
    broker.hear("m", Floor(5))
    assert [*broker.settle(0)] == [("n1", Floor(5))]


def test_what_is_being_stored_holds_promises_and_releases_back() -> None:
    broker = floors("x", "y")
    for peer in ("x", "y"):
        broker.hear(peer, Floor(20))
    first, second = broker.moment(), broker.moment()
    assert (first, second, broker.present, broker.limit) == (21, 22, 20, 20)
    broker.hear("x", Await(30))
    broker.hear("y", Floor(40))
    assert [*broker.settle(0)] == [("x", Floor(20))]
    assert broker.is_awaited
    broker.stored(first)
    assert (broker.present, broker.limit) == (21, 20)
    assert [*broker.settle(0)] == [("x", Floor(21))]
    broker.stored(second)
    assert [*broker.settle(0)] == [("x", Floor(40))]
    assert broker.stamp(False, first) == Stamp(21, "b"), "what was stored has the moment that it was stored with"
    assert broker.stamp(False, 0).time == 41
