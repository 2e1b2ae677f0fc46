"""One contestant of the bulk match in a process of its own; prints what it found as JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench import machine
from bench.spark import data, joins
from bench.spark.joins import Job
from bench.workloads import w1_subscriptions
from sluice.spark.matching.match import match
from sluice.spark.session import session

OURS, PLAIN, BINNED, RUNNING, DUCKDB = "sluice", "plain join", "hand-binned join", "running counts", "duckdb"
CONTESTANTS = (OURS, PLAIN, BINNED, RUNNING, DUCKDB)
#: What a cluster on this machine needs: workers find the driver, and have a gigabyte each.
CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "768m",
}
#: A first run that took longer is the only one, and further ones are not begun after so long.
ONCE_SECONDS = 60.0


def main() -> None:
    """Measures: once to warm up, then several times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("quotes", type=int)
    parser.add_argument("subscriptions", type=int)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--master", help="of a cluster with so many cores (default: this process has them)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr), _prepared(options) as (spark, job, prepare_seconds):
        first = _timed(job)
        runs = list[float]()
        while first[0] <= ONCE_SECONDS and len(runs) < options.rounds and sum(runs) <= ONCE_SECONDS:
            runs.append(_timed(job)[0])
        counts = first[1]
        memory = _memory(spark, options.cores) if options.contestant == OURS and spark is not None else None
    found = {
        "prepare_seconds": prepare_seconds,
        "first_seconds": first[0],
        "seconds": statistics.median(runs or [first[0]]),
        "rounds": len(runs),
        "matches": int(np.sum(counts["count"].to_numpy())),
        "digest": _digest(counts),
        "memory": memory,
    }
    print(json.dumps(found))


@contextlib.contextmanager
def _prepared(options: argparse.Namespace) -> Iterator[tuple[SparkSession | None, Job, float]]:
    """The job, ready to run: quotes are files, subscriptions are compiled, encoded or cached."""
    quotes = data.quotes(options.quotes)
    if options.contestant == DUCKDB:
        start = time.perf_counter()
        job = joins.duckdb_join(options.cores, quotes, w1_subscriptions(options.subscriptions))
        yield None, job, time.perf_counter() - start
        return
    settings = {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": str(joins.PARTITIONS)}
    if options.master is not None:
        settings |= CLUSTER | {f"spark.executorEnv.{name}": value for name, value in machine.ONE_THREAD.items()}
    spark = session("bench", options.master or f"local[{options.cores}]", settings)
    try:
        start = time.perf_counter()
        match options.contestant:
            case "sluice":
                job = _ours(quotes, data.texts(options.subscriptions))
            case "plain join":
                job = joins.plain_join(spark, quotes, w1_subscriptions(options.subscriptions))
            case "running counts":
                job = joins.running_counts(spark, quotes, w1_subscriptions(options.subscriptions))
            case _:
                job = joins.binned_join(spark, quotes, w1_subscriptions(options.subscriptions))
        yield spark, job, time.perf_counter() - start
    finally:
        spark.stop()


def _ours(quotes: Path, subscriptions: Path) -> Job:
    index_directory = data.DIRECTORY / "indexes"

    def job() -> pa.Table:
        counts = match(quotes, subscriptions, output="counts", index_directory=index_directory)
        return counts.toArrow().rename_columns(["id", "count"])

    match(quotes, subscriptions, output="counts", index_directory=index_directory)  # compiles the index
    return job


def _timed(job: Job) -> tuple[float, pa.Table]:
    start = time.perf_counter()
    found = job()
    return time.perf_counter() - start, found


def _digest(counts: pa.Table) -> int:
    """A number that is the same for the same counts, in whatever order."""
    id, count = (counts[name].to_numpy().astype(np.uint64) for name in ("id", "count"))
    return int(np.bitwise_xor.reduce((id + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) * count)) if len(id) else 0


def _memory(spark: SparkSession, cores: int) -> list[dict[str, int]]:
    """What the workers that have just matched hold in memory, in bytes: in all, and what they share with nobody."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found: dict[str, int] = {}
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
            name, size = line.split()[:2]
            found[name.rstrip(":")] = int(size) * 1024
        own = found["Private_Clean"] + found["Private_Dirty"]
        time.sleep(0.5)  # so that each task has a worker of its own
        yield pa.RecordBatch.from_pydict({"rss": [found["Rss"]], "pss": [found["Pss"]], "own": [own]})

    rows = spark.range(0, cores, 1, cores).mapInArrow(look, "rss long, pss long, own long").collect()
    return [row.asDict() for row in rows]


if __name__ == "__main__":
    main()
