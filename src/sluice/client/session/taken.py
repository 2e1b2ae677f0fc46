"""What a client remembers of what was delivered, so that nothing is delivered to it twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sluice.limits import MAX_SEEN
from sluice.protocol.batch import Batch, Peer


class Taken:
    """What was delivered lately: a cache may send a notification again, for a newer subscription.

    Publications of one publisher come in order, so that nearly always a look at the last number says that a batch is new.
    """

    __slots__ = ("_count", "_last", "_lately")

    def __init__(self) -> None:
        self._last: dict[Peer, int] = {}
        self._lately: deque[tuple[Peer, Sequence[int]]] = deque()
        self._count = 0

    def last(self, publisher: Peer) -> int:
        """The last number of a publisher that was delivered; -1 if none was."""
        return self._last.get(publisher, -1)

    def new(self, batch: Batch, rows: Sequence[int]) -> Sequence[int]:
        """The rows that come for the first time."""
        publisher, numbers = batch.publisher, batch.numbers
        if rows and numbers[rows[0]] <= self._last.get(publisher, -1):
            old = {number for name, taken in self._lately if name == publisher for number in taken}
            rows = [row for row in rows if numbers[row] not in old]
        return rows

    def take(self, batch: Batch) -> None:
        """These count as delivered from now on."""
        publisher, numbers = batch.publisher, batch.numbers
        self._last[publisher] = max(self._last.get(publisher, -1), numbers[-1])
        self._lately.append((publisher, numbers))
        self._count += len(numbers)
        while self._count - len(self._lately[0][1]) >= MAX_SEEN:
            _, gone = self._lately.popleft()
            self._count -= len(gone)
        if len(self._last) > MAX_SEEN:
            lately = {name for name, _ in self._lately}
            self._last = {name: number for name, number in self._last.items() if name in lately}
