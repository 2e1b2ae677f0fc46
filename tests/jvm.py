"""How the Java of the tests runs: compiled in one go instead of twice, with Spark's classes mapped from a file.

A Spark of the tests lives for seconds or minutes, and spends most of them on loading classes and on compiling them anew as they
get hot. `python -m tests.jvm` has one Spark do a little of everything and leave its classes in a file (class data sharing of
Java); a Spark that starts with the file, or at least without the second compiler, takes less than half the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CLASSES = Path(__file__).resolve().parent.parent / ".cache" / "spark.jsa"
#: A Java of another maker may not know them; what is said about the file would stand among what programs print.
OPTIONS = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds*=off"


def settle() -> None:
    """Has every Spark that this process or one below it starts run so, where nobody wished otherwise."""
    classes = f" -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else ""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", OPTIONS + classes)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", OPTIONS)


def keep_classes() -> None:
    """Writes the file; whoever looks meanwhile finds none."""
    from sluice.spark.session import session

    CLASSES.parent.mkdir(exist_ok=True)
    unfinished = CLASSES.with_suffix(".part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={unfinished}"
    spark = session("classes", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    with TemporaryDirectory() as folder:
        _work(spark, Path(folder))
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    # It ends when nobody can speak to it any more, and writes the file then.
    gateway.proc.stdin.close()
    gateway.proc.wait()
    unfinished.replace(CLASSES)


def _work(spark: SparkSession, folder: Path) -> None:
    """What most tests do: rows through Python, sums, files, and a stream from files to files."""

    def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    rows = spark.range(100).selectExpr("id", "id % 7 AS rest", "map('a', string(id)) AS words")
    rows.mapInArrow(passed, rows.schema).write.parquet(str(folder / "rows"))
    read = spark.read.parquet(str(folder / "rows")).where("id > 50 AND words['a'] LIKE '7%'")
    read.groupBy("rest").count().orderBy("rest").collect()
    stream = spark.readStream.schema(rows.schema).parquet(str(folder / "rows")).writeStream.format("parquet")
    stream = stream.option("path", str(folder / "copies")).option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    keep_classes()
