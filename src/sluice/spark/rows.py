"""Notifications as the rows of a table and back: the one shape that the source, the archive and history share.

A row begins with where its notification stands (`META`), then has a column for each attribute that a `Layout` knows, and ends
with `_rest`: a map of what has no column or does not fit the type of its column, each value as JSON text. So nothing is lost
and nothing is bent to fit. Nested records are structs, multi-values are lists, and NULL is an attribute that is not there.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow

from sluice.errors import ConfigurationError, NotificationError
from sluice.limits import MAX_COLUMNS
from sluice.protocol.batch import Batch, Rows

TIME = pa.timestamp("us", "UTC")
#: Where a notification stands: the broker that logged it, its offset there and when; who published it, and its number.
META = pa.schema(
    [
        pa.field("_stream", pa.string()),
        pa.field("_offset", pa.int64()),
        pa.field("_time", TIME),
        pa.field("_publisher", pa.string()),
        pa.field("_number", pa.int64()),
    ]
)
REST = pa.field("_rest", pa.map_(pa.string(), pa.string()))
#: Names that mean something else in a row; attributes of these names are in `_rest`.
RESERVED = frozenset([*META.names, REST.name, "_day"])

#: What Parquet, Delta and Spark agree on as the name of a column.
_COLUMN_NAME = re.compile(r"[^ ,;{}()\n\t=.`\\/]{1,200}", re.ASCII)

Record = Mapping[str, Any]
#: The values of a row that have no column, by dotted name; None where there are none.
_Rest = list[dict[str, str] | None]


class Layout:
    """Which attributes have columns, and of which types.

    >>> from sluice.protocol.batch import Records
    >>> layout = Layout(pa.schema([("symbol", pa.string()), ("price", pa.float64())]))
    >>> rows = layout.arrange(Records.of("alice", 1, [{"symbol": "IBM", "price": 45.5}, {"symbol": 7, "note": "?"}]))
    >>> rows.column("symbol").to_pylist(), rows.column("price").to_pylist(), rows.column("_rest").to_pylist()
    (['IBM', None], [45.5, None], [None, [('note', '"?"'), ('symbol', '7')]])
    """

    def __init__(self, attributes: pa.Schema) -> None:
        names = [name.lower() for name in attributes.names]
        for name in attributes.names:
            if name in RESERVED:
                raise ConfigurationError(f"{name!r} cannot be the name of an attribute's column: choose another name")
            if names.count(name.lower()) > 1:
                raise ConfigurationError(f"two columns are named {name!r}, but for upper and lower case: rename one")
        for field in attributes:
            _check_type(field.name, field.type)
        self.attributes = attributes
        #: All columns of a row.
        self.schema = pa.schema([*META, *attributes, REST])
        self._names = frozenset(attributes.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.attributes.equals(other.attributes)

    __hash__ = None  # type: ignore[assignment]

    def arrange(self, batch: Batch) -> pa.RecordBatch:
        """The rows of a batch; every value of it is in them."""
        columns, rest = self._columns(batch)
        return pa.RecordBatch.from_arrays([*_places(batch), *columns, _as_map(rest)], schema=self.schema)

    def _columns(self, batch: Batch) -> tuple[list[pa.Array], _Rest]:
        if isinstance(batch, Rows):
            found = self._columns_of_table(batch.table)
            if found is not None:
                return found
        return self._columns_of_records(batch.records)

    def _columns_of_table(self, table: pa.RecordBatch) -> tuple[list[pa.Array], _Rest] | None:
        """Columns from columns, where that is plain to do; None where values must be looked at one by one."""
        rest: _Rest = [None] * table.num_rows
        columns = []
        for field in self.attributes:
            place = table.schema.get_field_index(field.name)
            if place < 0:
                columns.append(pa.nulls(table.num_rows, field.type))
                continue
            column = table.column(place)
            if not _is_plainly(column.type, field.type):
                return None
            try:
                columns.append(column.cast(field.type))
            except pa.ArrowInvalid:
                return None  # some values do not fit
        for name, column in zip(table.schema.names, table.columns, strict=True):
            if name not in self._names and column.null_count < len(column):
                if "." in name or not any(test(column.type) for test in _SCALARS):
                    return None
                for row, value in enumerate(column.to_pylist()):
                    _keep(rest, row, name, value)
        return columns, rest

    def _columns_of_records(self, records: Sequence[Record]) -> tuple[list[pa.Array], _Rest]:
        rest: _Rest = [None] * len(records)
        names = self._names
        for row, record in enumerate(records):
            if not names >= record.keys():
                for name in record.keys() - names:
                    _keep(rest, row, name, record[name])
        columns = [_column([each.get(field.name) for each in records], field, "", rest) for field in self.attributes]
        return columns, rest


# --- values into columns ----------------------------------------------------------------------------------------------

_SCALARS: tuple[Callable[[pa.DataType], bool], ...] = (
    *(arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_string, arrow.is_large_string),
    *(arrow.is_binary, arrow.is_large_binary),
)
#: The Python types whose values a column of an Arrow type takes without changing them.
_TAKES: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...] = (
    (arrow.is_boolean, frozenset({bool})),
    (arrow.is_integer, frozenset({int})),
    (arrow.is_float64, frozenset({float, int})),
    (arrow.is_string, frozenset({str})),
    (arrow.is_binary, frozenset({bytes})),
    (arrow.is_timestamp, frozenset({datetime})),
    (arrow.is_list, frozenset({list, tuple})),
)
_NOTHING = frozenset({type(None)})


def _check_type(name: str, kind: pa.DataType) -> None:
    if arrow.is_struct(kind):
        for field in kind:
            _check_type(f"{name}.{field.name}", field.type)
    elif arrow.is_list(kind):
        _check_type(name, kind.value_type)
    elif not any(test(kind) for test, _ in _TAKES):
        raise ConfigurationError(
            f"column {name!r} is of type {kind}, which would change values or has none: use boolean, a whole number, "
            "double, string, binary, timestamp, an array or a struct"
        )


def _is_plainly(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a column can be cast as a whole; whether each value fits shows in the cast."""
    if have.equals(want):
        return True
    if arrow.is_floating(want):
        return bool(arrow.is_floating(have) or arrow.is_integer(have))
    pairs = (
        (arrow.is_integer, arrow.is_integer),
        (arrow.is_string, arrow.is_large_string),
        (arrow.is_binary, arrow.is_large_binary),
        (arrow.is_timestamp, arrow.is_timestamp),
        (lambda kind: True, arrow.is_null),
    )
    return any(wanted(want) and had(have) for wanted, had in pairs)


