"""Reads an archive without Spark: what of it satisfies a filter, between two moments or the last so many, in the order of time.

Three sieves, each finer than the one before: files whose day, times or box cannot hold anything are not opened, row groups are
judged by the bounds in their file in the same way, and the matcher decides about each row that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as arrow

from sluice.errors import ConfigurationError, SparkError
from sluice.match.matcher import Matcher
from sluice.model import parse
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription
from sluice.model.values import to_utc
from sluice.protocol.batch import Peer
from sluice.spark.archive.bounds import Bound, box, may_hold
from sluice.spark.archive.table import File, Table
from sluice.spark.rows import REST, notifications

#: Rows that are handed out together, about.
MAX_ROWS = 64 * 1024
#: A column that takes fewer bytes for a value has few values that repeat.
CODE_BYTES = 4
_ORDER = [("_time", "ascending"), ("_stream", "ascending"), ("_offset", "ascending")]
_START, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

Moment = datetime | str | None


@dataclass(frozen=True)
class Selection:
    """Which rows are wanted: a filter, and when they were logged, from one moment to before another."""

    where: str = "true"
    since: datetime = _START
    until: datetime = _END

    @classmethod
    def of(cls, where: str, since: Moment, until: Moment) -> Selection:
        """From what a user writes: moments are of `datetime` or ISO texts, in UTC if no zone is given."""
        parse(where)
        return cls(where, _moment("since", since) or _START, _moment("until", until) or _END)

    @cached_property
    def subscription(self) -> Subscription:
        """The filter."""
        return parse(self.where)

    @cached_property
    def _matcher(self) -> Matcher | None:
        """Decides about rows; None if all of them are wanted."""
        if self.subscription.filters == (EVERYTHING,):
            return None
        matcher = Matcher()
        matcher.add(self.subscription)
        return matcher

    @property
    def looks_into_rows(self) -> bool:
        """Whether a row may be unwanted for what is in it."""
        return self._matcher is not None

    def wants(self, file: File) -> bool:
        """Whether a file may hold something that is wanted."""
        return file.last >= self.since and file.first < self.until and may_hold(self.subscription, file.box)

    def of_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are wanted."""
        times = rows.column("_time")
        if self.since > _START:
            rows = rows.filter(pc.greater_equal(times, pa.scalar(self.since, times.type)))
        if self.until < _END:
            times = rows.column("_time")
            rows = rows.filter(pc.less(times, pa.scalar(self.until, times.type)))
        if self._matcher is None or not rows.num_rows:
            return rows
        return rows.filter(pa.array(_matching(self._matcher, rows)))


def _moment(name: str, given: Moment) -> datetime | None:
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise ConfigurationError(
                f"{name} is {given!r}, which is no time: write it as in 2026-03-01T12:00:00Z"
            ) from None
    return None if given is None else to_utc(given)


