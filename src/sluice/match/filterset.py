"""A set of filters under keys of the caller's, with the questions that routing asks: who matches, covers, is covered, overlaps?

A handful of filters is asked one by one; beyond `SCAN_UP_TO` they move into a `Matcher`, whose indexes answer without
looking at all of them. Answers come in the order in which the filters were added, whichever way they were found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.match.matcher import Matcher
from sluice.model.notification import attributes, from_arrow
from sluice.model.subscription import Subscription

K = TypeVar("K", bound=Hashable)
Numbers = npt.NDArray[np.int64]

#: Up to this many looks at a filter are quicker than an index.
SCAN_UP_TO = 24


class FilterSet(Generic[K]):
    """Filters by key.

    >>> from sluice import parse
    >>> filters = FilterSet[str]()
    >>> filters.add("cheap", parse("price < 10"))
    >>> filters.add("any", parse("price IS NOT NULL"))
    >>> filters.covering(parse("price = 5")), filters.covered(parse("price < 20"))
    (['cheap', 'any'], ['cheap'])
    >>> filters.matching({"price": 50})
    ['any']
    """

    __slots__ = ("_filters", "_keys", "_matcher", "_next", "_numbers")

    def __init__(self) -> None:
        self._filters: dict[K, Subscription] = {}
        self._matcher: Matcher | None = None
        self._numbers: dict[K, int] = {}
        self._keys: dict[int, K] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __iter__(self) -> Iterator[K]:
        return iter(self._filters)

    def __getitem__(self, key: K) -> Subscription:
        return self._filters[key]

    def add(self, key: K, where: Subscription) -> None:
        """Puts a filter under a new key."""
        self._filters[key] = where
        if self._matcher is not None:
            self._number(key)
            self._matcher.add(where, id=self._numbers[key])

    def remove(self, key: K) -> None:
        """Takes the filter under a key away."""
        del self._filters[key]
        if self._matcher is not None:
            number = self._numbers.pop(key)
            del self._keys[number]
            self._matcher.remove(number)

    def index(self) -> None:
        """Makes the index now, so that no question has to wait for it; filters that come later go into it as they come."""
        if self._matcher is None:
            self._matcher = Matcher()
            for key, where in self._filters.items():
                self._number(key)
                self._matcher.add(where, id=self._numbers[key])

    def _indexed(self, records: int = 1) -> Matcher | None:
        """The index, made when the first question comes that needs it; None if a look at each is quicker."""
        if len(self._filters) * records <= SCAN_UP_TO:
            return None
        self.index()
        return self._matcher

    def _number(self, key: K) -> None:
        self._numbers[key] = self._next
        self._keys[self._next] = key
        self._next += 1

    def matching(self, record: object) -> list[K]:
        """The keys of the filters that a record satisfies."""
        index = self._indexed()
        if index is not None:
            return [self._keys[number] for number in sorted(index.match(record).tolist())]
        flat = attributes(record)
        return [key for key, where in self._filters.items() if any(box.matches(flat) for box in where.filters)]

    def matching_each(self, records: pa.RecordBatch | Sequence[object]) -> Iterator[list[K]]:
        """The keys for each of many records."""
        index = self._indexed(len(records))
        if index is None or len(records) == 1:
            yield from map(self.matching, from_arrow(records) if isinstance(records, pa.RecordBatch) else records)
            return
        offsets, numbers = index.match_batch(records)
        keys, found = self._keys, numbers.tolist()
        start = 0
        for end in offsets.tolist()[1:]:
            if end - start > 1:
                yield [keys[number] for number in sorted(found[start:end])]
            else:
                yield [keys[found[start]]] if end > start else []
            start = end

    def match_batch(self, records: pa.RecordBatch | Sequence[object]) -> tuple[Numbers, Numbers, list[K]]:
        """All matches of many records at once: for each its row and the place of its key in the list of keys.

        They are in the order of the rows, and of one row in the order in which the filters were added.

        >>> from sluice import parse
        >>> filters = FilterSet[str]()
        >>> filters.add("cheap", parse("price < 10"))
        >>> filters.add("any", parse("price IS NOT NULL"))
        >>> rows, places, keys = filters.match_batch([{"price": 5}, {"price": 50}])
        >>> [(row, keys[place]) for row, place in zip(rows.tolist(), places.tolist(), strict=True)]
        [(0, 'cheap'), (0, 'any'), (1, 'any')]
        """
        self.index()
        assert self._matcher is not None
        offsets, numbers = self._matcher.match_batch(records)
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        known, places = np.unique(numbers, return_inverse=True)
        order = np.lexsort((places, rows))
        return rows[order], places[order], [self._keys[number] for number in known.tolist()]

    def covering(self, where: Subscription) -> list[K]:
        """The keys of the filters that cover a filter."""
        index = self._indexed()
        if index is not None:
            return [self._keys[number] for number in index.covering(where)]
        return [key for key, each in self._filters.items() if each.covers(where)]

    def covered(self, where: Subscription) -> list[K]:
        """The keys of the filters that a filter covers."""
        index = self._indexed()
        if index is not None:
            return [self._keys[number] for number in index.covered(where)]
        return [key for key, each in self._filters.items() if where.covers(each)]

    def overlapping(self, where: Subscription) -> list[K]:
        """The keys of the filters that may match something that a filter matches."""
        index = self._indexed()
        if index is not None:
            return [self._keys[number] for number in index.overlapping(where)]
        return [key for key, each in self._filters.items() if each.overlaps(where)]

    def overlaps(self, where: Subscription) -> bool:
        """Whether some filter may match something that a filter matches."""
        index = self._indexed()
        if index is not None:
            return index.overlaps(where)
        return any(each.overlaps(where) for each in self._filters.values())
