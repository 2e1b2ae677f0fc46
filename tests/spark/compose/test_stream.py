"""Patterns on Spark: what brute force finds over the whole history, each once, also when the query stops in the middle."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice import ConfigurationError, parse
from sluice.spark.compose import Absence, Change, Count, Pattern, Sequence, compose
from sluice.spark.compose.evaluate import Event
from sluice.spark.rows import Layout, from_text
from tests.spark.compose.brute import search

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECOND = 1_000_000
LATE_BY = 5
LAYOUT = Layout(pa.schema([("symbol", pa.string()), ("kind", pa.string()), ("price", pa.float64())]))
SCHEMA = (
    "_stream string, _offset bigint, _time timestamp, _publisher string, _number bigint, "
    "symbol string, kind string, price double, _rest map<string, string>"
)
PATTERNS: tuple[Pattern, ...] = (
    Sequence(
        name="sold after bought",
        key=("symbol",),
        steps=("kind = 'bought'", "kind = 'sold' AND price > 5"),
        within="7s",
        emit={"gain": "2.price", "note": "1.note"},
    ),
    Absence(name="never sold", key=("symbol",), first="kind = 'bought'", missing="kind = 'sold'", within="4s"),
    Count(name="busy", key=("symbol", "kind"), where="price IS NOT NULL", at_least=3, within="6s"),
    Change(name="moved", key=("symbol",), attribute="price", percent=60, within="5s"),
    Count(name="nothing like it", where="kind = 'lent'", at_least=2, within="1s"),
)

Record = dict[str, Any]


def generated(seed: int, count: int) -> list[Record]:
    """Rows in the order of their times; some have what no column has."""
    chance = random.Random(seed)
    rows = []
    for number in range(1, count + 1):
        row: Record = {"_stream": chance.choice(("b1", "b2")), "_offset": number, "_time": number * SECOND // 3}
        row |= {"symbol": chance.choice(("IBM", "SUN", None)), "kind": chance.choice(("bought", "sold", "seen"))}
        row |= {"price": float(chance.randint(1, 12)), "_publisher": "alice", "_number": number}
        row["_rest"] = [("note", f'"{number}"')] if number % 3 == 0 else None
        rows.append(row)
    return rows


def shuffled(rows: list[Record], seed: int) -> list[Record]:
    """Each held up by less than the bound."""
    chance = random.Random(seed)
    held_up = {row["_offset"]: row["_time"] + chance.random() * (LATE_BY - 1) * SECOND for row in rows}
    return sorted(rows, key=lambda row: held_up[row["_offset"]])


def write(folder: Path, number: int, rows: list[Record]) -> None:
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=LAYOUT.schema)
    pq.write_table(table, folder / f".{number}")
    # Spark takes files in the order of their times, and two may be written within one tick of the clock.
    os.utime(folder / f".{number}", (1_000_000_000 + number,) * 2)
    (folder / f".{number}").rename(folder / f"{number:03}.parquet")


def key_of(row: Record, pattern: Pattern) -> tuple[Any, ...]:
    return tuple(row[name] for name in pattern.key)


def expected(rows: list[Record], pattern: Pattern, watermark: int) -> list[tuple[Any, ...]]:
    """What brute force finds in each key."""
    filters = [parse(where) for where in pattern.wheres]
    found = []
    for key in sorted({key_of(row, pattern) for row in rows if None not in key_of(row, pattern)}):
        events = []
        for row in (row for row in rows if key_of(row, pattern) == key):
            steps = tuple(step for step, filter in enumerate(filters) if filter.matches(row))
            if steps:
                events.append(Event(row["_time"], row["_stream"], row["_offset"], steps, {}, row["price"]))
        found += [(key, *result[:2]) for result in search(pattern, events, watermark)]
    return sorted(found)


def told(rows: list[Row], pattern: Pattern, outcome: str = "found") -> list[tuple[Any, ...]]:
    return sorted(
        (
            tuple(from_text(row["_rest"][name]) for name in pattern.key),
            tuple((event.stream, event.offset) for event in row.events),
            round(row.ended.timestamp() * SECOND),
        )
        for row in rows
        if (row.pattern, row.outcome) == (pattern.name, outcome)
    )


@contextmanager
def running(results: DataFrame, into: dict[int, list[Row]], checkpoint: Path) -> Iterator[StreamingQuery]:
    """A query whose batches are written down by number, as a sink must: a batch that comes again replaces itself."""

    def keep(rows: DataFrame, batch: int) -> None:
        found = rows.collect()
        assert sorted(into.setdefault(batch, found)) == sorted(found), "a batch that is run again gives the same"

    query = results.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


@pytest.fixture
def reader(spark: SparkSession, tmp_path: Path) -> Callable[[], DataFrame]:
    return lambda: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(tmp_path / "in"))


def test_a_query_that_stops_in_the_middle(reader: Callable[[], DataFrame], tmp_path: Path) -> None:
    history = generated(1, 90)
    arriving = shuffled(history, 2)
    # The watermark stands behind these by far when they come.
    late = [{**row, "_offset": row["_offset"] + 1_000} for row in history if row["symbol"] is not None][:3]
    end = [{**history[-1], "_offset": 999, "_time": 100 * SECOND, "kind": "seen", "symbol": "END"}]
    into: dict[int, list[Row]] = {}
    write(tmp_path / "in", 1, arriving[:40])
    with running(compose(reader(), PATTERNS, late_by=f"{LATE_BY}s"), into, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
    commits = sorted(int(file.name) for file in (tmp_path / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    (tmp_path / "checkpoint" / "commits" / str(commits[-1])).unlink()
    write(tmp_path / "in", 2, arriving[40:] + arriving[40:50])
    write(tmp_path / "in", 3, late + end)
    with running(compose(reader(), PATTERNS, late_by=f"{LATE_BY}s"), into, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
    rows = [row for batch in into.values() for row in batch]
    for pattern in PATTERNS:
        want = expected(history, pattern, (100 - LATE_BY) * SECOND)
        assert told(rows, pattern) == want, pattern.name
        assert want or pattern.name == "nothing like it"
    filters = {pattern.name: [parse(where) for where in pattern.wheres] for pattern in PATTERNS}
    assert sorted((row.pattern, row.events[0].offset) for row in rows if row.outcome == "late") == sorted(
        (name, row["_offset"]) for row in late for name, each in filters.items() if any(f.matches(row) for f in each)
    )
    assert {row.outcome for row in rows} == {"found", "late"}
    sold = [row for row in rows if (row.pattern, row.outcome) == ("sold after bought", "found")]
    prices = {row["_offset"]: row["price"] for row in history}
    for row in sold:
        assert from_text(row["_rest"]["gain"]) == prices[row.events[1].offset]
        assert row["_rest"].get("note") == (f'"{row.events[0].offset}"' if row.events[0].offset % 3 == 0 else None)


def test_only_a_stream_of_notifications_is_taken(
    spark: SparkSession, reader: Callable[[], DataFrame], tmp_path: Path
) -> None:
    write(tmp_path / "in", 1, [])
    with pytest.raises(ConfigurationError, match="readStream"):
        compose(spark.read.parquet(str(tmp_path / "in")), PATTERNS)
    with pytest.raises(ConfigurationError, match="no column _stream"):
        compose(reader().drop("_stream"), PATTERNS)
    with pytest.raises(ConfigurationError, match="clock of this machine"):
        compose(reader(), PATTERNS, time="at", ticking=True)
