"""Sets of offsets, as the stretches they are made of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from sluice.protocol.messages import Runs


def runs_of(offsets: Sequence[int]) -> Runs:
    """Rising offsets as stretches.

    >>> runs_of([1, 2, 3, 7])
    ((1, 3), (7, 7))
    """
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return ((offsets[0], offsets[-1]),)
    return union((offset, offset) for offset in offsets)


def union(runs: Iterable[tuple[int, int]]) -> Runs:
    """All offsets that are in any of these.

    >>> union([(5, 6), (1, 2), (3, 3)])
    ((1, 3), (5, 6))
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def without(runs: Runs, others: Runs) -> Runs:
    """The offsets of one set that are not in another.

    >>> without(((1, 9),), ((2, 3), (9, 12)))
    ((1, 1), (4, 8))
    """
    found: list[tuple[int, int]] = []
    for first, last in runs:
        for begin, end in others:
            if end < first or begin > last:
                continue
            if begin > first:
                found.append((first, begin - 1))
            first = end + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)


def common(runs: Runs, others: Runs) -> Runs:
    """The offsets that are in both.

    >>> common(((1, 5), (8, 9)), ((4, 8),))
    ((4, 5), (8, 8))
    """
    return tuple(
        (max(first, begin), min(last, end))
        for first, last in runs
        for begin, end in others
        if begin <= last and end >= first
    )


def within(offset: int, runs: Runs) -> tuple[int, int] | None:
    """The stretch that an offset is in."""
    return next((run for run in runs if run[0] <= offset <= run[1]), None)


def rows_in(offsets: Sequence[int], runs: Runs) -> list[int]:
    """The rows whose offsets, which rise, are in a set.

    >>> rows_in([1, 2, 5, 7], ((2, 5), (7, 9)))
    [1, 2, 3]
    """
    return [row for first, last in runs for row in range(bisect_left(offsets, first), bisect_right(offsets, last))]


def count(runs: Runs) -> int:
    """How many offsets there are.

    >>> count(((1, 3), (7, 7)))
    4
    """
    return sum(last - first + 1 for first, last in runs)


def first_of(runs: Runs, limit: int) -> Runs:
    """The first so many of the offsets.

    >>> first_of(((1, 3), (7, 9)), 4)
    ((1, 3), (7, 7))
    """
    return tuple(_first_of(runs, limit))


def _first_of(runs: Runs, limit: int) -> Iterator[tuple[int, int]]:
    for first, last in runs:
        if limit <= 0:
            return
        yield first, min(last, first + limit - 1)
        limit -= last - first + 1
