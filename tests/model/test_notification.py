"""Everything that may be published becomes flat attributes, or a NotificationError that says where and what to do."""

from __future__ import annotations

import collections
import enum
import functools
import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import NotificationError, SluiceError
from sluice.limits import MAX_DEPTH, MAX_VALUES
from sluice.model.notification import attributes, from_arrow, from_json
from sluice.model.values import kind_of

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Side(enum.Enum):
    BUY = "buy"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Money:
    amount: int
    currency: str


@dataclass
class Order:
    total: Money
    note: str | None = None


class Plain:
    def __init__(self) -> None:
        self.shown = 1
        self._hidden = 2


class Slotted:
    __slots__ = ("_b", "a", "unset")

    def __init__(self) -> None:
        self.a = 1
        self._b = 2


class MoreSlotted(Slotted):
    __slots__ = "c"

    def __init__(self) -> None:
        super().__init__()
        self.c = 3


@dataclass
class Command:
    speed: int

    def __call__(self) -> None: ...


Pair = collections.namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("published", "value"),
    [
        (True, True),
        (Side.BUY, "buy"),
        (Level.HIGH, 3),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (NOON.replace(tzinfo=None), NOON),
        (NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        (date(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)),
        (Decimal("12.00"), 12),
        (Decimal("1.5"), 1.5),
        (Decimal("Infinity"), math.inf),
        (Decimal(10) ** 400, 10**400),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (np.float32(1.5), 1.5),
        (np.int8(-3), -3),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.longdouble(2), 2.0),
        (np.datetime64("2024-05-01T12:00:00.000000999"), NOON),
        (np.datetime64("9999-12-31"), datetime(9999, 12, 31, tzinfo=UTC)),
        (np.datetime64("0001"), datetime(1, 1, 1, tzinfo=UTC)),
        (np.array([1, 2]), (1, 2)),
        (np.array(7), 7),
        (pd.Timestamp("2024-05-01 14:00", tz="Europe/Berlin"), NOON),
        ([1, None, "a", [2]], (1, None, "a", (2,))),
        ({3, 1, 2}, (1, 2, 3)),
        (frozenset({"b", 1, (2, "c"), None}), (None, 1, "b", (2, "c"))),
        (collections.deque([1]), (1,)),
        ([{"a": {"b": 1}}], ({"a.b": 1, "a": {"b": 1}},)),
        ({}, {}),
        ([], ()),
    ],
)
def test_values_become_plain_values(published: object, value: object) -> None:
    found = attributes({"x": published})
    assert found["x"] == value
    assert type(found["x"]) is type(value)


@pytest.mark.parametrize("nothing", [None, np.datetime64("NaT"), pd.NaT, pd.NA])
def test_nothing_is_a_missing_attribute(nothing: object) -> None:
    assert attributes({"x": nothing, "y": {"z": nothing}}) == {"y": {}}


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("sNaN"), np.float64("nan")])
def test_not_a_number_stays_so(value: object) -> None:
    assert math.isnan(attributes({"x": value})["x"])


def test_nested_records_have_dotted_names_and_stay_whole() -> None:
    assert attributes({"order": {"total": {"amount": 5}, "id": 1}}) == {
        "order.total.amount": 5,
        "order.total": {"amount": 5},
        "order.id": 1,
        "order": {"total.amount": 5, "total": {"amount": 5}, "id": 1},
    }


def test_objects_have_a_class() -> None:
    assert attributes(Order(Money(5, "EUR"))) == {
        "total.amount": 5,
        "total.currency": "EUR",
        "total.class": "Money",
        "total": {"amount": 5, "currency": "EUR", "class": "Money"},
        "class": "Order",
    }
    assert attributes(Plain()) == {"shown": 1, "class": "Plain"}
    assert attributes(MoreSlotted()) == {"a": 1, "c": 3, "class": "MoreSlotted"}
    assert attributes(Pair(1, None)) == {"x": 1, "class": "Pair"}
    assert attributes(SimpleNamespace(a=1)) == {"a": 1, "class": "SimpleNamespace"}
    assert attributes(Command(5)) == {"speed": 5, "class": "Command"}
    assert attributes({"todo": Command(5)})["todo.speed"] == 5


def test_a_row_of_a_data_frame_is_read_by_its_labels() -> None:
    frame = pd.DataFrame({"price": [45.5], "symbol": ["IBM"], "at": [pd.NaT], "size": pd.array([None], "Int64")})
    (_, row) = next(frame.iterrows())
    assert attributes(row) == attributes({"quote": row})["quote"] == {"price": 45.5, "symbol": "IBM"}


