"""Matching on Spark is matching: it agrees with the plain oracle and with Spark's own WHERE, in every form and strategy."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

import sluice
from sluice.errors import ConfigurationError, MatcherError, SluiceError
from sluice.match import naive
from sluice.protocol.batch import Records
from sluice.spark.matching.index import BadSubscription, Split, compiled, local, packed, saved_matcher
from sluice.spark.matching.match import match
from sluice.spark.matching.subscriptions import table_of
from sluice.spark.matching.work import Match
from sluice.spark.rows import META, Layout, widened
from tests.generate import SPARK_NAMES, Generator, batch_of, generated

Pairs = Counter[tuple[Any, Any]]


@pytest.fixture(scope="module", autouse=True)
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterable[None]:
    """Compiled indexes are kept among the files of the test."""
    patch = pytest.MonkeyPatch()
    patch.setattr("sluice.spark.matching.index.default_directory", lambda: tmp_path_factory.getbasetemp() / "indexes")
    yield
    patch.undo()


def records(count: int, seed: int) -> list[dict[str, Any]]:
    generator = Generator(random.Random(seed), spark=True)
    return [generator.record() for _ in range(count)]


TEXTS, ROWS = generated(5, 60), records(120, 7)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    columns = pa.Table.from_batches([batch_of(ROWS)]).select(list(SPARK_NAMES))
    return columns.append_column("row", pa.array(range(len(ROWS))))


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table).repartition(2).cache()


@pytest.fixture(scope="module")
def expected() -> Pairs:
    """Which subscription matches which row, one by one."""
    subscriptions = {i: sluice.parse(text) for i, text in enumerate(TEXTS)}
    return Counter((id, row) for row, record in enumerate(ROWS) for id in naive.match(record, subscriptions))


def pairs(deliveries: DataFrame, column: str = "row") -> Pairs:
    return Counter((row[0], row[1]) for row in deliveries.select("subscription", column).collect())


def totals(found: Pairs) -> dict[Any, int]:
    return dict(Counter(id for id, _ in found.elements()))


def counts(found: DataFrame) -> dict[Any, int]:
    rows = found.collect()
    assert found.columns == ["subscription", "count"] and len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1] for row in rows}


@pytest.mark.parametrize("strategy", ["notifications", "subscriptions"])
def test_it_is_the_plain_oracle(frame: DataFrame, expected: Pairs, strategy: Any) -> None:
    found = match(frame, enumerate(TEXTS), strategy=strategy)
    assert found.columns == ["subscription", *frame.columns]
    assert pairs(found) == expected and expected
    assert counts(match(frame, enumerate(TEXTS), output="counts", strategy=strategy)) == totals(expected)


def test_it_is_what_spark_selects(frame: DataFrame, expected: Pairs) -> None:
    """Spark's own WHERE, with the whole row as it was: what is delivered are the columns of the notification, unchanged."""
    found = match(frame, enumerate(TEXTS)).cache()
    for id in range(0, len(TEXTS), 12):
        mine = found.where(f"subscription = {id}").drop("subscription")
        theirs = frame.where(f"coalesce(({TEXTS[id]}), false)")
        assert mine.count() == theirs.count() and mine.exceptAll(theirs).isEmpty(), TEXTS[id]
    found.unpersist()


def test_lists(frame: DataFrame, expected: Pairs) -> None:
    found = match(frame, enumerate(TEXTS), output="lists").select("subscriptions", "row").collect()
    assert Counter((id, row) for ids, row in found for id in ids) == expected
    assert len(found) == len({row for _, row in expected})


