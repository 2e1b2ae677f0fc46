"""A filter as a predicate of Spark SQL on the columns of an archive, so that Spark's own reader does what columns can tell.

Of the rows whose values are all in their columns, those that satisfy the filter satisfy the predicate; if it is exact, no
others do. What columns cannot tell is left out: more rows pass, and a matcher decides about them. Spark orders some values
otherwise than we do (NaN above all numbers, -0.0 below 0.0 in the dictionaries of Parquet) and compares a whole number with a
double as doubles, so the ends of intervals are moved to values of the column's own type, where both agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow

from sluice.model.constraint import AllOf, Constraint, Negation
from sluice.model.filter import Filter
from sluice.model.nan import IsNan
from sluice.model.ordered import Cut, Ordered, of_kind
from sluice.model.pattern import Pattern, Wild, spelled
from sluice.model.subscription import Subscription
from sluice.model.values import Kind, Scalar

#: Characters of a predicate: a longer one takes Spark more time to compile than it saves.
MAX_CHARACTERS = 50_000


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition of Spark SQL; `is_exact`: whatever it selects satisfies the filter."""

    text: str
    is_exact: bool


_TRUE, _FALSE, _UNTOLD = Predicate("true", True), Predicate("false", True), Predicate("true", False)


def predicate(where: Subscription, attributes: pa.Schema) -> Predicate:
    """What the columns of a table can tell about a filter.

    >>> from sluice.model import parse
    >>> quotes = pa.schema([("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int64())])
    >>> predicate(parse("symbol = 'IBM' AND volume > 2.5"), quotes)
    Predicate(text="(`symbol` = 'IBM' AND `volume` >= 3L)", is_exact=True)
    >>> predicate(parse("price > 7 AND price * volume > 100"), quotes)
    Predicate(text="((`price` > 7.0D AND `price` <= double('Infinity')) AND `volume` IS NOT NULL)", is_exact=False)
    """
    columns = _columns(attributes)
    found = _any(_box(box, columns) for box in where.filters)
    return found if len(found.text) <= MAX_CHARACTERS else _UNTOLD


def names(where: Subscription) -> frozenset[str]:
    """The attributes that a predicate for this filter asks about."""
    return frozenset(
        each for box in where.filters for name, side in box.constraints.items() for each in (name, *side.implied(name))
    )


def micros(moment: datetime) -> str:
    """A moment as a literal that no time zone of a session can shift."""
    return f"timestamp_micros({(moment - _EPOCH) // timedelta(microseconds=1)}L)"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- filters ----------------------------------------------------------------------------------------------------------


def _box(box: Filter, columns: _Columns) -> Predicate:
    sides = [_side(name, side, columns) for name, side in box.constraints.items()]
    return _all([*sides, *(_UNTOLD for _ in box.residuals)])


def _side(name: str, side: Constraint, columns: _Columns) -> Predicate:
    column = columns.get(name, _MISSING)
    match side:
        case Ordered():
            return column.within(side)
        case AllOf(parts):
            return _all(_side(name, part, columns) for part in parts)
        case IsNan():
            return column.within(of_kind(Kind.NAN))
        case Negation(IsNan()):
            return column.within(of_kind(Kind.NUMBER))
        case Pattern() if column.kind == Kind.STRING:
            return Predicate(_like(column.sql, side), True)
        case Negation(Pattern() as pattern) if column.kind == Kind.STRING:
            return Predicate(f"NOT {_like(column.sql, pattern)}", True)
    around = _all(columns.get(other, _MISSING).within(hull) for other, hull in side.implied(name).items())
    return around if around == _FALSE else Predicate(around.text, False)


def _like(column: str, pattern: Pattern) -> str:
    match pattern.tokens:
        case (Wild.RUN, str(text)):
            return f"endswith({column}, {_text(text)})"
        case (Wild.RUN, str(text), Wild.RUN):
            return f"contains({column}, {_text(text)})"
    return f"({column} LIKE {_text(spelled(pattern.tokens))})"


def _all(parts: Iterable[Predicate]) -> Predicate:
    given = [*parts]
    if _FALSE in given:
        return _FALSE
    texts = [part.text for part in given if part.text != "true"]
    return Predicate(_joined(texts, "AND") or "true", all(part.is_exact for part in given))


def _any(parts: Iterable[Predicate]) -> Predicate:
    given = [part for part in parts if part != _FALSE]
    if not given or _TRUE in given:
        return _TRUE if given else _FALSE
    texts = [part.text for part in given]
    return Predicate("true" if "true" in texts else _joined(texts, "OR"), all(part.is_exact for part in given))


