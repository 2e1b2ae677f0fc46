"""The archive and history on Spark beside Spark's own means: ``python -m bench.spark.archive``.

Quotes of W1 from the logs of two brokers into an archive, against Spark's own file source into Parquet on the same rows; a look
at one day of thirty through a filter, against a scan of all; and how long a quote takes from its publication into an archive,
and to a Spark sink. Everything runs in turns in one session on the same cores. A full run writes to ``bench/results``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console

import sluice
from bench import machine
from bench.command import say
from bench.match import RESULTS
from bench.report import Sheet
from bench.spark import data
from bench.timing import percentiles
from sluice.broker.supervise import running
from sluice.broker.topology import topology
from sluice.protocol.batch import Logged, Rows
from sluice.spark.archive.files import DayFiles
from sluice.spark.archive.history import history
from sluice.spark.archive.pipeline import Pipeline
from sluice.spark.archive.read import positions
from sluice.spark.archive.table import Table
from sluice.spark.network import Network
from sluice.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CORES = 2
#: Rows in one publication, and days of the archive that history looks at.
BATCH_ROWS, DAYS = 10_000, 30
START = datetime(2026, 3, 1, tzinfo=UTC)
#: Between two publications whose latency is measured.
PAUSE_SECONDS = 0.02
ARCHIVE, PARQUET, JSON = "sluice pipeline, from two brokers", "file source, Parquet", "file source, JSON"
HISTORY, FULL, OWN = "history", "full scan", "Spark's reader with its own push-down"
TARGETS = {"archive": 0.5, "history": 10.0}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rows: int = 4_000_000
    day_rows: int = 3_000_000
    rounds: int = 5
    latency_seconds: float = 30.0


QUICK = Size(rows=40_000, day_rows=2_000, rounds=1, latency_seconds=2.0)


@dataclass(slots=True)
class Found:
    """What was measured: seconds of each round by contestant, and latencies in seconds."""

    size: Size
    archive: dict[str, list[float]] = field(default_factory=dict)
    history: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    wanted_rows: int = 0
    latency: dict[str, list[float]] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and reports; the status is 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.archive", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rows, to see that it works")
    parser.add_argument("--output", type=Path, help="where the tables go (default: bench/results, nowhere if quick)")
    options = parser.parse_args(arguments)
    load, started = os.getloadavg()[0], datetime.now(UTC)
    spark = session("bench archive", f"local[{CORES}]")
    try:
        with tempfile.TemporaryDirectory(prefix="bench-archive-") as folder:
            found = measure(spark, Path(folder), QUICK if options.quick else Size())
    finally:
        spark.stop()
    tables = sheets(found, started, (load, os.getloadavg()[0]))
    for sheet in tables:
        Console().print(sheet.terminal())
    output = options.output or (None if options.quick else RESULTS)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "spark-archive.md").write_text(_page(tables))
    return 0 if options.quick or all(row[3] == "yes" for row in tables[0].rows) else 1


def measure(spark: SparkSession, folder: Path, size: Size) -> Found:
    """All three parts, one after the other."""
    found = Found(size)
    with two_brokers(folder / "data") as network:
        files = _publish(network, size, folder)
        _archive(spark, network, files, folder, found)
        _latency(spark, network, folder, found)
    _history(spark, folder, found)
    return found


@contextmanager
def two_brokers(folder: Path) -> Iterator[Network]:
    """Two durable brokers, linked."""
    with running(topology("line", 2, data=folder, settings={"log_level": "error"})) as brokers:
        yield Network(tuple(map(str, brokers.addresses.values())))


# --- archive ----------------------------------------------------------------------------------------------------------


def _publish(network: Network, size: Size, folder: Path) -> Path:
    """Half of the quotes at each broker, and all of them in files; returns where the files are."""
    say(f"publishing {size.rows:,} quotes")
    quotes = ds.dataset(data.quotes(size.rows))
    for number, address in enumerate(network.brokers):
        with sluice.connect(address) as bus:
            for place, batch in enumerate(quotes.to_batches(batch_size=BATCH_ROWS)):
                if place % len(network.brokers) == number:
                    bus.publish_arrow(batch)
            bus.flush()
    shutil.copytree(data.quotes(size.rows), folder / "parquet")
    return folder


def _archive(spark: SparkSession, network: Network, files: Path, folder: Path, found: Found) -> None:
    quotes = spark.read.parquet(str(files / "parquet"))
    quotes.write.json(str(files / "json"))
    contestants: dict[str, Callable[[Path], None]] = {
        ARCHIVE: lambda target: _pipe(spark, network, target),
        PARQUET: lambda target: _copy(spark, quotes, "parquet", files / "parquet", target),
        JSON: lambda target: _copy(spark, quotes, "json", files / "json", target),
    }
    for round in range(found.size.rounds + 1):  # the first one warms up
        for name, run in contestants.items():
            target = folder / "target"
            start = time.perf_counter()
            run(target)
            seconds = time.perf_counter() - start
            rows = (
                sum(positions(target).values()) if name == ARCHIVE else spark.read.parquet(str(target / "out")).count()
            )
            assert rows == found.size.rows, f"{name} has {rows:,} rows"
            shutil.rmtree(target)
            say(f"{name}: {found.size.rows / seconds:,.0f} rows/s")
            if round:
                found.archive.setdefault(name, []).append(seconds)


def _pipe(spark: SparkSession, network: Network, target: Path) -> None:
    pipeline = Pipeline(spark, network, target)
    with network.connect() as bus:
        while pipeline.step(bus) is not None:
            pass


def _copy(spark: SparkSession, quotes: DataFrame, kind: str, files: Path, target: Path) -> None:
    """Spark's own way: a stream of files into a stream of files, as much as there is."""
    stream = spark.readStream.format(kind).schema(quotes.schema).load(str(files))
    options = {"checkpointLocation": str(target / "checkpoint"), "path": str(target / "out")}
    stream.writeStream.format("parquet").options(**options).trigger(availableNow=True).start().awaitTermination()


