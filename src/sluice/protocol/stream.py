"""Reading a log: what of a range satisfies a filter, page by page.

A log holds batches as they were stored, under offsets that count up by one. An answer says how far it has looked, so that a
reader continues from there whether something matched or not, and which offsets are gone: damaged, or past their retention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sluice.match.filterset import FilterSet
from sluice.model import parse
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Logged, Peer
from sluice.protocol.packing import decode_batch, open_batch
from sluice.protocol.questions import Fetch, Fetched

#: How much of a log is looked at for one answer, so that a filter that matches nothing does not keep a broker busy.
SCAN_BYTES = 8 << 20
_EVERYTHING = parse("true")


class StoredBatch(Protocol):
    """A batch in a log: the offset of its first publication, and its bytes."""

    @property
    def first(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def time_micros(self) -> int: ...
    @property
    def moment(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


#: Whole batches with offsets after one and up to another, about so many bytes of them, but one if there is any.
Read = Callable[[int, int, int], Sequence[StoredBatch]]


class Stream:
    """One log, for one reader at a time."""

    __slots__ = ("_name", "_read")

    def __init__(self, name: Peer, read: Read) -> None:
        self._name = name
        self._read = read

    def fetch(self, question: Fetch, where: FilterSet[None] | None, first: int, head: int) -> Fetched:
        """Answers a question about a log that holds the offsets from `first` to `head`; without a filter, all is wanted."""
        until = head if question.until is None else min(question.until, head)
        missing: list[tuple[int, int]] = []
        batches: list[Batch] = []
        at = max(question.after, 0) + 1
        if at < first:
            missing.append((at, min(first - 1, until)))
            at = min(first, until + 1)
        found = scanned = 0
        while at <= until and found < question.max_bytes and scanned < SCAN_BYTES:
            page = self._read(at - 1, until, question.max_bytes)
            if not page:
                missing.append((at, until))
                at = until + 1
            for stored in page:
                if stored.first > at:
                    missing.append((at, stored.first - 1))
                scanned += len(stored.payload)
                batch = self._matching(stored, where, at, until)
                if batch is not None:
                    batches.append(batch)
                    found += batch.size
                at = min(stored.first + stored.count - 1, until) + 1
                if found >= question.max_bytes:
                    break
        return Fetched(tuple(batches), max(at - 1, question.after), first, head, tuple(missing))

    def _matching(self, stored: StoredBatch, where: FilterSet[None] | None, start: int, end: int) -> Batch | None:
        """What of a batch lies in the range and satisfies the filter."""
        offsets = range(stored.first, stored.first + stored.count)
        logged = Logged(self._name, offsets, stored.time_micros, stored.moment)
        if where is None:
            # It was looked at before it was stored, and the log serves nothing that has changed since.
            within = range(max(start - stored.first, 0), min(end + 1 - stored.first, stored.count))
            return open_batch(stored.payload).placed(logged).whole_or(within) if within else None
        batch = decode_batch(stored.payload)
        rows = [
            row
            for row, keys in enumerate(where.matching_each(batch.notifications))
            if keys and start <= offsets[row] <= end
        ]
        return batch.placed(logged).whole_or(rows) if rows else None


def keep_from(read: Iterable[int]) -> int | None:
    """The first offset that a log must keep for those who hold it and have read it up to these; None if nobody does."""
    return min((offset + 1 for offset in read), default=None)


def only(where: Subscription) -> FilterSet[None] | None:
    """One filter, as a log is read with; None if everything satisfies it."""
    if where == _EVERYTHING:
        return None
    filters: FilterSet[None] = FilterSet()
    filters.add(None, where)
    return filters
