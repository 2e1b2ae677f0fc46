"""Small runs with one fault each, told step by step: the same story under different guards."""

from __future__ import annotations

from random import Random

from sluice.sim.gryphon import Generic, Guard, Topology

WANTED = {"symbol": "A", "price": 3, "volume": 0}


def checks_of(network: Generic) -> set[str]:
    return {broken.check for broken in network.broken}


def started(network: Generic, shb: str, id: str, where: str) -> None:
    """Makes a subscription and lets it start with a publication that it is delivered."""
    network.subscribe(shb, id, where)
    network.drain()
    number = network.publish(WANTED)
    network.drain()
    assert network.deliveries[id].delivered == [number]


def last_covering_root_goes(guard: Guard) -> Generic:
    """A broker withholds `narrow` because of `symbol`, of which its neighbour has never heard; then `price` goes."""
    network = Generic(Topology.of({"x": "phb", "a": "x", "b": "x"}), Random(0), guard)
    started(network, "a", "narrow", "symbol = 'A' AND price = 3")
    network.subscribe("b", "price", "price = 3")
    network.settle()
    network.subscribe("a", "symbol", "symbol = 'A'")
    network.deliver("a", "x")
    network.lose("x", "phb")
    network.unsubscribe("b", "price")
    network.settle()
    network.publish(WANTED)
    network.settle()
    return network


def broker_between_restarts(guard: Guard) -> Generic:
    """`price` covers `narrow` above a broker that restarts, and then hears of nothing but the end of `price`."""
    network = Generic(Topology.of({"x": "phb", "a": "x", "b": "x"}), Random(0), guard)
    started(network, "a", "narrow", "symbol = 'A' AND price = 3")
    network.subscribe("b", "price", "price = 3")
    network.settle()
    network.crash("x")
    network.restart("x")
    network.unsubscribe("b", "price")
    network.settle()
    network.publish(WANTED)
    network.settle()
    return network
