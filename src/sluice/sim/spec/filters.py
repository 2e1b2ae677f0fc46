"""Filters as numbers and sets of filters as bits, with every question about them asked once.

What a filter matches is also known on a list of sample records, the points; where these are all records that there are, a
question about sets of notifications is answered exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sluice.model.subscription import Subscription
from sluice.sim.trace.trace import Record

#: More filters, and sets of filters, than this are not kept in mind from one network to the next.
_MAX_FILTERS = 4_096
_MAX_UNIONS = 65_536


class Filters:
    """The filters of a network. A set of filters, and a set of points, is an integer with a bit for each."""

    def __init__(self, points: Sequence[Record] = ()) -> None:
        self.points = points
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[Subscription, int] = {}
        self._filters: list[Subscription] = []
        self._matching: list[int | None] = []
        self._covers: dict[tuple[int, int], bool] = {}
        self._overlaps: dict[tuple[int, int], bool] = {}
        self._parts: dict[int, tuple[int, ...]] = {}
        self._unions: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def trim(self) -> None:
        """Forgets everything if that is a lot; all numbers are void then."""
        if len(self) > _MAX_FILTERS:
            self._forget()

    def __getitem__(self, number: int) -> Subscription:
        return self._filters[number]

    def number(self, where: Subscription) -> int:
        """The number of a filter; equal filters have the same."""
        number = self._numbers.get(where)
        if number is None:
            number = self._numbers[where] = len(self._filters)
            self._filters.append(where)
            self._matching.append(None)
        return number

    def set_of(self, filters: Iterable[Subscription]) -> int:
        """A set of filters."""
        found = 0
        for where in filters:
            found |= 1 << self.number(where)
        return found

    def parts(self, number: int) -> tuple[int, ...]:
        """The boxes of a filter, each a filter of its own."""
        if number not in self._parts:
            where = self[number]
            alone = len(where.filters) == 1
            boxes = [number] if alone else [self.number(Subscription([box])) for box in where.filters]
            self._parts[number] = tuple(boxes)
        return self._parts[number]

    def matching(self, filters: int) -> int:
        """The points that match any of a set of filters."""
        found = self._unions.get(filters)
        if found is None:
            found = 0
            for number in members(filters):
                found |= self._points_of(number)
            if len(self._unions) >= _MAX_UNIONS:
                self._unions.clear()
            self._unions[filters] = found
        return found

    def _points_of(self, number: int) -> int:
        found = self._matching[number]
        if found is None:
            where = self[number]
            found = sum(1 << i for i, point in enumerate(self.points) if where.matches(point))
            self._matching[number] = found
        return found

    def covers(self, a: int, b: int) -> bool:
        """Whether one filter surely covers another."""
        if a == b:
            return True
        answer = self._covers.get((a, b))
        if answer is None:
            answer = self._covers[a, b] = self[a].covers(self[b])
        return answer

    def overlaps(self, a: int, b: int) -> bool:
        """Whether something may match both filters."""
        answer = self._overlaps.get((a, b))
        if answer is None:
            answer = self._overlaps[a, b] = self[a].overlaps(self[b])
        return answer

    def overlaps_any(self, number: int, filters: int) -> bool:
        """Whether a filter overlaps one of a set."""
        return any(self.overlaps(number, other) for other in members(filters))

    def is_covered(self, number: int, filters: int) -> bool:
        """Whether each box of a filter surely lies in one of a set of filters."""
        if filters >> number & 1:
            return True
        return all(any(self.covers(other, part) for other in members(filters)) for part in self.parts(number))

    def point(self, points: int) -> Record:
        """One of a set of points."""
        return self.points[(points & -points).bit_length() - 1]


def members(bits: int) -> Iterator[int]:
    """The numbers in a set, in rising order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
