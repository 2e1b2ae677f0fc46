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
from sluice.protocol.route.directions import Direction, Directions
from sluice.protocol.route.stages import Counted
from sluice.protocol.route.table import Table

Index = FilterSet[tuple[Direction, Entry]]

#: From so many records on, matches are grouped by arrays instead of one by one.
MANY = 256


class Route(NamedTuple):
    """What of a batch is for one direction: the rows, and the subscriptions that say so, as in `Deliver`."""

    rows: Sequence[int]
    combinations: tuple[tuple[EntryId, ...], ...]
    which: Sequence[int]

    def among(self, rows: frozenset[int]) -> Route:
        """What of it is in some rows."""
        places = [place for place, row in enumerate(self.rows) if row in rows]
        which = [self.which[place] for place in places] if self.which else ()
        return Route([self.rows[place] for place in places], self.combinations, which)


class Forwarding:
    """Finds the entries, and so the directions, that a notification is for. Reliable subscriptions are served elsewhere."""

    __slots__ = ("_counted", "_directions", "_index", "_table")

    def __init__(self, table: Table, directions: Directions) -> None:
        self._table = table
        self._directions = directions
        self._index: Index | None = None
        #: The brokers of a node tell the same.
        self._counted: Counted[tuple[Direction, Entry]] = Counted()

    def update(self, peer: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Follows a change of a peer's entries."""
        if self._index is not None:
            come, go = self._counted.update(self._keys(peer, added), self._keys(peer, removed))
            for key in go:
                self._index.remove(key)
            for key in come:
                self._index.add(key, key[1].where)

    def _keys(self, peer: Peer, entries: Iterable[Entry]) -> Iterator[tuple[Direction, Entry]]:
        direction = self._directions.of(peer)
        return ((direction, entry) for entry in entries if not entry.reliable)

    def begin(self) -> None:
        """Makes the index now, and has it follow the table from here on: no notification waits for a large one."""
        self._made().index()

    def reset(self) -> None:
        """Forgets the index; the next notification makes it anew."""
        self._index = None

    def find(self, batches: Sequence[Batch]) -> Iterator[dict[Direction, Route]]:
        """For each batch, the directions it is for; all that came together is matched together."""
        index = self._made()
        if all(isinstance(batch, Records) for batch in batches):
            together = Notifications(chain.from_iterable(batch.notifications for batch in batches))
            yield from routes(index, together, [len(batch) for batch in batches])
        else:
            for batch in batches:
                yield from routes(index, batch.notifications, [len(batch)])

    def _made(self) -> Index:
        if self._index is None:
            self._index, self._counted = FilterSet(), Counted()
            for peer, replica in self._table.replicas.items():
                self.update(peer, replica.entries, ())
        return self._index


def routes(
    index: Index, records: Notifications | pa.RecordBatch, lengths: list[int]
) -> Iterator[dict[Direction, Route]]:
    """The routes of batches that follow each other in the records, each so long."""
    if len(records) < MANY:
        found = index.matching_each(records)
        for length in lengths:
            yield routes_of(list(islice(found, length)))
        return
    rows, places, keys = index.match_batch(records)
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(rows, ends)
    for start, end, first in zip([0, *cuts], cuts, [0, *ends], strict=False):
        yield _at_once(rows[start:end] - first, places[start:end], keys)


def routes_of(found: list[list[tuple[Direction, Entry]]]) -> dict[Direction, Route]:
    """Routes from the entries that match each row."""
    rows: dict[Direction, dict[int, tuple[EntryId, ...]]] = {}
    for row, matches in enumerate(found):
        for peer, entry in matches:
            mine = rows.setdefault(peer, {})
            mine[row] = (*mine.get(row, ()), entry.id) if entry.id is not None else mine.get(row, ())
    return {peer: _route(list(mine), list(mine.values())) for peer, mine in rows.items()}


def _route(rows: list[int], subscriptions: list[tuple[EntryId, ...]]) -> Route:
    combinations: dict[tuple[EntryId, ...], int] = {}
    which = [combinations.setdefault(ids, len(combinations)) for ids in subscriptions]
    return Route(rows, tuple(combinations), which if len(combinations) > 1 else ())


def _at_once(rows: Numbers, places: Numbers, keys: list[tuple[Direction, Entry]]) -> dict[Direction, Route]:
    """The same for many rows, without looking at each."""
    if not len(rows):
        return {}
    codes: dict[Direction, int] = {}
    code_of = np.array([codes.setdefault(peer, len(codes)) for peer, _ in keys], np.int64)[places]
    names = list(codes)
    order = np.argsort(code_of, kind="stable")
    present, starts = np.unique(code_of[order], return_index=True)
    routes: dict[Direction, Route] = {}
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
