"""Spark is the oracle: for any filter and any data, `df.where(text)` and the matchers select the same rows."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sluice
from sluice.match import naive
from tests.generate import SCHEMA, SPARK_NAMES, Generator, Record, batch_of, generated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = int(os.environ.get("SLUICE_SEED", "1"))
ROWS = 240
#: Filters that one Spark job evaluates, each as a column of its own.
AT_ONCE = 50


@pytest.fixture(scope="module")
def rows() -> list[Record]:
    generator = Generator(random.Random(SEED), spark=True)
    # Rows without anything, and with a value for everything, whatever chance does.
    everything = {
        name: next(value for _ in range(99) if (value := generator.value(name)) is not None) for name in SPARK_NAMES
    }
    return [{}, everything, *(generator.record() for _ in range(ROWS - 2))]


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> SparkSession:
    """A session that evaluates as a filter does: a value that cannot be computed is NULL, and no error."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    # Compiling takes longer than these rows do.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    return session


@pytest.fixture(scope="module")
def table(oracle: SparkSession, rows: list[Record]) -> DataFrame:
    columns = pa.Table.from_batches([batch_of(rows)]).select(list(SPARK_NAMES))
    return oracle.createDataFrame(columns.append_column("row", pa.array(range(len(rows))))).cache()


def spark_says(table: DataFrame, texts: Sequence[str]) -> Iterator[list[int]]:
    """For each filter the rows that Spark selects. A WHERE keeps what is TRUE, so NULL counts as false."""
    from pyspark.sql.functions import expr

    for start in range(0, len(texts), AT_ONCE):
        part = texts[start : start + AT_ONCE]
        columns = [expr(f"coalesce(({text}), false)").alias(f"c{i}") for i, text in enumerate(part)]
        answers = table.select("row", *columns).toArrow()
        numbers = answers.column("row").to_pylist()
        for i in range(len(part)):
            chosen = answers.column(f"c{i}").to_pylist()
            yield sorted(row for row, yes in zip(numbers, chosen, strict=True) if yes)


def check(table: DataFrame, rows: list[Record], texts: Sequence[str]) -> int:
    """All four agree on every row of every filter; returns the number of matches."""
    subscriptions = {i: sluice.parse(text) for i, text in enumerate(texts)}
    matcher = sluice.Matcher()
    matcher.load(enumerate(texts))
    plain: dict[int, list[int]] = {i: [] for i in subscriptions}
    fast: dict[int, list[int]] = {i: [] for i in subscriptions}
    arrow: dict[int, list[int]] = {i: [] for i in subscriptions}
    offsets, ids = matcher.match_batch(batch_of(rows))
    for row, record in enumerate(rows):
        for found, into in (
            (naive.match(record, subscriptions), plain),
            (matcher.match(record).tolist(), fast),
            (ids[offsets[row] : offsets[row + 1]].tolist(), arrow),
        ):
            for id in found:
                into[id].append(row)
    wrong = []
    for i, want in enumerate(spark_says(table, texts)):
        for who, got in (("plain", plain[i]), ("match", fast[i]), ("match_batch", arrow[i])):
            if got != want:
                row = min(set(got) ^ set(want))
                wrong.append(f"{texts[i]}\n  {who} {'has' if row in got else 'lacks'} row {row}: {rows[row]}")
    assert not wrong, "\n".join(wrong)
    return sum(map(len, plain.values()))


@pytest.mark.parametrize("part", range(3))
def test_generated_filters(table: DataFrame, rows: list[Record], part: int) -> None:
    texts = generated(1000 * SEED + part, 100)
    matches = check(table, rows, texts)
    assert len(texts) * len(rows) > matches > 0


