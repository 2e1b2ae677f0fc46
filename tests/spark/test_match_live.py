"""Subscriptions that change while a stream runs: each batch has one version of them, and has it again when it is run again."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

import sluice
from sluice.errors import ConfigurationError, MatcherError, StoreError
from sluice.spark.matching.destinations import write_per_subscriber
from sluice.spark.matching.live import LiveSubscriptions, TableSubscriptions, match_live, versions_of
from sluice.spark.matching.match import match
from sluice.spark.matching.versions import Version, Versions

BROKER = "memory://test-match-live"


class Input:
    """A directory that a stream reads, a file for each batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        reader = spark.readStream.schema("a long").option("maxFilesPerTrigger", 1)
        self.stream = reader.parquet(str(directory))

    def put(self, number: int, values: Iterable[int]) -> None:
        parquet.write_table(pa.table({"a": list(values)}), self._directory / f"{number}.parquet")


class Output:
    """What was delivered, by batch: the last time that the batch was run."""

    def __init__(self) -> None:
        self.batches: dict[int, set[tuple[str, int, int]]] = {}
        self.runs: list[int] = []

    def deliver(self, deliveries: DataFrame, batch_id: int) -> None:
        rows = deliveries.collect()
        self.batches[batch_id] = {(row["subscription"], row["a"], row["_index"]) for row in rows}
        assert len(self.batches[batch_id]) == len(rows)
        self.runs.append(batch_id)


def test_live_changes_and_a_batch_that_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    given, found, checkpoint = Input(spark, tmp_path / "in"), Output(), tmp_path / "checkpoint"
    with sluice.connect(BROKER) as bus, LiveSubscriptions(BROKER) as live:
        writer = match_live(given.stream, live, found.deliver, checkpoint=checkpoint)
        query = writer.start()
        try:
            with bus.subscribe("a > 1") as first:
                first.complete(timeout=30)
                given.put(0, [1, 2])
                query.processAllAvailable()
                given.put(1, [3])
                query.processAllAvailable()
                with bus.subscribe("a = 1") as second:
                    second.complete(timeout=30)
                    given.put(2, [1, 2])
                    query.processAllAvailable()
        finally:
            query.stop()
        assert found.batches == {
            0: {(first.id, 2, 1)},
            1: {(first.id, 3, 1)},
            2: {(first.id, 2, 2), (second.id, 1, 2)},
        }
        # The last batch was not committed, and everybody has left since: it is matched as it was before, the next one is not.
        for name in ("2", ".2.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
        given.put(3, [5])
        again = match_live(given.stream, live, found.deliver, checkpoint=checkpoint).trigger(availableNow=True).start()
        again.awaitTermination()
    assert found.runs == [0, 1, 2, 2, 3]
    assert found.batches[2] == {(first.id, 2, 2), (second.id, 1, 2)} and found.batches[3] == set()
    assert versions_of(checkpoint) == [Version(1, 0, 1, 0), Version(2, 2, 1, 0), Version(3, 3, 0, 2)]


def test_versions(tmp_path: Path) -> None:
    """Without Spark: what is decided is kept, across restarts too, and only what may be needed again stays on the disk."""
    versions = Versions(tmp_path)
    assert versions.of_batch(0, {})[0] == Version(1, 0, 0, 0)
    assert versions.of_batch(1, {"x": "a > 1", "y": "a > 2"})[0] == Version(2, 1, 2, 0)
    assert versions.of_batch(2, {"x": "a > 1", "y": "a > 2"})[0].number == 2
    assert versions.of_batch(2, {})[0].number == 2 and versions.of_batch(0, {"z": "a = 1"})[0].number == 1
    after = Versions(tmp_path)
    assert after.of_batch(2, {})[0].number == 2
    assert after.of_batch(3, {"x": "a > 1", "y": "a > 2"})[0].number == 2
    changed, index = after.of_batch(4, {"x": "a > 1", "y": "a > 3"})
    assert changed == Version(3, 4, 1, 1)
    matcher = sluice.Matcher.open(Path(index.path) / "0")
    assert len(matcher.match({"a": 3})) == 1 and len(matcher.match({"a": 4})) == 2
    for batch in range(5, 12):
        after.of_batch(batch, {"x": f"a > {batch}"})
    assert len(list(tmp_path.glob("index-*"))) == 3
    with pytest.raises(StoreError, match="batch 1 is too old"):
        after.of_batch(1, {})


def test_an_index_without_a_decision_is_made_again(tmp_path: Path) -> None:
    """A life that ended between the index and its decision leaves nothing that a later one would use."""
    Versions(tmp_path).of_batch(0, {"x": "a > 1"})
    shutil.copytree(tmp_path / "index-00000001", tmp_path / "index-00000002")
    version, index = Versions(tmp_path).of_batch(1, {"x": "a > 5"})
    assert version.number == 2
    assert len(sluice.Matcher.open(Path(index.path) / "0").match({"a": 2})) == 0


def test_damage_is_said(tmp_path: Path) -> None:
    with pytest.raises(MatcherError, match="id 'x' is wrong"):
        Versions(tmp_path).of_batch(0, {"x": "a ="})
    (tmp_path / "versions.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        Versions(tmp_path)


def test_a_table_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    path.write_text("id,where\n1,a > 1\n")
    table = TableSubscriptions(path)
    assert table.current() == {"1": "a > 1"} and table.current() is table.current()
    path.write_text("id,where\n1,a > 1\n2,a > 2\n")
    assert table.current() == {"1": "a > 1", "2": "a > 2"}
    path.unlink()
    with pytest.raises(MatcherError, match="cannot be read"):
        table.current()


def test_what_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    frame: Any = spark.createDataFrame([(1,)], "a long")
    with pytest.raises(ConfigurationError, match="only a stream has batches"):
        match_live(frame, TableSubscriptions("rules.csv"), lambda *_: None, checkpoint=tmp_path)
    given = Input(spark, tmp_path / "in")
    with pytest.raises(ConfigurationError, match="need a directory"):
        match_live(given.stream, TableSubscriptions("rules.csv"), lambda *_: None, checkpoint="s3://bucket/x")
    with pytest.raises(ConfigurationError, match="not open"):
        LiveSubscriptions(BROKER).current()


def test_everyone_has_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is written again replaces what it wrote; batches of a stream stay apart."""
    frame = spark.createDataFrame([(1,), (2,)], "a long")
    subscriptions = [("ada/x", "a > 1"), ("bob", "a > 0")]
    deliveries = match(frame, subscriptions, index_directory=tmp_path / "indexes")
    write_per_subscriber(deliveries, tmp_path / "once")
    assert sorted(path.name for path in (tmp_path / "once").glob("sub*")) == [
        "subscription=ada%2Fx",
        "subscription=bob",
    ]
    assert sorted(row.a for row in spark.read.parquet(str(tmp_path / "once" / "subscription=bob")).collect()) == [1, 2]
    for batch_id in (0, 1, 1):
        write_per_subscriber(deliveries, tmp_path / "stream", batch_id=batch_id, format="json")
    mine = spark.read.json(str(tmp_path / "stream" / "subscription=bob")).collect()
    assert sorted((row["_batch"], row["a"]) for row in mine) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    with pytest.raises(ConfigurationError, match="output='rows'"):
        write_per_subscriber(frame, tmp_path / "none")
