"""What a broker tells of itself when it is asked how it is, part by part; `sluice status` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.broker.linkbook import LinkBook
from sluice.broker.peering import Peering
from sluice.broker.store.store import Store
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Kind, Role


def of_core(broker: Broker, now: float) -> dict[str, Any]:
    """Its tables, and how those fare that rely on it or want order."""
    return {
        "name": broker.name,
        "node": broker.directions.node,
        "incarnation": broker.incarnation,
        "tables": {
            kind.name.lower(): sum(len(replica.entries) for replica in table.replicas.values())
            for kind, table in broker.tables.items()
        },
        "brokers": [broker.name, *broker.ways[Kind.BROKERS]],
        "requests": len(broker.requests),
        "reliable": broker.reliable.account(),
        "waits_for": [*broker.reliable.moments.waits_for],
        "order": {**broker.order.account(now), "root": broker.order.algorithm.root},
        "reshape": broker.reshape.account(now),
    }


def of_links(peers: Iterable[Peering], links: LinkBook) -> dict[str, Any]:
    """Its neighbours, the clients that are slow, and what was changed of its links at run time."""
    return {
        "links": [
            {
                "peer": peering.name,
                "role": peering.role.name.lower(),
                "address": None if peering.address is None else str(peering.address),
                "is_dialled": peering.dials,
                "from": None if peering.role == Role.CLIENT else links.source(peering.dialled),
                "bytes_in": peering.connection.bytes_in,
                "bytes_out": peering.connection.bytes_out,
                "waiting_bytes": peering.outbox.bytes + peering.connection.unsent_bytes,
                "dropped": peering.outbox.dropped,
            }
            for peering in peers
            if peering.role == Role.BROKER or peering.outbox.bytes or peering.outbox.dropped
        ],
        "link_changes": links.account(),
    }


def of_log(store: Store | None, name: Peer) -> dict[str, Any]:
    """What the log holds, and for whom: durable subscriptions that hold it, and how far they have read it."""
    if store is None:
        return {"log": None}
    holds = store.holds(name)
    return {"log": {"first": store.first, "head": store.head, "bytes": store.payload_bytes, "holds": holds}}
