"""What waits for one subscriber: bounded by its credit and by its policy, whatever the subscriber does.

Deliveries wait encoded, so that they cost what they weigh. A subscriber that is too slow loses the oldest (and is told how
many), or is disconnected, or holds the publishers up for a while, as it has chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from sluice.protocol.messages import Deliver
from sluice.protocol.packing import Piece
from sluice.protocol.wire import Dropped, Policy, encode

#: What a delivery costs beside its bytes, about.
OVERHEAD_BYTES = 300


class Outbox:
    """Deliveries on their way to a subscriber."""

    __slots__ = ("_credit", "_max_bytes", "_policy", "_sent", "_untold", "_waiting", "bytes", "dropped")

    def __init__(self, policy: Policy, max_bytes: int, credit: int) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        #: How many notifications the subscriber has allowed so far, and how many it was sent.
        self._credit = credit
        self._sent = 0
        self._waiting: deque[tuple[Sequence[Piece], int, int]] = deque()
        self._untold = 0
        #: What waits, and how many notifications were ever dropped.
        self.bytes = 0
        self.dropped = 0

    def put(self, message: Deliver) -> None:
        """One more delivery."""
        pieces = encode(message)
        size = sum(map(len, pieces)) + OVERHEAD_BYTES
        self._waiting.append((pieces, len(message.batch), size))
        self.bytes += size
        if self._policy == Policy.DROP_OLDEST:
            while self.bytes > self._max_bytes and len(self._waiting) > 1:
                self.drop()

    def drop(self) -> int:
        """Gives the oldest delivery up; returns the bytes that frees."""
        _, count, size = self._waiting.popleft()
        self.bytes -= size
        self.dropped += count
        self._untold += count
        return size

    def lack(self, count: int) -> None:
        """So many notifications will never be put in: there was no room for them before."""
        self.dropped += count
        self._untold += count

    def grant(self, total: int) -> None:
        """The subscriber can take more."""
        self._credit = max(self._credit, total)

    def ready(self) -> Iterator[Sequence[Piece]]:
        """What may go out now, in order."""
        if self._untold and self._sent < self._credit:
            untold, self._untold = self._untold, 0
            yield encode(Dropped(untold))
        while self._waiting and self._sent < self._credit:
            pieces, count, size = self._waiting.popleft()
            self.bytes -= size
            self._sent += count
            yield pieces

    @property
    def can_drop(self) -> bool:
        """Whether the subscriber would rather lose something than the connection."""
        return self._policy == Policy.DROP_OLDEST and bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether more waits than should."""
        return self.bytes > self._max_bytes

    @property
    def holds_up(self) -> bool:
        """Whether publishers are to wait for this subscriber."""
        return self._policy == Policy.BLOCK and self.is_full

    @property
    def is_hopeless(self) -> bool:
        """Whether the subscriber has chosen to be disconnected now."""
        return self._policy == Policy.DISCONNECT and self.is_full
