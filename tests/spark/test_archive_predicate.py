"""What Spark is told of a filter selects all that the filter does; where it is said to be exact, nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from sluice.errors import LimitError
from sluice.model import parse
from sluice.protocol.batch import Records
from sluice.spark.archive import predicate as predicates
from sluice.spark.archive.predicate import names, predicate
from sluice.spark.rows import Layout
from tests.generate import SCHEMA, Generator, Record, corner_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Filters of the generated ones; each has a few rows of its own, at its ends.
FILTERS, ROWS = 60, 12
ATTRIBUTES = pa.schema([*SCHEMA, ("tiny", pa.int8()), ("it's", pa.string())])

TEXT_OF: list[tuple[str, str, bool]] = [
    ("s = 'abc'", "`s` = 'abc'", True),
    ("`it's` IN ('a', 'b')", "`it's` IN ('a', 'b')", True),
    (r"s > 'it\'s' AND s <= 'é'", "(`s` > string(X'69742773') AND `s` <= string(X'C3A9'))", True),
    ("startswith(s, '\ud7ff')", "(`s` >= string(X'ED9FBF') AND `s` < string(X'EE8080'))", True),
    ("s LIKE 'a_%'", "(`s` LIKE 'a_%')", True),
    ("NOT endswith(s, '%')", "NOT endswith(`s`, '%')", True),
    ("contains(s, 'b') AND s > 'x'", "(`s` > 'x' AND contains(`s`, 'b'))", True),
    ("n > 2.5 AND n < 1e30D", "`n` >= 3L", True),
    ("n < 9223372036854775808 AND n != 5", "(`n` <= 4L OR `n` >= 6L)", True),
    ("n = 2.5", "false", True),
    ("n IN (1, 7, 2.5, '7')", "`n` IN (1L, 7L)", True),
    ("tiny < 1000", "`tiny` IS NOT NULL", True),
    ("tiny >= 100", "`tiny` >= 100Y", True),
    ("d = 0", "(`d` >= -0.0D AND `d` <= 0.0D)", True),
    ("d > 5", "(`d` > 5.0D AND `d` <= double('Infinity'))", True),
    ("d < 9007199254740993", "`d` <= 9007199254740992.0D", True),
    ("d = 9007199254740993", "false", True),
    ("d > 5 OR isnan(d)", "((`d` > 5.0D AND `d` <= double('Infinity')) OR isnan(`d`))", True),
    ("NOT isnan(d)", "`d` <= double('Infinity')", True),
    ("d IS NOT NULL", "`d` IS NOT NULL", True),
    ("NOT d <=> 5", "(`d` IS NULL OR `d` < 5.0D OR (`d` > 5.0D AND `d` <= double('Infinity')) OR isnan(`d`))", True),
    ("b", "`b` = true", True),
    ("b IN (true, false)", "`b` IS NOT NULL", True),
    ("y > X'FF'", "`y` > X'FF'", True),
    ("t = TIMESTAMP '1970-01-01 00:00:01'", "`t` = timestamp_micros(1000000L)", True),
    ("o.r.z = 0.5", "`o`.`r`.`z` = 0.5D", True),
    ("s = 5", "false", True),
    ("never.seen = 5", "false", True),
    ("never.seen IS NULL AND b", "`b` = true", True),
    ("tags IS NOT NULL", "`tags` IS NOT NULL", True),
    ("tags = 'a'", "false", True),
    # What columns can tell only a part of:
    ("o IS NOT NULL", "true", False),
    ("o = 5", "false", True),
    ("exists(tags, x -> x = 'a') AND b", "(`b` = true AND `tags` IS NOT NULL)", False),
    ("i + j > 5", "(`i` IS NOT NULL AND `j` IS NOT NULL)", False),
    ("i + j > 5 OR b", "(`b` = true OR (`i` IS NOT NULL AND `j` IS NOT NULL))", False),
    ("i + j <=> 5 OR b", "true", False),
    ("instanceof(s, 'Quote')", "`s` IS NOT NULL", False),
    (
        "geo_within(place, 45, 5, 48, 11)",
        "((`place`.`lat` >= 45.0D AND `place`.`lat` <= 48.0D) AND (`place`.`lon` >= 5.0D AND `place`.`lon` <= 11.0D))",
        False,
    ),
]


@pytest.mark.parametrize(("where", "text", "is_exact"), TEXT_OF, ids=lambda value: str(value)[:60])
def test_a_filter_as_text(where: str, text: str, is_exact: bool) -> None:
    found = predicate(parse(where), ATTRIBUTES)
    assert (found.text, found.is_exact) == (text, is_exact)


def test_what_is_asked_about() -> None:
    assert names(parse("a = 1 AND i + j > 5 OR geo_within(place, 45, 5, 48, 11)")) == {
        *("a", "i", "j", "place", "place.lat", "place.lon")
    }


def test_what_two_columns_have_is_not_told() -> None:
    twice = pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    assert predicate(parse("a.b = 5"), twice) == predicates.Predicate("true", False)


def test_what_is_too_long_is_not_told() -> None:
    many = " OR ".join(f"(n = {number} AND s = '{'x' * 200}')" for number in range(250))
    assert predicate(parse(many), ATTRIBUTES) == predicates.Predicate("true", False)


def test_spark_finds_what_matches(spark: SparkSession) -> None:
    """Rows at the ends of many filters: each filter is asked about its own and about those of all."""
    source = random.Random(5)
    generator = Generator(source)
    layout = Layout(ATTRIBUTES)
    wheres: list[str] = []
    rows: list[tuple[int, Record]] = []
    while len(wheres) < FILTERS:
        where = generator.filter()
        try:
            corners = corner_records(parse(where), source, ROWS)
        except LimitError:
            continue
        rows += [(len(wheres), record) for record in _sample(source, corners)]
        wheres.append(where)
    rows += [(-1, generator.record()) for _ in range(60)]
    arranged = layout.arrange(Records.of("pat", 1, [record for _, record in rows]))
    plain = [row for row in range(len(rows)) if not arranged.column("_rest")[row].is_valid]
    found = [predicate(parse(where), ATTRIBUTES) for where in wheres]
    table = pa.Table.from_batches([arranged]).take(plain)
    frame = spark.createDataFrame(table, from_arrow_schema(layout.schema))
    answers = frame.selectExpr("_number", *(f"{each.text} AS f{number}" for number, each in enumerate(found))).toArrow()
    checked = 0
    for number, (where, told) in enumerate(zip(wheres, found, strict=True)):
        wanted = parse(where)
        for place, answer in zip(answers["_number"].to_pylist(), answers[f"f{number}"].to_pylist(), strict=True):
            of, record = rows[place - 1]
            if of in (number, -1):
                is_match = wanted.matches(record)
                assert answer or not is_match, f"{where} as {told.text} overlooks {record}"
                assert is_match or not (answer and told.is_exact), f"{where} as {told.text} is not exact for {record}"
                checked += 1
    assert checked > 50 * FILTERS and sum(each.is_exact for each in found) > FILTERS // 3


def _sample(source: random.Random, corners: Iterator[Mapping[str, Any]]) -> list[Record]:
    records = [_deep(record) for record in corners]
    return source.sample(records, min(len(records), ROWS))


def _deep(flat: Mapping[str, Any]) -> Record:
    """A flat record with the nested records that its dotted names stand for."""
    found: Record = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = found
        for part in path:
            if not isinstance(inner.get(part), dict):
                inner[part] = {}
            inner = inner[part]
        inner[last] = value
    return found
