"""Nothing counts twice: the last number that a broker has taken in from each publisher.

A publisher counts what it publishes and sends again, under the same numbers, what was not acknowledged when its link broke.
Where publications are stored, one is taken in when it is on its way to the disk and settled when it is there. When one was not
taken or could not be stored, nothing that follows it is taken before its publisher has heard of that: it might send the first
one again, and behind what followed it that would pass for an old one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping

from sluice.limits import MAX_PUBLISHERS
from sluice.protocol.batch import Batch, Peer


class Intake:
    """What has been taken in.

    >>> from sluice.protocol.batch import Records
    >>> intake = Intake({"alice": 1}, stores=False)
    >>> new = intake.fresh(Records.of("alice", 1, [{"n": 1}, {"n": 2}]))
    >>> new.numbers, intake.take(new), intake.fresh(Records.of("alice", 2, [{"n": 2}]))
    ([2], 1, None)
    """

    __slots__ = ("_halted", "_settled", "_stores", "_taken", "_under_way", "_void")

    def __init__(self, accepted: Mapping[Peer, int], *, stores: bool) -> None:
        self._taken: OrderedDict[Peer, int] = OrderedDict(accepted)
        #: Only what is stored is settled later than it is taken.
        self._settled: dict[Peer, int] = dict(accepted) if stores else self._taken
        self._stores = stores
        #: How many batches of each publisher are on their way to the disk; their answers come in the same order.
        self._under_way: Counter[Peer] = Counter()
        #: How many of the next answers are of no account, because something before them has failed.
        self._void: Counter[Peer] = Counter()
        #: How many things publishers have not heard yet of what was not taken or stored.
        self._halted: Counter[Peer] = Counter()

    def fresh(self, batch: Batch) -> Batch | None:
        """What is new in a batch; None if nothing of it is to be taken."""
        numbers, last = batch.numbers, self._taken.get(batch.publisher, 0)
        if not numbers or numbers[-1] <= last or self._halted[batch.publisher]:
            return None
        if numbers[0] > last:
            return batch
        return batch.take([row for row, number in enumerate(numbers) if number > last])

    def take(self, batch: Batch) -> int:
        """Takes in what is new; returns the last number before it."""
        publisher = batch.publisher
        last = self._taken.get(publisher, 0)
        self._taken[publisher] = batch.numbers[-1]
        self._taken.move_to_end(publisher)
        if self._stores:
            self._under_way[publisher] += 1
        elif len(self._taken) > MAX_PUBLISHERS:
            self._taken.popitem(last=False)
        return last

    def stored(self, batch: Batch) -> int:
        """A batch is on disk: the number up to which everything of its publisher is settled."""
        _decrement(self._under_way, batch.publisher)
        self._settled[batch.publisher] = batch.numbers[-1]
        return batch.numbers[-1]

    def failed(self, batch: Batch, accepted: int) -> bool:
        """A batch could not be stored, nor will what was taken after it: the disk ends at `accepted`.

        Returns whether that is news: what follows a failure fails for certain.
        """
        publisher = batch.publisher
        _decrement(self._under_way, publisher)
        if self._void[publisher]:
            _decrement(self._void, publisher)
            return False
        if self._under_way[publisher]:
            self._void[publisher] = self._under_way[publisher]
        self._taken[publisher] = self._settled[publisher] = accepted
        return True

    def halt(self, publisher: Peer) -> None:
        """Takes nothing from a publisher until it has heard what was not taken."""
        self._halted[publisher] += 1

    def heard(self, publisher: Peer) -> None:
        """A publisher has heard one such thing; it may not yet have heard the next."""
        if self._halted[publisher]:
            _decrement(self._halted, publisher)

    def unlinked(self, publisher: Peer) -> None:
        """The link of a publisher is gone: over the next one it sends again what it has not heard of."""
        self._halted.pop(publisher, None)

    def settled(self, publisher: Peer) -> int:
        """The number up to which a publisher need not send again."""
        return self._settled.get(publisher, 0)


def _decrement(counts: Counter[Peer], publisher: Peer) -> None:
    counts[publisher] -= 1
    if not counts[publisher]:
        del counts[publisher]
