"""The disk of a simulated broker: a log, who published how far, and durable subscriptions, all of which survive a crash.

What is handed over in one call is there as a whole afterwards or not at all, by the rules of `sluice.broker.store.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.protocol import stream as streams
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.packing import encode_batch
from sluice.protocol.questions import Failed, Resume, Resumed

#: Moments that are written down with a batch, beyond its own: few, so that little is left to chance.
RESERVED = 1


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """Publications that were logged together."""

    first: int
    count: int
    time_micros: int
    payload: bytes
    moment: int

    @property
    def last(self) -> int:
        """The offset of the last of them."""
        return self.first + self.count - 1


class Disk:
    """What a broker has on its disk."""

    __slots__ = ("_holders", "_log", "_publishers", "first", "head", "is_full", "moment", "subscriptions")

    def __init__(self) -> None:
        self._log: list[LoggedBatch] = []
        self._publishers: dict[Peer, int] = {}
        #: The first offset that is held, and the last that was given.
        self.first = 1
        self.head = 0
        #: No batch has a later moment in the order of all.
        self.moment = 0
        #: While it is, nothing can be written.
        self.is_full = False
        #: For each durable subscription its filter, and how far it is in each stream.
        self.subscriptions: dict[str, tuple[str, dict[Peer, int]]] = {}
        #: Those of them that hold the log.
        self._holders: dict[str, None] = {}

    def accepted(self) -> dict[Peer, int]:
        """For each publisher the last number that is logged."""
        return dict(self._publishers)

    def last_number(self, publisher: Peer) -> int:
        """The last number of a publisher that is logged."""
        return self._publishers.get(publisher, 0)

    def append(self, batch: Batch, after: int, now: float, moment: int) -> int | str:
        """Logs a batch: its first offset, or why it is not logged."""
        if self.is_full:
            return "the disk is full"
        if after != self.last_number(batch.publisher):
            return "something before it could not be logged"
        first = self.head + 1
        payload = b"".join(encode_batch(batch))
        self._log.append(LoggedBatch(first, len(batch), round(now * 1e6), payload, moment))
        if moment > self.moment:
            self.moment = moment + RESERVED
        self.head += len(batch)
        self._publishers[batch.publisher] = batch.numbers[-1]
        return first

    def reserve(self, moment: int) -> bool:
        """Writes down that moments up to this one are given, if there is room for that."""
        if not self.is_full:
            self.moment = max(self.moment, moment)
        return not self.is_full

    def read(self, after: int, until: int, max_bytes: int) -> Sequence[LoggedBatch]:
        """Whole batches with offsets after one and up to another, about so many bytes of them, but one if there is any."""
        found: list[LoggedBatch] = []
        size = 0
        for batch in self._log:
            if batch.last > after and batch.first <= until:
                size += len(batch.payload)
                if found and size > max_bytes:
                    break
                found.append(batch)
        return found

    def trim(self, stream: Peer, batches: int, needed_from: int | None) -> None:
        """Lets the oldest batches go, but none that somebody holds or needs; the log is of this stream."""
        held = streams.keep_from(self.subscriptions[name][1].get(stream, 0) for name in self._holders)
        kept = min((each for each in (held, needed_from) if each is not None), default=None)
        while batches and self._log and (kept is None or self._log[0].last < kept):
            del self._log[0]
            batches -= 1
        self.first = self._log[0].first if self._log else self.head + 1

    def resume(self, question: Resume) -> Resumed | Failed:
        """Where a durable subscription stopped; it is made if there is none."""
        if question.name not in self.subscriptions:
            if self.is_full:
                return Failed("the disk is full")
            self.subscriptions[question.name] = question.where, dict(question.start)
            if question.holds:
                self._holders[question.name] = None
        where, positions = self.subscriptions[question.name]
        return Resumed(where, dict(positions))

    def note(self, name: str, positions: Mapping[Peer, int]) -> bool:
        """Notes how far a durable subscription is, if there is room for that."""
        if not self.is_full and name in self.subscriptions:
            self.subscriptions[name][1].update(positions)
        return not self.is_full
