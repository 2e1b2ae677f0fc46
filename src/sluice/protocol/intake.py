"""Nothing counts twice: the last number that a broker has taken in from each publisher.

A publisher counts what it publishes and sends again, under the same numbers, what was not acknowledged when its link broke.
Where publications are stored, one is taken in when it is on its way to the disk and settled when it is there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence

from sluice.limits import MAX_PUBLISHERS
from sluice.protocol.batch import Batch, Peer


class Intake:
    """What has been taken in.

    >>> from sluice.protocol.batch import Records
    >>> intake = Intake({"alice": 1}, stores=False)
    >>> new, after = intake.take(Records.of("alice", 1, [{"n": 1}, {"n": 2}]))
    >>> [*new.numbers], after, intake.take(Records.of("alice", 2, [{"n": 2}]))
    ([2], 1, None)
    """

    __slots__ = ("_heard", "_settled", "_stores", "_taken", "_under_way", "_void")

    def __init__(self, accepted: Mapping[Peer, int], *, stores: bool) -> None:
        self._taken: OrderedDict[Peer, int] = OrderedDict(accepted)
        #: Only what is stored is settled later than it is taken.
        self._settled: dict[Peer, int] = dict(accepted) if stores else self._taken
        self._stores = stores
        #: What is on its way to the disk, in order: its answers come in the same order.
        self._under_way: dict[Peer, deque[Sequence[int]]] = {}
        #: How many of these fail for certain, because something before them did.
        self._void: dict[Peer, int] = {}
        #: The last number that came over the present link of a publisher, new or not.
        self._heard: dict[Peer, int] = {}

    def take(self, batch: Batch) -> tuple[Batch, int] | None:
        """What is new in a batch, and the last number before that; None if nothing is."""
        publisher, numbers = batch.publisher, batch.numbers
        last = self._taken.get(publisher, 0)
        self._heard[publisher] = numbers[-1]
        if numbers[-1] <= last:
            return None
        if numbers[0] <= last:
            batch = batch.take([row for row, number in enumerate(numbers) if number > last])
        self._taken[publisher] = numbers[-1]
        self._taken.move_to_end(publisher)
        if self._stores:
            self._under_way.setdefault(publisher, deque()).append(batch.numbers)
        elif len(self._taken) > MAX_PUBLISHERS:
            self._taken.popitem(last=False)
        return batch, last

    def stored(self, batch: Batch) -> int:
        """A batch is on disk: the number up to which everything of its publisher is settled."""
        self._answered(batch.publisher)
        self._settled[batch.publisher] = batch.numbers[-1]
        return batch.numbers[-1]

    def failed(self, batch: Batch, accepted: int) -> tuple[int, ...]:
        """A batch could not be stored, nor will what was taken after it: the disk ends at `accepted`.

        Returns the numbers that the publisher is to be told of: what it did not say over its present link it will send again.
        """
        publisher = batch.publisher
        later = self._answered(publisher)
        if publisher in self._void:
            self._void[publisher] -= 1
            if not self._void[publisher]:
                del self._void[publisher]
            return ()
        if later:
            self._void[publisher] = len(later)
        self._taken[publisher] = self._settled[publisher] = accepted
        heard = self._heard.get(publisher, 0)
        return tuple(number for numbers in (batch.numbers, *later) for number in numbers if number <= heard)

    def _answered(self, publisher: Peer) -> Sequence[Sequence[int]]:
        """The first that was under way is not any more; returns the others."""
        under_way = self._under_way[publisher]
        under_way.popleft()
        if not under_way:
            del self._under_way[publisher]
        return under_way

    def unlinked(self, publisher: Peer) -> None:
        """The link to a publisher is gone."""
        self._heard.pop(publisher, None)

    def settled(self, publisher: Peer) -> int:
        """The number up to which a publisher need not send again."""
        return self._settled.get(publisher, 0)