def test_any_mapping_is_a_record_without_a_class() -> None:
    assert attributes(MappingProxyType({"a": 1})) == {"a": 1}
    assert attributes(collections.ChainMap({"a": 1}, {"b": 2})) == {"a": 1, "b": 2}
    assert attributes({Side.BUY.value: 1}) == {"buy": 1}


def test_a_flat_record_is_not_copied() -> None:
    record = {"symbol": "IBM", "price": 45.5, "open": True, "raw": b"x", "size": 3}
    assert attributes(record) is record


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


def cyclic() -> dict[str, Any]:
    record: dict[str, Any] = {}
    record["self"] = record
    return record


def shared(levels: int) -> Any:
    """A small object that is huge when written out."""
    return nested(levels, lambda value: [value, value])


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (5, "a notification is a record"),
        (None, "a notification is a record"),
        ([{"a": 1}], "a notification is a record"),
        ("text", "a notification is a record"),
        (object(), "not of type object: publish a dictionary, a dataclass or an object with attributes"),
        (functools.partial(print), "not of type partial: publish a dictionary"),
        (np.timedelta64(1, "s"), "not of type timedelta: publish a dictionary"),
        (pd.DataFrame({"a": [1]}), "not of type DataFrame: publish a dictionary"),
        (pd.Series([1]), "the key 0"),
        ({"f": functools.partial(print)}, "'f' is of type partial"),
        ({"d": pd.Timedelta(1)}, "'d' is of type Timedelta"),
        ({1: 2}, "the key 1"),
        ({"a": [{"b": {None: 1}}]}, "'a[0].b' has the key None"),
        ({"a": {"b": 1j}}, "'a.b' is of type complex"),
        ({"t": time(1)}, "'t' is of type time"),
        ({"t": timedelta(1)}, "'t' is of type timedelta"),
        ({"f": print}, "builtin_function_or_method"),
        ({"f": lambda: 1}, "of type function"),
        ({"c": Plain}, "of type type"),
        ({"m": math}, "of type module"),
        ({"o": object()}, "of type object"),
        ({"e": ValueError()}, "of type ValueError"),
        ({"g": (i for i in "ab")}, "of type generator"),
        ({"r": range(10**12)}, "of type range"),
        ({"d": np.timedelta64(1, "s")}, "of type timedelta"),
        ({"n": Decimal("1E+999999999")}, "digits"),
        ({"t": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "outside the years"),
        ({"t": np.datetime64(2**60, "s")}, "outside the years"),
        ({"t": np.datetime64("10000-01-01T00")}, "outside the years"),
        ({"t": np.datetime64("0000-12-31")}, "outside the years"),
        ({"a.b": 1, "a": {"b": 2}}, "'a.b' is there twice"),
        ({"z": {"a": {"b": 2}, "a.b": 1}}, "'z.a.b' is there twice"),
        (nested(MAX_DEPTH + 1, lambda value: {"a": value}), "nested deeper"),
        ({"a": nested(MAX_DEPTH + 1, lambda value: [value])}, "nested deeper"),
        (cyclic(), "contains itself"),
        ({"a": shared(40)}, f"more than {MAX_VALUES} values"),
    ],
)
def test_what_cannot_be_published_is_explained(record: object, said: str) -> None:
    with pytest.raises(NotificationError) as caught:
        attributes(record)
    assert said in str(caught.value)
    assert ":" in str(caught.value) or "outside" in str(caught.value)


def test_the_deepest_nesting_works() -> None:
    assert len(attributes(nested(MAX_DEPTH, lambda value: {"a": value}))) == MAX_DEPTH
    assert attributes({"a": nested(MAX_DEPTH - 1, lambda value: [value])})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=3),
    max_leaves=20,
)


def check_flat(flat: dict[str, Any]) -> None:
    for name, value in flat.items():
        assert type(name) is str
        assert value is not None
        check_value(value)
        if type(value) is dict:
            for inner, part in value.items():
                assert flat[f"{name}.{inner}"] == part or part != part


def check_value(value: Any) -> None:
    kind_of(value)
    if type(value) is dict:
        check_flat(value)
    elif type(value) is tuple:
        for element in value:
            check_value(element)


@settings(deadline=None)
@given(JSON)
def test_any_json_becomes_attributes_or_an_error(record: object) -> None:
    try:
        flat = attributes(record)
    except NotificationError:
        return
    check_flat(flat)
    assert repr(attributes(flat)) == repr(flat), "what is flat stays as it is"
    assert repr(from_json(json.dumps(record))) == repr(flat)


