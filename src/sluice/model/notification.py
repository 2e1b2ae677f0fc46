"""Whatever a program publishes becomes a notification: a flat dictionary from attribute names to values.

Dictionaries, dataclasses, plain objects, JSON texts and Arrow rows are all read by the same rules, and reading a
notification again changes nothing. Nested records become dotted names (`order.total`) and stay whole under their own
name (`order`), arrays become tuples whose records are flat dictionaries too, and NULL is a missing attribute (section
4.3.1; objects as in section 4.5).
"""

from __future__ import annotations

import json
import types as python_types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, cast

import numpy as np

from sluice.errors import NotificationError
from sluice.limits import MAX_DEPTH, MAX_DIGITS, MAX_VALUES
from sluice.model import types
from sluice.model.values import Value, point_of, to_utc

#: Types whose values are what they are; a record of only these is a notification already.
_PLAIN = frozenset({bool, int, float, str, bytes})
_PLAIN_OR_NULL = _PLAIN | {type(None)}
_STRING = frozenset({str})


def attributes(record: object) -> dict[str, Value]:
    """The notification that a record is: attribute names to values, without NULLs.

    A flat dictionary of scalars is returned as it is, so do not change the result.

    >>> attributes({"order": {"total": 12, "note": None}, "tags": ["new", "big"]})
    {'order.total': 12, 'order': {'total': 12}, 'tags': ('new', 'big')}
    """
    if type(record) is dict and _PLAIN.issuperset(map(type, record.values())) and _STRING.issuperset(map(type, record)):
        return record
    found = _Reader().read(record, "", 0)
    if type(found) is not dict:
        raise _no_record(record)
    return found


class Notifications(list[dict[str, Value]]):
    """Records that `attributes` has read, so that nobody needs to read them again."""

    __slots__ = ()


def decoded(records: Iterable[dict[str, Any]]) -> Notifications:
    """The notifications that records are whose names are known to be strings, as a decoder makes them."""
    return Notifications(
        record if _PLAIN.issuperset(map(type, record.values())) else attributes(record) for record in records
    )


def from_json(text: str | bytes | bytearray) -> dict[str, Value]:
    """The notification in a JSON text. NaN and Infinity are read; of equal keys the last one counts.

    >>> from_json('{"symbol": "IBM", "price": 45.5}')
    {'symbol': 'IBM', 'price': 45.5}
    """
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotificationError(
            f"this is not JSON: {error.msg} at character {error.pos}; one JSON object is needed"
        ) from None
    except UnicodeDecodeError as error:
        raise NotificationError(
            f"this is not JSON: byte {error.start} is not UTF-8; encode the text as UTF-8"
        ) from None
    except ValueError:
        raise NotificationError(
            f"a number has more than {MAX_DIGITS} digits; write it as a string or as a float"
        ) from None
    except RecursionError:
        raise NotificationError(f"arrays and objects are nested deeper than {MAX_DEPTH} levels; flatten them") from None
    return attributes(record)


def from_arrow(batch: Any) -> Iterator[dict[str, Value]]:
    """The notifications in the rows of a pyarrow RecordBatch (or Table).

    Timestamps of any unit become UTC microseconds (finer digits are cut off), maps become records.

    >>> import pyarrow as pa
    >>> list(from_arrow(pa.RecordBatch.from_pydict({"id": [1, 2], "price": [45.5, None]})))
    [{'id': 1, 'price': 45.5}, {'id': 2}]
    """
    check_names(batch.schema)
    names = batch.schema.names
    columns = []
    for name, column in zip(names, batch.columns, strict=True):
        try:
            columns.append(_arrow_values(column))
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            raise NotificationError(f"column {name!r} of type {column.type} cannot be read: {error}") from error
    return _arrow_rows(names, columns, batch.num_rows)


def check_names(schema: Any) -> None:
    """Raises if two columns of an Arrow schema have one name, or if `a.b` is both a column and a field of the struct `a`.

    The schema alone decides, so that what a batch means depends neither on its values nor on what is asked.
    """
    from pyarrow import types as arrow

    names = schema.names
    seen = set(names)
    if len(seen) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise NotificationError(f"two columns are named {twice!r}; rename one of them")
    structs = [(name, kind) for name, kind in zip(names, schema.types, strict=True) if arrow.is_struct(kind)]
    while structs:
        name, kind = structs.pop()
        for field in kind:
            inner = f"{name}.{field.name}"
            if inner in seen:
                raise NotificationError(f"{inner!r} is there twice, at least once as a field of a struct: rename one")
            seen.add(inner)
            if arrow.is_struct(field.type):
                structs.append((inner, field.type))


