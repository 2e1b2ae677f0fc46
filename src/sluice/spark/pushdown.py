"""Push-down: the filters of a Spark query as far as the brokers can do them, so that what nobody wants is never sent.

A filter of Spark is about a *column*, and one of the brokers about an *attribute*, which is more: it may have a value that does
not fit the column, and then the column is NULL. Where every value that the broker's filter lets through fits (strings, bytes,
truth values), it is the same filter, and Spark leaves it to the brokers. Elsewhere (numbers, times, nested records) the brokers
let through at least what Spark wants, and Spark looks again. What has no equal in the language, Spark does alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

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
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from sluice.errors import SluiceError
from sluice.model import parse
from sluice.model.values import literal_sql, name_sql, to_utc
from sluice.protocol.batch import Peer
from sluice.spark.rows import META, REST

EVERYTHING = "true"


class Translated(NamedTuple):
    """A filter in the language of the brokers; `is_exact`: it selects the same rows as Spark's own."""

    text: str
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Pushdown:
    """What the brokers do, and what is left to Spark."""

    #: The whole filter that the brokers apply.
    where: str = EVERYTHING
    pushed: tuple[str, ...] = ()
    #: What Spark does itself, all of it or once more.
    kept: tuple[Filter, ...] = ()
    #: The only streams that are asked for, if some are; and the offsets that are.
    streams: frozenset[Peer] | None = None
    first: int = 0
    end: int | None = None

    def __str__(self) -> str:
        pushed, kept = " AND ".join(self.pushed) or "nothing", ", ".join(map(str, self.kept)) or "nothing"
        return f"pushed into the brokers: {pushed}; looked at by Spark: {kept}"

    def narrowed(self, stream: Peer, offsets: range) -> range:
        """The part of a stream that can hold what is asked for."""
        if self.streams is not None and stream not in self.streams:
            return range(offsets.start, offsets.start)
        end = offsets.stop if self.end is None else min(offsets.stop, self.end)
        return range(max(offsets.start, self.first), end)


def push(filters: Sequence[Filter], schema: StructType, where: str = EVERYTHING) -> Pushdown:
    """What of the filters of a query goes into the brokers, on top of what is asked of them already.

    >>> schema = StructType().add("symbol", "string").add("price", "double").add("note", "string")
    >>> print(push([EqualTo(("symbol",), "IBM"), GreaterThan(("price",), 120.0), IsNull(("note",))], schema))
    pushed into the brokers: symbol = 'IBM' AND (price > 120.0 OR isnan(price)); looked at by Spark: \
GreaterThan(attribute=('price',), value=120.0), IsNull(attribute=('note',))
    """
    result = Pushdown(where)
    for each in filters:
        result = _narrow(result, each)
        translated = translate(each, schema)
        if translated is not None:
            together = translated.text if result.where == EVERYTHING else f"({result.where}) AND {translated.text}"
            if _is_allowed(together):
                result = replace(result, where=together, pushed=(*result.pushed, translated.text))
                if translated.is_exact:
                    continue
        result = replace(result, kept=(*result.kept, each))
    return result


def _is_allowed(where: str) -> bool:
    """Whether a filter is within the limits of the language."""
    try:
        parse(where)
    except SluiceError:
        return False
    return True


# --- filters as text --------------------------------------------------------------------------------------------------

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
#: Columns that every value of their kind fits, so that a filter on the attribute is one on the column.
_EXACT = (StringType, BooleanType, BinaryType)
_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_STRING_TESTS: dict[type[Filter], str] = {
    StringStartsWith: "startswith",
    StringEndsWith: "endswith",
    StringContains: "contains",
}


