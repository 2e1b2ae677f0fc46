"""Runs by chance: a seed gives a tree, links, people who come and go, crashes and restarts, and at the end a time of rest."""

from __future__ import annotations

from random import Random

from sluice.sim.broken import Broken
from sluice.sim.domain import POINTS, TEXTS
from sluice.sim.gryphon.conjunction import conjunctions_of
from sluice.sim.gryphon.guard import Guard
from sluice.sim.gryphon.network import Generic
from sluice.sim.gryphon.topology import Topology

#: How often each thing is done, against the others.
WEIGHTS = {
    "step": 60,
    "publish": 8,
    "subscribe": 5,
    "unsubscribe": 4,
    "flush": 6,
    "ask": 4,
    "restate": 3,
    "acknowledge": 2,
    "crash": 2,
    "restart": 3,
}

#: By position, the records that many texts match, with those texts.
_WANTED = {
    position: texts
    for position in range(len(POINTS))
    if len(texts := [text for text in TEXTS if any(one.matches(position) for one in conjunctions_of(text))]) > 30
}


def run(seed: int, guard: Guard, actions: int = 150) -> Generic:
    """A run with all faults; everything that was still subscribed at the end must have started."""
    random = Random(f"gryphon {seed}")
    network = Generic(
        Topology.drawn(random),
        random,
        guard,
        loss=random.choice((0.0, 0.05, 0.25)),
        keeps_order=random.random() < 0.5,
    )
    _act(network, random, actions)
    network.drain()
    if network.stream.head:
        network.publish(random.choice(POINTS))
        network.drain()
        for delivery in network.deliveries.values():
            if delivery.end is None and delivery.start is None:
                network.broken.append(Broken("start", f"{delivery.asked.id} never starts"))
    return network


def calm(seed: int, guard: Guard, topology: Topology, actions: int = 80) -> Generic:
    """A run on links that keep order and lose nothing, with brokers that never crash; nobody asks again for anything."""
    random = Random(f"calm {seed}")
    network = Generic(topology, random, guard, keeps_order=True)
    _act(network, random, actions, frozenset({"ask", "restate", "acknowledge", "crash", "restart"}))
    network.settle()
    network.judge()
    return network


def _act(network: Generic, random: Random, actions: int, without: frozenset[str] = frozenset()) -> None:
    names = [name for name in WEIGHTS if name not in without]
    weights = [WEIGHTS[name] for name in names]
    # Many of the texts match one record, so that they cover and overlap each other, and it is published often.
    favourite = random.choice(tuple(_WANTED))
    texts = (*random.sample(_WANTED[favourite], 7), *random.sample(TEXTS, 2))
    points = (*[POINTS[favourite]] * 4, *random.sample(POINTS, 8))
    brokers = [broker for brokers in network.topology.brokers.values() for broker in brokers]
    for name in random.choices(names, weights, k=actions):
        match name:
            case "step":
                network.step()
            case "publish" if network.is_up(network.topology.phb):
                network.publish(random.choice(points))
            case "subscribe":
                shb = random.choice(network.topology.shbs)
                if network.is_up(shb):
                    network.subscribe(shb, f"q{len(network.deliveries)}", random.choice(texts))
            case "unsubscribe":
                shb = random.choice(network.topology.shbs)
                open_ = [id for id, one in network.subscribers[shb].deliveries.items() if one.end is None]
                if network.is_up(shb) and open_:
                    network.unsubscribe(shb, random.choice(open_))
            case "flush":
                network.flush(random.choice(network.topology.shbs))
            case "ask":
                network.ask(random.choice(network.topology.shbs))
            case "restate":
                network.restate(random.choice([one for one in brokers if one != network.topology.phb]))
            case "acknowledge":
                network.acknowledge(random.choice(network.topology.shbs))
            case "crash":
                broker = random.choice(brokers)
                if network.is_up(broker):
                    network.crash(broker)
            case "restart":
                dead = [broker for broker in brokers if not network.is_up(broker)]
                if dead:
                    network.restart(random.choice(dead))
