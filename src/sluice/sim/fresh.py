"""A network built fresh for the same clients: what the tables of brokers should be, whatever has happened to them before.

What a broker holds and tells at rest depends on nothing but who asks for what now, so two networks with the same links and the
same wishes have the same tables, entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sluice.broker.core.broker import Broker
from sluice.client.session import commands as client
from sluice.protocol.messages import Entry, EntryId, Kind
from sluice.sim.seen import seen
from sluice.sim.world.world import World

#: For one broker: what each table holds of each peer ("of") and tells each peer ("to").
Tables: TypeAlias = dict[tuple[Kind, str, str], frozenset[Entry]]

_ASK: dict[Kind, Callable[[EntryId, Entry], client.Command]] = {
    Kind.SUBSCRIPTIONS: lambda id, entry: client.Subscribe(
        id, entry.where, entry.replay, reliable=entry.reliable, ordered=entry.ordered
    ),
    Kind.ADVERTISEMENTS: lambda id, entry: client.Advertise(id, entry.where),
    Kind.WATCHES: lambda id, entry: client.Watch(id, entry.where),
}


def rebuilt(world: World) -> World:
    """Another network with the same brokers, links and clients, at rest; the clients ask for what they ask for now."""
    config = replace(world.config, lease=None, cache=None, durable=False)
    other = World(f"{world.seed}/fresh", config, min_delay_seconds=1.0, max_delay_seconds=1.0)
    for name in world.brokers:
        other.add_broker(name)
    for a, b in world.shape.tree:
        other.add_link(a, b)
    for node in world.clients.values():
        if node.core is not None:
            other.add_client(node.name, node.broker)
            for kind, ask in _ASK.items():
                for id, entry in node.core.entries[kind].items():
                    other.step(other.clients[node.name], ask(id, entry))
    other.settle()
    world.events += other.events
    return other


def fresh(world: World) -> dict[str, Tables]:
    """What each broker should hold and tell."""
    return {name: tables_of(node.core) for name, node in rebuilt(world).brokers.items() if node.core is not None}


def tables_of(broker: Broker) -> Tables:
    """What a broker holds and tells now."""
    found: Tables = {}
    for kind, table in seen(broker).tables.items():
        for peer, replica in table.replicas.items():
            if replica.entries:
                found[kind, "of", peer] = frozenset(replica.entries)
        for peer, export in table.exports.items():
            if export.sent:
                found[kind, "to", peer] = frozenset(export.sent)
    return found


def difference(broker: Broker, expected: Tables) -> str | None:
    """What a broker holds or tells that it should not, or the other way round; None if all is right."""
    found = tables_of(broker)
    if found == expected:
        return None
    nothing: frozenset[Entry] = frozenset()
    for key in dict.fromkeys((*found, *expected)):
        have, want = found.get(key, nothing), expected.get(key, nothing)
        if have != want:
            kind, way, peer = key
            verb = "holds of" if way == "of" else "tells"
            says = [f"too much: {one}" for one in _texts(have - want)] + [
                f"missing: {one}" for one in _texts(want - have)
            ]
            return f"{broker.name} {verb} {peer} other {kind.name.lower()} than it should; {'; '.join(says)}"
    raise AssertionError("two tables differ, and nothing in them does")


def _texts(entries: frozenset[Entry]) -> list[str]:
    return sorted(f"{entry.id}: {entry.where}" if entry.id else str(entry.where) for entry in entries)
