"""Records as rows of keys: what a batch says, along the fields that the index tests.

Arrow batches are encoded column by column without touching single values (strings once per distinct string); so are many Python
records when few attributes are asked for, and others one by one. A row is *inexact* if it holds a number that no double equals:
its `upper` and `lower` keys then differ, and its matches must be confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.errors import NotificationError
from sluice.match.fields import FALSE_CODE, KIND_CODES, NAN_CODE, OTHER_BIT, Fields, NameFields
from sluice.match.kernels.columns import put_coded, put_doubles, put_integers
from sluice.match.kernels.layout import MISSING
from sluice.match.keys import EXACT, around, double_key, text_key, time_key, utf8
from sluice.model.notification import Notifications, attributes, check_names, from_arrow
from sluice.model.values import Kind, Value, kind_of

Words = npt.NDArray[np.int64]
#: Row and field of an inexact number, and the key of the double below it.
Below = tuple[int, int, int]
#: So many records are worth turning into columns, if no more than so many attributes are asked for.
COLUMNS_FROM_RECORDS, COLUMNS_UP_TO_NAMES = 16, 16
#: Python values that Arrow holds as they are, as long as a column has one kind of them.
_ARROW_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
#: The first and the last moment that Python's datetime has, and what the ticks of Arrow's columns stand for, in microseconds.
_FIRST, _LAST = (time_key(moment.replace(tzinfo=UTC)) for moment in (datetime.min, datetime.max))
_TICKS = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}


class Rows(NamedTuple):
    """Keys of records, one row each; `lower` is `upper` itself unless some row is inexact.

    `record` gives all of a row that some filter looks at.
    """

    upper: Words
    lower: Words
    inexact: frozenset[int]
    record: Callable[[int], dict[str, Value]]

    def part(self, start: int, end: int) -> Rows:
        """Some of the rows; their records are not at hand."""
        upper = self.upper[start:end]
        lower = upper if self.lower is self.upper else self.lower[start:end]
        return Rows(upper, lower, frozenset(), self.record)


def encode(batch: pa.RecordBatch | Sequence[object], fields: Fields) -> Rows:
    """The keys of a RecordBatch or of a list of records."""
    if isinstance(batch, pa.Table):
        raise NotificationError("a Table has many batches: match those of table.to_batches() one by one")
    return _encode_arrow(batch, fields) if isinstance(batch, pa.RecordBatch) else _encode_records(batch, fields)


# --- Python records -------------------------------------------------------------------------------------------------


def _encode_records(records: Sequence[object], fields: Fields) -> Rows:
    flat = records if type(records) is Notifications else [attributes(record) for record in records]
    writer = _ColumnWriter(len(flat), fields)
    if len(flat) >= COLUMNS_FROM_RECORDS and len(fields.by_name) <= COLUMNS_UP_TO_NAMES:
        for name, entry in fields.by_name.items():
            writer.write_values(name, entry, [record.get(name) for record in flat])
    else:
        for row, record in enumerate(flat):
            for name, value in record.items():
                found = fields.by_name.get(name)
                if found is not None:
                    writer.write_value(found, row, value)
    return _rows(writer.upper, writer.below, flat.__getitem__)


def _rows(upper: Words, below: list[Below], record: Callable[[int], dict[str, Value]]) -> Rows:
    lower = upper
    if below:
        lower = upper.copy()
        for row, field, key in below:
            lower[row, field] = key
    return Rows(upper, lower, frozenset(row for row, _, _ in below), record)


def write_value(words: Any, entry: NameFields, value: Value, fields: Fields) -> int | None:
    """Writes the keys of one value; for an inexact number returns the key of the double below it."""
    kind = kind_of(value)
    below = None
    if entry.kind:
        words[entry.kind] = FALSE_CODE + value if kind == Kind.BOOL else KIND_CODES[kind]
    if kind == Kind.NUMBER:
        if entry.number:
            floor, ceiling = around(value)
            words[entry.number] = double_key(ceiling)
            below = double_key(floor) if floor != ceiling else None
    elif kind == Kind.STRING:
        number = fields.symbols.get(value)
        if entry.symbol and number is not None:
            words[entry.symbol] = number
        if entry.mask:
            words[entry.mask] = string_bit(entry, number)
        if entry.string:
            words[entry.string] = text_key(utf8(value))
    elif kind == Kind.BYTES and entry.bytes:
        words[entry.bytes] = text_key(value)
    elif kind == Kind.TIMESTAMP and entry.time:
        words[entry.time] = time_key(value)
    return below


def string_bit(entry: NameFields, number: int | None) -> int:
    """The bit of a string in the masks of an attribute."""
    bit = entry.bits.get(number) if number is not None else None
    return OTHER_BIT if bit is None else 1 << bit


# --- Arrow batches --------------------------------------------------------------------------------------------------


def _encode_arrow(batch: pa.RecordBatch, fields: Fields) -> Rows:
    check_names(batch.schema)
    batch = _asked(batch, fields)
    columns = _columns(batch, fields)
    maps = tuple(f"{name}." for name, column in columns.items() if pa.types.is_map(column.type))
    if maps and any(name.startswith(maps) for name in fields.by_name):
        return _encode_records(list(from_arrow(batch)), fields)  # the keys of a map are not columns
    writer = _ColumnWriter(batch.num_rows, fields)
    for name, entry in fields.by_name.items():
        column = columns.get(name)
        if column is not None:
            writer.write(name, entry, column)
    return _rows(writer.upper, writer.below, lambda row: next(from_arrow(batch.slice(row, 1))))


def _asked(batch: pa.RecordBatch, fields: Fields) -> pa.RecordBatch:
    """The columns that some filter looks at: nobody pays for the others, and nobody minds what is in them."""
    names = batch.schema.names
    wanted = names if fields.columns is None else [name for name in names if name in fields.columns]
    return batch if len(wanted) == len(names) else batch.select(wanted)


def _columns(batch: pa.RecordBatch, fields: Fields) -> dict[str, pa.Array]:
    """The columns by dotted name, with structs opened as far as some field asks for their parts."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if any("." in name and name not in columns for name in fields.by_name):
        nested = [name for name, column in columns.items() if pa.types.is_struct(column.type)]
        while nested:
            name = nested.pop()
            column = columns[name]
            for part, child in zip(column.type, column.flatten(), strict=True):
                columns[f"{name}.{part.name}"] = child
                if pa.types.is_struct(child.type):
                    nested.append(f"{name}.{part.name}")
    return columns


