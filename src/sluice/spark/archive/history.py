"""The past as a DataFrame: what an archive holds that satisfies a filter, between two moments, or the last so many.

The driver leaves out files that cannot hold anything, and Spark's own reader reads the others, with as much of the filter as
columns can tell. Where that is all of it no Python is needed; elsewhere the matcher decides about the rows that are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from sluice.spark.archive.predicate import micros, names, predicate
from sluice.spark.archive.read import Moment, Selection, read
from sluice.spark.archive.table import File, Table
from sluice.spark.rows import REST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: An archive is read as it is, whatever the session is set to: nothing of it is passed over, and no time is bent.
_OPTIONS = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", "datetimeRebaseMode": "CORRECTED"}


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
    files = [file for file in table.files() if selection.wants(file)]
    if not files:
        return spark.createDataFrame([], schema)
    condition, is_exact = _condition(selection, table, files)
    paths = [_as_glob(table.path / file.path) for file in files]
    rows = spark.read.schema(schema).options(**_OPTIONS).parquet(*paths).where(condition)
    return rows if is_exact else rows.mapInArrow(partial(_matching, selection), schema)


def _condition(selection: Selection, table: Table, files: Sequence[File]) -> tuple[str, bool]:
    """What Spark can tell of what is wanted of some files, and whether that is all."""
    told = predicate(selection.subscription, table.layout.attributes)
    text, is_exact = told.text, told.is_exact
    asked = names(selection.subscription)
    if not all(file.has_columns_of(asked) for file in files):
        text, is_exact = f"({text} OR {REST.name} IS NOT NULL)", False
    terms = [text]
    if any(file.first < selection.since for file in files):
        terms.append(f"_time >= {micros(selection.since)}")
    if any(file.last >= selection.until for file in files):
        terms.append(f"_time < {micros(selection.until)}")
    return " AND ".join(terms), is_exact


def _as_glob(path: Path) -> str:
    """A path as Spark takes it, for whom some characters of it would stand for others."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", str(path))


def _matching(selection: Selection, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are wanted, on a worker."""
    for batch in batches:
        rows = selection.of_rows(batch)
        if rows.num_rows:
            yield rows
