"""Archives for tests, made without brokers and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sluice.protocol.batch import Batch, Logged, Records
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.table import Table
from sluice.spark.rows import Layout, widened

START = datetime(2026, 3, 1, tzinfo=UTC)


def logged(stream: str, first: int, time: datetime, records: Sequence[dict[str, Any]], publisher: str = "pat") -> Batch:
    """Records as a broker logged them together."""
    micros = round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    batch = Records.of(publisher, first, records)
    return batch.placed(Logged(stream, range(first, first + len(records)), micros))


def shelve(archive: Path, batches: Iterable[Batch]) -> Table:
    """Puts batches into an archive, which is made if there is none; they become files of their own."""
    table = Table.create(archive, "true")
    batches = [*batches]
    attributes = widened(table.layout.attributes, batches)
    table.extend(attributes, {batch.logged.stream for batch in batches if batch.logged})
    with DayFiles(archive, Layout(attributes)) as files:
        for batch in batches:
            files.write(table.layout.arrange(batch))
    before = table.positions()
    after = dict(before)
    for batch in batches:
        assert batch.logged is not None
        after[batch.logged.stream] = max(after.get(batch.logged.stream, 0), batch.logged.offsets[-1])
    table.append(files.finished, before, after)
    return table


def places(batches: Iterable[pa.RecordBatch]) -> list[tuple[datetime, str, int]]:
    """Where rows stand."""
    return [
        place
        for batch in batches
        for place in zip(*(batch.column(name).to_pylist() for name in ("_time", "_stream", "_offset")), strict=True)
    ]
