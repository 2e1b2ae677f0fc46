"""Rooted sequencing: publications travel up to a root, and come down from it in the order in which they got there.

Links are FIFO, so whoever gets two publications gets them in the root's order; no message is about order alone. The root is
the median of the tree. A broker that loses its parent is the root of its own side from then on, and begins with what it had
sent up and not seen come down: in the old root's order that can only stand behind everything that did come down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Place, Publication


@dataclass(frozen=True, slots=True)
class Up(Carrier):
    """A publication that has no place in the order yet."""


@dataclass(frozen=True, slots=True)
class Down(Carrier):
    """The next publication in the order of the root."""


class Rooted(Ordering[Up | Down]):
    """Up until the root, then down."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._parent = place.upward
        #: Sent up, wanted below, and not come down yet.
        self._pending: dict[Publication, None] = {}

    def publish(self, publication: Publication) -> None:
        if self._parent is None:
            self._sequence(publication)
            return
        if self.place.wanting(publication.value, but=self._parent):
            self._pending[publication] = None
        self.send(self._parent, Up(publication))

    def receive(self, sender: str, message: Up | Down) -> None:
        match message:
            case Up():
                self.publish(message.publication)
            case Down():
                self._pending.pop(message.publication, None)
                self._sequence(message.publication)
            case _:
                assert_never(message)

    def lose(self, neighbour: str) -> None:
        if neighbour == self._parent:
            self._parent = None
            for publication in self._pending:
                self._sequence(publication)
            self._pending.clear()

    def _sequence(self, publication: Publication) -> None:
        for hop in self.place.wanting(publication.value, but=self._parent):
            if self.place.is_broker(hop):
                self.send(hop, Down(publication))
            else:
                self.deliver(hop, publication)