def _column(values: list[Any], field: pa.Field, path: str, rest: _Rest) -> pa.Array:
    """The values of one attribute; those that do not fit go to the rest."""
    path, kind = f"{path}{field.name}", field.type
    if arrow.is_struct(kind):
        return _struct(values, kind, path, rest)
    takes = next(taken for test, taken in _TAKES if test(kind))
    if not set(map(type, values)) <= takes | _NOTHING or (arrow.is_list(kind) and not _all_fit(values, kind)):
        for row, value in enumerate(values):
            if not _fits(value, kind):
                _keep(rest, row, path, value)
                values[row] = None
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        for row, value in enumerate(values):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, OverflowError):
                _keep(rest, row, path, value)
                values[row] = None
        return pa.array(values, kind)


def _struct(values: list[Any], kind: pa.StructType, path: str, rest: _Rest) -> pa.Array:
    names = frozenset(field.name for field in kind)
    for row, value in enumerate(values):
        if not isinstance(value, Mapping):
            _keep(rest, row, path, value)
            values[row] = None
        else:
            for name in value.keys() - names:
                _keep(rest, row, f"{path}.{name}", value[name])
    parts = [
        _column([None if value is None else value.get(field.name) for value in values], field, f"{path}.", rest)
        for field in kind
    ]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=[*kind], mask=mask)


def _all_fit(values: list[Any], kind: pa.DataType) -> bool:
    return all(_fits(value, kind) for value in values)