def _matching(matcher: Matcher, rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows match. Those with something in `_rest` are looked at as records, the others as columns."""
    plain = rows.column(REST.name).is_null().to_numpy(zero_copy_only=False)
    found = np.zeros(rows.num_rows, np.bool_)
    for kind in (plain, ~plain):
        places = np.flatnonzero(kind)
        if len(places):
            part = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
            offsets, _ = matcher.match_batch(notifications(part))
            found[places] = np.diff(offsets) > 0
    return found


def positions(archive: str | Path) -> dict[Peer, int]:
    """The last offset of each stream that is archived."""
    return Table.open(archive).positions()


def files(archive: str | Path, where: str = "true", since: Moment = None, until: Moment = None) -> list[File]:
    """The files that may hold something, in the order of their days and times."""
    selection = Selection.of(where, since, until)
    return [file for file in Table.open(archive).files() if selection.wants(file)]


def read(
    archive: str | Path, where: str = "true", since: Moment = None, until: Moment = None, last: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows that satisfy a filter, in the order of `_time`, `_stream` and `_offset`; with `last`, the last so many of them.

    Memory is for as many row groups as overlap in time, and for the rows that `last` asks for.
    """
    selection = Selection.of(where, since, until)
    if last is not None and last < 0:
        raise ConfigurationError(f"the last {last} rows make no sense: give a positive number")
    table = Table.open(archive)
    wanted = [file for file in table.files() if selection.wants(file)]
    if last is not None:
        return _last(table, wanted, selection, last)
    return in_order(table, wanted, selection)


# --- row groups -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """A row group of a file that may hold something."""

    path: Path
    metadata: pq.FileMetaData
    number: int
    first: datetime
    last: datetime

    def rows(self, schema: pa.Schema, selection: Selection) -> pa.RecordBatch:
        """The rows in here that are wanted, with the columns of a schema."""
        coded = self._coded() if selection.looks_into_rows else None
        with (
            _explained(self.path),
            pq.ParquetFile(self.path, metadata=self.metadata, read_dictionary=coded) as file,
        ):
            [rows] = file.read_row_group(self.number, use_threads=False).combine_chunks().to_batches()
        return conformed(selection.of_rows(rows), schema)

    def _coded(self) -> list[str]:
        """The columns whose values repeat: they are read as codes, and only what is wanted is spelt out."""
        group, schema = self.metadata.row_group(self.number), self.metadata.schema
        found = []
        for place in range(group.num_columns):
            column, kind = group.column(place), schema.column(place)
            is_small = column.total_uncompressed_size < CODE_BYTES * column.num_values
            if (
                is_small
                and column.has_dictionary_page
                and kind.logical_type.type == "STRING"
                and kind.path == kind.name
            ):
                found.append(kind.name)
        return found


def groups(archive: Path, file: File, selection: Selection) -> Iterator[Group]:
    """The row groups of a file that may hold something."""
    path = archive / file.path
    with _explained(path):
        metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        bounds: dict[str, Bound] = {}
        first, last = file.first, file.last
        for place in range(group.num_columns):
            column = group.column(place)
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None:
                continue
            if name == "_time" and statistics.has_min_max:
                first, last = to_utc(statistics.min), to_utc(statistics.max)
            elif name in file.bounded and statistics.has_null_count:
                if statistics.has_min_max:
                    bounds[name] = Bound(statistics.min, statistics.max, statistics.null_count)
                elif statistics.null_count == group.num_rows:
                    bounds[name] = Bound(None, None, statistics.null_count)
        if last >= selection.since and first < selection.until and may_hold(selection.subscription, box(bounds)):
            yield Group(path, metadata, number, first, last)


def conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a file with the columns of a newer version of the table."""
    if rows.schema.equals(schema):
        return rows
    known = {field.name: rows.column(place) for place, field in enumerate(rows.schema)}
    columns = [_conformed(known.get(field.name), field.type, rows.num_rows) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conformed(column: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, kind)
    if column.type.equals(kind):
        return column
    if arrow.is_struct(kind):
        parts = {field.name: column.field(place) for place, field in enumerate(column.type)}
        inner = [_conformed(parts.get(field.name), field.type, rows) for field in kind]
        return pa.StructArray.from_arrays(inner, fields=[*kind], mask=column.is_null())
    return column.cast(kind)


# --- order ------------------------------------------------------------------------------------------------------------


def in_order(table: Table, wanted: Sequence[File], selection: Selection) -> Iterator[pa.RecordBatch]:
    """What is wanted of some files, in the order of time."""
    for _, of_day in groupby(wanted, lambda file: file.day):
        found = [group for file in of_day for group in groups(table.path, file, selection)]
        yield from _swept(table.layout.schema, sorted(found, key=lambda group: group.first), selection)


def _swept(schema: pa.Schema, found: Sequence[Group], selection: Selection) -> Iterator[pa.RecordBatch]:
    """Goes through row groups by their first moments: what is older than the next one is complete."""
    waiting: list[pa.RecordBatch] = []
    for place, group in enumerate(found):
        rows = group.rows(schema, selection)
        if rows.num_rows:
            waiting.append(rows)
        following = found[place + 1].first if place + 1 < len(found) else None
        if following is None or sum(map(len, waiting)) >= MAX_ROWS:
            together = _sorted(schema, waiting)
            done = together.num_rows if following is None else _before(together, following)
            yield from together.slice(0, done).to_batches(max_chunksize=MAX_ROWS)
            waiting = together.slice(done).to_batches()


def _sorted(schema: pa.Schema, waiting: Iterable[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(waiting, schema)
    # Nested columns cannot be sorted by, but they can be taken.
    return table.take(pc.sort_indices(table.select([name for name, _ in _ORDER]), _ORDER)).combine_chunks()


def _before(rows: pa.Table, moment: datetime) -> int:
    """How many of sorted rows are older than a moment."""
    times = rows.column("_time")
    return int(pc.sum(pc.less(times, pa.scalar(moment, times.type))).as_py() or 0)


def _last(table: Table, wanted: Sequence[File], selection: Selection, last: int) -> Iterator[pa.RecordBatch]:
    schema = table.layout.schema
    best = schema.empty_table()
    for _, of_day in groupby(sorted(wanted, key=lambda file: file.day, reverse=True), lambda file: file.day):
        found = [group for file in of_day for group in groups(table.path, file, selection)]
        for group in sorted(found, key=lambda group: group.last, reverse=True):
            if not last or (best.num_rows == last and group.last < best.column("_time")[0].as_py()):
                break
            rows = group.rows(schema, selection)
            if rows.num_rows:
                best = _sorted(schema, [*best.to_batches(), rows])
                best = best.slice(max(0, best.num_rows - last))
        if best.num_rows >= last:
            break
    yield from best.to_batches(max_chunksize=MAX_ROWS)


class _explained:
    """Names the file that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise SparkError(
                f"{self._path}, a file of the archive, is gone: put it back from a backup; if the archive was "
                "vacuumed while it was read, read it again"
            ) from error
        if isinstance(error, OSError | pa.ArrowException):
            raise SparkError(
                f"{self._path}, a file of the archive, is damaged ({str(error).splitlines()[0]}): put it back from a "
                "backup"
            ) from error