def test_files_are_read_by_the_workers(
    spark: SparkSession, table: pa.Table, expected: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups cut into pieces; two files; both strategies. The place of a row is its place in all files."""
    monkeypatch.setattr("sluice.spark.matching.files.PIECE_ROWS", 7)
    parquet.write_table(table.slice(0, 50), tmp_path / "a.parquet", row_group_size=20)
    parquet.write_table(table.slice(50), tmp_path / "b.parquet")
    for strategy in ("notifications", "subscriptions"):
        found = match(tmp_path, enumerate(TEXTS), strategy=strategy, tasks=3).cache()
        assert pairs(found) == pairs(found, "_row") == expected
        found.unpersist()
        names = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
        assert counts(match(names, enumerate(TEXTS), output="counts", strategy=strategy)) == totals(expected)


def test_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    rows = pa.table({"day": ["mon", "mon", "tue"], "price": [1, 2, 3]})
    write_deltalake(str(tmp_path), rows, partition_by=["day"])
    write_deltalake(
        str(tmp_path), pa.table({"day": ["wed"], "price": [4], "note": ["x"]}), mode="append", schema_mode="merge"
    )
    subscriptions = [(1, "day = 'tue'"), (2, "price >= 2 AND day != 'tue'"), (3, "note = 'x'")]
    found = {
        (row["subscription"], row["day"], row["price"], row["note"]) for row in match(tmp_path, subscriptions).collect()
    }
    assert found == {(1, "tue", 3, None), (2, "mon", 2, None), (2, "wed", 4, "x"), (3, "wed", 4, "x")}
    assert counts(match(tmp_path, subscriptions, output="counts")) == {1: 1, 2: 2, 3: 1}


def test_types_that_spark_has_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    """Nanoseconds are cut off, strings are strings however they are stored; what is a struct or an array stays one."""
    columns = {
        "t": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "UTC")),
        "s": pa.array(["a", "b"]).dictionary_encode(),
        "u": pa.array(["x", None], pa.large_string()),
        "o": pa.array([{"p": [1, 2]}, {"p": []}]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    rules = [
        (1, "t >= TIMESTAMP '2023-11-14 22:13:20.123456'"),
        (2, "s = 'b' OR u = 'x'"),
        (3, "array_contains(o.p, 2)"),
    ]
    found = match(tmp_path / "a.parquet", rules)
    assert pairs(found, "_row") == Counter({(1, 0): 1, (2, 0): 1, (2, 1): 1, (3, 0): 1})
    assert found.where("subscription = 3").select("s", "u", "o.p").collect()[0] == ("a", "x", [1, 2])
    assert counts(match(tmp_path / "a.parquet", rules, output="counts")) == {1: 1, 2: 2, 3: 1}


def test_rows_of_the_pipeline(spark: SparkSession) -> None:
    """The shape that the source and the archive have: places before the attributes, and a map of what has no column."""
    records: list[dict[str, Any]] = [
        {"price": 1, "by": {"name": "ada"}},
        {"price": "?", "new": [1, 2]},
        {"price": 3, "_offset": 7, "x": 1.5},
    ]
    batch = Records.of("alice", 1, records)
    layout = Layout(pa.schema([field for field in widened(pa.schema([]), [batch]) if field.name in ("price", "by")]))
    frame = spark.createDataFrame(pa.Table.from_batches([layout.arrange(batch)]))
    assert frame.columns[: len(META)] == META.names and frame.columns[-1] == "_rest"
    texts = [
        "by.name = 'ada'",
        "price = '?'",
        "array_contains(new, 2)",
        "x > 1",
        "_number = 1",
        "price >= 1",
        "x IS NULL",
    ]
    subscriptions = {i: sluice.parse(text) for i, text in enumerate(texts)}
    want = Counter((id, i + 1) for i, record in enumerate(records) for id in naive.match(record, subscriptions))
    found = match(frame, enumerate(texts))
    assert pairs(found, "_number") == want and found.columns == ["subscription", *frame.columns]
    assert counts(match(frame, enumerate(texts), output="counts")) == totals(want)


def test_ids_are_whatever_they_are(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1,), (5,)], "a long")
    assert counts(match(frame, [("ada", "a > 2"), ("bob", "a > 0")], output="counts")) == {"ada": 1, "bob": 2}
    subscriptions = spark.createDataFrame([(10**12, "a > 2"), (-3, "a > 0"), (4, "b > 1")], "id long, where string")
    assert counts(match(frame, subscriptions, output="counts")) == {10**12: 1, -3: 2}
    matcher = sluice.Matcher()
    matcher.load([(10**9, "a > 2"), (7, "a > 0"), (8, "a > 100")])
    matcher.remove(8)
    matcher.save(tmp_path / "saved")
    assert counts(match(frame, tmp_path / "saved", output="counts")) == {10**9: 1, 7: 2}
    assert pairs(match(frame, tmp_path / "saved"), "a") == Counter({(10**9, 5): 1, (7, 1): 1, (7, 5): 1})
    (tmp_path / "rules.csv").write_text("id,where\n1,a > 2\nx,a < 2\n")
    assert counts(match(frame, tmp_path / "rules.csv", output="counts")) == {"1": 1, "x": 1}
    assert match(frame, []).isEmpty() and counts(match(frame, [], output="counts")) == {}


def test_a_matcher_that_was_saved_again(spark: SparkSession, tmp_path: Path) -> None:
    """Workers that have opened the one before it open the new one, though it is in the same place."""
    frame = spark.createDataFrame([(1,), (5,)], "a long")
    names = set()
    for text, found in (("a > 2", {1: 1}), ("a > 0", {1: 2})):
        matcher = sluice.Matcher()
        matcher.load([(1, text)])
        matcher.save(tmp_path / "saved")
        names.add(saved_matcher(tmp_path / "saved").name)
        assert counts(match(frame, tmp_path / "saved", output="counts")) == found
    assert len(names) == 2


def test_a_large_index_is_split(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(float(i),) for i in range(20)], "a double")
    texts = [(i, f"a >= {i % 25}") for i in range(10_000)]
    small = match(frame, texts, output="counts", index_bytes_per_worker=100_000, index_directory=tmp_path)
    whole = match(frame, texts, output="counts", index_directory=tmp_path)
    assert counts(small) == counts(whole) != {}
    shards = sorted(len(list(each.glob("[0-9]*"))) for each in tmp_path.iterdir())
    assert shards[0] == 1 < shards[1]
    with pytest.raises(ConfigurationError, match="list of a notification needs the whole index"):
        match(frame, texts, output="lists", index_bytes_per_worker=100_000, index_directory=tmp_path)


def test_an_index_that_was_shipped(spark: SparkSession, tmp_path: Path) -> None:
    """Workers that cannot see the index where it was made find it where Spark has unpacked it."""
    index = compiled(table_of([(1, "a > 3"), (2, "a > 5")]), Split(), tmp_path)
    spark.sparkContext.addArchive(f"{packed(index)}#{index.name}")
    shutil.move(index.path, tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="was not shipped"):
        local(replace(index, path=str(tmp_path / "another")))
    found = (
        spark.range(10).selectExpr("id AS a").mapInArrow(Match(index, 0, as_lists=False), "subscription long, a long")
    )
    assert pairs(found, "a") == Counter((id, a) for id, low in ((1, 3), (2, 5)) for a in range(low + 1, 10))


def test_an_index_is_compiled_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame([(1,)], "a long")
    first = match(frame, [(1, "a = 1")], index_directory=tmp_path)
    monkeypatch.setattr("sluice.spark.matching.index._compile", None)
    second = match(frame, pa.table({"id": [1], "where": ["a = 1"]}), index_directory=tmp_path)
    assert first.collect() == second.collect() != []
    with pytest.raises(TypeError):
        match(frame, [(1, "a = 2")], index_directory=tmp_path)


def test_a_stream_with_fixed_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1, 2, 3]}), _in(tmp_path / "in") / "1.parquet")
    stream = spark.readStream.schema("a long").parquet(str(tmp_path / "in"))
    subscriptions = [(1, "a > 1"), (2, "a = 3")]
    rows = match(stream, subscriptions).writeStream.format("memory").queryName("rows")
    sums = (
        match(stream, subscriptions, output="counts")
        .writeStream.format("memory")
        .queryName("sums")
        .outputMode("complete")
    )
    for writer in (rows, sums):
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    assert pairs(spark.table("rows"), "a") == Counter({(1, 2): 1, (1, 3): 1, (2, 3): 1})
    assert counts(spark.table("sums")) == {1: 2, 2: 1}


def _in(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def test_bad_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1,)], "a long")
    given = [("good", "a = 1"), ("ugly", "a ="), ("worse", "log(a) > 1")]
    with pytest.raises(MatcherError, match=r"id 'ugly' is wrong \(and 1 more\): (.|\n)*a ="):
        match(frame, given)
    bad: list[BadSubscription] = []
    assert pairs(match(frame, given, bad=bad), "a") == Counter({("good", 1): 1})
    assert [(each.id, each.where) for each in bad] == [("ugly", "a ="), ("worse", "log(a) > 1")]
    assert all(each.problem for each in bad)


@pytest.mark.parametrize(
    ("subscriptions", "problem"),
    [
        ([(1, "a = 1"), (1, "a = 2")], "the id 1 is given to 2 subscriptions"),
        (pa.table({"id": [1], "text": ["a = 1"]}), "no column where"),
        (pa.table({"id": [1.5], "where": ["a = 1"]}), "of type double"),
        (pa.table({"id": [1, None], "where": ["a = 1", "a = 2"]}), "1 of 2 subscriptions have no id"),
        ([3], "3 is not a pair"),
        ("nowhere.jsonl", "there is no such file"),
    ],
)
def test_wrong_subscriptions(spark: SparkSession, subscriptions: Any, problem: str) -> None:
    with pytest.raises(SluiceError, match=problem):
        match(spark.createDataFrame([(1,)], "a long"), subscriptions)


def test_wrong_notifications_and_options(spark: SparkSession, tmp_path: Path) -> None:
    frame, given = spark.createDataFrame([(1,)], "subscription long"), [(1, "a = 1")]
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (frame, {}, "the notifications have a column subscription"),
        (frame, {"output": "pairs"}, "output is 'pairs': say one of rows, lists, counts"),
        (frame, {"strategy": "both"}, "strategy is 'both'"),
        (tmp_path, {}, "there are no Parquet files"),
        (tmp_path / "none.parquet", {}, "there is no such file"),
    ]
    for notifications, options, problem in wrong:
        with pytest.raises(SluiceError, match=problem):
            match(notifications, given, **options)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(SluiceError, match=r"damaged\.parquet: not Parquet"):
        match(tmp_path, given)
    matcher = sluice.Matcher()
    matcher.save(tmp_path / "saved")
    with pytest.raises(ConfigurationError, match="cannot be split"):
        match(frame, tmp_path / "saved", strategy="subscriptions")
