"""A broker as the checks of its tables see it: by links, whatever their channels are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from sluice.broker.core.broker import Broker
from sluice.errors import SluiceError
from sluice.protocol.batch import Peer
from sluice.protocol.export import Export, Replica
from sluice.protocol.messages import Kind, Role
from sluice.protocol.reshape.channel import link_of

T = TypeVar("T")


class SeenTable(NamedTuple):
    """A table by links."""

    replicas: Mapping[Peer, Replica]
    exports: Mapping[Peer, Export]


class Seen(NamedTuple):
    """A broker by links; there is one channel for each when nothing is being reshaped."""

    tables: Mapping[Kind, SeenTable]
    roles: Mapping[Peer, Role]


def seen(broker: Broker) -> Seen:
    """How a broker looks."""
    roles = broker.roles
    if all(link_of(peer) == peer for peer, role in roles.items() if role == Role.BROKER):
        tables = {kind: SeenTable(table.replicas, table.exports) for kind, table in broker.tables.items()}
        return Seen(tables, roles)
    return Seen(
        {
            kind: SeenTable(by_link(broker, table.replicas), by_link(broker, table.exports))
            for kind, table in broker.tables.items()
        },
        by_link(broker, roles),
    )


def by_link(broker: Broker, values: Mapping[Peer, T]) -> dict[Peer, T]:
    """What belongs to channels, by their links."""
    found: dict[Peer, T] = {}
    for peer, value in values.items():
        link = link_of(peer) if broker.roles.get(peer) == Role.BROKER else peer
        if link in found:
            raise SluiceError(f"{broker.name} has two channels to {link}: {list(values)}")
        found[link] = value
    return found
