"""Orders to a broker, which reshape its network: they are put to it as questions, and it takes them or says why not."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.protocol.batch import Peer


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order is taken: the broker's account of itself tells under this name what becomes of it."""

    job: str


@dataclass(frozen=True, slots=True)
class Connect:
    """An order: dial the broker at this address, and be its neighbour from now on."""

    address: str


@dataclass(frozen=True, slots=True)
class Part:
    """An order: take the link to this neighbour away for good."""

    neighbour: Peer


@dataclass(frozen=True, slots=True)
class Replace:
    """An order: replace the link to a neighbour by one between a broker on your side and one on the other side."""

    neighbour: Peer
    near: Peer
    far: Peer
    #: Where the far one listens.
    address: str


@dataclass(frozen=True, slots=True)
class Leave:
    """An order: stop for good, and send your clients to your neighbours."""


#: What reshapes the network.
Order = Connect | Part | Replace | Leave
