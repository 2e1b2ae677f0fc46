"""What travels besides changes: messages of the stream and their silences downward, questions and acknowledgements upward.

A message carries its stamp, S(m): the subscriptions it was matched against so far (section 3.3), as a list of identities or as
a vector of times that says the same (section 6.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.sim.gryphon.asked import NOBODY, Asked, AskedSet
from sluice.sim.gryphon.vector import ORIGIN, Vector


@dataclass(frozen=True, slots=True)
class Listed:
    """S(m) as identities."""

    subscriptions: AskedSet = NOBODY

    def includes(self, asked: Asked) -> bool:
        """Whether a subscription is in S(m)."""
        return asked in self.subscriptions


@dataclass(frozen=True, slots=True)
class Timed:
    """S(m) as times: at each SHB, the subscriptions that begin no later."""

    vector: Vector = ORIGIN

    def includes(self, asked: Asked) -> bool:
        """Whether a subscription is in S(m)."""
        return self.vector.at(asked.shb) >= asked.begin


Stamp = Listed | Timed


def joined(one: Stamp, other: Stamp) -> Stamp:
    """The subscriptions of both stamps; they must be of the same kind."""
    if isinstance(one, Listed) and isinstance(other, Listed):
        return Listed(one.subscriptions | other.subscriptions)
    assert isinstance(one, Timed) and isinstance(other, Timed), "one network has one kind of stamp"
    return Timed(one.vector.joined(other.vector))


def projected(stamp: Stamp, shbs: frozenset[str]) -> Stamp:
    """S(m, e): the subscriptions at some SHBs only."""
    if isinstance(stamp, Listed):
        return Listed(frozenset(asked for asked in stamp.subscriptions if asked.shb in shbs))
    return Timed(stamp.vector.below(shbs))


@dataclass(frozen=True, slots=True)
class Message:
    """A publication on its way down, or the silence in its place."""

    sequence: int
    #: The position of the record in the domain; None: a silence.
    record: int | None
    stamp: Stamp
    #: The SHB that asked for it again; None: it is for all.
    to: str | None = None

    @property
    def is_silence(self) -> bool:
        """Whether somebody has filtered it out."""
        return self.record is None


@dataclass(frozen=True, slots=True)
class Nack:
    """An SHB lacks what comes after its cursor, with these subscriptions in S(m) (section 3.4)."""

    shb: str
    after: int
    needed: Stamp


@dataclass(frozen=True, slots=True)
class Ack:
    """An SHB needs nothing up to its cursor any more."""

    shb: str
    cursor: int


Asking = Nack | Ack
