"""Subscriptions and notifications in files: JSON lines, CSV and Parquet, from a path or from standard input; and statistics.

Rows come out in order, each with where it stood; whatever cannot be read raises an `InputError` that names the file,
the line and what is wrong with it. CSV and Parquet notifications stay columns: they are handed on as Arrow batches.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from sluice.errors import SluiceError

if TYPE_CHECKING:
    from sluice.model.statistics import Statistics

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")

#: Notifications in one batch: enough to spread the cost of a call, few enough to stay in the processor's cache.
BATCH_ROWS = 1024

_SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_CHUNK_BYTES = 1 << 20


class InputError(SluiceError):
    """A file that cannot be read as what it was given for."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file by its name, `-` for standard input. The ending tells the format, `told_format` where it does not."""

    path: str
    told_format: Format | None = None

    @property
    def is_stdin(self) -> bool:
        """Whether this is standard input."""
        return self.path == "-"

    @property
    def name(self) -> str:
        """What messages call it.

        >>> Source("quotes.csv").name, Source("-").name
        ('quotes.csv', 'standard input')
        """
        return "standard input" if self.is_stdin else self.path

    @property
    def format(self) -> Format:
        """The format of what is in it; standard input has JSON lines unless it is told otherwise.

        >>> Source("quotes.csv").format, Source("-").format, Source("-", "csv").format
        ('csv', 'jsonl', 'csv')
        """
        known = _SUFFIXES.get(Path(self.path).suffix.lower()) or self.told_format
        if known is None and not self.is_stdin:
            raise InputError(
                f"{self.path}: what format is it? Let the name end in {', '.join(_SUFFIXES)}, or give --format"
            )
        return known or "jsonl"

    @property
    def size(self) -> int | None:
        """Bytes in it, where that is known beforehand."""
        path = Path(self.path)
        return path.stat().st_size if not self.is_stdin and path.is_file() else None

    def check(self) -> None:
        """Raise an `InputError` if it plainly cannot be read; nothing is opened, so that a pipe stays whole."""
        if not self.is_stdin and not Path(self.path).exists():
            raise InputError(f"{self.path}: there is no such file")
        _ = self.format

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes in it; what the system refuses is an `InputError`."""
        if self.is_stdin:
            if sys.stdin is None:
                raise InputError("standard input is closed")
            yield sys.stdin.buffer
            return
        try:
            stream = open(self.path, "rb")  # noqa: SIM115 - closed below; only the opening is guarded
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}") from error
        with stream:
            yield stream

    def place(self, number: int) -> str:
        """What people call the line or row with this number, counted from 1."""
        return f"{'row' if self.format == 'parquet' else 'line'} {number}"

    def error(self, number: int, problem: str) -> InputError:
        """The error for a line or row of this file."""
        return InputError(f"{self.name}, {self.place(number)}: {problem}")


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription of a file: the line or row it is on, the id it has there, and its text."""

    number: int
    id: int | str
    where: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Notifications in their order, the index that each has in its file, and how much of the file they take."""

    indexes: Sequence[int]
    records: Any  # a list of dicts or a pyarrow.RecordBatch
    units: int


@dataclass(frozen=True, slots=True)
class Notifications:
    """All batches of a file; `units` adds up those of its batches (bytes or rows), None where that is not known yet."""

    batches: Iterator[Batch]
    units: int | None


# Subscriptions


def read_subscriptions(source: Source) -> Iterator[SubscriptionRow]:
    """The subscriptions of a file, one by one."""
    match source.format:
        case "jsonl":
            return _json_subscriptions(source)
        case "csv":
            return _csv_subscriptions(source)
        case "parquet":
            return _parquet_subscriptions(source)


def _json_subscriptions(source: Source) -> Iterator[SubscriptionRow]:
    with source.opened() as stream:
        for number, line in enumerate(chain.from_iterable(arriving_lines(stream)), 1):
            if line and not line.isspace():
                record = _json_object(source, number, line)
                yield _subscription(source, number, record.get("id"), record.get("where"))


def _csv_subscriptions(source: Source) -> Iterator[SubscriptionRow]:
    with source.opened() as stream:
        reader = csv.DictReader(_csv_lines(source, stream), strict=True)
        try:
            if not {"id", "where"} <= set(reader.fieldnames or ()):
                raise source.error(1, "the header should name the columns id and where")
            for cells in reader:
                number = reader.line_num
                if None in cells:
                    raise source.error(number, "more cells than the header names; quote a text that has commas in it")
                yield _subscription(source, number, _csv_id(cells["id"]), cells["where"])
        except csv.Error as error:
            raise source.error(reader.reader.line_num, f"not CSV: {error}") from error


def _csv_lines(source: Source, stream: Iterable[bytes]) -> Iterator[str]:
    """The lines of a CSV file as text, without the mark that some programs put before the first."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise source.error(number, f"not UTF-8: byte {error.start + 1} of the line") from error


