"""The Delta table that an archive is: which files it has, which columns, and how far each stream is archived.

The table is its own checkpoint. How far a stream is archived is an application transaction of the table, committed together
with the files that hold the rows: either both are there or neither. A commit that does not follow on what its writer has read
fails, so that two pipelines on one archive never write anything twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import types as arrow

from sluice.errors import SparkError
from sluice.model.filter import Filter
from sluice.protocol.batch import Peer
from sluice.spark.archive.bounds import Bound, box, leaves
from sluice.spark.rows import META, REST, TIME, Layout

DAY = pa.field("_day", pa.date32())
#: How long a file stays that no version of the table needs any more: whoever reads a version may take so long for it.
KEEP_HOURS = 24
#: Properties of the table that are ours: the streams that it has rows of, and the filter that its rows satisfy.
_STREAMS, _WHERE = "sluice.streams", "sluice.where"
_POSITION, _COMPACTION = "sluice/", "sluice-compaction"
_PROPERTIES = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": f"interval {KEEP_HOURS} hours",
}


@dataclass(frozen=True, slots=True)
class NewFile:
    """A Parquet file that was written into the directory of a table, and is no part of it yet."""

    #: Relative to the table.
    path: str
    size_bytes: int
    rows: int
    day: str
    #: As Delta writes them down.
    statistics: str


@dataclass(frozen=True, slots=True)
class File:
    """A file of a table."""

    path: str
    size_bytes: int
    rows: int
    day: date
    #: When the first and the last of its notifications were logged.
    first: datetime
    last: datetime
    #: What all of its notifications satisfy.
    box: Filter
    #: The attributes all of whose values in this file are in their columns, as far as that is known.
    bounded: frozenset[str]
    #: Whether any value may be elsewhere.
    has_rest: bool

    def has_columns_of(self, names: frozenset[str]) -> bool:
        """Whether all values of some attributes are in their columns; an attribute without a column has none then."""
        return not self.has_rest or names <= self.bounded


class Table:
    """One version of an archive; a commit makes the next, and this object moves on to it."""

    def __init__(self, path: Path, delta: DeltaTable) -> None:
        self.path = path
        self._delta = delta
        self._look()

    def _look(self) -> None:
        """Reads what this version says of itself."""
        schema, metadata = pa.schema(self._delta.schema()), self._delta.metadata()
        ours = {*META.names, REST.name, DAY.name}
        if not ours <= {*schema.names} or metadata.partition_columns != [DAY.name]:
            raise SparkError(f"{self.path} is a Delta table, but no archive of notifications: name another directory")
        self.layout = Layout(pa.schema([_plain(field) for field in schema if field.name not in ours]))
        self.streams: tuple[Peer, ...] = tuple(json.loads(metadata.configuration.get(_STREAMS) or "[]"))
        #: What every row satisfies.
        self.where = metadata.configuration.get(_WHERE) or "true"

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The newest version of the archive in a directory."""
        path = Path(path)
        try:
            return cls(path, DeltaTable(path.absolute()))
        except TableNotFoundError:
            raise SparkError(f"{path} is no archive: `sluice pipeline --archive {path}` makes one") from None
        except (DeltaError, OSError, ValueError) as error:
            raise SparkError(f"the archive {path} cannot be opened: {_first_line(error)}") from error

    @classmethod
    def create(cls, path: str | Path, where: str) -> Self:
        """The archive in a directory; it is made if there is none."""
        path = Path(path)
        schema = pa.schema([*META, REST, DAY])
        try:
            path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                path.absolute(),
                schema,
                mode="ignore",
                partition_by=[DAY.name],
                configuration={**_PROPERTIES, _WHERE: where},
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError, ValueError) as error:
            raise SparkError(f"no archive can be made in {path}: {_first_line(error)}") from error
        return cls.open(path)

    @property
    def version(self) -> int:
        """The number of this version."""
        return self._delta.version()

    def positions(self) -> dict[Peer, int]:
        """The last offset of each stream that is archived."""
        found = {stream: self._delta.transaction_version(_POSITION + stream) for stream in self.streams}
        return {stream: offset for stream, offset in found.items() if offset is not None}

    def files(self) -> list[File]:
        """The files of this version, in the order of their days and times."""
        names = leaves(self.layout.attributes)
        found = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        files = [_file(row, names) for row in found if row["num_records"]]
        return sorted(files, key=lambda file: (file.day, file.first, file.path))

    # --- changes ------------------------------------------------------------------------------------------------------

    def extend(self, attributes: pa.Schema, streams: Iterable[Peer]) -> None:
        """Makes room for new attributes and streams; both may come without rows."""
        known = self.layout.attributes
        more = [field for field in attributes if field.name not in known.names or field != known.field(field.name)]
        all_streams = sorted({*self.streams, *streams})
        with _explained(self.path):
            if more:
                self._delta.alter.add_columns([_delta_field(field) for field in more])
            if all_streams != [*self.streams]:
                properties = {_STREAMS: json.dumps(all_streams)}
                self._delta.alter.set_table_properties(properties, raise_if_not_exists=False)
        if more or all_streams != [*self.streams]:
            self._reload()

    def append(
        self,
        files: Sequence[NewFile],
        before: Mapping[Peer, int],
        after: Mapping[Peer, int],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds files and notes that streams are archived up to the offsets `after` now, all at once.

        Fails if the streams were not archived up to `before`, since then somebody else has written meanwhile.
        """
        positions = self.positions()
        if any(positions.get(stream, 0) != before.get(stream, 0) for stream in after):
            raise _overtaken(self.path)
        moves = [Transaction(_POSITION + stream, offset) for stream, offset in sorted(after.items())]
        self._commit([_addition(file, is_new=True) for file in files], moves, notes)

    def replace(self, old: Sequence[File], new: Sequence[NewFile]) -> None:
        """Has the rows of some files in others from now on."""
        now = _now_millis()
        gone = [RemoveAction(file.path, False, now, file.size_bytes, {DAY.name: file.day.isoformat()}) for file in old]
        # Delta does not notice that two have replaced the same files, but it does notice this.
        number = self._delta.transaction_version(_COMPACTION) or 0
        turn = [Transaction(_COMPACTION, number + 1)]
        self._commit([*gone, *(_addition(file, is_new=False) for file in new)], turn)

    def _commit(
        self,
        actions: list[AddAction | RemoveAction],
        transactions: list[Transaction],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps(dict(notes))} if notes else None, app_transactions=transactions
        )
        schema = pa.schema([*self.layout.schema, DAY])
        with _explained(self.path):
            self._delta.create_write_transaction(actions, "append", schema, [DAY.name], commit_properties=properties)
        self._reload()
        self._sync()

    def vacuum(self, keep_hours: int) -> int:
        """Deletes files that no version younger than this needs, also those that were never a part of the table; how many."""
        with _explained(self.path):
            gone = self._delta.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False, full=True)
        self._reload()
        return len(gone)

    def _reload(self) -> None:
        with _explained(self.path):
            self._delta.update_incremental()
        self._look()

    def _sync(self) -> None:
        """Has the last commit survive a power cut; the files that it names were synced by those who wrote them."""
        log = self.path / "_delta_log"
        for each in (log / f"{self.version:020}.json", log):
            sync(each)


def sync(path: Path) -> None:
    """Has a file or a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _addition(file: NewFile, *, is_new: bool) -> AddAction:
    return AddAction(file.path, file.size_bytes, {DAY.name: file.day}, _now_millis(), is_new, file.statistics)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


def _file(row: Mapping[str, Any], names: Sequence[str]) -> File:
    bounds = {}
    for name in names:
        nulls, low, high = row.get(f"null_count.{name}"), row.get(f"min.{name}"), row.get(f"max.{name}")
        if nulls is not None and (nulls == row["num_records"] or (low is not None and high is not None)):
            bounds[name] = Bound(low, high, nulls)
    day = row[f"partition.{DAY.name}"]
    return File(
        row["path"],
        row["size_bytes"],
        row["num_records"],
        day,
        row.get("min._time") or datetime.min.replace(tzinfo=UTC),
        row.get("max._time") or datetime.max.replace(tzinfo=UTC),
        box(bounds),
        frozenset(bounds),
        row.get(f"null_count.{REST.name}") != row["num_records"],
    )


def _plain(field: pa.Field) -> pa.Field:
    """A column as `Layout` names it: other programs call the parts of the same types otherwise."""
    return pa.field(field.name, _plain_type(field.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if arrow.is_struct(kind):
        return pa.struct([_plain(inner) for inner in kind])
    if arrow.is_list(kind) or arrow.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if arrow.is_timestamp(kind):
        return TIME
    if arrow.is_large_string(kind) or arrow.is_string_view(kind):
        return pa.string()
    return pa.binary() if arrow.is_large_binary(kind) or arrow.is_binary_view(kind) else kind


def _delta_field(field: pa.Field) -> Field:
    [found] = Schema.from_arrow(pa.schema([field])).fields
    return found


class _explained:
    """Says in our words what delta-rs reports in its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DeltaError) and "oncurrent" in str(error):
            raise _overtaken(self._path) from error
        if isinstance(error, DeltaError | OSError):
            raise SparkError(
                f"the archive {self._path} cannot be written: {_first_line(error)}; check the disk, then start again"
            ) from error


def _overtaken(path: Path) -> SparkError:
    return SparkError(f"somebody else has written to the archive {path} meanwhile: run one pipeline at a time on it")


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else repr(error)
