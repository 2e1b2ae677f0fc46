"""Archives for tests, made without brokers and without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from sluice.model import parse
from sluice.protocol.batch import Batch, Logged, Records
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.table import Table
from sluice.spark.rows import Layout, widened
from tests.generate import Generator

Place = tuple[datetime, str, int]

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


def places(batches: Iterable[pa.RecordBatch]) -> list[Place]:
    """Where rows stand."""
    return [
        place
        for batch in batches
        for place in zip(*(batch.column(name).to_pylist() for name in ("_time", "_stream", "_offset")), strict=True)
    ]


class Library:
    """An archive with generated notifications in many small files and row groups, and what is in it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / f"archive-{seed}"
        self.records: dict[Place, dict[str, Any]] = {}
        source = random.Random(seed)
        generator = Generator(source)
        offsets = {"b1": count(1), "b2": count(1)}
        for _ in range(6):
            batches: list[Batch] = []
            for _ in range(source.randint(1, 4)):
                stream = source.choice(("b1", "b2"))
                time = START + timedelta(hours=source.randint(0, 60), microseconds=source.randint(0, 3))
                typed = source.random() < 0.8
                records = [generator.record(typed) for _ in range(source.randint(1, 8))]
                first = next(offsets[stream])
                for _ in records[1:]:
                    next(offsets[stream])
                batches.append(logged(stream, first, time, records))
                for offset, record in enumerate(records, first):
                    self.records[time, stream, offset] = record
            shelve(self.path, batches)

    def expected(self, where: str, since: datetime | None = None, until: datetime | None = None) -> list[Place]:
        """What the plain matcher picks from all that is in it, in the order of time."""
        wanted = parse(where)
        return sorted(
            place
            for place, record in self.records.items()
            if (since is None or place[0] >= since) and (until is None or place[0] < until) and wanted.matches(record)
        )
