"""What the two ends of a connection say about the link itself; the cores on both sides never see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from sluice.protocol.batch import Peer
from sluice.protocol.messages import Message, Role

#: The version of this protocol; both ends of a link speak the same.
PROTOCOL = 5


class Policy(IntEnum):
    """What a broker does when a subscriber is slower than what it asks for."""

    DROP_OLDEST = 0
    BLOCK = 1
    DISCONNECT = 2


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of whoever opened the connection."""

    protocol: int
    role: Role
    name: Peer
    incarnation: int
    #: How many notifications a client can take, to begin with.
    credit: int = 0
    policy: Policy = Policy.DROP_OLDEST
    #: What lets the peer in where tokens are asked for; it is a secret, and never shown.
    token: str | None = field(default=None, repr=False)
    #: The node of a broker; None: it is a node by itself.
    node: str | None = None
    #: Where a broker listens; None: nobody can dial it.
    address: str | None = None
    #: What a broker is dialled for when the tree is reshaped; None: the link is part of the tree.
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a hello."""

    protocol: int
    name: Peer
    incarnation: int
    #: What a durable broker has accepted from this client; None: it keeps no log.
    accepted: int | None
    heartbeat_seconds: float
    #: The node of the broker; None: it is a node by itself.
    node: str | None = None
    #: Why no subscription can be reliable here; None: all can.
    unreliable: str | None = None
    #: The same for order.
    unordered: str | None = None


@dataclass(frozen=True, slots=True)
class Bye:
    """The last message before a connection is closed, and why. `is_final`: to come again is useless."""

    reason: str
    is_final: bool = False
    #: Said by a broker that leaves for good: where its clients can go on.
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? Sent when nothing else was."""


@dataclass(frozen=True, slots=True)
class Credit:
    """A subscriber can take this many notifications, counted from the beginning of the connection."""

    total: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A subscriber was too slow: so many of its notifications were dropped since it was last told."""

    count: int


@dataclass(frozen=True, slots=True)
class Channel:
    """What follows on this connection, in this direction, is said in the channel of a job; "": in the first of the link."""

    job: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a client can go on when its broker does not: the addresses of the broker's neighbours, as they are now."""

    addresses: tuple[str, ...]


#: What is said about the link itself, and not by the cores.
LinkMessage = Hello | Welcome | Bye | Ping | Credit | Dropped | Channel | Elsewhere


Anything = Message | LinkMessage
