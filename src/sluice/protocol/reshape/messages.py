"""What brokers say to each other to reshape their tree, what the surroundings tell them about it, and what they want done.

A *job* replaces the link between A and B by one between C and D. The chain is A .. C, D .. B in this order. `Prepare` goes
along it, `Back` returns, `Flip` follows where tables steer each other, `Last` clears the old way. These messages belong to a
link, not to one of its channels: they are sent to the broker by its plain name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from sluice.protocol.batch import Peer

if TYPE_CHECKING:
    from sluice.protocol.messages import Change, Snapshot

#: The name of a job: whoever ordered it, a slash and a number of its own, as in "b1/3". No two jobs have the same.
JobId = str
#: Where a broker can be dialled, "host:port"; None: the surroundings find it by its name.
Address = str | None
#: Whether a job can be tried again with the same plan is up to whoever ordered it; these reasons say that it may help.
AGAIN = "try again later"


@dataclass(frozen=True, slots=True)
class Plan:
    """A link is to be replaced by another: A - B by C - D, where C lies on the side of A and D on that of B."""

    job: JobId
    a: Peer
    b: Peer
    c: Peer
    d: Peer
    #: Where C finds D.
    address: Address = None


class Mark(NamedTuple):
    """Whether a link is part of the tree, as one of its ends holds; if they differ, the later generation is right."""

    generation: int
    is_member: bool


# --- messages ---------------------------------------------------------------------------------------------------------


class ReshapeMessage:
    """What brokers say to each other to reshape their tree."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Prepare(ReshapeMessage):
    """Take part in a job: hear this in its channel, and pass the same on along the chain."""

    plan: Plan
    #: The brokers that have prepared, from A on.
    path: tuple[Peer, ...]
    #: Whether A has no working link to B any more.
    is_broken: bool
    #: Whether tables steer each other anywhere on the way: then nobody flips before all have heard from both sides.
    is_steered: bool
    #: The generations that the old link and the new one will have, as far as brokers have said that know them.
    generations: tuple[int, int]
    #: What the sender tells in its new channel; a change is one of what the receiver holds of the old channel of the link.
    tables: tuple[Change | Snapshot, ...]


@dataclass(frozen=True, slots=True)
class Back(ReshapeMessage):
    """Everybody down to B takes part: hear this in the new channel, pass the same back, and flip if nothing is steered."""

    job: JobId
    #: The whole chain.
    path: tuple[Peer, ...]
    is_steered: bool
    generations: tuple[int, int]
    tables: tuple[Change | Snapshot, ...]


@dataclass(frozen=True, slots=True)
class Flip(ReshapeMessage):
    """All that steers is known on both sides: hear the rest, and let what enters the chain from now on go the new way."""

    job: JobId
    tables: tuple[Change | Snapshot, ...]


@dataclass(frozen=True, slots=True)
class Last(ReshapeMessage):
    """Nothing follows on the old channel of this link."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Parted(ReshapeMessage):
    """This link is not part of the tree any more, since this generation of it; nothing more is expected on it: hang it up."""

    generation: int


@dataclass(frozen=True, slots=True)
class Joined(ReshapeMessage):
    """This link is part of the tree again, since this later generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class Abort(ReshapeMessage):
    """The job does not take place, and why; whoever has prepared it forgets it."""

    job: JobId
    reason: str
    #: Whether somebody on the far side knows no way to B.
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Fate(ReshapeMessage):
    """Has a job taken place, at this broker? It finds its way by the broker's name, as the answer does."""

    job: JobId
    to: Peer
    by: Peer
    #: The answer; None: it is the question.
    took_place: bool | None = None


@dataclass(frozen=True, slots=True)
class Neighbours(ReshapeMessage):
    """The brokers that the sender has links to, itself left out, and where to find them."""

    addresses: Mapping[Peer, Address]


@dataclass(frozen=True, slots=True)
class Adopt(ReshapeMessage):
    """A broker between us is dead: let us be neighbours. The answer says the same, with the generation of the link."""

    dead: Peer
    job: JobId
    generation: int


#: All of them.
Reshaping = Prepare | Back | Flip | Last | Parted | Joined | Abort | Fate | Neighbours | Adopt


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Substitute:
    """An order, given at A: replace a link, with the old one alive or not. What comes of it is told by `Reshaped`."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The link that a job asked for could not be made."""

    peer: Peer
    job: JobId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Allow:
    """By hand, and at both ends: a link may be part of the tree again that was replaced."""

    peer: Peer


ReshapeEvent = Substitute | Unreachable | Allow


# --- effects ----------------------------------------------------------------------------------------------------------


class Stage(IntEnum):
    """How far a job is, as the broker sees it that was given the order."""

    #: Every broker of the chain takes part; from now on it cannot be called off.
    PREPARED = 0
    #: What is published here goes the new way.
    FLIPPED = 1
    #: The old link is gone; the job is over.
    DONE = 2
    #: Nothing has changed: the reason says why, and whether to try again. The job is over.
    REFUSED = 3
    #: Something on the chain failed too late to call it off: the reason says what. The job is over.
    FAILED = 4


class Dial(NamedTuple):
    """Open a link to a broker for a job: `LinkUp` or `Unreachable` follow, both with the job.

    If there is a link already, for a job of the other end, `LinkUp` follows at once. Other than those of the tree it is not
    dialled again when it breaks, until `LinkAdded` says that it is one of them.
    """

    peer: Peer
    address: Address
    job: JobId


class HangUp(NamedTuple):
    """A job needs a link no longer, and the tree does not either: close it, unless another job wants it too.

    Without a job: close it whatever it is for. If it is part of the tree it is dialled again at once: both ends begin anew.
    """

    peer: Peer
    job: JobId | None = None


class LinkAdded(NamedTuple):
    """A link is part of the tree from now on: it is dialled again when it breaks and when this broker starts.

    A broker that starts again must know of it, by its `Mark`.
    """

    peer: Peer
    generation: int
    address: Address = None


class LinkRemoved(NamedTuple):
    """A link was replaced and is not part of the tree any more: it is not dialled again, but closed only when `HangUp` says so.

    A broker that starts again must know of it, by its `Mark`: whoever of the two ends remembers it refuses the link.
    """

    peer: Peer
    generation: int


class Reshaped(NamedTuple):
    """How far a job is that was ordered here, for whoever has ordered it."""

    job: JobId
    stage: Stage
    #: The brokers that it touches, in the order of the chain, as far as they are known.
    path: tuple[Peer, ...] = ()
    reason: str = ""


ReshapeEffect = Dial | HangUp | LinkAdded | LinkRemoved | Reshaped
