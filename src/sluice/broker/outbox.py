"""What waits for one subscriber: bounded by its credit and by its policy, whatever the subscriber does.

Deliveries wait encoded, so that they cost what they weigh. A subscriber that is too slow loses the oldest (and is told how
many), or is disconnected, or holds the publishers up for a while, as it has chosen. What is said of deliveries waits behind
them, and what was dropped is told where it would have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sluice.protocol.messages import Deliver, EntryId, Passed, Ready, Skipped, Started
from sluice.protocol.packing import Piece
from sluice.protocol.wire.codec import encode
from sluice.protocol.wire.link import Dropped, Policy

#: What a delivery costs beside its bytes, about.
OVERHEAD_BYTES = 300

#: What is said of deliveries that came before it.
Remark = Started | Ready | Skipped | Passed


class Item(NamedTuple):
    """Something that waits: a delivery, a remark, or in place of deliveries that were dropped the word that they were."""

    pieces: Sequence[Piece]
    #: How many notifications it delivers, or how many were dropped.
    notifications: int
    size: int
    is_dropped: bool = False
    #: For a remark that the next one of its kind makes useless: what it is about.
    about: tuple[EntryId, ...] | None = None

    @property
    def is_delivery(self) -> bool:
        """Whether it can be dropped."""
        return self.notifications > 0 and not self.is_dropped


class Outbox:
    """Deliveries on their way to a subscriber."""

    __slots__ = ("_credit", "_deliveries", "_latest", "_max_bytes", "_policy", "_sent", "_waiting", "bytes", "dropped")

    def __init__(self, policy: Policy, max_bytes: int, credit: int) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        #: How many notifications the subscriber has allowed so far, and how many it was sent.
        self._credit = credit
        self._sent = 0
        self._waiting: deque[Item] = deque()
        #: How many of those that wait are deliveries.
        self._deliveries = 0
        #: The latest of the remarks that make earlier ones useless.
        self._latest: dict[tuple[EntryId, ...], Item] = {}
        #: What waits, and how many notifications were ever dropped.
        self.bytes = 0
        self.dropped = 0

    def put(self, message: Deliver | Remark) -> None:
        """One more delivery, or a remark."""
        pieces = encode(message)
        size = sum(map(len, pieces)) + OVERHEAD_BYTES
        count = len(message.batch) if isinstance(message, Deliver) else 0
        about = message.subscriptions if isinstance(message, Passed) and not message.offsets else None
        item = Item(pieces, count, size, about=about)
        if about is not None:
            self._latest[about] = item
        self._waiting.append(item)
        self._deliveries += count > 0
        self.bytes += size
        if self._policy == Policy.DROP_OLDEST:
            while self.bytes > self._max_bytes and self._deliveries > 1:
                self.drop()

    def drop(self) -> int:
        """Gives the oldest delivery up, with useless remarks before it; returns the bytes that frees."""
        before: list[Item] = []
        freed = 0
        while not (oldest := self._waiting.popleft()).is_delivery:
            if oldest.about is not None and self._latest[oldest.about] is not oldest:
                freed += oldest.size
            elif before and oldest.is_dropped and before[-1].is_dropped:
                before[-1] = oldest._replace(notifications=oldest.notifications + before[-1].notifications)
            else:
                before.append(oldest)
        count = oldest.notifications
        if before and before[-1].is_dropped:
            count += before.pop().notifications
        self._waiting.appendleft(Item((), count, 0, is_dropped=True))
        self._waiting.extendleft(reversed(before))
        freed += oldest.size
        self._deliveries -= 1
        self.bytes -= freed
        self.dropped += oldest.notifications
        return freed

    def lack(self, count: int) -> None:
        """So many notifications will never be put in: there was no room for them before."""
        self.dropped += count
        if self._waiting and self._waiting[-1].is_dropped:
            count += self._waiting.pop().notifications
        self._waiting.append(Item((), count, 0, is_dropped=True))

    def grant(self, total: int) -> None:
        """The subscriber can take more."""
        self._credit = max(self._credit, total)

    def ready(self) -> Iterator[Sequence[Piece]]:
        """What may go out now, in order; remarks need no credit."""
        while self._waiting and (self._sent < self._credit or not self._waiting[0].notifications):
            item = self._waiting.popleft()
            if item.is_dropped:
                yield encode(Dropped(item.notifications))
                continue
            self.bytes -= item.size
            self._sent += item.notifications
            self._deliveries -= item.is_delivery
            if item.about is not None and self._latest[item.about] is item:
                del self._latest[item.about]
            yield item.pieces

    @property
    def can_drop(self) -> bool:
        """Whether the subscriber would rather lose something than the connection."""
        return self._policy == Policy.DROP_OLDEST and self._deliveries > 0

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