def _joined(texts: list[str], word: str) -> str:
    return texts[0] if len(texts) == 1 else f"({f' {word} '.join(texts)})" if texts else ""


# --- columns ----------------------------------------------------------------------------------------------------------


class _Column:
    """A column of an attribute; this one is of an attribute that has none, so that it is always missing."""

    kind = Kind.NULL

    def __init__(self, sql: str = "") -> None:
        self.sql = sql

    def within(self, values: Ordered) -> Predicate:
        """That the value is one of these, all of which may be of other kinds."""
        return _TRUE if values.contains_point(Kind.NULL, 0) else _FALSE


_MISSING = _Column()
#: By the dotted names of attributes.
_Columns = Mapping[str, _Column]


class _Unclear(_Column):
    """Something of which columns tell nothing: two of them are of the same attribute, say."""

    def within(self, values: Ordered) -> Predicate:
        return _UNTOLD


class _Record(_Column):
    """A struct. Spark tells whether one is there by the parts that it reads, which a file may lack: we do not ask it."""

    kind = Kind.RECORD

    def within(self, values: Ordered) -> Predicate:
        some, none = values.contains_point(Kind.RECORD, 0), values.contains_point(Kind.NULL, 0)
        return _UNTOLD if some != none else _TRUE if some else _FALSE


class _Values(_Column):
    """A column with values of one kind, of which all or none are wanted."""

    def __init__(self, sql: str, kind: Kind) -> None:
        super().__init__(sql)
        self.kind = kind

    def within(self, values: Ordered) -> Predicate:
        inside, is_whole = self._inside(values)
        terms = [f"{self.sql} IS NOT NULL"] if is_whole else inside
        if values.contains_point(Kind.NULL, 0):
            if is_whole:
                return _TRUE
            terms = [f"{self.sql} IS NULL", *terms]
        return Predicate(_joined(terms, "OR"), True) if terms else _FALSE

    def _inside(self, values: Ordered) -> tuple[list[str], bool]:
        """Tests that hold for the values of this kind that are wanted, and whether all of them are."""
        return [], values.contains_point(self.kind, 0)


class _Scale(_Values):
    """A column with ordered values: texts, bytes, times and truth values, which Spark orders as we do."""

    def __init__(self, sql: str, kind: Kind, literal: Callable[[Any], str]) -> None:
        super().__init__(sql, kind)
        self._literal = literal

    def _inside(self, values: Ordered) -> tuple[list[str], bool]:
        part = values.intersection(of_kind(self.kind))
        return self._tests(part), part == of_kind(self.kind)

    def _tests(self, part: Ordered) -> list[str]:
        points: list[Scalar] = []
        others = []
        for low, high in part.intervals():
            only = Ordered((low, high)).points()
            if only is not None:
                points += only
            else:
                others.append(self._between(low, high))
        return [*self._among([self._literal(value) for value in points]), *others]

    def _among(self, literals: list[str]) -> list[str]:
        if len(literals) < 2:
            return [f"{self.sql} = {literal}" for literal in literals]
        return [f"{self.sql} IN ({', '.join(literals)})"]

    def _between(self, low: Cut, high: Cut) -> str:
        ends = [f"{self.sql} {'>' if low[2] else '>='} {self._literal(low[1])}"] if len(low) == 3 else []
        ends += [f"{self.sql} {'<=' if high[2] else '<'} {self._literal(high[1])}"] if len(high) == 3 else []
        return _joined(ends, "AND")


class _Whole(_Scale):
    """A column of whole numbers: every end becomes the whole number that is just inside."""

    def __init__(self, sql: str, bits: int) -> None:
        suffix = {8: "Y", 16: "S", 64: "L"}.get(bits, "")
        super().__init__(sql, Kind.NUMBER, lambda value: f"{value}{suffix}")
        self._least, self._end = -(1 << bits - 1), 1 << bits - 1

    def _inside(self, values: Ordered) -> tuple[list[str], bool]:
        points, others, is_whole = [], [], False
        for low, high in values.intersection(of_kind(Kind.NUMBER)).intervals():
            first, end = self._first_above(low), self._first_above(high)
            if first == self._least and end == self._end:
                is_whole = True
            elif first + 1 == end:
                points.append(self._literal(first))
            elif first < end:
                ends = [f"{self.sql} >= {self._literal(first)}"] if first > self._least else []
                ends += [f"{self.sql} <= {self._literal(end - 1)}"] if end < self._end else []
                others.append(_joined(ends, "AND"))
        return [*self._among(points), *others], is_whole

    def _first_above(self, cut: Cut) -> int:
        """The least number of the column's type that lies above a cut; one more than the greatest if there is none."""
        if len(cut) == 1:
            return self._least if cut[0] == Kind.NUMBER else self._end
        value, side = cut[1], cut[2]
        if isinstance(value, float) and math.isinf(value):
            return self._least if value < 0 else self._end
        above: int = math.floor(value) + 1 if side else math.ceil(value)
        return min(max(above, self._least), self._end)


