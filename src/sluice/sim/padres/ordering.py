"""What an algorithm is: what a broker does with a publication, with a message about order, and when a link breaks.

One object is the algorithm at one broker. It knows its `Place` and nothing else, has neither clock nor chance, and what it
does, it says: messages to send, publications to deliver. The network takes them after each call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sluice.sim.padres.plan import Place, Publication


@dataclass(frozen=True, slots=True)
class Carrier:
    """A message that carries a publication; every other one is a control message."""

    publication: Publication


@dataclass(frozen=True, slots=True)
class Send:
    """A message for a neighbour."""

    neighbour: str
    message: Any


@dataclass(frozen=True, slots=True)
class Deliver:
    """A publication for a subscriber of this broker."""

    subscriber: str
    publication: Publication


Effect = Send | Deliver
Message = TypeVar("Message")


class Ordering(ABC, Generic[Message]):
    """An algorithm at one broker. Links are FIFO; nothing arrives from a neighbour after it is lost."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._effects: list[Effect] = []

    @abstractmethod
    def publish(self, publication: Publication) -> None:
        """A publisher of this broker publishes."""

    @abstractmethod
    def receive(self, sender: str, message: Message) -> None:
        """A message of a neighbour arrives."""

    @abstractmethod
    def lose(self, neighbour: str) -> None:
        """The link to a neighbour is broken, or the neighbour has crashed: from here that is the same."""

    def send(self, neighbour: str, message: Message) -> None:
        """Sends a message; one for a neighbour that was lost goes nowhere."""
        self._effects.append(Send(neighbour, message))

    def deliver(self, subscriber: str, publication: Publication) -> None:
        """Hands a publication to a subscriber of this broker."""
        self._effects.append(Deliver(subscriber, publication))

    def effects(self) -> list[Effect]:
        """What has been done since the last time."""
        done, self._effects = self._effects, []
        return done
