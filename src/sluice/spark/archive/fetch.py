"""What a worker does for an archive: it fetches ranges of streams from the brokers and writes them into files of the table.

The rows never leave the worker. What goes back to the driver is which files there are now and which attributes were new; the
table is told of the files by the driver, all at once. An attempt that fails leaves nothing behind that counts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa

from sluice.errors import SluiceError
from sluice.protocol.batch import Batch, Peer, Records
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.table import NewFile
from sluice.spark.network import Network
from sluice.spark.rows import META, TIME, Layout, widened

#: Rows that are looked at together: new attributes among them have columns, and a new file, from here on.
CHUNK_ROWS = 32 * 1024
#: Batches with fewer rows are arranged together: a table for each would cost more than its rows.
SMALL_BATCH = 256


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a stream, from one to before another, and where to ask for them: at its own broker if that is known."""

    stream: Peer
    start: int
    end: int
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """What one worker is to archive."""

    network: Network
    #: The directory of the archive, which driver and workers share.
    archive: str
    where: str
    #: The columns of the table.
    attributes: pa.Schema
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What a worker has done."""

    #: The columns of the table and those that were new.
    attributes: pa.Schema
    files: tuple[NewFile, ...] = ()
    #: Offsets that are gone: stream, first and last.
    missing: tuple[tuple[Peer, int, int], ...] = ()
    #: Why it could not be done.
    problem: str | None = None

    def to_text(self) -> str:
        """As text, to travel through Spark."""
        schema = base64.b64encode(self.attributes.serialize().to_pybytes()).decode()
        return json.dumps([schema, [asdict(file) for file in self.files], self.missing, self.problem])

    @classmethod
    def from_text(cls, text: str) -> Written:
        """What `to_text` wrote."""
        schema, files, missing, problem = json.loads(text)
        attributes = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
        gone = tuple((stream, first, last) for stream, first, last in missing)
        return cls(attributes, tuple(NewFile(**file) for file in files), gone, problem)


def fetch(tasks: Sequence[Task], numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Does the tasks whose numbers come, on a worker; for each of them its number, and what was written as text."""
    for batch in numbers:
        texts = [write(tasks[number]).to_text() for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(texts, pa.string())], ["number", "written"])


def write(task: Task) -> Written:
    """Archives some ranges."""
    written = Written(task.attributes)
    missing: list[tuple[Peer, int, int]] = []
    try:
        chunks = (chunk for each in task.ranges for chunk in _chunks(task, each, missing))
        chunk = next(chunks, None)
        while chunk is not None:
            # A file has one set of columns: once there is a new one, the next file begins.
            attributes = widened(written.attributes, chunk)
            with DayFiles(Path(task.archive), Layout(attributes)) as files:
                layout = Layout(attributes)
                while chunk is not None and widened(attributes, chunk).equals(attributes):
                    for rows in arranged(layout, chunk):
                        files.write(rows)
                    chunk = next(chunks, None)
            written = replace(written, attributes=attributes, files=(*written.files, *files.finished))
    except SluiceError as error:
        return replace(written, problem=str(error))
    return replace(written, missing=tuple(missing))


def _chunks(task: Task, each: Range, missing: list[tuple[Peer, int, int]]) -> Iterator[list[Batch]]:
    """The batches in a range, some at a time; what is gone is noted."""
    chunk: list[Batch] = []
    for page in task.network.read(each.stream, each.start, each.end, task.where, each.address):
        missing += [(each.stream, first, last) for first, last in page.missing]
        chunk += page.batches
        if sum(map(len, chunk)) >= CHUNK_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def arranged(layout: Layout, batches: Sequence[Batch]) -> Iterator[pa.RecordBatch]:
    """The rows of batches, in their order; many small ones become one table."""
    small: list[Batch] = []
    for batch in batches:
        if isinstance(batch, Records) and len(batch) < SMALL_BATCH:
            small.append(batch)
            continue
        if small:
            yield _together(layout, small)
            small = []
        yield layout.arrange(batch)
    if small:
        yield _together(layout, small)


def _together(layout: Layout, batches: Sequence[Batch]) -> pa.RecordBatch:
    records = [record for batch in batches for record in batch.records]
    values = layout.arrange(Records.of("", 1, records)).columns[len(META) :]
    columns: list[list[object]] = [[] for _ in META]
    for batch in batches:
        assert batch.logged is not None
        count = len(batch)
        columns[0] += [batch.logged.stream] * count
        columns[1] += batch.logged.offsets
        columns[2] += [batch.logged.time_micros] * count
        columns[3] += [batch.publisher] * count
        columns[4] += batch.numbers
    places = [
        pa.array(column, pa.int64()).cast(TIME) if field.type == TIME else pa.array(column, field.type)
        for column, field in zip(columns, META, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*places, *values], schema=layout.schema)
