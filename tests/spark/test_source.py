"""The source against real brokers: every row once, from where it was told to, in the shape that was asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, MapType, StringType, StructType

import sluice
from sluice.errors import ConfigurationError, RequestError
from sluice.spark import read, subscribe
from sluice.spark.options import SourceOptions
from sluice.spark.source import BatchReader, Part, StreamReader, layout_of
from tests.spark.brokers import Brokers, brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "n BIGINT, _stream STRING, _rest MAP<STRING, STRING>"
#: The same without a JVM.
SPARK_SCHEMA = StructType().add("n", LongType())


def publish(network: Brokers, name: str, *numbers: int) -> None:
    with sluice.connect(network.at[name]) as bus:
        bus.publish_many([{"n": number} for number in numbers])
        bus.flush()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Two brokers with ten records each; the second has them as columns."""
    with brokers(tmp_path_factory.mktemp("source"), "b1", "b2") as network:
        with sluice.connect(network.at["b1"], "ann") as bus:
            bus.publish_many([{"n": n, "o": {"p": n / 2}, "tags": ["a"]} for n in range(9)])
            bus.publish({"n": "nine", "o": {"p": 4.5, "new": 1}, "late": True})
            bus.flush()
        with sluice.connect(network.at["b2"], "bob") as bus:
            bus.publish_arrow(pa.table({"n": range(10, 20), "s": ["x"] * 10}))
            bus.flush()
        yield network


def options(network: Brokers, **others: Any) -> SourceOptions:
    return SourceOptions(brokers=tuple(network.at.values()), **others)


# --- the shape of rows ------------------------------------------------------------------------------------------------


def test_a_schema_is_inferred_and_nothing_is_lost(spark: SparkSession, network: Brokers) -> None:
    frame = read(spark, network.addresses)
    assert frame.schema.simpleString() == (
        "struct<_stream:string,_offset:bigint,_time:timestamp,_publisher:string,_number:bigint,late:boolean,n:bigint,s:string,"
        "tags:array<string>,o:struct<new:bigint,p:double>,_rest:map<string,string>>"
    )
    rows = {(row["_stream"], row["_offset"]): row for row in frame.collect()}
    assert len(rows) == 20
    nine, first = rows["b1", 10], rows["b2", 1]
    assert nine["n"] is None and nine["_rest"] == {"n": '"nine"'} and nine["late"] and nine["o"]["new"] == 1
    assert (first["_publisher"], first["n"], first["s"], first["_rest"]) == ("bob", 10, "x", None)
    assert abs((datetime.now(UTC) - first["_time"].replace(tzinfo=UTC)).total_seconds()) < 3_600


def test_a_declared_schema_is_kept_to(spark: SparkSession, network: Brokers) -> None:
    frame = read(spark, network.addresses, "n < 2", schema=SCHEMA)
    assert frame.columns == ["n", "_stream", "_rest"]
    assert sorted(map(tuple, frame.collect())) == [
        (0, "b1", {"o": '{"p": 0.0}', "tags": '["a"]'}),
        (1, "b1", {"o": '{"p": 0.5}', "tags": '["a"]'}),
    ]
    dropped = read(spark, network.addresses, "n < 2", schema="n BIGINT", rest="drop")
    assert sorted(row["n"] for row in dropped.collect()) == [0, 1]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (
            StructType().add("n", "long"),
            "no column for attributes without a column of their own: add `_rest MAP<STRING, STRING>`",
        ),
        (StructType().add("n", "long", nullable=False), "column 'n' is NOT NULL, and any attribute may be missing"),
        (StructType().add("_offset", "string"), "column '_offset' is always of type int64"),
        (
            StructType().add("n", "decimal(10,2)").add("_rest", MapType(StringType(), StringType())),
            "which would change values or has none",
        ),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema: StructType, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        layout_of(schema, rest="keep")


# --- where to begin and to end ----------------------------------------------------------------------------------------


def parts(network: Brokers, **others: Any) -> list[tuple[str, int, int]]:
    reader = BatchReader(options(network, rest="drop", **others), SPARK_SCHEMA)
    found = reader.partitions()
    assert all(isinstance(part, Part) and part.address == network.at[part.stream] for part in found)
    return [(part.stream, part.start, part.end) for part in found if isinstance(part, Part)]


def test_partitions_are_ranges_of_streams(network: Brokers) -> None:
    assert parts(network) == [("b1", 1, 11), ("b2", 1, 11)]
    assert parts(network, streams=("b2",), rows_per_partition=4) == [("b2", 1, 5), ("b2", 5, 9), ("b2", 9, 11)]
    assert parts(network, start={"b1": 8}, end={"b2": 3}) == [("b1", 8, 11), ("b2", 1, 3)]
    assert parts(network, start="latest") == []
    with sluice.connect(network.at["b2"]) as bus:
        (rows,) = bus.pages("b2", 1, 11)
    assert rows.batches[0].logged is not None
    moment = datetime.fromtimestamp(rows.batches[0].logged.time_micros / 1e6, UTC)
    assert parts(network, start=moment) == [("b2", 1, 11)] and parts(network, end=moment) == [("b1", 1, 11)]


