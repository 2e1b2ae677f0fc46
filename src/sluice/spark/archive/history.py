"""The past as a DataFrame: what an archive holds that satisfies a filter, between two moments, or the last so many.

The driver leaves out files that cannot hold anything; workers read the others themselves, by row groups, and the matcher
decides about each row. Only what is wanted crosses over to Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from sluice.spark.archive.read import Moment, Selection, groups, read
from sluice.spark.archive.table import File, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of a file that one worker reads: larger files are read by several.
PART_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Part:
    """The row groups of a file that one worker reads: every `of`-th one."""

    file: File
    number: int
    of: int


def history(
    spark: SparkSession,
    archive: str | Path,
    where: str = "true",
    since: Moment = None,
    until: Moment = None,
    last: int | None = None,
) -> DataFrame:
    """The notifications in an archive that satisfy a filter and were logged from one moment to before another.

    With `last`, only the last so many of them. Moments are a `datetime` or an ISO text. The rows are those of the archive as
    it is now, in no particular order: sort by `_time`, `_stream` and `_offset` for that of the logs.
    """
    selection = Selection.of(where, since, until)
    table = Table.open(Path(archive).absolute())
    schema = from_arrow_schema(table.layout.schema)
    if last is not None:
        found = pa.Table.from_batches(read(archive, where, since, until, last), table.layout.schema)
        return spark.createDataFrame(found if found.num_rows else [], schema)
    parts = [part for file in table.files() if selection.wants(file) for part in parts_of(file)]
    if not parts:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(parts), 1, len(parts))
    work = partial(_read, str(table.path), table.layout.schema, selection, parts)
    return numbers.mapInArrow(work, schema)


def parts_of(file: File) -> Iterator[Part]:
    """A file in parts of about the same size."""
    count = math.ceil(file.rows / PART_ROWS)
    return (Part(file, number, count) for number in range(count))


def _read(
    archive: str, schema: pa.Schema, selection: Selection, parts: Sequence[Part], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Reads the parts whose numbers come, on a worker."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            part = parts[number]
            for group in groups(Path(archive), part.file, selection):
                if group.number % part.of == part.number:
                    rows = group.rows(schema, selection)
                    if rows.num_rows:
                        yield rows
