"""What reliable delivery says of streams, in few bytes: stretches of offsets as distances, vectors of clocks by number.

Few vectors are in use on a link at a time, and every passage has one. So each is spelled out once on a connection, together
with a number, and is only its number from then on. Each end of a connection has a `ClocksSaid` and a `ClocksHeard`, which count
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.errors import ProtocolError
from sluice.limits import MAX_CLOCKS, MAX_RUNS, MAX_VECTORS
from sluice.protocol.batch import Peer
from sluice.protocol.messages import Clocks, Runs
from sluice.protocol.packing import check_name

#: A vector on the wire: the number that it has already, or the number that it has from now on and the vector.
Vector = int | tuple[int, dict[str, int]]
#: No offset and no time is as high.
_END = 1 << 63


class ClocksSaid:
    """The vectors that one end of a connection has spelled out; the oldest makes room where there are too many.

    >>> said = ClocksSaid()
    >>> said.number({"a": 1}), said.number({"a": 2}), said.number({"a": 1})
    ((0, {'a': 1}), (1, {'a': 2}), 0)
    """

    __slots__ = ("_next", "_numbers", "_vectors")

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[Peer, int], ...], int] = {}
        self._vectors: list[tuple[tuple[Peer, int], ...]] = []
        self._next = 0

    def number(self, clocks: Clocks) -> Vector:
        """How a vector is said."""
        vector = tuple(clocks.items())
        known = self._numbers.get(vector)
        if known is not None:
            return known
        number, self._next = self._next, (self._next + 1) % MAX_VECTORS
        if number == len(self._vectors):
            self._vectors.append(vector)
        else:
            del self._numbers[self._vectors[number]]
            self._vectors[number] = vector
        self._numbers[vector] = number
        return number, dict(vector)


class ClocksHeard:
    """The vectors that the other end has spelled out.

    >>> heard = ClocksHeard()
    >>> heard.vector((0, {"a": 1})), heard.vector(0)
    ({'a': 1}, {'a': 1})
    """

    __slots__ = ("_vectors",)

    def __init__(self) -> None:
        self._vectors: list[Clocks] = []

    def vector(self, said: Vector) -> Clocks:
        """What was said."""
        if isinstance(said, int):
            if not 0 <= said < len(self._vectors):
                raise ProtocolError(f"the clocks with the number {said} were never spelled out")
            return self._vectors[said]
        number, clocks = said
        if not 0 <= number <= min(len(self._vectors), MAX_VECTORS - 1):
            raise ProtocolError(f"{number} is no number for clocks: they are counted up to {MAX_VECTORS - 1}")
        self._vectors[number : number + 1] = [check_clocks(clocks)]
        return clocks


def check_clocks(clocks: Mapping[str, int]) -> Clocks:
    """The clocks, if they can be some."""
    if len(clocks) > MAX_CLOCKS:
        raise ProtocolError(f"the clocks of {len(clocks):,} brokers came, and there are {MAX_CLOCKS:,} at most")
    for name, time in clocks.items():
        check_name(name)
        if not 0 <= time < _END:
            raise ProtocolError(f"the clock of {name} cannot be at {time}")
    return clocks


def encode_runs(runs: Runs) -> list[int]:
    """Stretches as distances: from the end of the one before to the first offset, and from there to the last.

    >>> encode_runs(((5, 7), (10, 10)))
    [5, 2, 3, 0]
    """
    said: list[int] = []
    before = 0
    for first, last in runs:
        said += (first - before, last - first)
        before = last
    return said


def decode_runs(said: Sequence[int]) -> Runs:
    """The stretches that distances lead to.

    >>> decode_runs([5, 2, 3, 0])
    ((5, 7), (10, 10))
    """
    if len(said) % 2 or not 2 <= len(said) <= 2 * MAX_RUNS:
        raise ProtocolError(
            f"{len(said):,} numbers came for 1 to {MAX_RUNS:,} stretches of offsets, of two numbers each"
        )
    runs: list[tuple[int, int]] = []
    before = -1  # the first stretch may begin with offset 1, the next ones leave an offset out
    for distance, length in zip(said[::2], said[1::2], strict=True):
        first = max(before, 0) + distance
        if first < before + 2 or length < 0 or first + length >= _END:
            raise ProtocolError(f"{distance} and {length} after {max(before, 0)} are no stretch of offsets behind it")
        before = first + length
        runs.append((first, before))
    return tuple(runs)


def check_covered(offsets: Sequence[int], runs: Runs) -> None:
    """Raises an error if a passage does not account for all that comes with it; both rise."""
    number = 0
    for offset in (offsets[0], offsets[-1]) if len(runs) == 1 else offsets:
        while number < len(runs) and runs[number][1] < offset:
            number += 1
        if number == len(runs) or offset < runs[number][0]:
            raise ProtocolError(f"a passage brings offset {offset} and does not account for it")
