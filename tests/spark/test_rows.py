"""Rows keep everything: whatever was published comes back from them, also what fits no column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.model.notification import attributes, from_arrow
from sluice.protocol.batch import Batch, Logged, Records, Rows
from sluice.spark.rows import META, REST, Layout, from_text, notifications, to_text, widened

TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.binary(max_size=5),
    TIMES,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "A", "a.b", "_time", "_rest", "with space", "order"])
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=6)
LAYOUTS = st.sampled_from(
    [
        pa.schema([]),
        pa.schema([("a", pa.int64()), ("b", pa.string())]),
        pa.schema([("a", pa.float64()), ("b", pa.list_(pa.int64()))]),
        pa.schema(
            [("a", pa.bool_()), ("b", pa.binary()), ("order", pa.struct([("x", pa.int64()), ("y", pa.string())]))]
        ),
        pa.schema([("a", pa.timestamp("us", "UTC")), ("order", pa.list_(pa.struct([("x", pa.int64())])))]),
    ]
)


def flat(records: Any) -> list[dict[str, Any]]:
    """What a matcher sees of records."""
    found = from_arrow(records) if isinstance(records, pa.RecordBatch) else map(attributes, records)
    return [leaves(each) for each in found]


def leaves(record: dict[str, Any]) -> dict[str, Any]:
    """Without the records that stand whole beside their parts: an attribute may be a part of none as well."""
    return {name: value for name, value in record.items() if not isinstance(value, dict)}


@given(RECORDS, LAYOUTS)
def test_everything_comes_back(records: list[dict[str, Any]], attributes_: pa.Schema) -> None:
    rows = Layout(attributes_).arrange(Records.of("alice", 1, records))
    rows.validate(full=True)
    assert flat(notifications(rows)) == flat(records)


@given(RECORDS)
def test_a_schema_made_from_records_takes_them(records: list[dict[str, Any]]) -> None:
    batch = Records.of("alice", 1, records)
    once = widened(pa.schema([]), [batch])
    assert flat(notifications(Layout(once).arrange(batch))) == flat(records)
    assert widened(once, [batch]) == once


COLUMNS = {
    "a": [
        pa.array([1, None, 3], pa.int32()),
        pa.array([1.5, None, 3.0]),
        pa.array(["x", None, "z"], pa.large_string()),
    ],
    "b": [pa.array(["x", "y", None]), pa.array([[1], [], None], pa.list_(pa.int64())), pa.array([b"x", None, b""])],
    "note": [pa.array([True, None, False]), pa.array([None, None, None], pa.null())],
}


@pytest.mark.parametrize("a", COLUMNS["a"], ids=lambda column: str(column.type))
@pytest.mark.parametrize("b", COLUMNS["b"], ids=lambda column: str(column.type))
@pytest.mark.parametrize("note", COLUMNS["note"], ids=lambda column: str(column.type))
def test_columns_come_back(a: pa.Array, b: pa.Array, note: pa.Array) -> None:
    table = pa.RecordBatch.from_arrays([a, b, note], ["a", "b", "note"])
    batch: Batch = Rows("alice", range(1, 4), table=table)
    for attributes_ in (
        pa.schema([]),
        pa.schema([("a", pa.int64()), ("b", pa.string())]),
        pa.schema([("a", pa.float64()), ("b", pa.list_(pa.int64()))]),
        widened(pa.schema([]), [batch]),
    ):
        assert flat(notifications(Layout(attributes_).arrange(batch))) == flat(table)


def test_a_value_that_fits_is_in_its_column_and_another_in_the_rest() -> None:
    schema = pa.schema([("a", pa.int64()), ("order", pa.struct([("x", pa.string())]))])
    records: list[dict[str, Any]] = [
        {"a": 1, "order": {"x": "u", "y": 2}},
        {"a": 1.5},
        {"a": True},
        {"a": 1 << 63},
        {"order": 7, "z": b"b"},
    ]
    rows = Layout(schema).arrange(Records.of("alice", 1, records))
    assert rows.column("a").to_pylist() == [1, None, None, None, None]
    assert rows.column("order").to_pylist() == [{"x": "u"}, None, None, None, None]
    assert [dict(each) for each in rows.column("_rest").to_pylist()] == [
        {"order.y": "2"},
        {"a": "1.5"},
        {"a": "true"},
        {"a": "9223372036854775808"},
        {"order": "7", "z": '{"@bytes": "Yg=="}'},
    ]


def test_a_row_says_where_it_stands() -> None:
    batch = Records.of("alice", 5, [{"a": 1}, {"a": 2}]).placed(Logged("b1", range(8, 10), 1_000_000))
    row = Layout(pa.schema([("a", pa.int64())])).arrange(batch).to_pylist()[1]
    assert row == {
        "_stream": "b1",
        "_offset": 9,
        "_time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "_publisher": "alice",
        "_number": 6,
        "a": 2,
        "_rest": None,
    }


@given(VALUES)
def test_a_value_comes_back_from_its_text(value: Any) -> None:
    assert attributes({"a": from_text(to_text(value))}) == attributes({"a": value})


def test_columns_that_were_there_stay_and_new_ones_follow() -> None:
    first = widened(pa.schema([]), [Records.of("alice", 1, [{"b": 1, "order": {"x": 1}}])])
    second = widened(first, [Records.of("alice", 2, [{"a": "new", "b": "other", "order": {"y": [1, 2.5]}, "B": 3}])])
    assert second == pa.schema(
        [
            ("b", pa.int64()),
            ("order", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])),
            ("a", pa.string()),
        ]
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("_time", pa.int64())]), "'_time'"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), "upper and lower case"),
        (pa.schema([("a", pa.date32())]), "date32"),
        (pa.schema([("a", pa.float32())]), "use boolean, a whole number, double"),
        (pa.schema([("a", pa.struct([("x", pa.decimal128(5, 2))]))]), "a.x"),
    ],
)
def test_a_schema_that_cannot_be(schema: pa.Schema, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Layout(schema)


def test_the_shape_is_what_the_reference_says() -> None:
    assert Layout(pa.schema([("a", pa.int64())])).schema.names == [*META.names, "a", REST.name]


def test_no_rows_at_all() -> None:
    layout = Layout(pa.schema([("order", pa.struct([("x", pa.int64())])), ("tags", pa.list_(pa.string()))]))
    rows = layout.arrange(Records.of("alice", 1, []))
    assert rows.num_rows == 0 and rows.schema == layout.schema
