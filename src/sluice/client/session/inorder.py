"""How far a client has come in the order of all: what precedes that is withheld from its program, and the program is told.

A broker releases by stamps. Only where it could not know of something, because a link or a broker was gone, may that come too
late; and only the client itself remembers what it got from another broker, or before its broker was started again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.protocol.batch import Batch
from sluice.protocol.order.queue import Key, key_of


class InOrder:
    """The last place that was taken.

    >>> from sluice.protocol.batch import Records, Stamp
    >>> order = InOrder()
    >>> first, second = (Records.of("alice", 1, [{"n": n}]).stamped(Stamp(n, "b")) for n in (1, 2))
    >>> order.take(second, [0]), order.take(first, [0])
    (([0], []), ([], [0]))
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Key | None = None

    @property
    def time(self) -> int:
        """The time of the last place; 0 if there is none."""
        return 0 if self._last is None else self._last[0]

    def take(self, batch: Batch, rows: Sequence[int], number: int = -1) -> tuple[Sequence[int], Sequence[int]]:
        """Goes on to the end of a batch; returns the rows that are in order and those that are too late.

        `number` is the last one of the same publisher that the program has got, in order or not: nothing before it may follow.
        """
        stamp, numbers, last = batch.stamp, batch.numbers, self._last
        if stamp is None or not rows:
            return rows, []
        late: Sequence[int] = []
        if numbers[rows[0]] <= number or (last is not None and key_of(stamp, numbers[rows[0]]) <= last):
            late = [
                row
                for row in rows
                if numbers[row] <= number or (last is not None and key_of(stamp, numbers[row]) <= last)
            ]
            rows = rows[len(late) :]
        if rows:
            self._last = key_of(stamp, numbers[rows[-1]])
        return rows, late