class _Double(_Scale):
    """A column of doubles, NaN among them: every end becomes a double, and what has no greatest value ends at infinity."""

    def __init__(self, sql: str) -> None:
        super().__init__(sql, Kind.NUMBER, _double)

    def _inside(self, values: Ordered) -> tuple[list[str], bool]:
        part = values.intersection(of_kind(Kind.NUMBER))
        has_nan = values.contains_point(Kind.NAN, 0)
        points, others = [], []
        for low, high in part.intervals():
            first, last = _to_double(low), _to_double(high)
            if first[0] == last[0] != 0 and first < last:
                points.append(self._literal(first[0]))
            elif first < last:
                others.append(self._range(first, last))
        nan = [f"isnan({self.sql})"] if has_nan else []
        return [*self._among(points), *others, *nan], has_nan and part == of_kind(Kind.NUMBER)

    def _range(self, first: tuple[float, int], last: tuple[float, int]) -> str:
        ends = []
        if first != (-math.inf, 0):
            # The dictionaries of Parquet have -0.0 below 0.0, and a row group is left out by its dictionary.
            least = "-0.0D" if first == (0.0, 0) else self._literal(first[0])
            ends.append(f"{self.sql} {'>' if first[1] else '>='} {least}")
        ends.append(f"{self.sql} {'<=' if last[1] else '<'} {self._literal(last[0])}")
        return _joined(ends, "AND")


def _to_double(cut: Cut) -> tuple[float, int]:
    """A cut of numbers as one of doubles: between the same two of them."""
    if len(cut) == 1:
        return (-math.inf, 0) if cut[0] == Kind.NUMBER else (math.inf, 1)
    value, side = cut[1], cut[2]
    try:
        near = float(value)
    except OverflowError:
        return (math.inf, 0) if value > 0 else (-math.inf, 1)
    return (near, side) if near == value else (near, 1 if near < value else 0)


def _columns(attributes: pa.Schema) -> dict[str, _Column]:
    found: dict[str, _Column] = {}
    for name, column in _walk([*attributes], "", ""):
        found[name] = _Unclear() if name in found else column
    return found


def _walk(fields: Iterable[pa.Field], path: str, sql: str) -> Iterator[tuple[str, _Column]]:
    for field in fields:
        name, quoted = f"{path}{field.name}", f"{sql}`{field.name.replace('`', '``')}`"
        yield name, _column(quoted, field.type)
        if arrow.is_struct(field.type):
            yield from _walk(field.type, f"{name}.", f"{quoted}.")


def _column(sql: str, kind: pa.DataType) -> _Column:
    if arrow.is_boolean(kind):
        return _Scale(sql, Kind.BOOL, lambda value: "true" if value else "false")
    if arrow.is_integer(kind):
        return _Whole(sql, kind.bit_width)
    if arrow.is_float64(kind):
        return _Double(sql)
    if arrow.is_string(kind):
        return _Scale(sql, Kind.STRING, _text)
    if arrow.is_binary(kind):
        return _Scale(sql, Kind.BYTES, _bytes)
    if arrow.is_timestamp(kind):
        return _Scale(sql, Kind.TIMESTAMP, micros)
    return _Values(sql, Kind.MULTI) if arrow.is_list(kind) else _Record(sql)


# --- literals ---------------------------------------------------------------------------------------------------------


def _text(value: str) -> str:
    """A text. How quotes and backslashes are read is a setting of Spark: what has such is given by its bytes."""
    if value.isascii() and value.isprintable() and not {"'", "\\"} & {*value}:
        return f"'{value}'"
    return f"string({_bytes(_encodable(value).encode())})"


def _encodable(value: str) -> str:
    """The end of an interval may be a surrogate by itself, which no text has: it ends before the first that texts have."""
    for place, character in enumerate(value):
        if "\ud800" <= character <= "\udfff":
            return value[:place] + "\ue000"
    return value


def _bytes(value: bytes) -> str:
    return f"X'{value.hex().upper()}'"


def _double(value: float) -> str:
    if math.isinf(value):
        return f"double('{'-' if value < 0 else ''}Infinity')"
    return f"{value + 0.0!r}D"  # -0.0 + 0.0 is 0.0
