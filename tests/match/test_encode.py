"""Arrow columns of every type: a batch gives the same matches as the same rows as Python records."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import sluice
from sluice.match import naive
from sluice.match.counting import Counting
from sluice.model.constraint import Atom
from sluice.model.notification import from_arrow
from sluice.model.ordered import Ordered
from sluice.model.values import Value, name_sql
from tests.generate import TIMES, Generator, around, batch_of, literal

INTEGERS = [
    0,
    1,
    -1,
    5,
    100,
    127,
    -128,
    255,
    2**15 - 1,
    2**31 - 1,
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**63 + 1,
    2**64 - 1,
]
DOUBLES = [
    0.0,
    -0.0,
    0.5,
    1.0,
    -2.5,
    0.1,
    65504.0,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53,
    2.0**63,
    2.0**64,
]
TEXTS = ["", "a", "ab", "abcdefg", "abcdefgh", "abcdefgi", "x\0", "é", "\uffff", "\U0001f600"]
BLOBS = [b"", b"\0", b"\xff", b"abcdefg", b"abcdefgh", b"abcdefgi"]


def fitting(kind: pa.DataType) -> list[int]:
    """The integers that a type can hold."""
    info = np.iinfo(kind.to_pandas_dtype())
    return [value for value in INTEGERS if info.min <= value <= info.max]


def moments(unit: str) -> list[datetime]:
    """Moments that a unit can hold."""
    step = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1)}.get(unit, timedelta(microseconds=1))
    epoch = TIMES[0]
    return [epoch + (moment - epoch) // step * step for moment in TIMES]


def ticks(unit: str) -> list[int]:
    per = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1)}.get(unit, timedelta(microseconds=1))
    return [(moment - TIMES[0]) // per * (1000 if unit == "ns" else 1) for moment in moments(unit)]


def narrow(values: list[float], kind: Any) -> list[float]:
    """What is left of doubles in a narrower type."""
    with np.errstate(over="ignore"):
        return [float(kind(value)) for value in values]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


DAYS = [date(1970, 1, 1), date(2020, 1, 1), date(1900, 2, 28)]
COLUMNS: dict[str, tuple[pa.Array, list[Any]]] = {
    **{
        str(kind): (pa.array(fitting(kind), kind), fitting(kind))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "float16": (pa.array(np.array(narrow(DOUBLES, np.float16), np.float16)), narrow(DOUBLES, np.float16)),
    "float32": (pa.array(narrow(DOUBLES, np.float32), pa.float32()), narrow(DOUBLES, np.float32)),
    "float64": (pa.array(DOUBLES, pa.float64(), from_pandas=False), DOUBLES),
    "string": (pa.array(TEXTS, pa.string()), TEXTS),
    "large_string": (pa.array(TEXTS, pa.large_string()), TEXTS),
    "string_view": (pa.array(TEXTS, pa.string_view()), TEXTS),
    "dictionary of strings": (pa.array(TEXTS * 2).dictionary_encode(), TEXTS * 2),
    "dictionary of large strings": (pa.array(TEXTS * 2, pa.large_string()).dictionary_encode(), TEXTS * 2),
    "dictionary of integers": (pa.array([1, 5, 2**53 + 1, 5]).dictionary_encode(), [1, 5, 2**53 + 1, 5]),
    "dictionary of doubles": (pa.array([0.5, 1.0, 0.5]).dictionary_encode(), [0.5, 1.0, 0.5]),
    "dictionary with a null inside": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1, None], pa.int8()), pa.array(["a", None, "ab"])),
        ["a", None, "ab", None, None],
    ),
    "binary": (pa.array(BLOBS, pa.binary()), BLOBS),
    "large_binary": (pa.array(BLOBS, pa.large_binary()), BLOBS),
    "fixed_size_binary": (pa.array([b"ab", b"\0\xff"], pa.binary(2)), [b"ab", b"\0\xff"]),
    "bool": (pa.array([True, False, True]), [True, False, True]),
    "null": (pa.nulls(3), [None, None, None]),
    **{
        f"timestamp {unit} {zone}": (pa.array(ticks(unit), pa.timestamp(unit, zone)), moments(unit))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+05:30")
    },
    "date32": (pa.array(DAYS, pa.date32()), [midnight(day) for day in DAYS]),
    "date64": (pa.array(DAYS, pa.date64()), [midnight(day) for day in DAYS]),
    "decimal128": (pa.array([Decimal("0.50"), Decimal("5.00"), Decimal("-2.50")], pa.decimal128(20, 2)), [0.5, 5, -2.5]),
    "decimal256": (pa.array([Decimal(2**63), Decimal(10**40)], pa.decimal256(60, 0)), [2**63, 10**40]),
    "list": (pa.array([[1, 5], [], [None], None], pa.list_(pa.int64())), [[1, 5], [], [None], None]),
    "large_list": (pa.array([["a"], ["ab", "b"], []], pa.large_list(pa.string())), [["a"], ["ab", "b"], []]),
    "fixed_size_list": (pa.array([[1, 2], [5, None]], pa.list_(pa.int64(), 2)), [[1, 2], [5, None]]),
    "list of structs": (
        pa.array([[{"p": 1, "q": "a"}, {"p": 5, "q": None}], [None], None]),
        [[{"p": 1, "q": "a"}, {"p": 5, "q": None}], [None], None],
    ),
    "map": (
        pa.array([[("p", 1), ("q", 5)], [], None], pa.map_(pa.string(), pa.int64())),
        [{"p": 1, "q": 5}, {}, None],
    ),
    "struct": (
        pa.array([{"p": 5, "q": {"z": "a"}}, {"p": None, "q": None}, None, {"p": 1, "q": {"z": None}}]),
        [{"p": 5, "q": {"z": "a"}}, {"p": None, "q": None}, None, {"p": 1, "q": {"z": None}}],
    ),
    "run_end_encoded": (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, 1])), [5, 5, 1]),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sees(Atom):
    """Any value, and the index is told nothing of it."""

    def matches(self, value: Value) -> bool:
        return value is not None

    def applies(self, value: Value) -> bool:
        return value is not None

    def implied(self, name: str) -> dict[str, Ordered]:
        return {}

    def covers_same(self, other: Sees) -> bool:
        return True

    def overlaps_same(self, other: Sees) -> bool:
        return True

    def to_sql(self, name: str) -> str:
        return f"sees({name_sql(name)})"


def filters() -> list[str]:
    """Filters on `v` and its parts that tell all these values apart, by every axis of the index."""
    texts = [
        "v IS NULL",
        "v IS NOT NULL",
        "v",
        "NOT v",
        "v <=> 5",
        "NOT v <=> 5",
        "v.p IS NULL",
        "true",
        "v LIKE '%b%'",
    ]
    texts += [
        "array_contains(v, 5)",
        "array_contains(v, 'a')",
        "exists(v, x -> x.p > 1)",
        "NOT exists(v, x -> x IS NULL)",
    ]
    texts += ["v.p = 5", "v.p > 1", "v.q.z = 'a'", "v.q > 1", "v.q.z IS NULL", "v.q IS NOT NULL", "v * 2 > 8", "v = v"]
    values = [*INTEGERS, *(value for value in DOUBLES if value == value), *TEXTS, *BLOBS, *TIMES, *map(midnight, DAYS)]
    values += [near for moment in TIMES for near in around(moment)]
    values += [float(np.float32(0.1)), float(np.float16(0.1)), 10**40]
    for value in values:
        texts += [f"v {sign} {literal(value)}" for sign in ("=", "!=", "<", "<=", ">", ">=")]
    texts += [f"v IN ({literal(a)}, {literal(b)})" for a, b in itertools.pairwise(values)]
    texts += [f"v NOT IN ({literal(a)}, {literal(b)})" for a, b in itertools.pairwise(TEXTS)]
    return texts


@pytest.fixture(scope="module")
def matcher() -> sluice.Matcher:
    found = sluice.Matcher()
    found.load(enumerate(filters()))
    return found


@pytest.fixture(scope="module")
def subscriptions() -> dict[int, sluice.Subscription]:
    return {i: sluice.parse(text) for i, text in enumerate(filters())}


def rows_of(answer: tuple[Any, Any]) -> list[list[int]]:
    offsets, ids = answer
    return [sorted(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def check(
    matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription], column: pa.Array, values: list[Any]
) -> None:
    records = [{"v": value} for value in values]
    want = naive.match_batch(records, subscriptions)
    assert rows_of(matcher.match_batch(records)) == want
    got = rows_of(matcher.match_batch(pa.RecordBatch.from_arrays([column], ["v"])))
    for value, ids, right in zip(values, got, want, strict=True):
        assert [str(subscriptions[id]) for id in set(ids) ^ set(right)] == [], value


@pytest.mark.parametrize("name", COLUMNS)
def test_column(name: str, matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription]) -> None:
    column, values = COLUMNS[name]
    check(matcher, subscriptions, column, values)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("null", "run_end_encoded")])
def test_sliced_column_with_nulls(
    name: str, matcher: sluice.Matcher, subscriptions: dict[int, sluice.Subscription]
) -> None:
    """A slice in the middle, with nulls before, in and after it: offsets and validity are taken into account."""
    column, values = COLUMNS[name]
    order = [None, 0, *(x for i in range(len(column)) for x in (i, None)), 0, None]
    if pa.types.is_string_view(column.type):  # Arrow cannot take from these
        spread = pa.array([None if i is None else column[i].as_py() for i in order], column.type)
    else:
        spread = column.take(pa.array(order, pa.int32()))
    wide = [None, values[0], *(x for value in values for x in (value, None)), values[0], None]
    check(matcher, subscriptions, spread.slice(3, len(wide) - 5), wide[3 : len(wide) - 2])


def test_finer_than_a_microsecond(matcher: sluice.Matcher) -> None:
    """Nanoseconds are cut off towards the past, also before 1970."""
    column = pa.array([1, 999, -1, -1000, -1001], pa.timestamp("ns"))
    at = [TIMES[0], TIMES[0], *(TIMES[0] - timedelta(microseconds=n) for n in (1, 1, 2))]
    batch = pa.RecordBatch.from_arrays([column], ["v"])
    assert rows_of(matcher.match_batch(batch)) == rows_of(matcher.match_batch([{"v": moment} for moment in at]))


FAR = {
    "s": pa.array([0, 2**60], pa.timestamp("s")),
    "ms": pa.array([0, -(2**60)], pa.timestamp("ms", "UTC")),
    "us": pa.array([0, 2**60], pa.timestamp("us")),
    "the first microsecond of the year 10000": pa.array([253_402_300_800 * 10**6], pa.timestamp("us")),
    "the last of the year 0": pa.array([-62_135_596_800 * 10**6 - 1], pa.timestamp("us")),
    "date32": pa.array([2**30], pa.int32()).cast(pa.date32()),
    "date64": pa.array([2**60]).view(pa.date64()),
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("text", ["v > TIMESTAMP '2020-01-01 00:00:00'", "v IS NOT NULL"])
def test_moments_that_python_does_not_have(name: str, text: str) -> None:
    """They are refused as in a record, not answered by what is left of them in 64 bits."""
    batch = pa.RecordBatch.from_arrays([FAR[name]], ["v"])
    with pytest.raises(sluice.NotificationError) as record:
        list(from_arrow(batch))
    found = sluice.Matcher()
    found.add(text)
    with pytest.raises(sluice.NotificationError) as column:
        found.match_batch(batch)
    assert str(column.value) == str(record.value)
    assert rows_of(found.match_batch(batch.slice(0, 0))) == []
    hidden = pa.RecordBatch.from_pydict({"v": pa.nulls(len(batch), FAR[name].type), "other": FAR[name]})
    assert rows_of(found.match_batch(hidden)) == [[]] * len(batch), "nobody asks for the column"


def test_the_first_and_the_last_moment(matcher: sluice.Matcher) -> None:
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    whole = [end.replace(microsecond=0) for end in ends]
    days = [midnight(end) for end in ends]
    for kind, moments in (
        (pa.timestamp("us"), ends),
        (pa.timestamp("s"), whole),
        (pa.date32(), days),
        (pa.date64(), days),
    ):
        batch = pa.RecordBatch.from_arrays([pa.array(moments, kind)], ["v"])
        assert rows_of(matcher.match_batch(batch)) == rows_of(matcher.match_batch([{"v": each} for each in moments]))


def test_a_date_has_no_time_of_day(matcher: sluice.Matcher) -> None:
    """Some writers leave one in a date64."""
    batch = pa.RecordBatch.from_arrays([pa.array([1, -1, 86_400_001]).view(pa.date64())], ["v"])
    days = [midnight(date(1970, 1, 1)), midnight(date(1969, 12, 31)), midnight(date(1970, 1, 2))]
    assert rows_of(matcher.match_batch(batch)) == rows_of(matcher.match_batch([{"v": day} for day in days]))


def test_zones_are_moments(matcher: sluice.Matcher) -> None:
    """A zone says how a moment is shown, not which one it is."""
    berlin = datetime(2020, 1, 1, 1, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    found = sluice.Matcher()
    id = found.add("v = TIMESTAMP '2020-01-01 00:00:00'")
    column = pa.array([berlin], pa.timestamp("ms", "Europe/Berlin"))
    assert rows_of(found.match_batch(pa.RecordBatch.from_arrays([column], ["v"]))) == [[id]]
    assert found.match({"v": berlin}).tolist() == [id]


def test_structs_in_structs_in_slices() -> None:
    import random

    generator = Generator(random.Random(3))
    records = [generator.record() for _ in range(60)]
    texts = [generator.nested() for _ in range(150)] + [generator.places() for _ in range(50)]
    found = sluice.Matcher()
    found.load(enumerate(texts))
    subscriptions = {i: sluice.parse(text) for i, text in enumerate(texts)}
    batch = batch_of(records)
    for start, length in ((0, 60), (7, 20), (59, 1), (30, 0)):
        want = naive.match_batch(records[start : start + length], subscriptions)
        assert rows_of(found.match_batch(batch.slice(start, length))) == want


def test_empty_batches(matcher: sluice.Matcher) -> None:
    offsets, ids = matcher.match_batch([])
    assert offsets.tolist() == [0] and len(ids) == 0
    offsets, ids = matcher.match_batch(pa.RecordBatch.from_pydict({"v": pa.array([], pa.string())}))
    assert offsets.tolist() == [0] and len(ids) == 0
    assert matcher.match_batch(pa.RecordBatch.from_arrays([], []))[0].tolist() == [0]


def test_a_table_is_matched_by_its_batches(matcher: sluice.Matcher) -> None:
    with pytest.raises(sluice.NotificationError, match="to_batches"):
        matcher.match_batch(pa.table({"v": [5]}))


def test_columns_that_nobody_asks_for(matcher: sluice.Matcher) -> None:
    batch = pa.RecordBatch.from_pydict({"other": pa.array([[1], None]), "v": pa.array([5, 6])})
    assert rows_of(matcher.match_batch(batch)) == rows_of(matcher.match_batch([{"v": 5}, {"v": 6}]))


def test_a_name_with_a_dot_is_a_column() -> None:
    """`o.p` is the field p of o or a column of that name."""
    found = sluice.Matcher()
    id = found.add("o.p = 5")
    assert rows_of(found.match_batch(pa.RecordBatch.from_pydict({"o.p": [5, 6, None]}))) == [[id], [], []]
    assert rows_of(found.match_batch(pa.RecordBatch.from_pydict({"o": [{"p": 5}, None, {"p": 1}]}))) == [[id], [], []]


CLASHES = {
    "two columns are named 'a'": pa.RecordBatch.from_arrays([pa.array([0]), pa.array([5])], ["a", "a"]),
    "two columns are named 'z'": pa.RecordBatch.from_arrays([pa.array([0])] * 3, ["a", "z", "z"]),
    "'o.x' is there twice": pa.RecordBatch.from_pydict({"o": [{"x": 5, "y": 1}], "o.x": [0]}),
    "'o.p' is there twice": pa.RecordBatch.from_pydict({"o.p": [{"x": 5}], "o": [{"p": {"x": 5}}]}),
    "'s.x' is there twice": pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays([pa.array([5]), pa.array([0])], ["x", "x"])], ["s"]
    ),
}


@pytest.mark.parametrize("said", CLASHES)
@pytest.mark.parametrize("text", ["o.x > 1", "o.x > 1 AND o.y = 9", "a > 1", "a * a > 1", "other = 1", "o.x * 2 <=> 1"])
def test_names_that_clash_are_an_error_whoever_asks(said: str, text: str) -> None:
    batch = CLASHES[said]
    found = sluice.Matcher()
    found.add(text)
    for read in (found.match_batch, lambda batch: list(from_arrow(batch)), Counting(found).add):
        with pytest.raises(sluice.NotificationError, match=said):
            read(batch)


@pytest.mark.parametrize(
    "text",
    [
        "a > 1",
        "a * b > 1",
        "NOT a * b <=> 1",
        "a * b IS NOT NULL",
        "m.k = 1",
        "a = 9007199254740993",
        "sees(a)",
        "sees(o)",
    ],
)
def test_columns_that_nobody_asks_for_are_not_read_for_anything(text: str, tmp_path: Path) -> None:
    """Neither to confirm a match, nor for the keys of a map, nor for a number that no double equals."""
    sluice.register("sees", Sees)
    big = 2**53 + 1
    record = {"a": big, "b": 1, "o": {"p": {"q": 1}}, "m": {"k": 1}}
    columns = {"a": pa.array([big]), "b": pa.array([1]), "o": pa.array([{"p": {"q": 1}}])}
    columns["m"] = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    batch = pa.RecordBatch.from_pydict({**columns, "other": pa.array([1], pa.time64("us"))})
    found = sluice.Matcher()
    found.load([(0, text), (1, "o.p.q = 1")])
    assert rows_of(found.match_batch(batch)) == rows_of(found.match_batch([record])) == [[0, 1]]
    found.save(tmp_path / "saved")
    assert rows_of(sluice.Matcher.open(tmp_path / "saved").match_batch(batch)) == [[0, 1]]
    found.add("other IS NOT NULL")
    with pytest.raises(sluice.NotificationError, match="'other' is of type time"):
        found.match_batch(batch)


def test_an_older_file_does_not_say_which_columns_matter(tmp_path: Path) -> None:
    found = sluice.Matcher()
    found.add("a * b <=> 6")
    found.save(tmp_path)
    state = json.loads((tmp_path / "state.json").read_text())
    del state["fields"]["columns"]
    (tmp_path / "state.json").write_text(json.dumps(state))
    older = sluice.Matcher.open(tmp_path)
    older.add("c > 1")
    assert rows_of(older.match_batch(pa.RecordBatch.from_pydict({"a": [2], "b": [3]}))) == [[0]]
    older.save(tmp_path / "again")
    again = sluice.Matcher.open(tmp_path / "again")
    assert rows_of(again.match_batch(pa.RecordBatch.from_pydict({"a": [2], "b": [3]}))) == [[0]]


def test_what_cannot_be_read_is_an_error_of_ours() -> None:
    found = sluice.Matcher()
    found.add("v = 5")
    for column in (pa.array([timedelta(1)]), pa.array([1], pa.time64("us"))):
        with pytest.raises(sluice.NotificationError, match="v"):
            found.match_batch(pa.RecordBatch.from_arrays([column], ["v"]))
