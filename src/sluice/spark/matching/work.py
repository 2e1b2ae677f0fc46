"""What a task does: batches of rows in, deliveries or counts out. These functions run in Python workers, fed by Arrow.

Deliveries come as one row for each notification and subscription, or as one row for each notification with the list of
its subscriptions. Counts leave a task as whole blocks of numbers, one for many subscriptions at a time, and are summed
up by a second task, so that it does not matter how many subscriptions there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.match.counting import Counting
from sluice.spark.matching import files
from sluice.spark.matching.index import Index, Shard, ids_between, shard
from sluice.spark.rows import REST, notifications

#: Rows that are matched in one go: enough to spread the cost of a call, few enough to stay in the processor's cache.
MATCH_ROWS = 1 << 10
#: Rows that are counted in one go: what is counted costs less the more there is of it.
COUNT_ROWS = 1 << 17
#: Rows in a batch that leaves the worker.
SENT_ROWS = 1 << 16
#: Subscriptions in a block of counts.
BLOCK = 1 << 16

SUBSCRIPTION, SUBSCRIPTIONS, COUNT, VERSION = "subscription", "subscriptions", "count", "_index"
#: Counts on their way: the place of the first subscription of a block, and a 64-bit number for each from there on.
BLOCKS = pa.schema([("first", pa.int64()), ("counts", pa.binary())])

Batches = Iterable[pa.RecordBatch]
Rows = Iterator[pa.RecordBatch]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Match:
    """Matches rows against a shard. `as_lists`: one row for each notification, instead of one for each delivery."""

    index: Index
    shard: int
    as_lists: bool
    #: Which version of changing subscriptions this is, told in a column; None where they do not change.
    version: int | None = None

    def __call__(self, batches: Batches) -> Rows:
        opened = shard(self.index, self.shard)
        for batch in batches:
            for start in range(0, batch.num_rows, MATCH_ROWS):
                yield from self._delivered(opened, batch.slice(start, MATCH_ROWS))

    def _delivered(self, opened: Shard, rows: pa.RecordBatch) -> Rows:
        for part in _by_rest(rows):
            offsets, found = opened.matcher.match_batch(notifications(part))
            if not len(found):
                continue
            if self.as_lists:
                yield self._lists(opened, part, offsets, found)
                continue
            places = np.repeat(np.arange(part.num_rows), np.diff(offsets))
            for start in range(0, len(found), SENT_ROWS):
                sent = slice(start, start + SENT_ROWS)
                columns = [opened.ids(found[sent]), *part.take(pa.array(places[sent])).columns]
                yield self._with_version([SUBSCRIPTION, *part.schema.names], columns)

    def _lists(
        self, opened: Shard, part: pa.RecordBatch, offsets: Numbers, found: npt.NDArray[np.int32]
    ) -> pa.RecordBatch:
        matched = np.flatnonzero(np.diff(offsets))
        ends = pa.array(np.append(offsets[matched], offsets[-1]), pa.int32())
        lists = pa.ListArray.from_arrays(ends, opened.ids(found))
        return self._with_version([SUBSCRIPTIONS, *part.schema.names], [lists, *part.take(pa.array(matched)).columns])

    def _with_version(self, names: list[str], columns: list[pa.Array]) -> pa.RecordBatch:
        if self.version is not None:
            names, columns = [*names, VERSION], [*columns, pa.repeat(pa.scalar(self.version), len(columns[0]))]
        return pa.RecordBatch.from_arrays(columns, names)


@dataclass(frozen=True, slots=True)
class Count:
    """Counts the rows that match each subscription of a shard, as blocks or as rows of subscription and count."""

    index: Index
    shard: int
    as_blocks: bool

    def __call__(self, batches: Batches) -> Rows:
        opened = shard(self.index, self.shard)
        counting = Counting(opened.matcher)
        for rows in gathered(batches, COUNT_ROWS):
            for part in _by_rest(rows):
                counting.add(notifications(part))
        first = self.index.starts[self.shard]
        for start in range(0, len(counting.by_slot), BLOCK):
            counts = counting.by_slot[start : start + BLOCK]
            if not counts.any():
                continue
            if self.as_blocks:
                yield pa.RecordBatch.from_arrays(
                    [pa.array([first + start]), pa.array([counts.tobytes()])], schema=BLOCKS
                )
            else:
                yield counted(self.index, first + start, counts)


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums up blocks of counts; rows of subscription and count come out, for those that matched at all."""

    index: Index

    def __call__(self, batches: Batches) -> Rows:
        sums: dict[int, Numbers] = {}
        for batch in batches:
            for first, counts in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                numbers = np.frombuffer(counts.as_buffer(), np.int64)
                sums[first] = sums[first] + numbers if first in sums else numbers
        for first in sorted(sums):
            yield counted(self.index, first, sums[first])


@dataclass(frozen=True, slots=True)
class OfFiles:
    """Does the work of a task on files: which task it is comes as its only row."""

    tasks: tuple[tuple[Match | Count, tuple[files.Piece, ...]], ...]
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Rows:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                work, pieces = self.tasks[number]
                yield from work(self._rows(work, pieces))

    def _rows(self, work: Match | Count, pieces: tuple[files.Piece, ...]) -> Rows:
        if isinstance(work, Count):
            for _, batch in files.read(pieces, files.encoded(self.schema), COUNT_ROWS):
                yield batch
            return
        for row, batch in files.read(pieces, self.schema, SENT_ROWS):
            places = pa.array(np.arange(row, row + batch.num_rows))
            yield pa.RecordBatch.from_arrays([places, *batch.columns], [files.ROW.name, *batch.schema.names])


def counted(index: Index, first: int, counts: Numbers) -> pa.RecordBatch:
    """Subscriptions from a place on, and their counts, without those that are zero."""
    some = np.flatnonzero(counts)
    ids = ids_between(index, first, first + len(counts)).take(pa.array(some))
    return pa.RecordBatch.from_arrays([ids, pa.array(counts[some])], [SUBSCRIPTION, COUNT])


def gathered(batches: Batches, rows: int) -> Rows:
    """The same rows in batches of about so many."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= rows:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _by_rest(rows: pa.RecordBatch) -> Rows:
    """The rows that have values without a column apart from those that have none, which are matched by their columns alone."""
    place = rows.schema.get_field_index(REST.name)
    if place < 0 or rows.column(place).null_count == rows.num_rows:
        yield rows
        return
    has_rest = pc.greater(pc.fill_null(pc.list_value_length(rows.column(place).cast(_PAIRS)), 0), 0)
    plain = rows.filter(pc.invert(has_rest))
    if plain.num_rows:
        yield plain.set_column(place, REST, pa.nulls(plain.num_rows, REST.type))
    if plain.num_rows < rows.num_rows:
        yield rows.filter(has_rest)


_PAIRS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]))
