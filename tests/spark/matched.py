"""A program that matches on a master and prints what it found, as JSON: python -m tests.spark.matched MASTER FOLDER.

Whoever started it knows the same rows and subscriptions, and so what should have been found.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet

import sluice
from sluice.match import naive
from sluice.spark.matching import index as indexes
from sluice.spark.matching.index import Split
from sluice.spark.matching.match import match
from sluice.spark.matching.subscriptions import table_of
from sluice.spark.matching.work import Match
from sluice.spark.session import session
from tests.generate import SPARK_NAMES, Generator, batch_of, generated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STRATEGIES = ("notifications", "subscriptions")
#: What the executors of a test's cluster have room for.
SETTINGS = {"spark.executor.memory": "512m", "spark.driver.memory": "512m"}
#: Of the index, the file that is read all the time.
_MAPPED = "heap.npy"


def subscriptions() -> list[tuple[int, str]]:
    """Subscriptions as pairs, the same at every call."""
    return [*enumerate(generated(5, 60))]


def records() -> list[dict[str, Any]]:
    """Notifications, the same at every call."""
    generator = Generator(random.Random(7), spark=True)
    return [generator.record() for _ in range(120)]


def expected() -> list[list[int]]:
    """Which subscription matches which row, one by one."""
    parsed = {id: sluice.parse(text) for id, text in subscriptions()}
    return sorted([id, row] for row, record in enumerate(records()) for id in naive.match(record, parsed))


def totals(pairs: Iterable[list[int]]) -> list[list[int]]:
    """The pairs as counts."""
    return sorted(map(list, Counter(id for id, _ in pairs).items()))


def matched(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What matching finds with each strategy, rows as a DataFrame and counts from files; indexes are kept in a folder."""
    table = pa.Table.from_batches([batch_of(records())]).select(list(SPARK_NAMES))
    table = table.append_column("row", pa.array(range(table.num_rows)))
    (folder / "rows").mkdir(parents=True)
    parquet.write_table(table, folder / "rows" / "rows.parquet", row_group_size=50)
    frame = spark.createDataFrame(table).repartition(2)
    found: dict[str, Any] = {}
    for strategy in STRATEGIES:
        options: dict[str, Any] = {"strategy": strategy, "index_directory": folder / "indexes"}
        counts = match(folder / "rows", subscriptions(), output="counts", **options)
        found[strategy] = {"rows": _pairs(match(frame, subscriptions(), **options)), "counts": _sorted(counts)}
    return found


def shipped(spark: SparkSession, folder: Path) -> list[list[int]]:
    """What matching finds with an index that workers cannot see where it was made."""
    table = pa.table({"a": range(10)})
    deliveries = match(spark.createDataFrame(table), [(1, "a > 3"), (2, "a > 5")], index_directory=folder / "shipped")
    for compiled in (folder / "shipped").glob("*/about.json"):
        shutil.rmtree(compiled.parent)
    return _pairs(deliveries, "a")


def mapped(spark: SparkSession, folder: Path) -> list[dict[str, int]]:
    """Of two workers that have matched at the same time: who they are, which file they map, and what of it is their own."""
    index = indexes.compiled(table_of(subscriptions()), Split(), folder / "indexes")
    rows = spark.range(0, 1_000, 1, 2).selectExpr("id AS n")
    look = partial(_look, Match(index, 0, as_lists=False))
    found = rows.mapInArrow(look, "process long, file long, own_bytes long", barrier=True).collect()
    return sorted((row.asDict() for row in found), key=lambda each: each["process"])


def _look(work: Match, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on a worker: matches, and looks at its own memory."""
    for _ in work(batches):
        pass
    file, own, is_inside = 0, 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            is_inside = line.endswith(f"/{_MAPPED}")
            file = int(words[4]) if is_inside else file
        elif is_inside and words[0] == "Anonymous:":  # what was copied; a page of a file that is not yet on disk is not
            own += int(words[1]) * 1024
    yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "file": [file], "own_bytes": [own]})


def _pairs(deliveries: DataFrame, column: str = "row") -> list[list[int]]:
    return _sorted(deliveries.select("subscription", column))


def _sorted(frame: DataFrame) -> list[list[int]]:
    return sorted(map(list, frame.collect()))


def main(master: str, folder: str) -> None:
    """Matches in all ways, one after the other."""
    spark = session("matched", master, SETTINGS)
    try:
        found = {work.__name__: work(spark, Path(folder)) for work in (matched, shipped, mapped)}
    finally:
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
