"""FIFO links and nothing else: everybody gets publications as they arrive (section III). Keeps per-publisher order only."""

from __future__ import annotations

from sluice.sim.padres.ordering import Carrier, Ordering
from sluice.sim.padres.plan import Publication


class Fifo(Ordering[Carrier]):
    """Forwards and delivers at once."""

    def publish(self, publication: Publication) -> None:
        self._forward(publication, None)

    def receive(self, sender: str, message: Carrier) -> None:
        self._forward(message.publication, sender)

    def lose(self, neighbour: str) -> None:
        """Nothing was waiting for it."""

    def _forward(self, publication: Publication, origin: str | None) -> None:
        for hop in self.place.wanting(publication.value, but=origin):
            if self.place.is_broker(hop):
                self.send(hop, Carrier(publication))
            else:
                self.deliver(hop, publication)
