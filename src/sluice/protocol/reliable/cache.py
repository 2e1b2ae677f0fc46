"""What has passed a broker lately, for those behind it who have missed it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import Clocks, Passage, Runs
from sluice.protocol.reliable.runs import common, rows_in, runs_of, without

#: What a passage without any data takes, about.
_QUIET_BYTES = 64


class Kept(NamedTuple):
    """A passage with its data."""

    runs: Runs
    clocks: Clocks
    batch: Batch | None


class Cache:
    """The latest passages of each stream, up to so many bytes in all."""

    __slots__ = ("_by_stream", "_bytes", "_limit")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._by_stream: OrderedDict[Peer, deque[Kept]] = OrderedDict()

    def keep(self, passage: Passage, batch: Batch | None) -> None:
        """Takes a passage in; the oldest of the stream that was heard of least lately make room for it."""
        kept = self._by_stream.setdefault(passage.stream, deque())
        kept.append(Kept(passage.runs, passage.clocks, batch))
        self._bytes += _size(batch)
        self._by_stream.move_to_end(passage.stream)
        while self._bytes > self._limit:
            stream, oldest = next(iter(self._by_stream.items()))
            self._bytes -= _size(oldest.popleft().batch)
            if not oldest:
                del self._by_stream[stream]

    def find(self, stream: Peer, runs: Runs, by: Peer, clock: int) -> Iterator[tuple[Runs, Batch | None]]:
        """What accounts for some of these offsets for a broker that needs this time of its clock known, each offset once.

        Data serves whatever time is needed; a silence only if it knows of it.
        """
        for kept in reversed(self._by_stream.get(stream, ())):
            found = common(runs, kept.runs)
            data = kept.batch
            if not found:
                continue
            if kept.clocks.get(by, 0) < clock:
                if data is None or data.logged is None:
                    continue
                found = common(found, runs_of(data.logged.offsets))
                if not found:
                    continue
            runs = without(runs, found)
            rows = rows_in(data.logged.offsets, found) if data is not None and data.logged is not None else []
            yield found, data.whole_or(rows) if data is not None and rows else None


def _size(batch: Batch | None) -> int:
    return _QUIET_BYTES + (0 if batch is None else batch.size)
