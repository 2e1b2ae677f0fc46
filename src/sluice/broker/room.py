"""The memory of a broker: what waits for all clients together has a bound, and whoever takes most gives way.

A client has deliveries in its outbox, which it is too slow for, and deliveries that are held back until their turn in the order
of all has come. Both count. That something is held back is not the client's fault: whatever it has chosen for being slow, it
loses the oldest of that, and is told, but never the connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.broker.peering import Peering
from sluice.protocol.batch import Peer
from sluice.protocol.order.ordering import Ordering


class Room:
    """What waits for the peers of one broker, and how much may."""

    def __init__(self, peers: Mapping[Peer, Peering], max_bytes: int) -> None:
        self._peers = peers
        self._max_bytes = max_bytes
        #: What waits in all outboxes.
        self.outbox_bytes = 0

    def is_short(self, order: Ordering) -> bool:
        """Whether so much is held back for order that publishers had better wait."""
        return order.held_bytes > self._max_bytes // 4

    def make(self, order: Ordering) -> None:
        """Has whoever takes most give up the oldest, until the rest has room."""
        while self.outbox_bytes + order.held_bytes > self._max_bytes:
            taken = {
                peering: peering.outbox.bytes + order.held_for(peering.name)
                for peering in self._peers.values()
                if not peering.connection.closing
            }
            largest = max(taken, key=lambda peering: taken[peering], default=None)
            if largest is None or not taken[largest]:
                return
            if largest.outbox.bytes > order.held_for(largest.name):
                largest.shed()
            else:
                largest.outbox.lack(order.give_up(largest.name))
                largest.drain()
