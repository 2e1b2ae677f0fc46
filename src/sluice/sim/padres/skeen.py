"""Skeen's algorithm along the tree: every broker on the way proposes a time, the largest is final, and told to all of them.

Needs no advertisements, and costs a journey to the farthest subscriber and back for each publication. A subscriber's queue is
delivered in the order of times as far as they are final. A lost child counts as answered; a lost parent makes its children
drop what was not final.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Place, Publication


@dataclass(frozen=True, slots=True)
class Tentative(Carrier):
    """A publication whose time is not known yet."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """No smaller time will do for those behind the sender."""

    publication: Publication
    time: int


@dataclass(frozen=True, slots=True)
class Final:
    """The time of a publication."""

    publication: Publication
    time: int


@dataclass(frozen=True, slots=True)
class Abort:
    """The time of a publication will never be known here."""

    publication: Publication


@dataclass(slots=True)
class Open:
    """A publication whose time is not final."""

    origin: str | None
    children: list[str]
    awaited: list[str]
    time: int


class Skeen(Ordering[Tentative | Proposal | Final | Abort]):
    """Proposals up, final times down."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._clock = 0
        self._lost: dict[str, None] = {}
        self._open: dict[Publication, Open] = {}
        #: Of publishers here, in their order: a later one must not get a smaller time because fewer want it.
        self._undecided: deque[Publication] = deque()
        self._last_final = 0
        #: For each subscriber the times, with whether they are final.
        self._queues: dict[str, dict[Publication, tuple[int, bool]]] = {
            hop: {} for hop in place.subscriptions if not place.is_broker(hop)
        }

    def publish(self, publication: Publication) -> None:
        self._undecided.append(publication)
        self._begin(publication, None)

    def receive(self, sender: str, message: Tentative | Proposal | Final | Abort) -> None:
        match message:
            case Tentative():
                self._begin(message.publication, sender)
            case Proposal():
                opened = self._open.get(message.publication)
                if opened is not None:
                    opened.time = max(opened.time, message.time)
                    self._answered(message.publication, opened, sender)
            case Final():
                self._end(message.publication, message.time)
            case Abort():
                self._abort(message.publication)
            case _:
                assert_never(message)

    def lose(self, neighbour: str) -> None:
        self._lost[neighbour] = None
        for publication, opened in list(self._open.items()):
            if opened.origin == neighbour:
                self._abort(publication)
            elif neighbour in opened.children:
                opened.children.remove(neighbour)
                if neighbour in opened.awaited:
                    self._answered(publication, opened, neighbour)

    def _begin(self, publication: Publication, origin: str | None) -> None:
        self._clock += 1
        hops = [hop for hop in self.place.wanting(publication.value, but=origin) if hop not in self._lost]
        children = [hop for hop in hops if self.place.is_broker(hop)]
        opened = Open(origin, children, list(children), self._clock)
        self._open[publication] = opened
        for hop in hops:
            if self.place.is_broker(hop):
                self.send(hop, Tentative(publication))
            else:
                self._queues[hop][publication] = (self._clock, False)
        self._propose(publication, opened)

    def _answered(self, publication: Publication, opened: Open, child: str) -> None:
        opened.awaited.remove(child)
        self._propose(publication, opened)

    def _propose(self, publication: Publication, opened: Open) -> None:
        if opened.awaited:
            return
        if opened.origin is not None:
            self.send(opened.origin, Proposal(publication, opened.time))
            return
        while self._undecided and not self._open[self._undecided[0]].awaited:
            first = self._undecided.popleft()
            self._last_final = max(self._open[first].time, self._last_final + 1)
            self._end(first, self._last_final)

    def _end(self, publication: Publication, time: int) -> None:
        opened = self._open.pop(publication)
        # Whatever arrives later is proposed a larger time than anything that has been delivered.
        self._clock = max(self._clock, time)
        for child in opened.children:
            self.send(child, Final(publication, time))
        for subscriber, queue in self._queues.items():
            if publication in queue:
                queue[publication] = (time, True)
                self._release(subscriber)

    def _abort(self, publication: Publication) -> None:
        for child in self._open.pop(publication).children:
            self.send(child, Abort(publication))
        for subscriber, queue in self._queues.items():
            if queue.pop(publication, None) is not None:
                self._release(subscriber)

    def _release(self, subscriber: str) -> None:
        queue = self._queues[subscriber]
        while queue:
            first = min(queue, key=lambda one: (queue[one][0], one))
            if not queue[first][1]:
                return
            del queue[first]
            self.deliver(subscriber, first)
