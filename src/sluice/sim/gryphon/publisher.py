"""The PHB's stream: a log of publications with the stamps they went out with, which is trimmed when every SHB has acknowledged.

The log outlives the broker. Acknowledgements do not: after a restart every SHB is heard again before anything is trimmed.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.sim.gryphon.message import Ack, Message, Nack, Stamp, joined

#: How many messages one question is answered with.
WINDOW = 8


class Stream:
    """The log of one publisher; sequence numbers count from 1."""

    __slots__ = ("_acked", "_log", "_shbs", "trimmed")

    def __init__(self, shbs: tuple[str, ...]) -> None:
        self._shbs = shbs
        self._log: list[tuple[int, Stamp]] = []
        self._acked: dict[str, int] = {}
        #: All up to here is gone.
        self.trimmed = 0

    @property
    def head(self) -> int:
        """The number of the newest publication."""
        return len(self._log)

    def record(self, sequence: int) -> int:
        """What was published under a number, trimmed or not: for checks."""
        return self._log[sequence - 1][0]

    def publish(self, record: int, stamp: Stamp) -> Message:
        """Logs a publication."""
        self._log.append((record, stamp))
        return Message(self.head, record, stamp)

    def answer(self, nack: Nack) -> Iterator[Message]:
        """What an SHB lacks, with those that it needs in S(m): data may be raised, for nobody has filtered it."""
        for sequence in range(max(nack.after, self.trimmed) + 1, min(nack.after + WINDOW, self.head) + 1):
            record, stamp = self._log[sequence - 1]
            yield Message(sequence, record, joined(stamp, nack.needed), to=nack.shb)

    def acknowledge(self, ack: Ack) -> None:
        """Trims what every SHB has passed."""
        self._acked[ack.shb] = max(ack.cursor, self._acked.get(ack.shb, 0))
        if len(self._acked) == len(self._shbs):
            self.trimmed = max(self.trimmed, min(self._acked.values()))

    def crash(self) -> None:
        """Keeps what is on disk."""
        self._acked.clear()