def translate(each: Filter, schema: StructType) -> Translated | None:
    """A filter of Spark in the language, so that no row that Spark wants is missing; None if that cannot be said."""
    is_negated = isinstance(each, Not)
    inner = each.child if isinstance(each, Not) else each
    if is_negated and isinstance(inner, IsNull):
        return translate(IsNotNull(inner.attribute), schema)
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    kind = _type_of(path, schema)
    if kind is None or (is_negated and isinstance(inner, EqualNullSafe | IsNotNull)):
        return None  # these are true where the column is NULL, also of a value that does not fit
    name = name_sql(".".join(path))
    if isinstance(inner, IsNotNull):
        return Translated(f"{name} IS NOT NULL", is_exact=False)
    text = _text(inner, name, kind, is_negated)
    if text is None:
        return None
    if is_negated:
        text = f"NOT ({text})"
    if isinstance(kind, DoubleType) and is_negated != isinstance(inner, GreaterThan | GreaterThanOrEqual):
        # To Spark, NaN is greater than every number.
        text = f"({text} OR isnan({name}))"
    return Translated(text, is_exact=isinstance(kind, _EXACT) and len(path) == 1)


def _type_of(path: Sequence[str], schema: StructType) -> DataType | None:
    """The type of a column if it is an attribute's, and the name of that can be written."""
    if not path or path[0] in (*META.names, REST.name) or any("." in part or "\0" in part for part in path):
        return None
    kind: DataType = schema
    for part in path:
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    return kind


def _text(each: Filter, name: str, kind: DataType, is_negated: bool) -> str | None:
    """The test itself; None if the language has none."""
    if type(each) in _COMPARISONS:
        literal = _literal(each.value, kind)  # type: ignore[attr-defined]
        return None if literal is None else f"{name} {_COMPARISONS[type(each)]} {literal}"
    if isinstance(each, In):
        values = [value for value in each.value if value is not None]
        if not values or (is_negated and len(values) < len(each.value)):
            return None  # true of nothing, which Spark knows better
        literals = [_literal(value, kind) for value in values]
        return None if None in literals else f"{name} IN ({', '.join(map(str, literals))})"
    if type(each) in _STRING_TESTS and _is_plain_text(kind):
        return f"{_STRING_TESTS[type(each)]}({name}, {literal_sql(each.value)})"  # type: ignore[attr-defined]
    return None


def _literal(value: Any, kind: DataType) -> str | None:
    """A value that a column is compared with; None where Spark compares differently."""
    fits: bool
    match kind:
        case StringType():
            fits = type(value) is str and _is_plain_text(kind)
        case BooleanType():
            fits = type(value) is bool
        case BinaryType():
            fits = type(value) is bytes
        case DoubleType():
            fits = type(value) in (float, int) and not math.isnan(value)
        case TimestampType():
            return literal_sql(to_utc(value)) if isinstance(value, datetime) and value.tzinfo is not None else None
        case _:
            fits = isinstance(kind, _WHOLE) and type(value) is int
    return literal_sql(value) if fits else None


def _is_plain_text(kind: DataType) -> bool:
    """Whether strings are compared by their characters, and not by a collation."""
    return type(kind) is StringType and kind.collation == "UTF8_BINARY"


# --- where a row stands -----------------------------------------------------------------------------------------------


def _narrow(pushdown: Pushdown, each: Filter) -> Pushdown:
    """The same, with fewer streams and offsets to look at; Spark looks at these filters again."""
    match each:
        case EqualTo(attribute=("_stream",), value=str(stream)):
            return _only(pushdown, [stream])
        case In(attribute=("_stream",), value=streams):
            return _only(pushdown, streams)
        case EqualTo(attribute=("_offset",), value=int(offset)):
            return _between(pushdown, offset, offset + 1)
        case GreaterThan(attribute=("_offset",), value=int(offset)):
            return _between(pushdown, offset + 1, None)
        case GreaterThanOrEqual(attribute=("_offset",), value=int(offset)):
            return _between(pushdown, offset, None)
        case LessThan(attribute=("_offset",), value=int(offset)):
            return _between(pushdown, 0, offset)
        case LessThanOrEqual(attribute=("_offset",), value=int(offset)):
            return _between(pushdown, 0, offset + 1)
    return pushdown


def _only(pushdown: Pushdown, streams: Sequence[Any]) -> Pushdown:
    named = frozenset(streams)
    return replace(pushdown, streams=named if pushdown.streams is None else named & pushdown.streams)


def _between(pushdown: Pushdown, first: int, end: int | None) -> Pushdown:
    ends = [each for each in (pushdown.end, end) if each is not None]
    return replace(pushdown, first=max(pushdown.first, first), end=min(ends) if ends else None)
