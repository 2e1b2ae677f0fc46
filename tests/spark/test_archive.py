"""The pipeline: what brokers log is in the archive, once, whatever came before; brokers keep what is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sluice
from bench.spark.cluster import until
from sluice.broker.supervise import Network as Brokers
from sluice.broker.supervise import running
from sluice.broker.topology import topology
from sluice.errors import ConfigurationError, SparkError
from sluice.protocol.batch import Logged, Rows
from sluice.spark.archive import compact, fetch, pipeline
from sluice.spark.archive.command import told
from sluice.spark.archive.fetch import Range, Task, Written
from sluice.spark.archive.pipeline import Options, Pipeline, dealt, merged
from sluice.spark.archive.read import positions, read
from sluice.spark.archive.table import Table
from sluice.spark.network import Network
from sluice.spark.rows import Layout
from tests.spark.shelf import START, logged, places, shelve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Two brokers that keep next to nothing of their logs, unless somebody holds them."""
    settings = {"log_level": "error", "retain_bytes": 1}
    data = tmp_path_factory.mktemp("brokers")
    with running(topology("line", 2, data=data, settings=settings)) as network:
        yield network


@pytest.fixture
def network(brokers: Brokers) -> Iterator[Network]:
    """How to reach them; their logs are empty, since nobody holds them any more."""
    reach = Network(tuple(map(str, brokers.addresses.values())))
    with reach.connect() as bus:
        until(lambda: {*bus.describe()["brokers"]} == {*brokers.brokers}, "the brokers know each other")
        for name in brokers.brokers:
            for held in bus.describe(name)["log"]["holds"]:
                bus.forget(held, name)
        until(lambda: not any(map(len, reach.streams(bus).values())), "the logs are trimmed")
    yield reach


def publish(network: Network, *parts: Iterable[dict[str, Any]] | pa.RecordBatch) -> None:
    """Publishes at the first broker, then at the second, and so on."""
    for address, part in zip(network.brokers, parts, strict=False):
        with sluice.connect(address) as bus:
            if isinstance(part, pa.RecordBatch):
                bus.publish_arrow(part)
            else:
                bus.publish_many(part)
            bus.flush()


def hold_all(network: Network) -> dict[str, int]:
    """Holds every log from now on; how far each is."""
    with network.connect() as bus:
        heads = {stream: held.stop - 1 for stream, held in network.streams(bus).items()}
        for stream, head in heads.items():
            bus.hold("test", stream, head)
    return heads


def archive_all(spark: SparkSession, network: Network, archive: Path, options: Options | None = None) -> int:
    """A start of the pipeline, up to the end of the logs; how many rows it has archived."""
    line = Pipeline(spark, network, archive, options)
    rows = 0
    with network.connect() as bus:
        while (progress := line.step(bus)) is not None:
            rows += progress.rows
            line.tidy()
    return rows


def numbers(archive: Path, where: str = "true") -> list[int]:
    return sorted(row["n"] for batch in read(archive, where) for row in batch.select(["n"]).to_pylist())


