"""The tables of a whole network in a form that can be compared, and those that a network built fresh would have.

Whatever happened before, the tables of brokers at rest depend only on who asks for what now. What a peer holds of a client is
compared entry by entry; what it holds of a neighbour by the records of the small domain that it lets through, because two
mergers of the same filters may be written differently.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from sluice.broker.broker import Broker, BrokerConfig
from sluice.client import session as client
from sluice.protocol.messages import Entry, Kind, Role
from sluice.sim.domain import points_of
from sluice.sim.world import World

#: What one table of a broker holds of one peer: entries, or the points of the domain that they let through.
Held: TypeAlias = frozenset[Entry] | int
#: For one broker, what each table holds of each peer that has told it anything.
Tables: TypeAlias = dict[tuple[Kind, str], Held]


def held(broker: Broker) -> Tables:
    """What the tables of a broker hold now."""
    found: Tables = {}
    for kind, table in broker.tables.items():
        for peer, replica in table.replicas.items():
            if not replica.entries:
                continue
            if kind == Kind.INTEREST or broker.roles.get(peer) != Role.BROKER:
                found[kind, peer] = frozenset(replica.entries)
            else:
                found[kind, peer] = _points(replica.entries)
        if kind == Kind.INTEREST:
            continue
        for peer, export in table.exports.items():
            # Under another key: a name never has a space in front.
            if export.sent and (points := _points(export.sent)):
                found[kind, f" {peer}"] = points
    return {key: value for key, value in found.items() if value}


def _points(entries: dict[Entry, None]) -> int:
    points = 0
    for entry in entries:
        points |= points_of(entry.where)
    return points


def is_perfect(config: BrokerConfig) -> bool:
    """Whether neighbours are told of nothing that nobody asked for, beyond what the algorithm always tells."""
    return "imperfect" not in (config.routing, config.advertisements)


def fresh(world: World) -> dict[str, Tables]:
    """The tables of a network that is built now, with the same links and clients that ask for the same."""
    config = world.config
    if not is_perfect(config):
        config = replace(
            config,
            routing=config.routing.replace("imperfect", "merging"),
            advertisements=config.advertisements and config.advertisements.replace("imperfect", "merging"),
        )
    other = World(
        f"{world.seed}/fresh", replace(config, lease=None, cache=None), min_delay_seconds=0, max_delay_seconds=1
    )
    for name in world.brokers:
        other.add_broker(name)
    for (a, b), link in world.links.items():
        if link.b.role == Role.BROKER:
            other.add_link(a, b)
    for node in world.clients.values():
        if node.core is None:
            continue
        other.add_client(node.name, node.broker)
        for kind, make in _ASK.items():
            for id, entry in node.core.entries[kind].items():
                other.step(other.clients[node.name], make(id, entry))
    other.settle()
    return {name: held(node.core) for name, node in other.brokers.items() if node.core is not None}


_ASK = {
    Kind.SUBSCRIPTIONS: lambda id, entry: client.Subscribe(id, entry.where, entry.replay),
    Kind.ADVERTISEMENTS: lambda id, entry: client.Advertise(id, entry.where),
    Kind.WATCHES: lambda id, entry: client.Watch(id, entry.where),
}


def is_right(broker: Broker, expected: Tables, perfect: bool) -> bool:
    """Whether a broker holds what it should; without `perfect` it may hold more of its neighbours than that."""
    return difference(broker, expected, perfect) is None


def difference(broker: Broker, expected: Tables, perfect: bool) -> str | None:
    """What a broker holds that it should not, or the other way round; None if all is right."""
    found = held(broker)
    for key in dict.fromkeys((*found, *expected)):
        have, want = found.get(key, 0), expected.get(key, 0)
        if have == want:
            continue
        if not perfect and isinstance(have, int) and isinstance(want, int) and have & want == want:
            continue
        kind, peer = key
        if peer.startswith(" "):
            return f"the {kind.name.lower()} that {broker.name} told{peer} are {_tell(have)}, not {_tell(want)}"
        return f"the {kind.name.lower()} that {broker.name} holds of {peer} are {_tell(have)}, not {_tell(want)}"
    return None


def _tell(value: Held) -> str:
    if isinstance(value, int):
        return f"{value.bit_count()} points ({value:x})"
    return "{" + ", ".join(sorted(f"{entry.id}: {entry.where}" for entry in value)) + "}"
