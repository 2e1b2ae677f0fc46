"""Where peers lie: the brokers of a node are one direction, siblings hear of clients only."""

from __future__ import annotations

from sluice.protocol.messages import Role
from sluice.protocol.route.directions import Directions


def here() -> Directions:
    directions = Directions("b1", "hub")
    directions.linked("b2", Role.BROKER, "hub")
    for name in ("x1", "x2", "x3"):
        directions.linked(name, Role.BROKER, "x")
    directions.linked("y", Role.BROKER, None)
    directions.linked("alice", Role.CLIENT, None)
    return directions


def test_brokers_of_a_node_are_one_direction_and_siblings_one_each() -> None:
    directions = here()
    assert [directions.of(peer) for peer in ("b2", "x1", "x2", "y", "alice")] == ["b2", "x", "x", "y", "alice"]
    assert directions.brokers() == ["b2", "x", "y"]


def test_what_one_broker_of_a_node_told_is_not_told_to_another() -> None:
    directions = here()
    assert not directions.tells("x1", "x2") and not directions.tells("x1", "x1")
    assert directions.tells("x1", "y") and directions.tells("alice", "x2") and directions.tells("b2", "y")


def test_siblings_hear_of_clients_and_of_the_broker_itself_only() -> None:
    directions = here()
    assert directions.tells("alice", "b2") and directions.tells("b1", "b2")
    assert not directions.tells("x1", "b2") and not directions.tells("y", "b2")


def test_what_comes_from_a_sibling_goes_no_further() -> None:
    directions = here()
    assert directions.passes("x1", "y") and directions.passes("x1", "b2") and directions.passes("alice", "x")
    assert not directions.passes("x1", "x") and not directions.passes("b2", "x")


def test_a_stream_keeps_to_one_broker_while_it_is_there_and_streams_are_spread() -> None:
    directions = here()
    chosen = {f"s{number}": directions.choose("x", f"s{number}") for number in range(60)}
    assert {directions.choose("x", stream) == peer for stream, peer in chosen.items()} == {True}
    assert all(list(chosen.values()).count(peer) >= 10 for peer in ("x1", "x2", "x3"))
    directions.unlinked("x2")
    for stream, peer in chosen.items():
        now = directions.choose("x", stream)
        assert now == peer if peer != "x2" else now in ("x1", "x3")
    directions.unlinked("x1")
    directions.unlinked("x3")
    assert directions.choose("x", "s1") is None and directions.brokers() == ["b2", "y"]
    assert directions.choose_sibling("s1") == "b2"
