"""The sink: every row is published once, whatever is run again, and in whatever order rows come."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sluice
from sluice.errors import SparkError
from sluice.spark import read, subscribe
from sluice.spark.sink import MAX_PUBLICATION_BYTES, dealt, publish
from tests.spark.brokers import Brokers, brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 60.0


# --- publications -----------------------------------------------------------------------------------------------------


def table(count: int) -> list[dict[str, Any]]:
    return [
        {"n": n, "s": f"text {n % 7}", "o": {"p": n / 3, "l": [n, None]}, "m": None if n % 3 else n}
        for n in range(count)
    ]


def batches(rows: list[dict[str, Any]], size: int = 1_000) -> list[pa.RecordBatch]:
    schema = pa.schema(
        [
            *(("_stream", pa.string()), ("n", pa.int64()), ("s", pa.string()), ("m", pa.int64())),
            ("o", pa.struct([("p", pa.float64()), ("l", pa.list_(pa.int64()))])),
            ("_rest", pa.map_(pa.string(), pa.string())),
        ]
    )
    return [
        pa.RecordBatch.from_pylist(rows[start : start + size], schema=schema) for start in range(0, len(rows), size)
    ]


def contents(publications: list[Any]) -> list[list[int]]:
    return [sorted(row["n"] for row in (part if isinstance(part, list) else part.to_pylist())) for part in publications]


@pytest.mark.parametrize("rest", [None, [("odd", "1.5")]], ids=["columns", "records"])
def test_the_same_rows_make_the_same_publications(rest: Any) -> None:
    rows = table(3_000)
    rows[17]["_rest"] = rest
    parts = contents(dealt(batches(rows), 500))
    assert (
        sorted(n for part in parts for n in part) == [*range(3_000)] and max(map(len, parts)) <= 500 and len(parts) < 16
    )
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        assert contents(dealt(batches(rows, size=77 + seed), 500)) == parts


def test_a_publication_fits_into_a_frame() -> None:
    rows = [{"n": n, "s": "x" * 5_000} for n in range(1_000)]
    parts = contents(dealt(batches(rows), 10_000))
    assert len(parts) > 4 and max(map(len, parts)) * 5_000 <= MAX_PUBLICATION_BYTES
    assert sorted(n for part in parts for n in part) == [*range(1_000)]


def test_rows_that_are_all_the_same() -> None:
    assert [*map(len, dealt(batches([{"n": 1}] * 10), 4))] == [2, 3, 2, 3]
    assert dealt([], 10) == dealt(batches([])[:0], 10) == []


def published(network: Brokers, name: str = "b1") -> list[dict[str, Any]]:
    """All that a broker has logged, in order."""
    with sluice.connect(network.at[name]) as bus:
        return [row for batch in bus.fetch(name) for row in (batch if isinstance(batch, list) else batch.to_pylist())]


@pytest.mark.parametrize("rest", [None, [("odd", "1.5")]], ids=["columns", "records"])
def test_a_task_that_is_run_again_goes_on_where_it_stopped(tmp_path: Path, rest: Any) -> None:
    rows = table(2_000)
    rows[17]["_rest"] = rest
    with brokers(tmp_path, "b1") as network:
        for part in (3, 1, None, None):
            random.Random(part).shuffle(rows)
            with sluice.connect(network.at["b1"], "job-0") as bus:
                publish(bus, dealt(batches(rows), 300)[:part], 1 << 32, PATIENCE_SECONDS)
        with sluice.connect(network.at["b1"], "job-0") as bus:  # the next micro-batch
            publish(bus, dealt(batches(table(10)), 300), 2 << 32, PATIENCE_SECONDS)
        counts = Counter(row["n"] for row in published(network))
    assert counts == Counter([*range(2_000), *range(10)])


@pytest.mark.parametrize("rest", [None, [("odd", "1.5")]], ids=["columns", "records"])
def test_a_publication_is_stored_whole(tmp_path: Path, rest: Any) -> None:
    rows = table(2_000)
    rows[17]["_rest"] = rest
    publications = dealt(batches(rows), 300)
    with brokers(tmp_path, "b1") as network, sluice.connect(network.at["b1"], "job-0") as bus:
        publish(bus, publications, 1 << 32, PATIENCE_SECONDS)
        stored = [batch for page in bus.pages("b1", 1, 2_001) for batch in page.batches]
    assert [*map(len, stored)] == [*map(len, publications)] and stored[0].numbers[0] == 1 << 32


def test_a_part_of_a_publication_is_no_publication(tmp_path: Path) -> None:
    with brokers(tmp_path, "b1") as network:
        with sluice.connect(network.at["b1"], "job-0") as bus:
            bus.skip_to(1 << 32)
            bus.publish({"n": 1})
        with sluice.connect(network.at["b1"], "job-0") as bus, pytest.raises(SparkError, match="only a part is stored"):
            publish(bus, dealt(batches(table(10)), 300), 1 << 32, PATIENCE_SECONDS)


# --- DataFrames -------------------------------------------------------------------------------------------------------


def test_a_dataframe_is_published(spark: SparkSession, tmp_path: Path) -> None:
    with brokers(tmp_path, "b1", "b2") as network:
        frame = spark.range(0, 5_000, numPartitions=3).selectExpr(
            "id AS n", "CAST(id AS STRING) AS s", "named_struct('p', id / 2) AS o", "IF(id % 2 = 0, NULL, true) AS odd",
            "TIMESTAMP '2026-03-01 12:30:00' AS t", "IF(id = 3, map('late', '[1]'), NULL) AS _rest", "id AS _offset",
        )  # fmt: skip
        writer = frame.write.format("sluice").mode("append").option("brokers", network.addresses)
        writer.option("publisher", "once").save()
        writer.option("publisher", "once").save()  # the same job again
        rows = published(network, "b1") + published(network, "b2")
        assert sorted(row["n"] for row in rows) == [*range(5_000)]
        assert published(network, "b1") and published(network, "b2"), "the tasks share the brokers"
        (third,) = (row for row in rows if row["n"] == 3)
        assert third == {"n": 3, "s": "3", "o": {"p": 1.5}, "odd": True, "t": third["t"], "late": [1]}
        assert third["t"].isoformat() == "2026-03-01T12:30:00+00:00"
        back = read(spark, network.addresses, "n < 3", schema="n BIGINT, odd BOOLEAN, _publisher STRING", rest="drop")
        assert {tuple(row) for row in back.collect()} == {(n, n % 2 == 1 or None, "once-0") for n in range(3)}
        writer.option("publisher", "other").save()
        assert len(published(network, "b1") + published(network, "b2")) == 10_000


def test_a_batch_that_is_run_again_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with brokers(tmp_path, "b1", "b2") as network:
        with sluice.connect(network.at["b1"]) as bus:
            bus.publish_arrow(pa.table({"n": range(1_000)}))
            bus.flush()

        def run() -> None:
            source = subscribe(
                spark, network.at["b1"], schema="n BIGINT, _rest MAP<STRING, STRING>", start="earliest", streams="b1",
                max_rows_per_batch=300,
            )  # fmt: skip
            # A shuffle, so that rows come in another order.
            query = source.repartition(3, "n").writeStream.format("sluice").option("brokers", network.at["b2"])
            query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

        run()
        before = published(network, "b2")
        assert Counter(row["n"] for row in before) == Counter(range(1_000))
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        run()
        assert published(network, "b2") == before
        assert int(last.name) >= 3 and last.exists(), "the batch was run again"


def test_what_cannot_be_published_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("sluice").mode("append")
    for options, problem in (
        ({"brokers": "memory://"}, "keeps no log, so a batch that is run again would be published twice"),
        ({"brokers": "sluice://127.0.0.1:1", "patience_seconds": "0.1"}, "no broker answers"),
        ({"brokers": "a", "publihser": "p"}, "'publihser' is no option of the sink: is it publisher"),
    ):
        with pytest.raises(Exception, match=f"(?s){problem}"):
            writer.options(**options).save()
    with pytest.raises(Exception, match="what was published cannot be overwritten"):
        spark.range(1).write.format("sluice").mode("overwrite").option("brokers", "a").save()