def _csv_id(cell: str | None) -> int | str | None:
    """An id as CSV has it: digits that are a number's plain spelling are that number, all else is text.

    >>> _csv_id("12"), _csv_id("-3"), _csv_id("007"), _csv_id("ada")
    (12, -3, '007', 'ada')
    """
    return int(cell) if cell and re.fullmatch("0|-?[1-9][0-9]{0,17}", cell) else cell or None


def _parquet_subscriptions(source: Source) -> Iterator[SubscriptionRow]:
    with source.opened() as stream:
        table = _parquet_file(source, stream)
        missing = {"id", "where"} - set(table.schema_arrow.names)
        if missing:
            raise InputError(f"{source.name}: no column {' and no column '.join(sorted(missing))}")
        number = 0
        for batch in table.iter_batches(columns=["id", "where"]):
            for id, where in zip(batch.column("id").to_pylist(), batch.column("where").to_pylist(), strict=True):
                number += 1
                yield _subscription(source, number, id, where)


def _subscription(source: Source, number: int, id: object, where: object) -> SubscriptionRow:
    """The row, once it is sure that it has an id and a text."""
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise source.error(number, f"id should be an integer or a string, {_found(id)}")
    if not isinstance(where, str):
        raise source.error(number, f"where should be a string, {_found(where)}")
    return SubscriptionRow(number, id, where)


def _found(value: object) -> str:
    return "none is there" if value is None else f"not {json.dumps(value, default=repr)[:40]}"


# Notifications


def read_notifications(source: Source) -> Notifications:
    """The notifications of a file, batch by batch."""
    match source.format:
        case "jsonl":
            return Notifications(_json_batches(source), source.size)
        case "csv":
            return _csv_notifications(source)
        case "parquet":
            return _parquet_notifications(source)


def _json_batches(source: Source) -> Iterator[Batch]:
    with source.opened() as stream:
        start = 0
        for arrived in arriving_lines(stream):
            for first in range(0, len(arrived), BATCH_ROWS):
                lines = arrived[first : first + BATCH_ROWS]
                yield from _json_batch(source, start, lines)
                start += len(lines)


def _json_batch(source: Source, start: int, lines: list[bytes]) -> Iterator[Batch]:
    """The records on these lines, those before one that cannot be read first; empty lines hold none, but count as lines."""
    indexes: list[int] = []
    records: list[dict[str, Any]] = []
    for index, line in enumerate(lines, start):
        if line and not line.isspace():
            try:
                record = _json_object(source, index + 1, line)
            except InputError:
                yield Batch(indexes, records, 0)
                raise
            indexes.append(index)
            records.append(record)
    yield Batch(indexes, records, sum(map(len, lines)) + len(lines))


