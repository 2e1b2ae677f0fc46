"""Keys and floors: one key decides for everybody, and everybody waits until no link can undercut it.

A publication gets the key (Lamport time, broker) where it is published. A *floor* on a link is a promise: whatever comes later
on this link has a larger time. A subscriber's queue is delivered in the order of keys, as far as all links from which
publications may come have promised. Who waits asks for a floor; floors of many publications coalesce.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Place, Publication


class Key(NamedTuple):
    """The place of a publication in the order of everything."""

    time: int
    broker: str


@dataclass(frozen=True, slots=True)
class Stamped(Carrier):
    """A publication with its key, and what its sender can promise right behind it."""

    key: Key
    floor: int


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for a floor of this height."""

    time: int


@dataclass(frozen=True, slots=True)
class Floor:
    """Promises that everything later on this link has a larger time."""

    time: int


@dataclass(slots=True)
class Link:
    """What was said about time on a link, in both directions."""

    #: The neighbour has promised that, and was asked for that.
    heard: int = 0
    asked: int = 0
    #: The neighbour was promised that, and wants that.
    promised: int = 0
    wanted: int = 0


class Floors(Ordering[Stamped | Request | Floor]):
    """Keys and floors at one broker."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._clock = 0
        self._links = {neighbour: Link() for neighbour in place.neighbours}
        #: Nothing can come from where nobody advertises, so nobody waits for it.
        self._sources = [neighbour for neighbour in place.neighbours if place.advertisements.get(neighbour)]
        self._queues: dict[str, list[tuple[Key, Publication]]] = {
            hop: [] for hop in place.subscriptions if not place.is_broker(hop)
        }

    def publish(self, publication: Publication) -> None:
        self._clock += 1
        self._handle(publication, Key(self._clock, self.place.broker), None)
        self._settle()

    def receive(self, sender: str, message: Stamped | Request | Floor) -> None:
        link = self._links[sender]
        match message:
            case Stamped():
                self._hear(link, message.floor)
                self._clock = max(self._clock, message.key.time)
                # Who sends a publication knows that a floor for it is wanted.
                link.asked = max(link.asked, message.key.time)
                self._handle(message.publication, message.key, sender)
            case Request():
                self._clock = max(self._clock, message.time)
                link.wanted = max(link.wanted, message.time)
            case Floor():
                self._hear(link, message.time)
            case _:
                assert_never(message)
        self._settle()

    def lose(self, neighbour: str) -> None:
        # Nothing will come from there any more, which is the highest of all floors.
        del self._links[neighbour]
        if neighbour in self._sources:
            self._sources.remove(neighbour)
        self._settle()

    def _hear(self, link: Link, floor: int) -> None:
        link.heard = max(link.heard, floor)
        self._clock = max(self._clock, floor)

    def _handle(self, publication: Publication, key: Key, origin: str | None) -> None:
        for hop in self.place.wanting(publication.value, but=origin):
            if not self.place.is_broker(hop):
                heapq.heappush(self._queues[hop], (key, publication))
            elif hop in self._links:
                link = self._links[hop]
                link.wanted = max(link.wanted, key.time)
                link.promised = self._floor_for(hop)
                self.send(hop, Stamped(publication, key, link.promised))

    def _floor_for(self, neighbour: str) -> int:
        """What can be promised: later ones come from here, after the clock, or from other neighbours, above their floors."""
        heard = (self._links[source].heard for source in self._sources if source != neighbour)
        return min((self._clock, *heard))

    def _settle(self) -> None:
        """Delivers, promises and asks as far as what is known now allows or demands."""
        lowest = min((self._links[source].heard for source in self._sources), default=self._clock)
        held = 0
        for subscriber, queue in self._queues.items():
            while queue and queue[0][0].time <= lowest:
                self.deliver(subscriber, heapq.heappop(queue)[1])
            held = max(held, max((key.time for key, _ in queue), default=0))
        if held:
            # For the largest at once: head by head, the last one would wait for as many round trips as are before it.
            self._ask(held, None)
        for neighbour, link in self._links.items():
            if link.wanted <= link.promised:
                continue
            floor = self._floor_for(neighbour)
            if floor > link.promised:
                # Also if it is not all that was wanted: it may be all that the head of a queue is waiting for.
                link.promised = floor
                self.send(neighbour, Floor(floor))
            if floor < link.wanted:
                self._ask(link.wanted, neighbour)

    def _ask(self, time: int, on_behalf_of: str | None) -> None:
        for source in self._sources:
            link = self._links[source]
            if source != on_behalf_of and link.heard < time and link.asked < time:
                link.asked = time
                self.send(source, Request(time))
