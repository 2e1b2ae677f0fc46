"""Push-down changes nothing but the traffic: Spark is the judge, over rows with values that fit their columns and others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

import sluice
from sluice.model import parse
from sluice.protocol.batch import Records, portable
from sluice.spark import read
from sluice.spark.pushdown import push, translate
from sluice.spark.rows import REST
from sluice.spark.source import layout_of
from tests.generate import BLOBS, EDGES, EXTREMES, FRACTIONS, LARGE, SMALL, TEXTS, TIMES, Generator, Record
from tests.spark.brokers import Brokers, brokers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAN = float("nan")
SCHEMA = from_arrow_schema(
    pa.schema(
        [
            *(("_stream", pa.string()), ("_offset", pa.int64()), ("_number", pa.int64())),
            *(("n", pa.int64()), ("i", pa.int8()), ("d", pa.float64()), ("s", pa.string())),
            *(("b", pa.bool_()), ("y", pa.binary()), ("t", pa.timestamp("us", "UTC"))),
            ("o", pa.struct([("p", pa.int64()), ("q", pa.string())])),
            ("tags", pa.list_(pa.string())),
            REST,
        ]
    )
)
POOLS: dict[tuple[str, ...], tuple[Any, ...]] = {
    ("n",): (*SMALL, *LARGE),
    ("i",): SMALL,
    ("d",): (*map(float, SMALL), *FRACTIONS, *EXTREMES, *EDGES, NAN),
    ("s",): TEXTS,
    ("b",): (True, False),
    ("y",): BLOBS,
    ("t",): TIMES,
    ("o", "p"): SMALL,
    ("o", "q"): TEXTS,
}
COMPARISONS = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
STRING_TESTS = (StringStartsWith, StringEndsWith, StringContains)


# --- as text ----------------------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TEXT_OF: list[tuple[Filter, str | None, bool]] = [
    (EqualTo(("s",), "it's"), r"s = 'it\'s'", True),
    (EqualNullSafe(("s",), "a"), "s = 'a'", True),
    (Not(EqualTo(("s",), "a\0")), r"NOT (s = 'a\u0000')", True),
    (In(("s",), ("a", None)), "s IN ('a')", True),
    (Not(StringContains(("s",), "%")), "NOT (contains(s, '%'))", True),
    (EqualTo(("b",), True), "b = true", True),
    (GreaterThan(("y",), b"\xff"), "y > X'FF'", True),
    (GreaterThan(("n",), 5), "n > 5", False),
    (LessThan(("d",), 2.5), "d < 2.5", False),
    (GreaterThan(("d",), 2.5), "(d > 2.5 OR isnan(d))", False),
    (Not(EqualTo(("d",), 2.5)), "(NOT (d = 2.5) OR isnan(d))", False),
    (Not(GreaterThan(("d",), 2.5)), "NOT (d > 2.5)", False),
    (EqualTo(("t",), MOMENT), "t = TIMESTAMP '2026-03-01 12:30:00'", False),
    (EqualTo(("o", "q"), "a"), "o.q = 'a'", False),
    (IsNotNull(("n",)), "n IS NOT NULL", False),
    (Not(IsNull(("n",))), "n IS NOT NULL", False),
    # What cannot be said, or means something else:
    (IsNull(("n",)), None, False),
    (Not(IsNotNull(("n",))), None, False),
    (EqualNullSafe(("n",), None), None, False),
    (Not(EqualNullSafe(("s",), "a")), None, False),
    (Not(In(("s",), ("a", None))), None, False),
    (In(("s",), (None,)), None, False),
    (EqualTo(("d",), NAN), None, False),
    (EqualTo(("t",), datetime(2026, 3, 1)), None, False),
    (EqualTo(("_stream",), "b1"), None, False),
    (EqualTo(("tags",), ["a"]), None, False),
    (EqualTo(("nobody",), 1), None, False),
]


@pytest.mark.parametrize(("each", "text", "is_exact"), TEXT_OF, ids=lambda value: str(value)[:60])
def test_a_filter_as_text(each: Filter, text: str | None, is_exact: bool) -> None:
    translated = translate(each, SCHEMA)
    assert (translated and translated.text) == text
    assert translated is None or translated.is_exact == is_exact


def test_strings_under_a_collation_are_compared_by_spark() -> None:
    assert translate(EqualTo(("s",), "a"), StructType().add("s", StringType("UTF8_LCASE"))) is None


def test_what_is_too_much_for_the_language_is_left_to_spark() -> None:
    many = In(("s",), tuple(f"{number:09}" for number in range(20_000)))
    few = EqualTo(("b",), True)
    pushed = push([many, few], SCHEMA, "n > 5")
    assert pushed.where == "(n > 5) AND b = true" and pushed.kept == (many,)


def test_where_a_row_stands_narrows_what_is_read() -> None:
    filters = [
        In(("_stream",), ("b1", "b2")),
        EqualTo(("_stream",), "b1"),
        GreaterThan(("_offset",), 5),
        LessThanOrEqual(("_offset",), 9),
    ]
    pushed = push(filters, SCHEMA)
    assert pushed.where == "true" and pushed.kept == tuple(filters), "Spark looks again"
    assert pushed.narrowed("b1", range(1, 100)) == range(6, 10) and not pushed.narrowed("b2", range(1, 100))
    assert push([EqualTo(("_offset",), 7)], SCHEMA).narrowed("b", range(1, 100)) == range(7, 8)
    assert not push([LessThan(("_offset",), 3), GreaterThanOrEqual(("_offset",), 3)], SCHEMA).narrowed(
        "b", range(1, 100)
    )


# --- Spark is the judge -----------------------------------------------------------------------------------------------


def records() -> list[Record]:
    """Values that fit their columns, others, and some on purpose."""
    generator = Generator(random.Random(5), spark=True)
    typed = [{name: value for name, value in generator.record().items() if name != "o"} for _ in range(120)]
    for record in typed:
        record["o"] = {"p": generator.random.choice(SMALL), "q": generator.random.choice(TEXTS)}
        record["i"] = generator.random.choice((*SMALL, 128, -129))
    odd = [Generator(random.Random(seed)).record(typed=False) for seed in range(60)]
    chosen = [
        {"n": 5.5, "i": 7.0, "d": 7, "s": 7, "b": 1, "y": "a", "t": 0, "o": 5, "tags": "a"},
        {"n": 2**70, "d": 2**53 + 1, "s": ["a"], "b": "true", "o": {"p": 2.5, "q": 3}},
        {"d": NAN, "o": {"p": NAN}},
        {"d": -0.0, "o": {}},
        {"o.p": 5, "o.q": "a"},
        {},
    ]
    return typed + odd + chosen


def filters(count: int) -> Iterator[Filter]:
    source = random.Random(7)
    for _ in range(count):
        path = source.choice([*POOLS])
        pool = POOLS[path]
        chance = source.random()
        found: Filter
        if chance < 0.55:
            found = source.choice(COMPARISONS)(path, source.choice(pool))
        elif chance < 0.75:
            found = In(path, tuple(source.choice((*pool, None)) for _ in range(source.randint(1, 4))))
        elif chance < 0.9 and pool is TEXTS:
            found = source.choice(STRING_TESTS)(path, source.choice(TEXTS))
        else:
            found = source.choice((IsNull, IsNotNull))(path)
        yield Not(found) if source.random() < 0.3 else found


def as_column(each: Filter) -> Column:
    """What Spark itself understands by one of its filters."""
    from pyspark.sql import functions as F

    if isinstance(each, Not):
        return ~as_column(each.child)
    column = F.col(".".join(each.attribute))  # type: ignore[attr-defined]
    match each:
        case EqualTo(value=value):
            return column == F.lit(value)
        case EqualNullSafe(value=value):
            return column.eqNullSafe(F.lit(value))
        case GreaterThan(value=value):
            return column > F.lit(value)
        case GreaterThanOrEqual(value=value):
            return column >= F.lit(value)
        case LessThan(value=value):
            return column < F.lit(value)
        case LessThanOrEqual(value=value):
            return column <= F.lit(value)
        case In(value=values):
            return column.isin([*values])
        case StringStartsWith(value=value):
            return column.startswith(value)
        case StringEndsWith(value=value):
            return column.endswith(value)
        case StringContains(value=value):
            return column.contains(value)
        case IsNull():
            return column.isNull()
        case IsNotNull():
            return column.isNotNull()
    raise AssertionError(each)


def test_generated_filters_lose_nothing_and_exact_ones_add_nothing(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    published = [portable(record) for record in records()]
    table = layout_of(SCHEMA, rest="keep").arrange(Records.of("p", 1, published))
    oracle = spark.newSession()
    oracle.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these rows do
    frame = oracle.createDataFrame(pa.Table.from_batches([table])).cache()
    every = [*filters(300)]
    translated = [translate(each, SCHEMA) for each in every]
    assert sum(each is not None for each in translated) > 150
    assert sum(each is not None and each.is_exact for each in translated) > 45
    for start in range(0, len(every), 100):
        part = range(start, start + 100)
        columns = [F.coalesce(as_column(every[number]), F.lit(False)).alias(f"c{number}") for number in part]
        answers = frame.select("_number", *columns).orderBy("_number").toArrow()
        for number in part:
            said = translated[number]
            if said is not None:
                wanted = {row for row, yes in enumerate(answers[f"c{number}"].to_pylist()) if yes}
                where = parse(said.text)
                got = {row for row, record in enumerate(published) if where.matches(record)}
                assert wanted <= got, (every[number], said, [published[row] for row in sorted(wanted - got)][:3])
                if said.is_exact:
                    assert wanted == got, (every[number], said, [published[row] for row in sorted(got - wanted)][:3])
    frame.unpersist()


# --- from brokers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("pushdown"), "b1", "b2") as network:
        published = records()
        for name, part in (("b1", published[::2]), ("b2", published[1::2])):
            with sluice.connect(network.at[name]) as bus:
                bus.publish_many(part)
                bus.flush()
        yield network


@pytest.fixture(scope="module")
def everything(spark: SparkSession, network: Brokers) -> Iterator[DataFrame]:
    """All rows, where nothing can be pushed any more."""
    table = read(spark, network.addresses, schema=SCHEMA).toArrow()
    assert table.num_rows == len(records())
    frame = spark.createDataFrame(table).cache()
    yield frame
    frame.unpersist()


def places(frame: DataFrame) -> list[tuple[str, int]]:
    return sorted((row["_stream"], row["_offset"]) for row in frame.select("_stream", "_offset").collect())


def test_queries_give_what_they_give_over_all_rows(
    spark: SparkSession, network: Brokers, everything: DataFrame
) -> None:
    source = random.Random(3)
    pool = [each for each in filters(120) if not isinstance(each, IsNull | IsNotNull)]
    frame = read(spark, network.addresses, schema=SCHEMA)
    conditions = [as_column(each) for each in source.sample(pool, 6)]
    for _ in range(6):
        condition = as_column(source.choice(pool))
        for each in source.sample(pool, 2):
            condition = condition & (as_column(each) | as_column(source.choice(pool)))
        conditions.append(condition)
    found = 0
    for condition in conditions:
        there = places(frame.where(condition))
        assert there == places(everything.where(condition)), condition
        found += len(there)
    assert found > 100
    stood = "_stream = 'b2' AND _offset BETWEEN 10 AND 20"
    assert len(places(frame.where(stood))) == 11 == len(places(everything.where(stood)))


@pytest.mark.parametrize("where", ["s = 'a' OR n > 5", "NOT s LIKE 'a%' AND b", "exists(tags, x -> x = 'a')"])
def test_the_option_selects_what_a_where_does(
    spark: SparkSession, network: Brokers, everything: DataFrame, where: str
) -> None:
    typed = "n IS NOT NULL AND s IS NOT NULL AND tags IS NOT NULL"  # elsewhere attributes say more than columns
    there, here = read(spark, network.addresses, where, schema=SCHEMA), everything.where(where)
    assert places(there.where(typed)) == places(here.where(typed)) != []


def test_what_nobody_wants_stays_in_the_brokers(spark: SparkSession, tmp_path: Path) -> None:
    count = 10_000
    with brokers(tmp_path, "b1") as network:
        with sluice.connect(network.at["b1"]) as bus:
            bus.publish_arrow(pa.table({"k": [number % 100 for number in range(count)], "s": ["x"] * count}))
            bus.publish_many([{"k": number % 100, "s": "x"} for number in range(count)])
            bus.flush()
        frame = read(spark, network.addresses, schema="k BIGINT, s STRING, _rest MAP<STRING, STRING>")

        def fetched(query: DataFrame) -> int:
            before = network.report("b1")["fetched"]
            assert query.count() == 2 * count // 100
            return int(network.report("b1")["fetched"] - before)

        assert fetched(frame.where("k = 7")) == 2 * count // 100
        assert fetched(read(spark, network.addresses, "k = 7", schema=frame.schema)) == 2 * count // 100
        assert fetched(frame.where("k % 100 = 7")) == 2 * count, "no equal in what Spark pushes"


def test_what_was_pushed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    from sluice.spark.options import SourceOptions
    from sluice.spark.source import BatchReader

    reader = BatchReader(SourceOptions(brokers=("b1",), where="n > 5"), SCHEMA)
    with caplog.at_level("INFO", logger="sluice.spark"):
        assert [*reader.pushFilters([EqualTo(("s",), "a"), IsNull(("b",))])] == [IsNull(("b",))]
    assert "pushed into the brokers: s = 'a'; looked at by Spark: IsNull" in caplog.text
