"""What happens to a core, and what it wants done: events go into a step, effects come out of it.

The surroundings of a broker or a client (a server and its disk, or the simulator) make the events and see to the effects. Those
of reshaping are in `sluice.protocol.reshape.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import Message, Reply, Request, Role
from sluice.protocol.reshape.messages import Address, JobId, ReshapeEffect, ReshapeEvent


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link to a peer works from now on; nothing of an earlier link to it will arrive any more."""

    peer: Peer
    role: Role
    #: Told to a client by a durable broker: the last number it has taken in from this client.
    accepted: int | None = None
    #: The node that a broker belongs to; None: it is a node by itself.
    node: str | None = None
    #: The job that a broker was dialled for, by either end: it is no part of the tree yet. None: it is.
    job: JobId | None = None
    #: Where others may dial the broker.
    address: Address = None


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The link to a peer is gone, with all that was on it."""

    peer: Peer
    #: Whether somebody has taken it away for good: nobody is to look for another one in its place.
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from a peer."""

    peer: Peer
    message: Message


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the deadline that the core asked for is here."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was to be stored is on disk; the batch says where."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class NotStored:
    """What was to be stored could not be; `accepted` is the last number of its publisher that the disk holds."""

    batch: Batch
    accepted: int
    reason: str
    #: The moment that it was to have, and that nothing has now.
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """After a crash this broker will give no moment up to this one; 0: that could not be written down."""

    moment: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The surroundings have answered a question that was put to this broker."""

    reply: Reply


Event = LinkUp | LinkDown | Received | Tick | Stored | NotStored | Reserved | Answered | ReshapeEvent


class Send(NamedTuple):
    """The effect of a step: a message to send."""

    peer: Peer
    message: Message


class Store(NamedTuple):
    """The effect of a step of a durable broker: publications to put on disk before anybody hears of them."""

    batch: Batch
    #: The last number of the same publisher before these.
    after: int
    #: Their moment in the order of all, which is stored with them; 0: they have none.
    moment: int = 0


class Reserve(NamedTuple):
    """The effect of a step of a durable broker: after a crash no moment up to this one may be given again."""

    moment: int


class Ask(NamedTuple):
    """The effect of a step: a question that the surroundings of this broker are to answer."""

    request: Request


Effect = Send | Store | Reserve | Ask | ReshapeEffect