# --- latency ----------------------------------------------------------------------------------------------------------


def _latency(spark: SparkSession, network: Network, folder: Path, found: Found) -> None:
    say("measuring latency")
    with network.connect() as bus:
        head = network.streams(bus)["b1"].stop - 1
    archive = folder / "latency"
    pipeline = Pipeline(spark, network, archive)
    with network.connect() as bus:
        while pipeline.step(bus) is not None:
            pass
        with publishing(network, head, found.size.latency_seconds) as (published, is_over):
            done = head
            while not is_over() or done < max(published):
                pipeline.step(bus)
                now, at = time.perf_counter(), positions(archive)["b1"]
                found.latency.setdefault("archive", []).extend(now - published[n] for n in range(done + 1, at + 1))
                done = at
    seen: dict[int, float] = {}

    def sink(frame: DataFrame, _: int) -> None:
        offsets = [row[0] for row in frame.select("_offset").collect()]
        seen.update(dict.fromkeys(offsets, time.perf_counter()))

    source = {"brokers": ",".join(network.brokers), "streams": "b1", "start": f'{{"b1": {done}}}'}
    query = (
        spark.readStream.format("sluice")
        .options(**source)
        .schema("_stream string, _offset bigint, _rest map<string,string>")
        .load()
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "latency-checkpoint"))
        .start()
    )
    _wait(query, lambda: bool(seen))  # it runs
    with publishing(network, done, found.size.latency_seconds) as (published, is_over):
        _wait(query, lambda: is_over() and max(published) in seen)
    query.stop()
    found.latency["Spark sink"] = [seen[offset] - at for offset, at in published.items()]