def _arrow_rows(names: list[str], columns: list[list[Any]], count: int) -> Iterator[dict[str, Value]]:
    rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else ((),) * count
    for number, row in enumerate(rows):
        try:
            yield attributes(dict(zip(names, row, strict=True)))
        except NotificationError as error:
            raise NotificationError(f"row {number}: {error}") from None


class _Reader:
    """Reads one record. It counts the values it makes, because names repeat at every level of nesting."""

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def read(self, value: Any, path: str, depth: int) -> Value:
        """Any value, as constraints see it; `path` says where it was found, for errors."""
        kind = type(value)
        if kind in _PLAIN or value is None:
            return value
        if kind is datetime:
            return value if value.tzinfo is UTC else _utc(value, path)
        if kind is dict:
            return self.record(value.items(), path, depth)
        if kind is list or kind is tuple:
            return self.multi(value, path, depth)
        return self.other(value, path, depth)

    def other(self, value: Any, path: str, depth: int) -> Value:
        """A value of a less common type."""
        match value:
            case Enum():
                return self.read(value.value, path, depth)
            # Subclasses become the plain type, because the kind of a value is looked up by its exact type.
            case str():
                return str.__str__(value)
            case int():
                return int.__int__(value)
            case float():
                return float.__float__(value)
            case bytes() | bytearray() | memoryview():
                return b"".join((value,))
            case datetime():
                return _utc(value, path)
            case date():
                return datetime(value.year, value.month, value.day, tzinfo=UTC)
            case Decimal():
                return _from_decimal(value, path)
            case np.generic() if (plain := _from_numpy(value, path)) is not value:
                return self.read(plain, path, depth)
            case np.ndarray():
                return self.read(value[()] if value.ndim == 0 else list(value), path, depth)
            case Mapping():
                return self.record(value.items(), path, depth)
            case Set():
                return tuple(sorted(self.multi(value, path, depth), key=_set_order))
            case tuple() if hasattr(value, "_fields"):
                return self.object(value, zip(value._fields, value, strict=True), path, depth)
            case Sequence() if not isinstance(value, range):
                return self.multi(value, path, depth)
        match _full_name(value):
            case "uuid.UUID":
                return str(value)
            case "pandas._libs.missing.NAType":
                return None
            case "pandas.core.series.Series" | "pandas.Series":
                return self.record(cast(Any, value).items(), path, depth)
        if _is_plain_object(value):
            return self.object(value, _public_attributes(value), path, depth)
        if depth == 0:
            raise _no_record(value)
        raise NotificationError(
            f"{_at(path)} is {_a(value)}, which no filter can test: publish a number, string, datetime, list or dict"
        )

    def multi(self, values: Iterable[Any], path: str, depth: int) -> tuple[Value, ...]:
        if depth >= MAX_DEPTH:
            raise _too_deep(path)
        found = tuple(values)
        self.count(len(found))
        if _PLAIN_OR_NULL.issuperset(map(type, found)):
            return found
        return tuple(self.read(value, f"{path}[{i}]", depth + 1) for i, value in enumerate(found))

    def object(self, value: object, items: Iterable[tuple[str, Any]], path: str, depth: int) -> dict[str, Value]:
        fields = dict(items)
        fields["class"] = types.declare_class(type(value))
        return self.record(fields.items(), path, depth)

    def record(self, items: Iterable[tuple[Any, Any]], path: str, depth: int) -> dict[str, Value]:
        if depth >= MAX_DEPTH:
            raise _too_deep(path)
        flat: dict[str, Value] = {}
        for key, item in items:
            if not isinstance(key, str):
                raise NotificationError(f"{_at(path)} has the key {key!r}, and names are strings: write {str(key)!r}")
            name = key if type(key) is str else str.__str__(key)
            value = item if type(item) in _PLAIN else self.read(item, f"{path}.{name}" if path else name, depth + 1)
            if value is None:
                continue
            if type(value) is dict:
                for inner, part in value.items():
                    _put(flat, f"{name}.{inner}", part, path)
            _put(flat, name, value, path)
        self.count(len(flat))
        return flat

    def count(self, made: int) -> None:
        self.left -= made
        if self.left < 0:
            raise NotificationError(f"the notification has more than {MAX_VALUES} values: publish it in parts")


def _put(flat: dict[str, Value], name: str, value: Value, path: str) -> None:
    """Sets an attribute. It may be there already if it is the same: so what is flat can be read again."""
    if name in flat:
        old = flat[name]
        if type(old) is not type(value) or not (old is value or old == value):
            where = f"{path}.{name}" if path else name
            raise NotificationError(f"{where!r} is there twice, as a dotted name and as a nested record: rename one")
    flat[name] = value


def _set_order(value: Value) -> tuple[Any, ...]:
    """An order of any values that does not depend on hashing."""
    point = point_of(value)
    return (*point, "") if value is None or type(value) not in (tuple, dict) else (*point, repr(value))


