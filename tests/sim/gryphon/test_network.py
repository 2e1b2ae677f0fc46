"""Start and end points, questions, trimming, and what the network refuses."""

from __future__ import annotations

from random import Random

import pytest

from sluice.errors import SluiceError
from sluice.sim.gryphon import EQUAL_VECTORS, REPAIRED, Generic, Guard, Topology

WANTED = {"symbol": "A", "price": 3, "volume": 0}
OTHER = {"symbol": "A", "price": 1, "volume": 0}
TREE = Topology.of({"x": "phb", "a": "x", "b": "x"}, x=2)

both_guards = pytest.mark.parametrize("guard", [REPAIRED, EQUAL_VECTORS], ids=["constraints", "vectors"])


@both_guards
def test_a_subscription_has_a_start_and_an_end(guard: Guard) -> None:
    network = Generic(TREE, Random(0), guard)
    assert network.publish(WANTED) == 1
    network.drain()
    network.subscribe("a", "three", "price = 3")
    network.drain()
    for record in (OTHER, WANTED, WANTED):
        network.publish(record)
    network.drain()
    network.unsubscribe("a", "three")
    network.publish(WANTED)
    network.drain()
    three = network.deliveries["three"]
    assert (three.start, three.end, three.delivered) == (2, 4, [3, 4])
    assert network.broken == []


@both_guards
def test_what_is_lost_is_asked_for(guard: Guard) -> None:
    network = Generic(TREE, Random(0), guard)
    network.subscribe("a", "three", "price = 3")
    network.drain()
    network.publish(WANTED)
    network.drain()
    network.publish(WANTED)
    network.in_flight.clear()
    network.publish(WANTED)
    network.settle()
    assert network.subscribers["a"].cursor == 1
    network.ask("a")
    network.settle()
    assert network.deliveries["three"].delivered == [1, 2, 3]
    assert network.broken == []


@both_guards
@pytest.mark.parametrize("victim", ["phb", "x.1", "a"])
def test_positions_outlive_every_broker(guard: Guard, victim: str) -> None:
    network = Generic(TREE, Random(0), guard)
    network.subscribe("a", "three", "price = 3")
    network.drain()
    network.publish(WANTED)
    network.drain()
    network.publish(WANTED)
    network.crash(victim)
    network.settle()
    network.restart(victim)
    network.publish(WANTED)
    network.drain()
    assert network.deliveries["three"].delivered == [1, 2, 3]
    assert network.broken == []


def test_a_log_is_trimmed_when_all_have_passed() -> None:
    network = Generic(TREE, Random(0))
    for _ in range(3):
        network.publish(WANTED)
    network.settle()
    network.acknowledge("a")
    network.settle()
    assert network.stream.trimmed == 0
    network.acknowledge("b")
    network.settle()
    assert network.stream.trimmed == 3
    network.crash("phb")
    network.restart("phb")
    network.publish(WANTED)
    network.settle()
    network.acknowledge("a")
    network.settle()
    assert network.stream.trimmed == 3


def test_uninteresting_publications_are_silences() -> None:
    """A broker that knows enough filters: behind it travel silences."""
    network = Generic(TREE, Random(0))
    network.subscribe("a", "three", "price = 3")
    network.drain()
    network.publish(OTHER)
    network.settle()
    network.publish(WANTED)
    network.deliver("phb", "x.1")
    network.deliver("phb", "x.2")
    (to_a,) = (packets for (_, receiver), packets in network.in_flight.items() if receiver == "a" and packets)
    (to_b,) = (packets for (_, receiver), packets in network.in_flight.items() if receiver == "b" and packets)
    assert [packet.is_silence for packet in (*to_a, *to_b)] == [False, True]  # type: ignore[union-attr]
    network.settle()
    assert (network.deliveries["three"].start, network.deliveries["three"].delivered) == (1, [2])


def test_it_says_what_it_does_not_do() -> None:
    network = Generic(TREE, Random(0))
    network.subscribe("a", "three", "price = 3")
    with pytest.raises(SluiceError, match="an identity of its own"):
        network.subscribe("b", "three", "price = 3")
    with pytest.raises(SluiceError, match="b has no subscription 'three'"):
        network.unsubscribe("b", "three")
    network.unsubscribe("a", "three")
    with pytest.raises(SluiceError, match="unsubscribed already"):
        network.unsubscribe("a", "three")
    network.crash("a")
    with pytest.raises(SluiceError, match="a is down: restart it first"):
        network.subscribe("a", "four", "price = 4")