def _wait(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    while not condition():
        assert query.isActive, query.exception()
        time.sleep(PAUSE_SECONDS)


@contextmanager
def publishing(network: Network, head: int, seconds: float) -> Iterator[tuple[dict[int, float], Callable[[], bool]]]:
    """Publishes a quote every now and then for a while: when each offset was published, and whether it is over."""
    published: dict[int, float] = {}

    def run() -> None:
        end = time.perf_counter() + seconds
        with sluice.connect(network.brokers[0]) as bus:
            offset = head
            while time.perf_counter() < end:
                offset += 1
                published[offset] = time.perf_counter()
                bus.publish({"type": "quote", "symbol": "S1", "price": 1.0, "volume": offset, "exchange": "X1"})
                time.sleep(PAUSE_SECONDS)
            bus.flush()

    thread = threading.Thread(target=run)
    thread.start()
    while not published:
        time.sleep(PAUSE_SECONDS)
    try:
        yield published, lambda: not thread.is_alive()
    finally:
        thread.join()


# --- history ----------------------------------------------------------------------------------------------------------


def _history(spark: SparkSession, folder: Path, found: Found) -> None:
    archive = folder / "days"
    symbol = _fill(archive, found)
    where = f"symbol = '{symbol}'"
    since, until = START + timedelta(days=16), START + timedelta(days=17)
    files = [str(archive / file.path) for file in Table.open(archive).files()]
    period = f"_time >= '{since:%Y-%m-%d}' AND _time < '{until:%Y-%m-%d}' AND {where}"

    def scan(push_down: bool) -> DataFrame:
        spark.conf.set("spark.sql.parquet.filterPushdown", str(push_down).lower())
        return spark.read.parquet(*files).where(period)

    contestants: dict[str, Callable[[], DataFrame]] = {
        HISTORY: lambda: history(spark, archive, where, since, until),
        FULL: lambda: scan(False),
        OWN: lambda: scan(True),
    }
    answers = set()
    for round in range(found.size.rounds + 1):
        for what, ask in QUESTIONS.items():
            for name, frame in contestants.items():
                start = time.perf_counter()
                count, total = ask(frame())
                seconds = time.perf_counter() - start
                answers.add((count, round_price(total)))
                say(f"{name}, {what}: {seconds:.3f} s, {count:,} rows")
                if round:
                    found.history.setdefault(what, {}).setdefault(name, []).append(seconds)
    assert len(answers) == 1, f"the answers differ: {answers}"
    found.wanted_rows = answers.pop()[0]


def _rows(frame: DataFrame) -> tuple[int, float]:
    """All that was asked for, with every column."""
    table = frame.toArrow()
    return table.num_rows, pc.sum(table.column("price")).as_py()


def _sum(frame: DataFrame) -> tuple[int, float]:
    """A sum over what was asked for: two columns are enough for those who can tell."""
    count, total = frame.selectExpr("count(1)", "sum(price)").collect()[0]
    return count, total


ROWS, SUM = "the rows", "count and sum"
QUESTIONS = {ROWS: _rows, SUM: _sum}


def round_price(total: float | None) -> float:
    """A sum of prices, whatever the order in which they were added."""
    return round(total or 0.0, 3)


def _fill(archive: Path, found: Found) -> str:
    """An archive of thirty days; returns the symbol that about a thousandth of its rows has."""
    say(f"archiving {DAYS} days with {found.size.day_rows:,} quotes each")
    quotes = ds.dataset(data.quotes(found.size.day_rows)).to_table()
    table = Table.create(archive, "true")
    table.extend(quotes.schema.remove_metadata(), ["b1"])
    offset = 0
    with DayFiles(archive, table.layout) as files:
        for day in range(DAYS):
            time_micros = int((START + timedelta(days=day)).timestamp()) * 1_000_000
            for batch in quotes.to_batches(max_chunksize=BATCH_ROWS):
                places = range(offset + 1, offset + 1 + batch.num_rows)
                offset += batch.num_rows
                time_micros += 1_000_000
                logged = Logged("b1", places, time_micros)
                files.write(table.layout.arrange(Rows("p", places, table=batch, logged=logged)))
    table.append(files.finished, {}, {"b1": offset})
    counts = pc.value_counts(quotes.column("symbol")).to_pylist()
    wanted = found.size.day_rows / 1_000
    return str(min(counts, key=lambda count: abs(int(count["counts"]) - wanted))["values"])


# --- report -----------------------------------------------------------------------------------------------------------


def sheets(found: Found, started: datetime, load: tuple[float, float]) -> list[Sheet]:
    """All tables of a run."""
    archive, past = _medians(found.archive), {what: _medians(rounds) for what, rounds in found.history.items()}
    targets = [
        _target(
            "archive from two brokers, against the file source to Parquet",
            "archive",
            archive[PARQUET] / archive[ARCHIVE],
        ),
        _target(
            "history of one day of thirty and 0.1 % of rows, against a full scan",
            "history",
            past[ROWS][FULL] / past[ROWS][HISTORY],
        ),
    ]
    rates = [
        (
            name,
            f"{found.size.rows / seconds:,.0f}",
            f"{seconds:.2f}",
            f"{archive[ARCHIVE] and seconds / archive[ARCHIVE]:.2f}×",
        )
        for name, seconds in archive.items()
    ]
    looks = [
        (what, name, f"{seconds:.3f}", f"{seconds / medians[HISTORY]:.1f}×")
        for what, medians in past.items()
        for name, seconds in medians.items()
    ]
    waits = [
        (name, f"{len(seconds):,}", *(f"{percentiles(seconds)[each] / 1_000:,.0f}" for each in ("p50", "p99", "max")))
        for name, seconds in found.latency.items()
    ]
    described = [*machine.describe().items(), ("started", f"{started:%Y-%m-%d %H:%M} UTC")]
    described.append(("load before and after", f"{load[0]:.1f}, {load[1]:.1f}"))
    return [
        Sheet("Targets", ("target", "wanted", "found", "reached"), targets, words=4),
        Sheet(
            "Archive",
            ("from and to", "rows/s", "seconds", "time of it"),
            rates,
            f"{found.size.rows:,} quotes, medians of {found.size.rounds} rounds in turns after one to warm up. The archive is "
            "synced to the disk, with bounds for each file; the files of the others are not.",
        ),
        Sheet(
            "History",
            ("asked for", "how", "seconds", "time of it"),
            looks,
            f"{found.wanted_rows:,} of {DAYS * found.size.day_rows:,} rows. The full scan is Spark's own reader of Parquet "
            "over all files of the table, without push-down; the target is about the rows. A part of the time is what a "
            "Spark job takes whatever it does: the smaller the archive, the closer the two are.",
            words=2,
        ),
        Sheet(
            "Latency, in milliseconds",
            ("from publication to", "quotes", "p50", "p99", "max"),
            waits,
            "Quotes published one by one. To the archive: until the table is committed; to a sink: until `foreachBatch` has "
            "them.",
        ),
        Sheet("Machine", ("what", "which"), described, words=2),
    ]


def _medians(rounds: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(seconds) for name, seconds in rounds.items()}


def _target(what: str, name: str, ratio: float) -> tuple[str, str, str, str]:
    return what, f"≥ {TARGETS[name]:g}×", f"{ratio:.2f}×", "yes" if ratio >= TARGETS[name] else "NO"


def _page(tables: Sequence[Sheet]) -> str:
    said = "Written by `python -m bench.spark.archive`; how is told in [the README](../README.md)."
    head = f"# The archive and history on Spark\n\n{said}\n"
    return "\n".join([head, *(sheet.markdown() for sheet in tables)])


if __name__ == "__main__":
    raise SystemExit(main())