def test_streams_and_offsets_that_are_not_there_are_named(network: Brokers) -> None:
    with pytest.raises(RequestError, match="there is no log of b3 that can be reached: there are b1, b2"):
        parts(network, streams=("b3",))
    with pytest.raises(ConfigurationError, match="b1 has no offset 99 yet: the next one will be 11"):
        parts(network, start={"b1": 99})


def test_offsets_that_are_gone_are_an_error_or_a_warning(network: Brokers, caplog: pytest.LogCaptureFixture) -> None:
    part = Part("b2", 8, 15, "true", None)
    strict = BatchReader(options(network, rest="drop"), SPARK_SCHEMA)
    with pytest.raises(RequestError, match=r"offsets 11–14 of b2 are gone.*fail_on_loss=false"):
        [*strict.read(part)]
    with caplog.at_level(logging.WARNING):
        (rows,) = BatchReader(options(network, rest="drop", fail_on_loss=False), SPARK_SCHEMA).read(part)
    assert rows["n"].to_pylist() == [17, 18, 19] and "11–14 of b2 are gone" in caplog.text
    assert [*strict.read(InputPartition(None))] == [], "what Spark makes up when there is nothing to read"


# --- streaming --------------------------------------------------------------------------------------------------------


def ran(frame: DataFrame, checkpoint: Path) -> list[list[int]]:
    """Runs a query over what is there now; the rows of each micro-batch that has some."""
    found: list[list[int]] = []

    def take(rows: DataFrame, batch: int) -> None:
        found.append(sorted(row["n"] for row in rows.collect()))

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return [each for each in found if each]


def test_a_stream_is_read_once_however_often_the_query_is_started(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with brokers(tmp_path, "b1", "b2") as network:
        publish(network, "b1", *range(10))
        publish(network, "b2", *range(10, 40))
        wishes: dict[str, Any] = {"start": {"b1": 5}, "streams": "b1,b2", "max_rows_per_batch": 12}
        frame = subscribe(spark, network.addresses, "n % 2 = 0", schema=SCHEMA, **wishes)
        batches = ran(frame, checkpoint)
        assert sorted(n for batch in batches for n in batch) == [*range(4, 40, 2)]
        assert len(batches) >= 3 and max(map(len, batches)) <= 8
        publish(network, "b1", 100, 101, 102)
        assert ran(frame, checkpoint) == [[100, 102]]
        # The last commit is lost: the same rows come again, and what was published since does not come with them.
        publish(network, "b1", 104)
        max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name)).unlink()
        assert ran(frame, checkpoint) == [[100, 102], [104]]


def test_the_first_batch_of_latest_is_the_same_when_it_is_run_again(network: Brokers) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    first, second = (StreamReader(options(network, rest="drop", start="latest"), SPARK_SCHEMA) for _ in range(2))
    try:
        end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
        assert end == {"b1": {"from": 11, "next": 11}, "b2": {"from": 11, "next": 11}}
        assert second.partitions(second.initialOffset(), end) == [] == first.partitions(end, end)
    finally:
        first.stop()
        second.stop()


# --- bad input --------------------------------------------------------------------------------------------------------


def test_errors_reach_whoever_asked_and_others_go_on(spark: SparkSession, network: Brokers, tmp_path: Path) -> None:
    running = subscribe(spark, network.addresses, schema=SCHEMA, start="earliest")
    query = running.writeStream.format("memory").queryName("runs").option("checkpointLocation", str(tmp_path)).start()
    try:
        for bad, problem in (
            ({"wehre": "n > 5"}, "'wehre' is no option of the source: is it where?"),
            ({"where": "n >"}, "something is missing after >"),
            ({"brokers": "sluice://127.0.0.1:1", "patience_seconds": "0.1"}, "no broker answers"),
            ({"streams": "b7"}, "there is no log of b7"),
        ):
            reader = spark.read.format("sluice").options(**{"brokers": network.addresses, **bad})
            with pytest.raises(Exception, match="(?s)" + problem.replace("?", r"\?")):
                reader.schema(SCHEMA).load().collect()
        assert query.isActive and query.exception() is None
        query.processAllAvailable()
        assert spark.table("runs").count() == 20
    finally:
        query.stop()


def test_nothing_to_infer_from_is_said(tmp_path: Path) -> None:
    from sluice.spark.source import inferred

    with brokers(tmp_path, "b1") as network, pytest.raises(ConfigurationError, match=r"declare one with .schema"):
        inferred(options(network))
