"""Statistics by Spark against statistics that count: the same within the error of the sketches."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice import parse
from sluice.errors import SparkError
from sluice.files import read_statistics, write_statistics
from sluice.model.statistics import Statistics
from sluice.model.values import Kind
from sluice.protocol.batch import Records
from sluice.spark.rows import Layout
from sluice.spark.traffic.statistics import statistics, updating_statistics

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 6_000
LAYOUT = Layout(
    pa.schema(
        [
            ("symbol", pa.string()),
            ("price", pa.float64()),
            ("size", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("code", pa.binary()),
            ("open", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("order", pa.struct([("total", pa.int64())])),
            ("never", pa.string()),
        ]
    )
)


def traffic() -> list[dict[str, Any]]:
    """Attributes of all kinds; some values fit no column, and `note` has none."""
    chance = random.Random(5)
    records: list[dict[str, Any]] = []
    for number in range(COUNT):
        record: dict[str, Any] = {
            "symbol": f"S{min(4999, int(chance.paretovariate(0.6))):04d}",
            "price": round(chance.lognormvariate(3, 1), 4),
            "size": chance.choice((1, 10, 100, chance.randrange(5000))),
            "at": START + timedelta(microseconds=int(chance.betavariate(2, 5) * 86_400_000_000)),
            "code": chance.randbytes(2),
            "open": chance.random() < 0.2,
        }
        if number % 3 == 0:
            record |= {"tags": ["a", "b"], "order": {"total": number % 7}}
        if number % 4 == 0:
            record["note"] = chance.choice(("buy", "sell", "hold", 7, START))
        if number % 50 == 0:
            record["price"] = math.nan
        elif number % 50 == 1:
            record["price"] = "on request"
        records.append(record)
    return records


RECORDS = traffic()
EXACT = Statistics.of(RECORDS)


def rows(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    batch = LAYOUT.arrange(Records.of("alice", 1, records))
    return spark.createDataFrame(pa.Table.from_batches([batch]))


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Statistics:
    return statistics(rows(spark, RECORDS))


def test_the_same_attributes_and_shares(found: Statistics) -> None:
    assert found.count == COUNT and found.attributes.keys() == EXACT.attributes.keys()
    for name, kinds in EXACT.attributes.items():
        assert found.attributes[name].keys() == kinds.keys(), name
        for kind, exact in kinds.items():
            assert found.attributes[name][kind].share == pytest.approx(exact.share, abs=1e-9), (name, kind)
            assert found.attributes[name][kind].distinct == pytest.approx(exact.distinct, rel=0.1), (name, kind)


def test_few_values_are_counted_exactly(found: Statistics) -> None:
    for name, kind in (("open", Kind.BOOL), ("order.total", Kind.NUMBER)):
        assert found.attributes[name][kind] == EXACT.attributes[name][kind]
    assert dict(found.attributes["note"][Kind.STRING].frequent) == dict(EXACT.attributes["note"][Kind.STRING].frequent)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        *((f"price < {price}", 0.009) for price in (2, 5, 10, 15, 20, 40, 100, 1e6)),
        ("size = 10", 0.001),
        ("size BETWEEN 200 AND 2500", 0.009),
        ("at < TIMESTAMP '2026-01-01 06:00:00'", 0.009),
        ("at >= TIMESTAMP '2026-01-02'", 0.0),
        ("symbol = 'S0001'", 0.001),
        ("symbol IN ('S0002', 'S0003', 'S4999')", 0.001),
        *((f"symbol > '{symbol}'", 0.02) for symbol in ("S0001", "S0010", "S0100", "S1000")),
        ("startswith(symbol, 'S00')", 0.02),
        *((f"code < X'{code}'", 0.02) for code in ("20", "80", "F0FF")),
        ("open", 1e-9),
        ("order.total > 3", 1e-9),
        ("order IS NULL", 1e-9),
        ("note = 'buy' OR note = 7", 1e-9),
        ("note IS NULL", 1e-9),
        ("price = 'on request'", 1e-9),
        ("never IS NULL", 1e-9),
        ("size > 200 AND price < 20", 0.03),
    ],
)
def test_estimates_are_near_the_counts(found: Statistics, where: str, error: float) -> None:
    wanted = parse(where)
    counted = sum(wanted.matches(record) for record in RECORDS) / COUNT
    assert found.share(wanted) == pytest.approx(counted, abs=error + 1e-9)


def test_a_file_of_it_is_small_and_says_the_same(found: Statistics, tmp_path: Path) -> None:
    write_statistics(tmp_path / "traffic.json", found)
    assert read_statistics(tmp_path / "traffic.json") == found
    assert (tmp_path / "traffic.json").stat().st_size < 100_000


def test_nothing_at_all(spark: SparkSession) -> None:
    assert statistics(rows(spark, [])) == Statistics.of([])


def test_a_table_of_any_origin_will_do(spark: SparkSession) -> None:
    """Types that no row of ours has, and no `_rest`."""
    frame = spark.sql(
        "SELECT CAST(id AS DECIMAL(10, 2)) / 4 AS amount, CAST(id AS TINYINT) AS small, map('a', id) AS kept, "
        "DATE'2026-01-01' + CAST(id AS INT) AS day FROM range(100)"
    )
    found = statistics(frame)
    assert found.share(parse("amount < 12.5")) == pytest.approx(0.5)
    assert found.share(parse("small BETWEEN 10 AND 19")) == pytest.approx(0.1)
    assert found.share(parse("day < TIMESTAMP '2026-01-11'")) == pytest.approx(0.1)
    assert found.attributes["kept"].keys() == {Kind.RECORD}


def test_a_stream_keeps_a_file_up_to_date(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "traffic.json"
    folder = tmp_path / "rows"
    for part in (RECORDS[: COUNT // 3], RECORDS[COUNT // 3 :]):
        some = rows(spark, part).select("price", "open", "symbol", "_rest")
        some.write.mode("append").parquet(str(folder))
        stream = spark.readStream.schema(some.schema).parquet(str(folder))
        with pytest.raises(SparkError, match="foreachBatch"):
            statistics(stream)
        writer = stream.writeStream.foreachBatch(updating_statistics(file)).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    joined = read_statistics(file)
    assert joined.count == COUNT
    for where in ("open", "price < 20", "note = 'buy'", "symbol = 'S0001'"):
        assert joined.share(parse(where)) == pytest.approx(EXACT.share(parse(where)), abs=0.01), where