def test_everything_is_archived_once(spark: SparkSession, network: Network, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    hold_all(network)
    table = pa.record_batch({"n": [*range(100)], "price": [n / 2 for n in range(100)]})
    publish(network, table, ({"n": n, "price": n, "note": "new"} for n in range(100, 150)))
    assert archive_all(spark, network, archive) == 150
    assert archive_all(spark, network, archive) == 0
    publish(network, [{"n": 150, "order": {"id": 7}}], [{"n": 151, "price": "cheap"}])
    assert archive_all(spark, network, archive, Options(max_rows=1)) == 2
    assert numbers(archive) == [*range(152)]
    assert numbers(archive, "price = 'cheap' OR order.id = 7 OR price = 0.5") == [1, 150, 151]
    with network.connect() as bus:
        heads = {stream: held.stop - 1 for stream, held in network.streams(bus).items()}
        assert positions(archive) == heads
        # One commit behind, so that the last one can be made again.
        assert bus.describe("b2")["log"]["holds"]["archive"] == heads["b2"] - 1
    [row] = [row for batch in read(archive, "n = 151") for row in batch.to_pylist()]
    assert (row["_stream"], row["_offset"], row["_number"]) == ("b2", heads["b2"], 1)


def test_workers_that_meet_a_new_attribute_agree(
    spark: SparkSession, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "TASK_ROWS", 1)
    archive = tmp_path / "archive"
    hold_all(network)
    publish(
        network, [{"n": n, "mood": 1} for n in range(20)], [{"n": n, "mood": "sad", "Mood": n} for n in range(20, 40)]
    )
    assert archive_all(spark, network, archive) == 40
    assert Table.open(archive).layout.attributes.field("mood").type == pa.int64()
    assert numbers(archive, "mood = 'sad'") == [*range(20, 40)] and numbers(archive, "mood = 1") == [*range(20)]
    assert numbers(archive, "Mood = 25") == [25]


def test_brokers_keep_what_is_not_archived(spark: SparkSession, network: Network, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    start = hold_all(network)
    publish(network, [{"n": 0}], [{"n": 1}])
    archive_all(spark, network, archive)
    with network.connect() as bus:
        for stream in start:
            bus.forget("test", stream)
    publish(network, [{"n": 2}], [{"n": 3}])
    archive_all(spark, network, archive)
    with network.connect() as bus:
        # Both trim what is safely archived, and nothing else.
        left = {stream: range(head + 2, head + 3) for stream, head in start.items()}
        until(lambda: network.streams(bus) == left, "the logs are trimmed")
    assert numbers(archive) == [0, 1, 2, 3]


def test_brokers_keep_what_is_being_archived(
    spark: SparkSession, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = hold_all(network)
    publish(network, [{"n": 0}])
    fetched = Pipeline._fetched

    def noticed(line: Pipeline, ranges: Sequence[Range]) -> list[Written]:
        with network.connect() as bus:
            assert bus.describe("b1")["log"]["holds"]["archive"] == start["b1"]
        return fetched(line, ranges)

    monkeypatch.setattr(Pipeline, "_fetched", noticed)
    assert archive_all(spark, network, tmp_path / "archive") == 1


def test_a_new_attribute_begins_a_new_file(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CHUNK_ROWS", 1)
    monkeypatch.setattr("sluice.client.bus.MAX_PAGE_BYTES", 1)  # a page for each batch
    first = hold_all(network)["b1"] + 1
    for records in ([{"n": 0}, {"n": 1}], [{"n": 2}], [{"n": 3, "m": 1}], [{"n": 4}]):
        publish(network, records)
    table = Table.create(tmp_path / "archive", "true")
    task = Task(network, str(table.path), "true", table.layout.attributes, (Range("b1", first, first + 5),))
    written = fetch.write(task)
    assert [file.rows for file in written.files] == [3, 2] and written.problem is None
    assert written.attributes.names == ["n", "m"]
    assert Written.from_text(written.to_text()) == written


def test_what_is_lost_is_never_passed_over_in_silence(
    spark: SparkSession, network: Network, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = tmp_path / "archive"
    hold_all(network)
    publish(network, [{"n": 0}], [{"n": 1}])
    archive_all(spark, network, archive)
    with network.connect() as bus:
        for stream in ("b1", "b2"):
            bus.forget("test", stream)
            bus.forget("archive", stream)
        lost = positions(archive)["b1"] + 1
        publish(network, [{"n": 2}])
        until(lambda: network.streams(bus)["b1"].start > lost, "the log is trimmed")
        hold_all(network)
        publish(network, [{"n": 3}])
    with pytest.raises(SparkError, match=rf"offsets {lost}–{lost} of b1 are gone before they were archived"):
        archive_all(spark, network, archive)
    assert archive_all(spark, network, archive, Options(go_on_after_loss=True)) == 1
    assert numbers(archive) == [0, 1, 3]
    assert f"offsets {lost} to {lost} of b1 are gone" in caplog.text
    commits = sorted((archive / "_delta_log").glob("*.json"))
    notes = [
        json.loads(line)["commitInfo"].get("userMetadata")
        for each in commits
        for line in each.read_text().splitlines()
        if "commitInfo" in line
    ]
    assert json.loads(notes[-1]) == {"missing": [["b1", lost, lost]]}


def test_a_log_that_was_replaced_is_noticed(spark: SparkSession, network: Network, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelve(archive, [logged("b1", 1_000_000, START, [{"n": 1}])])
    with pytest.raises(SparkError, match="but 1000000 is archived: it was replaced"):
        archive_all(spark, network, archive)


def test_a_part_can_be_archived(spark: SparkSession, network: Network, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    hold_all(network)
    publish(network, ({"n": n} for n in range(10)))
    assert archive_all(spark, network, archive, Options(where="n >= 7")) == 3
    assert numbers(archive) == [7, 8, 9]
    with pytest.raises(SparkError, match="is of n >= 7, not of n > 7"):
        Pipeline(spark, network, archive, Options(where="n > 7"))


def test_what_cannot_be_is_refused() -> None:
    refused: list[dict[str, Any]] = [{"max_rows": 0}, {"compact_files": 1}, {"keep_hours": 0}]
    for options in refused:
        [name] = options
        with pytest.raises(ConfigurationError, match=f"{name} is"):
            Options(**options)
    with pytest.raises(sluice.ParseError):
        Options(where="n >")


def test_a_broker_that_cannot_be_reached_is_named(spark: SparkSession, tmp_path: Path) -> None:
    network = Network(("127.0.0.1:1",), patience_seconds=0.1)
    task = Task(network, str(tmp_path), "true", pa.schema([]), (Range("b1", 1, 5),))
    assert "no broker answers" in str(fetch.write(task).problem)
    line = Pipeline(spark, network, tmp_path / "archive")
    with pytest.raises(SparkError, match="no broker answers"):
        line._fetched([Range("b1", 1, 5)])


# --- without brokers --------------------------------------------------------------------------------------------------


def test_ranges_are_dealt_to_all_workers() -> None:
    ranges = [Range("b1", 1, 100_001), Range("b2", 7, 60_007), Range("b3", 1, 11)]
    for workers in (1, 2, 3, 8, 100):
        portions = dealt(ranges, workers)
        assert 1 <= len(portions) <= workers
        covered = sorted(
            (each.stream, n) for portion in portions for each in portion for n in range(each.start, each.end)
        )
        assert covered == [(each.stream, n) for each in ranges for n in range(each.start, each.end)]
        sizes = [sum(each.end - each.start for each in portion) for portion in portions]
        assert min(sizes[:-1], default=pipeline.TASK_ROWS) >= pipeline.TASK_ROWS


def test_columns_that_do_not_agree_lose() -> None:
    def written(**columns: pa.DataType) -> Written:
        return Written(pa.schema([*columns.items()]))

    struct = pa.struct([("a", pa.int64())])
    other = pa.struct([("b", pa.string())])
    schema, losers = merged(
        pa.schema([("x", pa.int64())]),
        [
            written(x=pa.int64(), y=struct),
            written(x=pa.int64(), y=other, z=pa.bool_()),
            written(x=pa.int64(), y=pa.string()),
            written(x=pa.int64(), Z=pa.bool_()),
            written(x=pa.int64(), y=pa.struct([("a", pa.string())])),
        ],
    )
    assert schema == pa.schema(
        [("x", pa.int64()), ("y", pa.struct([("a", pa.int64()), ("b", pa.string())])), ("z", pa.bool_())]
    )
    assert losers == [2, 3, 4]


def test_small_batches_are_arranged_as_they_would_be_alone() -> None:
    layout = Layout(pa.schema([("n", pa.int64())]))
    batches = [logged("b1", n, START, [{"n": n}, {"n": "?", "m": n}], publisher=f"p{n % 2}") for n in range(1, 9, 2)]
    table = pa.record_batch({"n": [1, 2, 3]})
    large = Rows("p", range(1, 4), table=table, logged=Logged("b1", range(9, 12), 5))
    [first, second, third] = fetch.arranged(layout, [*batches[:3], large, batches[3]])
    alone = pa.Table.from_batches([layout.arrange(batch) for batch in (*batches[:3], large, batches[3])])
    assert pa.Table.from_batches([first, second, third]).equals(alone)


def test_small_files_become_one(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for n in range(6):
        shelve(archive, [logged("b1", n + 1, START, [{"n": n, f"new{n % 3}": n}])])
    before, table = places(read(archive)), Table.open(archive)
    assert [*compact.due(table.files(), 7)] == []
    [files] = compact.due(table.files(), 6)
    other = Table.open(archive)
    compact.compact(table, files)
    [file] = table.files()
    assert file.rows == 6 and places(read(archive)) == before and numbers(archive, "new2 = 5") == [5]
    assert positions(archive) == {"b1": 6}
    assert all((archive / each.path).exists() for each in files), "somebody may still read them"
    with pytest.raises(SparkError, match="somebody else has written"):
        compact.compact(other, files)
    assert places(read(archive)) == before


def test_days_that_are_over_are_put_together_at_once(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for n in range(4):
        shelve(archive, [logged("b1", n + 1, START + timedelta(days=n // 2), [{"n": n}])])
    [files] = compact.due(Table.open(archive).files(), 10)
    assert [file.day.day for file in files] == [1, 1]


def test_files_that_nobody_needs_are_deleted(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for n in range(4):
        shelve(archive, [logged("b1", n + 1, START, [{"n": n}])])
    table = Table.open(archive)
    [day] = archive.glob("_day=*")
    young, old = day / "part-young.parquet", day / "part-old.parquet"
    for orphan in (young, old):
        orphan.write_bytes(b"whoever wrote this was killed")
    os.utime(old, (0, 0))
    [files] = compact.due(table.files(), 2)
    compact.compact(table, files)
    assert table.vacuum(24) == 1
    assert young.exists() and not old.exists() and all((archive / each.path).exists() for each in files)
    assert numbers(archive) == [0, 1, 2, 3]


def test_the_line_says_how_it_goes() -> None:
    assert told(5, pipeline.Progress(5, 1, 0.5, {})).endswith("at 10 rows/s; behind: none")
