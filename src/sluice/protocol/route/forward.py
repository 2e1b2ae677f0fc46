"""Where does a notification go next? The subscription table turned into an index (section 3.3.1).

The index is made when the first notification comes and follows the table from then on: a broker that only plans or repairs its
tables does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.match.filterset import FilterSet, Numbers
from sluice.model.notification import Notifications
from sluice.protocol.batch import Batch, Peer, Records
from sluice.protocol.messages import Entry, EntryId
from sluice.protocol.route.table import Table

Index = FilterSet[tuple[Peer, Entry]]

#: From so many records on, matches are grouped by arrays instead of one by one.
MANY = 256


class Route(NamedTuple):
    """What of a batch is for one peer: the rows, and the subscriptions that say so, as in `Deliver`."""

    rows: Sequence[int]
    combinations: tuple[tuple[EntryId, ...], ...]
    which: Sequence[int]


class Forwarding:
    """Finds the entries, and so the peers, that a notification is for."""

    __slots__ = ("_index", "_table")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._index: Index | None = None

    def update(self, peer: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Follows a change of a peer's entries."""
        if self._index is not None:
            for entry in removed:
                self._index.remove((peer, entry))
            for entry in added:
                self._index.add((peer, entry), entry.where)

    def begin(self) -> None:
        """Makes the index now, and has it follow the table from here on: no notification waits for a large one."""
        self._made().index()

    def reset(self) -> None:
        """Forgets the index; the next notification makes it anew."""
        self._index = None

    def find(self, batches: Sequence[Batch]) -> Iterator[dict[Peer, Route]]:
        """For each batch, the peers it is for; all that came together is matched together."""
        index = self._made()
        if all(isinstance(batch, Records) for batch in batches):
            together = Notifications(chain.from_iterable(batch.notifications for batch in batches))
            yield from _routes(index, together, [len(batch) for batch in batches])
        else:
            for batch in batches:
                yield from _routes(index, batch.notifications, [len(batch)])

    def _made(self) -> Index:
        if self._index is None:
            self._index = FilterSet()
            for peer, entry in self._table.contents():
                self._index.add((peer, entry), entry.where)
        return self._index


def _routes(index: Index, records: Notifications | pa.RecordBatch, lengths: list[int]) -> Iterator[dict[Peer, Route]]:
    """The routes of batches that follow each other in the records, each so long."""
    if len(records) < MANY:
        found = index.matching_each(records)
        for length in lengths:
            yield _one_by_one(list(islice(found, length)))
        return
    rows, places, keys = index.match_batch(records)
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(rows, ends)
    for start, end, first in zip([0, *cuts], cuts, [0, *ends], strict=False):
        yield _at_once(rows[start:end] - first, places[start:end], keys)


def _one_by_one(found: list[list[tuple[Peer, Entry]]]) -> dict[Peer, Route]:
    """Routes from the entries that match each row."""
    rows: dict[Peer, dict[int, tuple[EntryId, ...]]] = {}
    for row, matches in enumerate(found):
        for peer, entry in matches:
            mine = rows.setdefault(peer, {})
            mine[row] = (*mine.get(row, ()), entry.id) if entry.id is not None else mine.get(row, ())
    return {peer: _route(list(mine), list(mine.values())) for peer, mine in rows.items()}


def _route(rows: list[int], subscriptions: list[tuple[EntryId, ...]]) -> Route:
    combinations: dict[tuple[EntryId, ...], int] = {}
    which = [combinations.setdefault(ids, len(combinations)) for ids in subscriptions]
    return Route(rows, tuple(combinations), which if len(combinations) > 1 else ())


def _at_once(rows: Numbers, places: Numbers, keys: list[tuple[Peer, Entry]]) -> dict[Peer, Route]:
    """The same for many rows, without looking at each."""
    if not len(rows):
        return {}
    codes: dict[Peer, int] = {}
    code_of = np.array([codes.setdefault(peer, len(codes)) for peer, _ in keys], np.int64)[places]
    names = list(codes)
    order = np.argsort(code_of, kind="stable")
    present, starts = np.unique(code_of[order], return_index=True)
    routes: dict[Peer, Route] = {}
    for code, part in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        mine, entries = rows[part], places[part]
        if (mine[1:] == mine[:-1]).any():
            matches: dict[int, tuple[EntryId, ...]] = {}
            for row, place in zip(mine.tolist(), entries.tolist(), strict=True):
                id = keys[place][1].id
                matches[row] = matches.get(row, ()) + (() if id is None else (id,))
            routes[names[code]] = _route(list(matches), list(matches.values()))
        else:
            known, which = np.unique(entries, return_inverse=True)
            ids = tuple(() if keys[place][1].id is None else (keys[place][1].id,) for place in known.tolist())
            routes[names[code]] = Route(mine.tolist(), ids, which.tolist() if len(ids) > 1 else ())
    return routes