@settings(deadline=None)
@given(st.text() | st.binary())
def test_any_text_is_a_notification_or_an_error(text: str | bytes) -> None:
    try:
        from_json(text)
    except SluiceError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "at character 1"),
        ("5", "a notification is a record"),
        (b"\xff", "not UTF-8"),
        ("[" * 1_000_000, "nested deeper"),
        ('{"a":' * 1_000_000, "nested deeper"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "nested deeper"),
        ('{"a":' + "9" * 5_000 + "}", "digits"),
    ],
)
def test_bad_json_is_explained(text: str | bytes, said: str) -> None:
    with pytest.raises(NotificationError, match=said):
        from_json(text)


def test_json_of_every_sort() -> None:
    found = from_json('{"a": 1, "a": 2, "n": NaN, "i": -Infinity, "big": 1e999, "l": [{"b": null}], "s": "\\ud800"}')
    assert math.isnan(found.pop("n"))
    assert found == {"a": 2, "i": -math.inf, "big": math.inf, "l": ({},), "s": "\ud800"}
    assert from_json(b'{"long": "' + b"x" * 1_000_000 + b'"}')["long"] == "x" * 1_000_000


def test_arrow_rows_of_every_type() -> None:
    stamp = pa.timestamp("ns")
    columns = {
        "seconds": pa.array([0, None], pa.timestamp("s", "Asia/Tokyo")),
        "nanos": pa.array([-1, None], stamp),
        "day": pa.array([date(2024, 5, 1), None]),
        "day64": pa.array([date(2024, 5, 1), None], pa.date64()),
        "whole": pa.array([Decimal("5.00"), None]),
        "part": pa.array([Decimal("1.50"), None]),
        "word": pa.array(["a", None]).dictionary_encode(),
        "view": pa.array(["a", None], pa.string_view()),
        "raw": pa.array([b"a", None]),
        "half": pa.array([np.float16(1.5), None], pa.float16()),
        "nothing": pa.nulls(2),
        "runs": pa.RunEndEncodedArray.from_arrays([1, 2], [7, None]),
        "struct": pa.array([{"x": 1, "t": NOON}, None], pa.struct([("x", pa.int8()), ("t", stamp)])),
        "list": pa.array([[{"t": NOON}, None], []], pa.list_(pa.struct([("t", stamp)]))),
        "fixed": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        "large": pa.array([["a"], None], pa.large_list(pa.string())),
        "map": pa.array([[("k", 1), ("k", 2), ("l", None)], None], pa.map_(pa.string(), pa.int64())),
        "times": pa.array([[("k", NOON)], None], pa.map_(pa.string(), stamp)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    first = {
        "seconds": datetime(1970, 1, 1, tzinfo=UTC),
        "nanos": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        "day": datetime(2024, 5, 1, tzinfo=UTC),
        "day64": datetime(2024, 5, 1, tzinfo=UTC),
        "whole": 5,
        "part": 1.5,
        "word": "a",
        "view": "a",
        "raw": b"a",
        "half": 1.5,
        "runs": 7,
        "struct": {"x": 1, "t": NOON},
        "struct.x": 1,
        "struct.t": NOON,
        "list": ({"t": NOON}, None),
        "fixed": (1, 2),
        "large": ("a",),
        "map": {"k": 2},
        "map.k": 2,
        "times": {"k": NOON},
        "times.k": NOON,
    }
    assert list(from_arrow(batch)) == [first, {"list": ()}]
    assert list(from_arrow(batch.slice(1))) == [{"list": ()}]
    assert list(from_arrow(pa.Table.from_batches([batch, batch]))) == [first, {"list": ()}] * 2
    assert list(from_arrow(batch.slice(0, 0))) == []


def test_arrow_rows_without_columns() -> None:
    assert list(from_arrow(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([]))))) == [{}, {}]


BROKEN_TEXT = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32).tobytes()), pa.py_buffer(b"\xff"))


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (pa.array([1], pa.time64("us")), "row 0: 'c' is of type time"),
        (pa.array([1], pa.duration("s")), "row 0: 'c' is of type timedelta"),
        (pa.array([2**62], pa.timestamp("s")), "column 'c' of type timestamp"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "row 0: 'c' has the key 1"),
        (BROKEN_TEXT, "column 'c' of type string"),
    ],
)
def test_arrow_columns_that_cannot_be_read(array: Any, said: str) -> None:
    with pytest.raises(NotificationError, match=said):
        list(from_arrow(pa.RecordBatch.from_arrays([array], ["c"])))


def test_arrow_columns_of_one_name() -> None:
    with pytest.raises(NotificationError, match="two columns are named 'c'"):
        from_arrow(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["c", "c"]))