def _fits(value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if arrow.is_struct(kind):
        # Within a list there is no name under which something could be kept: all of it fits, or nothing does.
        return (
            isinstance(value, Mapping)
            and value.keys() <= {field.name for field in kind}
            and all(_fits(value.get(field.name), field.type) for field in kind)
        )
    if type(value) not in next(taken for test, taken in _TAKES if test(kind)):
        return False
    return not arrow.is_list(kind) or all(_fits(each, kind.value_type) for each in value)


def _keep(rest: _Rest, row: int, name: str, value: Any) -> None:
    if value is not None:
        kept = rest[row]
        if kept is None:
            kept = rest[row] = {}
        kept[name] = to_text(value)


def _as_map(rest: _Rest) -> pa.Array:
    if not any(rest):
        return pa.nulls(len(rest), REST.type)
    return pa.array([None if kept is None else sorted(kept.items()) for kept in rest], REST.type)


def _places(batch: Batch) -> list[pa.Array]:
    count, logged = len(batch), batch.logged
    publisher, numbers = pa.repeat(batch.publisher, count), _integers(batch.numbers)
    if logged is None:
        return [*(pa.nulls(count, field.type) for field in list(META)[:3]), publisher, numbers]
    time = pa.repeat(pa.scalar(logged.time_micros, TIME), count)
    return [pa.repeat(logged.stream, count), _integers(logged.offsets), time, publisher, numbers]


def _integers(numbers: Sequence[int]) -> pa.Array:
    found = np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else np.asarray(numbers, np.int64)
    return pa.array(found, pa.int64())


# --- values as text ---------------------------------------------------------------------------------------------------


def to_text(value: Any) -> str:
    """A value as JSON; what JSON does not have is an object with one key that begins with an at sign.

    >>> to_text(7), to_text("a"), to_text(b"a"), to_text([1, float("inf")])
    ('7', '"a"', '{"@bytes": "YQ=="}', '[1, {"@float": "inf"}]')
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def from_text(text: str) -> Any:
    """The value that `to_text` wrote."""
    return json.loads(text, object_hook=_unplain)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return {"@bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"@time": value.astimezone(UTC).isoformat()}
        case float() if not math.isfinite(value):
            return {"@float": str(value)}
        case list() | tuple():
            return [_plain(each) for each in value]
        case Mapping():
            plain = {name: _plain(each) for name, each in value.items()}
            return {"@record": plain} if len(plain) == 1 and next(iter(plain)).startswith("@") else plain
        case _:
            return value


def _unplain(found: dict[str, Any]) -> Any:
    match found:
        case {"@bytes": str(text), **more} if not more:
            return base64.b64decode(text)
        case {"@time": str(text), **more} if not more:
            return datetime.fromisoformat(text)
        case {"@float": str(text), **more} if not more:
            return float(text)
        case {"@record": record, **more} if not more:
            return record
        case _:
            return found


# --- which columns there are ------------------------------------------------------------------------------------------


def widened(attributes: pa.Schema, batches: Iterable[Batch]) -> pa.Schema:
    """A schema with a column for every attribute in these batches that can have one; columns that were there stay.

    A new column is of the kind that most of its values are.

    >>> from sluice.protocol.batch import Records
    >>> batch = Records.of("alice", 1, [{"symbol": "IBM", "price": 45}, {"price": 45.5}, {"symbol": 7}, {"symbol": "X"}])
    >>> widened(pa.schema([]), [batch])
    price: double
    symbol: string
    """
    seen = _Kinds()
    for batch in batches:
        if isinstance(batch, Rows) and all(_usual(field.type) for field in batch.table.schema):
            for field, column in zip(batch.table.schema, batch.table.columns, strict=True):
                if column.null_count < len(column):
                    seen.count(field.name, _usual(field.type), len(column) - column.null_count)
        else:
            seen.look_at(batch.records)
    return pa.schema(seen.widen([*attributes]))


class _Kinds:
    """The kinds of values that each attribute has had."""

    def __init__(self) -> None:
        self._kinds: dict[str, Counter[pa.DataType]] = {}
        self._records: dict[str, _Kinds] = {}

    def count(self, name: str, kind: pa.DataType, times: int = 1) -> None:
        """An attribute was of an Arrow type so many times."""
        self._kinds.setdefault(name, Counter())[kind] += times

    def look_at(self, records: Sequence[Record]) -> None:
        """Records came."""
        for record in records:
            for name, value in record.items():
                if isinstance(value, Mapping):
                    self._records.setdefault(name, _Kinds()).look_at([value])
                elif (kind := _kind(value)) is not None:
                    self.count(name, kind)

    def widen(self, fields: list[pa.Field]) -> list[pa.Field]:
        """The fields that there were, and new ones."""
        known = {field.name.lower(): place for place, field in enumerate(fields)}
        for name in sorted({*self._kinds, *self._records}, key=lambda name: (name not in self._kinds, name.lower())):
            place = known.get(name.lower())
            if place is None and _is_named(name) and len(fields) < MAX_COLUMNS:
                kind = self._kind_of(name)
                if kind is not None:
                    known[name.lower()] = len(fields)
                    fields.append(pa.field(name, kind))
            elif place is not None:
                fields[place] = self._with_new_parts(fields[place], name)
        return fields

    def _with_new_parts(self, field: pa.Field, name: str) -> pa.Field:
        if field.name != name or name not in self._records or not arrow.is_struct(field.type):
            return field
        return pa.field(name, pa.struct(self._records[name].widen([*field.type])))

    def _kind_of(self, name: str) -> pa.DataType | None:
        kinds = self._kinds.get(name)
        if kinds is None:
            inner = self._records[name].widen([])
            return pa.struct(inner) if inner else None
        most = max(kinds, key=lambda kind: (kinds[kind], str(kind)))
        # Whole numbers among others are numbers; the other way round they would not fit.
        return pa.float64() if most == pa.int64() and pa.float64() in kinds else most


def _kind(value: Any) -> pa.DataType | None:
    """The type of the column that would take a value; None if that cannot be said."""
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(1 << 63) <= value < 1 << 63 else None
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case bytes():
            return pa.binary()
        case datetime():
            return TIME
        case list() | tuple():
            kinds = {_kind(each) for each in value}
            if kinds == {pa.int64(), pa.float64()}:
                return pa.list_(pa.float64())
            inner = kinds.pop() if len(kinds) == 1 else None
            return None if inner is None else pa.list_(inner)
        case _:
            return None


def _usual(kind: pa.DataType) -> pa.DataType | None:
    """The type of the column that takes the values of an Arrow column; None if they must be looked at."""
    if arrow.is_integer(kind):
        return None if kind == pa.uint64() else pa.int64()
    if arrow.is_floating(kind):
        return pa.float64()
    if arrow.is_string(kind) or arrow.is_large_string(kind):
        return pa.string()
    if arrow.is_binary(kind) or arrow.is_large_binary(kind):
        return pa.binary()
    if arrow.is_boolean(kind):
        return pa.bool_()
    return TIME if arrow.is_timestamp(kind) else None


def _is_named(name: str) -> bool:
    """Whether a column may have this name."""
    return name not in RESERVED and _COLUMN_NAME.fullmatch(name) is not None


# --- rows into notifications ------------------------------------------------------------------------------------------


def notifications(table: pa.RecordBatch) -> pa.RecordBatch | list[dict[str, Any]]:
    """What the rows of any table are to a matcher or a publisher: columns where possible, else records.

    Columns that say where a notification stands are left out, and what is in `_rest` takes its place again.

    >>> layout = Layout(pa.schema([("price", pa.int64())]))
    >>> from sluice.protocol.batch import Records
    >>> notifications(layout.arrange(Records.of("alice", 1, [{"price": 1, "note": {"by": "bob"}}, {"price": 2.5}])))
    [{'price': 1, 'note': {'by': 'bob'}}, {'price': 2.5}]
    """
    names = [name for name in table.schema.names if name not in RESERVED]
    plain = table.select(names)
    place = table.schema.get_field_index(REST.name)
    if place < 0 or table.column(place).null_count == table.num_rows:
        return plain
    records = [_without_nulls(record) for record in plain.to_pylist()]
    for record, kept in zip(records, table.column(place).to_pylist(), strict=True):
        for name, text in kept or ():
            _put(record, name, text)
    return records


def _put(record: dict[str, Any], name: str, text: str) -> None:
    try:
        value = from_text(text)
    except ValueError:
        raise NotificationError(
            f"_rest has {text!r} for {name!r}, which is not JSON: write strings with quotes"
        ) from None
    inner = record
    *path, last = name.split(".")
    for part in path:
        if not isinstance(inner.get(part), dict):
            # Its own name may have dots in it.
            record[name] = value
            return
        inner = inner[part]
    inner[last] = value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value
