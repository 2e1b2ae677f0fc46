"""How many records matched each subscription, added up over batches: what a report needs, at a fraction of what the pairs cost.

Where matching must write every pair of record and subscription down, counting groups the records of a batch by what
they lead to and sorts them, so that most subscriptions are answered by two searches (`sluice.match.kernels.tally`). Larger
batches are cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.match.encode import encode
from sluice.match.index import Ids
from sluice.match.matcher import Matcher

Counts = npt.NDArray[np.int64]


class Counting:
    """Counts of the matches of a matcher's subscriptions. The matcher must stay as it is while they are added up.

    >>> matcher = Matcher()
    >>> matcher.load([(7, "price > 3"), (8, "price > 30"), (9, "price > 300")])
    3
    >>> counting = Counting(matcher)
    >>> counting.add([{"price": 5}, {"price": 50}])
    >>> counting.add([{"price": 40}, {"volume": 1}])
    >>> ids, counts = counting.result()
    >>> ids.tolist(), counts.tolist()
    ([7, 8], [3, 2])
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        #: Of each place in the matcher, as the `ids` of a saved one are numbered: how many records matched.
        self.by_slot: Counts = np.zeros(matcher._top, np.int64)

    def add(self, batch: pa.RecordBatch | Sequence[object]) -> None:
        """Counts the matches of a batch of records."""
        matcher = self._matcher
        with matcher._lock:
            rows = encode(batch, matcher._fields)
            if rows.inexact:  # some numbers must be compared exactly: whoever matched is confirmed one by one
                offsets, slots, candidates = matcher._index.match_rows(rows)
                _, slots = matcher._settle(offsets, slots, candidates, rows.record, rows.inexact)
                self.by_slot += np.bincount(slots, minlength=len(self.by_slot))
                return
            candidates = matcher._index.count_rows(rows, self.by_slot)
            if len(candidates):
                nobody, none = np.zeros(len(rows.upper) + 1, np.int64), np.zeros(0, np.int32)
                _, slots = matcher._settle(nobody, none, candidates, rows.record, rows.inexact)
                self.by_slot += np.bincount(slots, minlength=len(self.by_slot))

    def result(self) -> tuple[Ids, Counts]:
        """The ids that matched at all, in rising order, and how often each did."""
        slots = np.flatnonzero(self.by_slot)
        ids = self._matcher._ids[slots]
        order = np.argsort(ids)
        return ids[order], self.by_slot[slots[order]]
