"""What a protocol is: what a dispatcher does with subscriptions, publications and messages, and when a link is replaced.

One object is the protocol at one dispatcher. It has neither clock nor chance, and what it does, it says: messages to send,
publications to deliver. The network takes them after each call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from sluice.sim.cugola.pattern import NOTHING, Pattern, Patterns, Reducer
from sluice.sim.cugola.plan import Table
from sluice.sim.cugola.substitution import Substitution


@dataclass(frozen=True, slots=True)
class Event:
    """A publication on its way. Its plane says by which of two tables it travels, if there are two."""

    number: int
    value: int
    plane: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """Any message that is not an event."""

    @property
    def entries(self) -> int:
        """How many patterns it names."""
        return 0


@dataclass(frozen=True, slots=True)
class Update(Control):
    """Subscriptions and unsubscriptions: what the sender wants from now on, and what no longer."""

    added: Patterns = NOTHING
    removed: Patterns = NOTHING
    plane: int = 0

    @property
    def entries(self) -> int:
        return len(self.added) + len(self.removed)


@dataclass(frozen=True, slots=True)
class Send:
    """A message for a neighbour."""

    neighbour: str
    message: Event | Control


@dataclass(frozen=True, slots=True)
class Deliver:
    """An event for a client of this dispatcher."""

    client: str
    number: int


Effect = Send | Deliver


class Dispatcher(ABC):
    """A protocol at one dispatcher. Links are FIFO; what is sent on a link that is gone is lost."""

    def __init__(self, name: str, neighbours: tuple[str, ...]) -> None:
        self.name = name
        #: As a dictionary for its order.
        self.neighbours = dict.fromkeys(neighbours)
        self._effects: list[Effect] = []

    @abstractmethod
    def subscribe(self, client: str, pattern: Pattern) -> None:
        """A client of this dispatcher wants a pattern."""

    @abstractmethod
    def unsubscribe(self, client: str) -> None:
        """A client of this dispatcher goes."""

    @abstractmethod
    def event(self, source: str | None, event: Event) -> None:
        """An event comes from a neighbour, or is published here."""

    @abstractmethod
    def receive(self, sender: str, message: Control) -> None:
        """A message of a neighbour arrives."""

    @abstractmethod
    def replace(self, substitution: Substitution, is_graceful: bool) -> None:
        """A link is being replaced; this dispatcher is one of the four ends, and all of them are told at the same time."""

    @abstractmethod
    def table(self) -> Table:
        """What this dispatcher thinks is wanted, hop by hop."""

    def send(self, neighbour: str, message: Event | Control) -> None:
        """Sends a message."""
        self._effects.append(Send(neighbour, message))

    def hand_on(self, hop: str, event: Event, plane: int = 0) -> None:
        """Sends an event to a neighbour, or delivers it to a client."""
        if hop in self.neighbours:
            self.send(hop, Event(event.number, event.value, plane))
        else:
            self._effects.append(Deliver(hop, event.number))

    def effects(self) -> list[Effect]:
        """What has been done since the last time."""
        done, self._effects = self._effects, []
        return done


@dataclass(frozen=True, slots=True)
class Protocol:
    """How the dispatchers of a run are made, and how they reduce what they tell."""

    #: From a name, the neighbours, and the table at the start.
    make: Callable[[str, tuple[str, ...], Table], Dispatcher]
    reduce: Reducer
    #: It goes on to use the old link where that lives on; all others are without it at once.
    uses_old_link: bool = False
