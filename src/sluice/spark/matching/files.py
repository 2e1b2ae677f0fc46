"""Notifications in Parquet files or a Delta table, read by the workers themselves: rows never pass through the JVM.

The driver looks at the ends of the files only, and cuts them into pieces of about the same number of rows; a task is
some of these pieces, of which it reads the columns that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from sluice.errors import ConfigurationError
from sluice.files import InputError

#: Rows that a piece has at most: a row group beyond that is read in parts, by several tasks if there are enough.
PIECE_ROWS = 1 << 18
#: The column with the place of a row among all rows of the files.
ROW = pa.field("_row", pa.int64())
#: What a reader of a Delta table must understand, and this one does.
_DELTA_FEATURES = frozenset({"timestampNtz"})


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one row group of a file: from `start` on within the group, the first one being row `row` of all."""

    path: str
    row_group: int
    start: int
    rows: int
    row: int
    #: What the name of its directory says: columns that are not in the file.
    constants: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Notifications in files: their columns, and the pieces that they were cut into."""

    schema: pa.Schema
    pieces: tuple[Piece, ...]

    @classmethod
    def at(cls, paths: str | Path | Sequence[str | Path]) -> Files:
        """The files of a Delta table, or Parquet files by their names or by that of a directory."""
        given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        if len(given) == 1 and is_delta(given[0]):
            return _delta(given[0])
        found = [(str(path), ()) for name in given for path in _parquet_files(name)]
        return _files(found, None)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(piece.rows for piece in self.pieces)

    def shared_out(self, tasks: int) -> list[tuple[Piece, ...]]:
        """The pieces of at most so many tasks, each with about as many rows as the others, in order."""
        shares: list[list[Piece]] = [[] for _ in range(max(1, min(tasks, len(self.pieces))))]
        done = 0
        for piece in self.pieces:
            shares[done * len(shares) // max(1, self.rows)].append(piece)
            done += piece.rows
        return [tuple(share) for share in shares if share]


def is_delta(path: Path) -> bool:
    """Whether a directory is a Delta table."""
    return (path / "_delta_log").is_dir()


def _parquet_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*.parquet") if not each.name.startswith((".", "_")))
    if not found:
        raise InputError(f"{path}: there are no Parquet files in this directory")
    for each in found:
        if any("=" in part for part in each.relative_to(path).parts[:-1]):
            raise InputError(f"{path}: directories named like {each.parent.name} hold columns: read it with spark.read")
    return found


def _delta(path: Path) -> Files:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(path))
        unknown = set(table.protocol().reader_features or ()) - _DELTA_FEATURES
        if unknown:
            raise ConfigurationError(
                f"{path}: files of a Delta table with {', '.join(sorted(unknown))} cannot be read one by one: "
                "give a DataFrame"
            )
        schema = pa.schema(table.schema().to_arrow())
        actions = pa.table(table.get_add_actions(flatten=True)).select(
            ["path", *(f"partition.{name}" for name in table.metadata().partition_columns)]
        )
    except DeltaError as error:
        raise InputError(f"{path}: not a Delta table that can be read: {error}") from error
    found = [
        (
            str(path / row["path"]),
            tuple((name.partition(".")[2], value) for name, value in row.items() if name != "path"),
        )
        for row in sorted(actions.to_pylist(), key=lambda row: str(row["path"]))
    ]
    return _files(found, schema)


def _files(found: Iterable[tuple[str, tuple[tuple[str, Any], ...]]], schema: pa.Schema | None) -> Files:
    schemas, pieces, row = list[pa.Schema](), list[Piece](), 0
    for path, constants in found:
        file = _open(path)
        schemas.append(file.schema_arrow.remove_metadata())
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            parts = max(1, -(-rows // PIECE_ROWS))
            for part in range(parts):
                start, end = rows * part // parts, rows * (part + 1) // parts
                if end > start:
                    pieces.append(Piece(path, group, start, end - start, row + start, constants))
            row += rows
    if schema is None:
        try:
            schema = pa.unify_schemas(schemas) if schemas else pa.schema([])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(f"the files do not have the same columns: {error}") from error
    if ROW.name in schema.names:
        raise InputError(f"the files have a column {ROW.name}, which is the name of a row's place: rename it")
    return Files(schema, tuple(pieces))


def _open(path: str) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file here") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not Parquet: {error}") from error


def encoded(schema: pa.Schema) -> pa.Schema:
    """The same columns with strings as numbers and a dictionary, which is how they are matched."""
    return pa.schema(
        [
            field.with_type(pa.dictionary(pa.int32(), field.type)) if pa.types.is_string(field.type) else field
            for field in schema
        ]
    )


def read(pieces: Iterable[Piece], schema: pa.Schema, batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of some pieces, batch by batch, in these columns, each batch with the place of its first row."""
    for piece in pieces:
        file = _open(piece.path)
        names = [name for name in schema.names if name in file.schema_arrow.names]
        dictionaries = [name for name in names if pa.types.is_dictionary(schema.field(name).type)]
        if dictionaries:
            file = parquet.ParquetFile(piece.path, metadata=file.metadata, read_dictionary=dictionaries)
        position, end = 0, piece.start + piece.rows
        try:
            for batch in file.iter_batches(batch_rows, [piece.row_group], names):
                first, last = max(piece.start - position, 0), min(end - position, batch.num_rows)
                if first < last:
                    part = _in_columns(batch.slice(first, last - first), schema, dict(piece.constants))
                    yield piece.row + position + first - piece.start, part
                position += batch.num_rows
                if position >= end:
                    break
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{piece.path}: damaged: {error}") from error


def _in_columns(batch: pa.RecordBatch, schema: pa.Schema, constants: dict[str, Any]) -> pa.RecordBatch:
    """The batch with the columns of a schema: those that the file does not have are constant, or null."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for wanted in schema:
        place = batch.schema.get_field_index(wanted.name)
        if place >= 0:
            # Spark has microseconds: finer digits are cut off, as they are in any notification.
            columns.append(batch.column(place).cast(wanted.type, safe=not pa.types.is_timestamp(wanted.type)))
        elif constants.get(wanted.name) is not None:
            columns.append(pa.repeat(pa.scalar(constants[wanted.name]).cast(wanted.type), batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, wanted.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