class _ColumnWriter:
    """Fills the rows of a batch column by column."""

    def __init__(self, rows: int, fields: Fields) -> None:
        self.fields = fields
        self.upper: Words = np.empty((rows, len(fields)), np.int64)
        self.upper[:] = fields.defaults
        self.below: list[Below] = []

    def write(self, name: str, entry: NameFields, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type) and not _is_string(column.type.value_type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_null(kind):
            return
        if _is_string(kind) or pa.types.is_dictionary(kind):
            self._strings(entry, column)
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            self._numbers(entry, column)
        elif pa.types.is_boolean(kind):
            self._kinds(entry, column, np.asarray(column.fill_null(False)).astype(np.int64) + FALSE_CODE)
        elif (pa.types.is_timestamp(kind) or pa.types.is_date(kind)) and (micros := _micros(column)) is not None:
            self._times(entry, column, micros)
        else:
            self._values(name, entry, column)

    def write_values(self, name: str, entry: NameFields, values: list[Value]) -> None:
        """The same from Python values, as a column if they are all of one kind."""
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) == 1 and (kind := _ARROW_TYPES.get(kinds.pop())) is not None:
            try:
                column = pa.array(values, kind)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                pass  # numbers beyond 64 bits, halves of surrogate pairs
            else:
                self.write(name, entry, column)
                return
        for row, value in enumerate(values):
            if value is not None:
                self.write_value(entry, row, value)

    def _kinds(self, entry: NameFields, column: pa.Array, codes: Words | int) -> None:
        if entry.kind:
            self.upper[:, entry.kind] = np.where(_valid(column), codes, 0)

    def _put(self, field: int, valid: npt.NDArray[np.bool_] | None, keys: Words) -> None:
        """Writes the keys of one field where there is a value."""
        target = self.upper[:, field]
        if valid is None:
            target[:] = keys
        else:
            target[valid] = keys[valid]

    def _numbers(self, entry: NameFields, column: pa.Array) -> None:
        if entry.kind:
            is_nan = np.asarray(pc.is_nan(column.cast(pa.float64(), safe=False)).fill_null(False))
            self._kinds(entry, column, np.where(is_nan, NAN_CODE, KIND_CODES[Kind.NUMBER]))
        if not entry.number:
            return
        if pa.types.is_int64(column.type):
            has_large = self._write(put_integers, column, entry.number)
        else:
            self._write(put_doubles, column.cast(pa.float64(), safe=False), entry.number)
            has_large = pa.types.is_uint64(column.type)
        if has_large:
            for row, value in enumerate(column.to_pylist()):
                if value is not None and not -EXACT <= value <= EXACT:
                    self.write_value(entry, row, value)

    def _strings(self, entry: NameFields, column: pa.Array) -> None:
        self._kinds(entry, column, KIND_CODES[Kind.STRING])
        if not (entry.symbol or entry.mask or entry.string):
            return
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        if not texts:
            return
        indices = coded.indices if pa.types.is_int32(coded.indices.type) else coded.indices.cast(pa.int32())
        known = self.fields.symbols
        numbers = [known.get(text) for text in texts]
        if entry.symbol:
            keys = [MISSING if number is None else number for number in numbers]
            self._write(put_coded, indices, entry.symbol, keys)
        if entry.mask:
            masks = [0 if text is None else string_bit(entry, known.get(text)) for text in texts]
            self._write(put_coded, indices, entry.mask, masks)
        if entry.string:
            keys = [MISSING if text is None else text_key(utf8(text)) for text in texts]
            self._write(put_coded, indices, entry.string, keys)

    def _write(self, kernel: Callable[..., Any], column: pa.Array, field: int, keys: list[int] | None = None) -> Any:
        """Writes the keys of a column, or those that its codes stand for."""
        valid, values = column.buffers()
        where = (0 if valid is None or not column.null_count else valid.address, column.offset, len(column))
        table = None if keys is None else np.array(keys, np.int64)
        tables = () if table is None else (table.__array_interface__["data"][0],)
        rows = (self.upper.__array_interface__["data"][0], field, self.upper.shape[1])
        return kernel(values.address, *where, *tables, *rows)

    def _times(self, entry: NameFields, column: pa.Array, micros: Words) -> None:
        self._kinds(entry, column, KIND_CODES[Kind.TIMESTAMP])
        if entry.time:
            valid = None if column.null_count == 0 else _valid(column)
            self._put(entry.time, valid, micros)

    def _values(self, name: str, entry: NameFields, column: pa.Array) -> None:
        """Any other type, value by value, as a Python record would be read."""
        for row, record in enumerate(from_arrow(pa.RecordBatch.from_arrays([column], [name]))):
            if name in record:
                self.write_value(entry, row, record[name])

    def write_value(self, entry: NameFields, row: int, value: Value) -> None:
        """Writes one value."""
        key = write_value(self.upper[row], entry, value, self.fields)
        if key is not None:
            self.below.append((row, entry.number, key))


def _micros(column: pa.Array) -> Words | None:
    """Dates, and timestamps of any unit and zone, as whole microseconds, finer digits cut off towards the past.

    None if one of them lies outside the years that Python's datetime has: such a column is read value by value, which says so.
    """
    kind = column.type
    ticks = np.asarray(column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).fill_null(0)).astype(
        np.int64
    )
    if pa.types.is_date64(kind):
        ticks = np.floor_divide(ticks, _TICKS["day"] // _TICKS["ms"])  # some writers leave a time of day in it
    elif not pa.types.is_date(kind) and kind.unit == "ns":
        return np.floor_divide(ticks, 1_000)
    step = _TICKS["day" if pa.types.is_date(kind) else kind.unit]
    if len(ticks) and not (ticks.min() >= _FIRST // step and ticks.max() <= _LAST // step):
        return None
    return ticks * step


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = np.asarray(pc.is_valid(column))
    return valid
