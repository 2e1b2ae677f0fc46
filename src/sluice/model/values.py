"""What a notification may say: the kinds of values, their order, and the point that each value is on one common axis.

Values are bool, number (int and float compare exactly), string, bytes, UTC timestamp, multi-value (a tuple) and
record (a dict); a missing attribute is NULL. A *point* is `(kind, value, 0.5)`; the *cuts* of `sluice.model.ordered` fall
between points, so that every constraint on ordered values is a sorted list of cuts. Values of different kinds never compare:
they merely lie on different stretches of the axis (seed model of section 4.3.1, with SQL's NULL added).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from sluice.model.vocabulary import REFUSED_WORDS, VALUES, WORDS

Scalar = bool | int | float | str | bytes | datetime
#: A value as constraints see it: a scalar, a tuple of values (multi-value), a dict (record), or None for NULL.
Value = Any


class Kind(IntEnum):
    """The stretches of the axis, in order. Kinds from BOOL to TIMESTAMP are ordered inside; the others are all or nothing."""

    NULL = 0
    BOOL = 1
    NUMBER = 2
    STRING = 3
    BYTES = 4
    TIMESTAMP = 5
    NAN = 6
    MULTI = 7
    RECORD = 8


#: One past the last kind: the right end of the axis.
KINDS = 9

Point = tuple[int, Any, float]

_KIND_OF_TYPE: dict[type, Kind] = {
    type(None): Kind.NULL,
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    datetime: Kind.TIMESTAMP,
    tuple: Kind.MULTI,
    dict: Kind.RECORD,
}


def kind_of(value: Value) -> Kind:
    """The kind of a value; NaN is a kind of its own, because it compares with nothing.

    >>> kind_of(1.5), kind_of("x"), kind_of(float("nan")), kind_of(None)
    (<Kind.NUMBER: 2>, <Kind.STRING: 3>, <Kind.NAN: 6>, <Kind.NULL: 0>)
    """
    kind = _KIND_OF_TYPE.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, float):  # not in the table, because it depends on the value
        return Kind.NUMBER if value == value else Kind.NAN
    raise TypeError(f"{type(value).__name__} is not a value of a notification")


def point_of(value: Value) -> Point:
    """Where a value lies on the axis.

    >>> point_of(3) < point_of(3.5) < point_of("a")
    True
    """
    kind = kind_of(value)
    if Kind.BOOL <= kind <= Kind.TIMESTAMP:
        return (int(kind), value, 0.5)
    return (int(kind), 0, 0.5)


def as_record(element: Value) -> Mapping[str, Value]:
    """An element of a multi-value as tests of elements see it: its fields, and itself as `""`.

    >>> as_record({"price": 5}), as_record(7)
    ({'price': 5, '': {'price': 5}}, {'': 7})
    """
    return {**element, "": element} if type(element) is dict else {"": element}


def is_ordered(kind: Kind) -> bool:
    """Whether values of this kind are ordered among themselves."""
    return Kind.BOOL <= kind <= Kind.TIMESTAMP


def to_utc(moment: datetime) -> datetime:
    """A timestamp in UTC; one without a zone is taken to be UTC already."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_PLAIN = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"})


def literal_sql(value: Scalar) -> str:
    r"""A scalar as a Spark SQL literal that parses back to the same value.

    >>> print(literal_sql("it's"), literal_sql(2.5), literal_sql(b"\x01\xff"), literal_sql(True))
    'it\'s' 2.5 X'01FF' true
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        return repr(value)
    if isinstance(value, str):
        return f"'{value.translate(_PLAIN)}'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}'"


def name_sql(name: str) -> str:
    """An attribute name as SQL: parts that are not plain words are quoted.

    >>> name_sql("order.total"), name_sql("class"), name_sql("unit price")
    ('order.total', 'class', '`unit price`')
    """
    return ".".join(part if _is_plain(part) else f"`{part.replace('`', '``')}`" for part in name.split("."))


_RESERVED = frozenset((*WORDS, *VALUES, *REFUSED_WORDS))


def _is_plain(part: str) -> bool:
    return part.isascii() and part.isidentifier() and part.lower() not in _RESERVED