#: Filters that people get wrong, or that engines do. Not here: a bigint against a literal that no bigint reaches, as in
#: n < 9223372036854775808. Spark's analyzer makes that TRUE, also where n is NULL; here it is NULL as in any comparison.
TRICKY = r"""
n IN (1, NULL)
n NOT IN (1, NULL)
n NOT IN (1, 2)
NOT (n IN (1, 2, NULL) OR s = 'a')
n <=> NULL
NOT n <=> NULL
NOT n <=> 1
n = NULL OR NOT (n = NULL)
n IS NULL OR n = 1
NOT (n = 1 AND s = 'a')
NOT (n = 1 OR s = 'a')
n BETWEEN 3 AND 1
n NOT BETWEEN 3 AND 1
n NOT BETWEEN 1 AND NULL
n BETWEEN NULL AND 2
b
NOT b
b AND NULL
b OR NULL
NOT (b AND NULL)
b IS NOT TRUE
b IS NOT FALSE
b < c
b > false
n > 9007199254740992
n >= 9007199254740993
n <= 9223372036854775807
n = 9223372036854775807
n = -9223372036854775808
n < 2.5
i IN (1, 2.5)
f IN (0.1, 1)
f = 0.1
f = 0.1D
f = 0
d = -0.0D
d > 1.7976931348623157e308
d >= CAST('Infinity' AS DOUBLE)
d < CAST('-Infinity' AS DOUBLE) OR d IS NULL
d > 0 AND d < 1e-300
i % 3 = -1
i % -3 = 1
-i % 3 = -2
f % 2 = 0.5D
f % -2 = -0.5D
i / 0 IS NULL
i % 0 IS NULL
f / 0 IS NULL
NOT (i / j > 1)
i / j <=> NULL
i / 2 = 2.5D
i * 0.5 = 2.5
i + 0.5 > f
(i + j) * (i - j) >= 0
- i > - j
s = ''
s > ''
s >= 'a' AND s < 'b'
s > 'abcdefg'
s > 'abcdefgh'
s <= 'abcdefgh'
s > '\uffff'
s >= '\U0001F600'
s BETWEEN 'é' AND '\uffff'
s = 'x\u0000'
s > 'x'
s LIKE '%'
s NOT LIKE '%'
s LIKE ''
s LIKE 'a%'
s LIKE '_'
s LIKE 'a_b'
s LIKE 'a\_b'
s LIKE 'a\\_b'
s LIKE 'a\%b'
s LIKE 'a!%b' ESCAPE '!'
s LIKE 'a\\\\b'
s LIKE '%\n%'
s LIKE '_\n_'
s LIKE '%_%_%'
s NOT LIKE '%b%'
s LIKE NULL
startswith(s, '')
endswith(s, '')
contains(s, '')
NOT contains(s, 'b')
startswith(s, NULL)
s = "it's"
s = 'it''s'
s = u
s <=> u
s != u
array_contains(tags, 'a')
NOT array_contains(tags, 'a')
array_contains(nums, 3)
arrays_overlap(tags, array('a', 'b'))
NOT arrays_overlap(tags, array('a', 'b'))
arrays_overlap(tags, array('a', NULL))
NOT arrays_overlap(tags, array('a', NULL))
NOT arrays_overlap(nums, array(1))
exists(nums, x -> x > 1)
NOT exists(nums, x -> x > 1)
forall(nums, x -> x > 1)
NOT forall(nums, x -> x > 1)
exists(nums, x -> x IS NULL)
forall(nums, x -> x IS NOT NULL)
exists(nums, x -> x <=> NULL)
exists(nums, x -> NOT x <=> 1)
exists(tags, x -> x LIKE 'a%')
exists(nums, x -> x % 2 = 1)
exists(items, x -> x.p > 1 AND x.q = 'a')
exists(items, x -> x.p > 1) AND exists(items, x -> x.q = 'a')
NOT exists(items, x -> x.p > 1 AND x.q = 'a')
forall(items, x -> x.p > 1 OR x.q = 'a')
exists(items, x -> x IS NULL)
exists(items, x -> x.p IS NULL)
exists(items, x -> exists(x.r, z -> z > 1))
exists(items, x -> NOT forall(x.r, z -> z > 1))
forall(items, x -> exists(x.r, z -> z IS NULL))
tags IS NULL
items IS NOT NULL
o IS NULL
o.r IS NULL
o.r.z IS NULL
o.p > 1 AND o.q < 'b'
NOT (o.p > 1 OR o.r.z > 1)
y = X''
y > X'7f'
y < X'80'
y >= X'61626364656667'
y > X'6162636465666768'
t = TIMESTAMP '2020-01-01 00:00:00.5'
t > TIMESTAMP '2020-01-01'
t >= TIMESTAMP '2020-01-01 00:00:00.123456'
t < TIMESTAMP '1970-01-01 00:00:00'
t = DATE '2020-01-01'
t <= DATE '2020-01-01'
t NOT IN (TIMESTAMP '2020-01-01', TIMESTAMP '1970-01-01')
t = TIMESTAMP '2020-01-01 02:00:00+02:00'
xpath_boolean(doc, '//cpu[@maker="AMD" and @clock>=700]')
NOT xpath_boolean(doc, '//cpu[@clock>700]')
xpath_boolean(doc, '/r/cpu[@maker!="AMD"]')
xpath_boolean(doc, '//disk[@size>1]')
true
false
NULL
NOT NULL
1 = 1
1 = NULL OR n = 1
n = 1 AND n = 2
n = 1 AND NOT n = 1
n = 1 OR NOT n = 1
"""


def test_tricky_filters(table: DataFrame, rows: list[Record]) -> None:
    check(table, rows, [line for line in TRICKY.splitlines() if line])


def test_the_table_has_everything(table: DataFrame, rows: list[Record]) -> None:
    """Spark sees the rows as they are: with this, a difference is one of meaning and not of data."""
    assert set(SPARK_NAMES) <= set(SCHEMA.names)
    assert table.count() == len(rows) >= 200
    for name in SPARK_NAMES:
        assert 0 < table.where(f"{name} IS NULL").count() < len(rows)


def test_where_is_what_the_columns_say(table: DataFrame) -> None:
    """Filters are evaluated many at a time; `where` itself selects the same rows."""
    texts = generated(7, 5)
    for text, want in zip(texts, spark_says(table, texts), strict=True):
        assert sorted(row.row for row in table.where(text).select("row").collect()) == want