def _utc(value: datetime, path: str) -> datetime | None:
    if value != value:
        return None  # pandas' NaT: not a time, so nothing
    try:
        moment = datetime(
            value.year,
            value.month,
            value.day,
            value.hour,
            value.minute,
            value.second,
            value.microsecond,
            value.tzinfo,
            fold=value.fold,
        )
        return to_utc(moment)
    except (ValueError, OverflowError):
        raise NotificationError(f"{_at(path)} is {value!r}, which is outside the years 1 to 9999 in UTC") from None


def _from_decimal(value: Decimal, path: str) -> int | float:
    if value.is_nan():
        return float("nan")
    if value.is_infinite():
        return float(value)
    if value.adjusted() >= MAX_DIGITS:
        raise NotificationError(
            f"{_at(path)} is a number of more than {MAX_DIGITS} digits: publish a float or a string"
        )
    # Only a whole number has an exact Python number; numbers of both sorts compare exactly all the same.
    return int(value) if value == value.to_integral_value() else float(value)


def _from_numpy(value: np.generic[Any], path: str) -> Any:
    if isinstance(value, np.datetime64):
        # By the year, because what is too far for microseconds wraps around, and what is too far for a datetime is a number.
        if not np.isnat(value) and not 1 <= value.astype("datetime64[Y]").astype(int) + 1970 <= 9999:
            raise NotificationError(f"{_at(path)} is {value!r}, which is outside the years 1 to 9999 in UTC")
        return value.astype("datetime64[us]").item()
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.integer | np.bool):
        return value.item()
    return value


def _full_name(value: object) -> str:
    # Some types are told by name: the module uuid brings in the clock and the network address of the machine, pandas a lot.
    return f"{type(value).__module__}.{type(value).__qualname__}"


#: Set in the type flags of classes that are written in Python (or built like those).
_HEAP_TYPE = 1 << 9


def _is_plain_object(value: object) -> bool:
    """Whether this is an instance of a class somebody wrote, and not a function, a module, an iterator and the like."""
    kind = type(value)
    if kind is python_types.SimpleNamespace:
        return True
    unfit = (type, python_types.ModuleType, BaseException, Iterator, np.generic)
    if not kind.__flags__ & _HEAP_TYPE or isinstance(value, unfit) or kind.__module__.partition(".")[0] == "pandas":
        return False
    # A class may give its instances a `__call__`; partial and other functions in disguise have theirs from C.
    return not callable(value) or isinstance(kind.__call__, python_types.FunctionType)


def _public_attributes(value: object) -> Iterator[tuple[str, Any]]:
    for name, item in getattr(value, "__dict__", {}).items():
        if not name.startswith("_"):
            yield name, item
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("_") and hasattr(value, name):
                yield name, getattr(value, name)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _arrow_values(array: Any) -> list[Any]:
    """A column as Python values; nested ones by their parts, because Arrow's own way depends on pandas being there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _arrow_values(chunk)]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _arrow_values(array.storage)
    if pa.types.is_dictionary(kind):
        return _arrow_values(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _arrow_values(pc.run_end_decode(array))
    if pa.types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        return [None if ticks is None else _moment(ticks, per_second) for ticks in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        parts = [_arrow_values(part) for part in array.flatten()]
        rows: Iterable[tuple[Any, ...]] = zip(*parts, strict=True) if parts else ((),) * len(array)
        there = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if valid else None for row, valid in zip(rows, there, strict=True)]
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        lists = _arrow_values(array.cast(pairs))
        return [None if items is None else {pair["key"]: pair["value"] for pair in items} for items in lists]
    if _is_arrow_list(kind):
        values = _arrow_values(array.flatten())
        found: list[Any] = []
        start = 0
        for length in pc.list_value_length(array).to_pylist():
            found.append(None if length is None else values[start : start + length])
            start += length or 0
        return found
    return list(array.to_pylist())


def _is_arrow_list(kind: Any) -> bool:
    from pyarrow import types as arrow

    tests = (arrow.is_list, arrow.is_large_list, arrow.is_fixed_size_list, arrow.is_list_view, arrow.is_large_list_view)
    return any(test(kind) for test in tests)


def _moment(ticks: int, per_second: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ticks * 1_000_000 // per_second)


def _no_record(value: object) -> NotificationError:
    return NotificationError(
        f"a notification is a record, not {_a(value)}: publish a dictionary, a dataclass or an object with attributes"
    )


def _too_deep(path: str) -> NotificationError:
    return NotificationError(f"{_at(path)} is nested deeper than {MAX_DEPTH} levels, or contains itself: flatten it")


def _at(path: str) -> str:
    if not path:
        return "the record"
    return repr(path if len(path) <= 80 else f"{path[:40]}…{path[-39:]}")


def _a(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