def arriving_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Whole lines as they arrive, so that a slow pipe is answered at once and a file is read in large chunks.

    >>> list(arriving_lines(io.BytesIO(b"one\\ntwo\\nthree")))
    [[b'one', b'two'], [b'three']]
    """
    begun: list[bytes] = []
    while chunk := cast(io.BufferedReader, stream).read1(_CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*begun, whole[0]))
            begun.clear()
            yield whole
        begun.append(rest)
    if last := b"".join(begun):
        yield [last]


def _json_object(source: Source, number: int, line: bytes) -> dict[str, Any]:
    """The object on a line. The standard library's reader keeps integers of any size exact."""
    try:
        value = json.loads(line.removeprefix(BOM_UTF8).decode())
    except json.JSONDecodeError as error:
        raise source.error(number, f"not JSON: {error.msg} at column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise source.error(number, f"not UTF-8: byte {error.start + 1} of the line") from error
    except RecursionError as error:
        raise source.error(number, "nested too deeply") from error
    except ValueError as error:
        # The only one left: Python refuses to read integers beyond this many digits.
        raise source.error(number, f"an integer of more than {sys.get_int_max_str_digits()} digits") from error
    if not isinstance(value, dict):
        raise source.error(number, f"should be a JSON object, {_found(value)}")
    return value


def _csv_notifications(source: Source) -> Notifications:
    """The whole file at once: only then is the type of a column known (a later row may turn integers into floats)."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    with source.opened() as stream:
        data = stream.read()
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(use_threads=False),  # else errors do not tell the row
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise _csv_error(source, data, str(error)) from error
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        if table.schema.names.count(name) > 1:
            raise source.error(1, f"the header names the column {name} twice")
        if pa.types.is_binary(kind):
            raise InputError(f"{source.name}: column {name} is not UTF-8")
    return Notifications(_arrow_batches(table.to_batches(max_chunksize=BATCH_ROWS)), table.num_rows)


def _csv_error(source: Source, data: bytes, problem: str) -> InputError:
    """Arrow's message in our form. It counts rows; people look for lines, and a quoted cell may span several."""
    found = re.search(r"Row #(\d+): (.*)", problem, re.DOTALL)
    if not found:
        return InputError(f"{source.name}: {problem}")
    row = int(found[1])
    reader = csv.reader(_csv_lines(source, io.BytesIO(data)))
    lines = (reader.line_num for cells in reader if cells)
    return source.error(next(islice(lines, row - 1, None), row), f"not CSV: {found[2]}")


def _parquet_notifications(source: Source) -> Notifications:
    with ExitStack() as stack:
        file = _parquet_file(source, stack.enter_context(source.opened()))
        return Notifications(_parquet_batches(source, file, stack.pop_all()), file.metadata.num_rows)


def _parquet_batches(source: Source, file: Any, opened: ExitStack) -> Iterator[Batch]:
    import pyarrow as pa

    with opened:
        try:
            yield from _arrow_batches(file.iter_batches(batch_size=BATCH_ROWS))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{source.name}: not Parquet: {error}") from error


def _parquet_file(source: Source, stream: BinaryIO) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        # Parquet is read from its end, which a pipe does not have.
        return parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source.name}: not Parquet: {error}") from error


def _arrow_batches(batches: Iterable[Any]) -> Iterator[Batch]:
    start = 0
    for records in batches:
        rows = records.num_rows
        yield Batch(range(start, start + rows), records, rows)
        start += rows


# Statistics


def read_statistics(path: str | Path) -> Statistics:
    """The statistics in a file."""
    from sluice.model.statistics import Statistics, StatisticsError

    try:
        return Statistics.from_text(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is no file of statistics: make one with sluice statistics") from None
    except StatisticsError as error:
        raise InputError(f"{path}: {error}") from None


def write_statistics(path: str | Path, statistics: Statistics) -> None:
    """Writes a file that is whole at every moment: who reads it has the statistics from before or these."""
    new = Path(f"{path}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(statistics.to_text())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
