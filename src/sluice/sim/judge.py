"""Judges a run: the specification over its trace, and over its tables when they are at rest and while they are not."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.protocol.messages import Kind, Role
from sluice.protocol.route.reduce import algorithm
from sluice.sim.domain import POINTS, SERVICES, parsed
from sluice.sim.fresh import difference, fresh
from sluice.sim.seen import seen
from sluice.sim.spec import Check, Violation, check
from sluice.sim.spec.exports import agreement, reduction
from sluice.sim.spec.filters import Filters
from sluice.sim.spec.tables import Client, Configuration, perfection, valid, weakly_valid
from sluice.sim.world.faults import GHOST
from sluice.sim.world.nodes import ClientNode
from sluice.sim.world.world import World

#: What was worked out about filters of the small domain, for all runs.
_FILTERS = Filters(POINTS)


def judge_tables(world: World) -> list[Violation]:
    """What is wrong with the tables of a network at rest."""
    config = world.config
    configuration = _configuration(world)
    found = valid(configuration)
    perfect = algorithm(config.routing).perfect and (
        config.advertisements is None or algorithm(config.advertisements).perfect
    )
    if perfect:
        found += perfection(configuration)
    found += agreement(configuration)
    found += reduction(configuration, config.routing, config.advertisements)
    expected = fresh(world)
    for name, node in world.brokers.items():
        if node.core is not None:
            wrong = difference(node.core, expected[name])
            if wrong is not None:
                found.append(Violation("as-built-fresh", world.now, wrong))
    return found


def judge_moving_tables(world: World) -> list[Violation]:
    """What is wrong with the tables of a network in which nothing has failed, while messages are on their way."""
    return weakly_valid(_configuration(world, complete=True))


def judge_demand(world: World) -> list[Violation]:
    """What is wrong, in a network at rest, with what clients make of the interest they were told of."""
    found = []
    for name, node in world.clients.items():
        if sorted(node.demand) != sorted(node.interests):
            says = f"{name} knows of {sorted(node.interests)} and holds that {sorted(node.demand)} want something"
            found.append(Violation("demand", world.now, says))
        if node.factory is not None:
            wished = [parsed(text) for text in node.interests.values()]
            needed = [one for one, makes in SERVICES.items() if any(makes.overlaps(wish) for wish in wished)]
            if sorted(node.factory.running) != sorted(needed):
                says = f"{name} runs {sorted(node.factory.running)} where {sorted(needed)} are needed"
                found.append(Violation("demand", world.now, says))
    return found


def judge_trace(world: World, checks: Sequence[Check]) -> list[Violation]:
    """What is wrong with what the clients saw, and with what the cores did to each other."""
    found = check(world.trace, checks)
    for at, name, says in world.complaints:
        # Damage may make a core believe in a peer that never was.
        if GHOST not in says:
            found.append(Violation(name, at, says))
    return found


def _configuration(world: World, complete: bool = False) -> Configuration:
    """The tables with what the clients ask for; with `complete`, only with what they were told is complete."""
    return Configuration(
        {name: seen(node.core) for name, node in world.brokers.items() if node.core is not None},
        [pair for pair, link in world.links.items() if link.is_open and link.b.role == Role.BROKER],
        {name: _client(node, complete) for name, node in world.clients.items() if node.core is not None},
        POINTS,
        advertisements=world.config.advertisements is not None,
        root=world.root,
        at=world.now,
        filters=_FILTERS,
    )


def _client(node: ClientNode, complete: bool) -> Client:
    assert node.core is not None
    wishes = [
        {id: entry.where for id, entry in node.core.entries[kind].items() if not complete or id in node.completed}
        for kind in (Kind.SUBSCRIPTIONS, Kind.ADVERTISEMENTS, Kind.WATCHES)
    ]
    return Client(node.broker, *wishes)
