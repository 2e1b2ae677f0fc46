"""What every broker does: it hears changes from below, tells them upward, and routes messages downward (sections 3.3 and 4.1).

Routing is directed by sufficiency: a message is filtered out for an edge only where the broker knows every subscription that
the message was matched against; otherwise it goes on as it is. A filtered message goes on as a silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from sluice.sim.gryphon.asked import Asked, Known, Oracle
from sluice.sim.gryphon.change import Upward
from sluice.sim.gryphon.conjunction import Conjunctions
from sluice.sim.gryphon.message import Message, Stamp, projected


class Tables(ABC):
    """What the tables of all brokers have in common."""

    __slots__ = ()

    @abstractmethod
    def restated(self) -> tuple[Upward, ...]:
        """All that upstream should know, for a neighbour that may have missed something."""

    @abstractmethod
    def raised(self, message: Message) -> Message:
        """A message that came from above, with the subscriptions of one's own that may be added to S(m)."""


class Leaf(Tables):
    """The tables of an SHB, which outlive it."""

    __slots__ = ()

    @abstractmethod
    def subscribe(self, id: str, conjunctions: Conjunctions) -> tuple[Asked, tuple[Upward, ...]]:
        """A new subscription, and what is to be told of it."""

    @abstractmethod
    def unsubscribe(self, asked: Asked) -> tuple[int, tuple[Upward, ...]]:
        """The virtual end time of a subscription that goes, and what is to be told of it."""

    @abstractmethod
    def flush(self) -> tuple[Upward, ...]:
        """What is to be told and was not told at once."""

    @abstractmethod
    def needed(self, started: tuple[Asked, ...]) -> Stamp:
        """What S(m) must have so that these subscriptions are in it."""


class Router(Tables):
    """The tables of a PHB or of a broker between: one edge to each child node."""

    __slots__ = ()

    @abstractmethod
    def hear(self, child: str, change: Upward) -> tuple[Upward, ...]:
        """Applies what a child says, if it may, and returns what is to be told upward."""

    @abstractmethod
    def stamp(self) -> Stamp:
        """S(m) of a message that is published here."""

    @abstractmethod
    def is_sufficient(self, child: str, stamp: Stamp) -> bool:
        """Whether all subscriptions of a projected stamp are known or known to be gone (definition 3.6)."""

    @abstractmethod
    def conjunctions(self, child: str) -> Conjunctions:
        """Λ(e)."""

    @abstractmethod
    def known(self, child: str, oracle: Oracle) -> Known:
        """S(e) and S̄(e); where they are not kept as sets, the oracle spells them out."""

    def route(self, child: str, shbs: frozenset[str], message: Message) -> Message:
        """What goes down an edge in place of a message; `shbs` are those behind the edge."""
        stamp = projected(message.stamp, shbs)
        record = message.record
        if record is not None and self.is_sufficient(child, stamp):
            wanted = any(one.matches(record) for one in self.conjunctions(child))
            record = record if wanted else None
        return replace(message, record=record, stamp=stamp)
