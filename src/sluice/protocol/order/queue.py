"""What is held back for one client until nothing can precede it any more.

What is ordered is released by its stamp. What is not flows past, unless something of the same publisher is held: then it waits
right behind that, for the publications of one publisher never overtake each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from sluice.protocol.batch import Peer, Stamp
from sluice.protocol.messages import Deliver

#: What something that waits costs beside its bytes, about.
OVERHEAD_BYTES = 500
#: A place in the order: the time and the broker of a stamp, and the publisher's own number within it.
Key = tuple[int, Peer, int]


class Held(NamedTuple):
    """Something that waits."""

    key: Key
    #: In which order it came: nothing else decides between what has the same place.
    turn: int
    message: Deliver
    since: float

    @property
    def bytes(self) -> int:
        """What it takes while it waits, about."""
        return self.message.batch.size + OVERHEAD_BYTES


def key_of(stamp: Stamp, number: int) -> Key:
    """The place of a publication with a number of its publisher."""
    return stamp.time, stamp.broker, number


class Queue:
    """What one client is going to get."""

    __slots__ = ("_heap", "_publishers", "_turn", "bytes")

    def __init__(self) -> None:
        self._heap: list[Held] = []
        #: Of each publisher how much is held, and its last place.
        self._publishers: dict[Peer, tuple[int, Key]] = {}
        self._turn = 0
        #: What all of it takes.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def oldest(self) -> float:
        """Since when something is held back."""
        return min(held.since for held in self._heap)

    def hold(self, message: Deliver, stamp: Stamp, now: float) -> None:
        """Keeps something ordered until its time has come."""
        self._put(key_of(stamp, message.batch.numbers[0]), message, now)

    def follow(self, message: Deliver, now: float) -> bool:
        """Keeps something that is not ordered behind what is held of its publisher; False if there is no such thing."""
        held = self._publishers.get(message.batch.publisher)
        if held is None:
            return False
        self._put(held[1], message, now)
        return True

    def _put(self, key: Key, message: Deliver, now: float) -> None:
        publisher = message.batch.publisher
        count, last = self._publishers.get(publisher, (0, key))
        self._publishers[publisher] = count + 1, max(key, last)
        self._turn += 1
        held = Held(key, self._turn, message, now)
        self.bytes += held.bytes
        heappush(self._heap, held)

    def release(self, limit: float) -> Iterator[Held]:
        """What has a time up to the limit, in order."""
        while self._heap and self._heap[0].key[0] <= limit:
            yield self.pop()

    def pop(self) -> Held:
        """The first in order, whose time may not have come."""
        held = heappop(self._heap)
        self.bytes -= held.bytes
        publisher = held.message.batch.publisher
        count, last = self._publishers[publisher]
        if count == 1:
            del self._publishers[publisher]
        else:
            self._publishers[publisher] = count - 1, last
        return held
