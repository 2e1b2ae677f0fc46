"""Writes rows into the directory of an archive as Parquet files, one for each day; nobody sees them before the table is told.

Names are new at every attempt, so that what a killed writer leaves behind is in nobody's way; it is vacuumed some day.
"""

from __future__ import annotations

import uuid
from datetime import date
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.spark.archive.bounds import Bounds
from sluice.spark.archive.table import DAY, NewFile, sync
from sluice.spark.rows import META, Layout

#: What is read at once later on: rows in one row group.
ROW_GROUP = 128 * 1024
COMPRESSION = "zstd"
#: Columns that count upward: their differences take next to no room.
_COUNTED = ("_offset", "_time", "_number")


class DayFile:
    """One file that is being written."""

    def __init__(self, archive: Path, day: date, layout: Layout) -> None:
        self._name = f"{DAY.name}={day.isoformat()}/part-{uuid.uuid4().hex}.parquet"
        self._day = day.isoformat()
        self._path = archive / self._name
        self._path.parent.mkdir(exist_ok=True)
        self._bounds = Bounds(layout.attributes)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        plain = [name for name in layout.schema.names if name not in _COUNTED]
        self._writer = pq.ParquetWriter(
            self._path,
            layout.schema,
            compression=COMPRESSION,
            use_dictionary=plain,
            column_encoding=dict.fromkeys(_COUNTED, "DELTA_BINARY_PACKED"),
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows."""
        self._bounds.add(rows)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP:
            self._write_groups(self._waiting_rows // ROW_GROUP * ROW_GROUP)

    def _write_groups(self, rows: int) -> None:
        """Writes so many of the rows that wait."""
        if rows:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table.slice(0, rows), row_group_size=ROW_GROUP)
            self._waiting = table.slice(rows).to_batches()
            self._waiting_rows -= rows

    def close(self) -> NewFile:
        """Puts it on the disk."""
        self._write_groups(self._waiting_rows)
        self._writer.close()
        sync(self._path)
        return NewFile(
            self._name, self._path.stat().st_size, self._bounds.rows, self._day, self._bounds.to_statistics()
        )

    def abandon(self) -> None:
        """Nobody will want it."""
        self._writer.close()
        self._path.unlink(missing_ok=True)


class DayFiles:
    """Files of all the days that rows are of; to be used with `with`. Without an error, `finished` is what was written."""

    def __init__(self, archive: Path, layout: Layout) -> None:
        self._archive = archive
        self._layout = layout
        self._open: dict[date, DayFile] = {}
        self.finished: list[NewFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for file in self._open.values():
            if error is None:
                self.finished.append(file.close())
            else:
                file.abandon()

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows of any days."""
        for day, part in by_day(rows):
            if day not in self._open:
                self._open[day] = DayFile(self._archive, day, self._layout)
            self._open[day].write(part)


def by_day(rows: pa.RecordBatch) -> list[tuple[date, pa.RecordBatch]]:
    """Rows by the day on which they were logged, in UTC."""
    if not rows.num_rows:
        return []
    days = rows.column(META.get_field_index("_time")).cast(pa.date32())
    found = sorted(pc.unique(days).to_pylist())
    if len(found) == 1:
        return [(found[0], rows)]
    return [(day, rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))) for day in found]
