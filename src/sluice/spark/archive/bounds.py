"""What a file of an archive can hold, in few numbers: for each attribute its least and its greatest value, and how many NULLs.

They are written into the table as Delta's statistics, and read back as a box of the algebra: a file whose box does not overlap
a subscription holds nothing for it. An attribute has bounds in a file only if all of its values there are in its column, so
that what is kept in `_rest` is never overlooked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from sluice.model.constraint import Constraint
from sluice.model.filter import Filter
from sluice.model.ordered import between, of_kind
from sluice.model.subscription import Subscription
from sluice.model.values import Kind
from sluice.spark.rows import META, REST

#: Attributes that have bounds, in the order of their columns: more would make the table's own log large.
MAX_BOUNDED = 64
#: Characters of a string in a bound.
MAX_TEXT = 64
_LAST_CHARACTER = "\U0010ffff"
_ORDERED = (arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_string, arrow.is_timestamp)


class Bound(NamedTuple):
    """The least and the greatest value of an attribute, None if it has none, and how many rows have it not."""

    low: Any
    high: Any
    nulls: int


def leaves(schema: pa.Schema) -> list[str]:
    """The dotted names of the attributes in a schema that can have bounds.

    >>> leaves(pa.schema([("price", pa.int64()), ("tags", pa.list_(pa.string())), ("order", pa.struct([("id", pa.int64())]))]))
    ['price', 'order.id']
    """
    return [*_leaves([*schema], "")][:MAX_BOUNDED]


def _leaves(fields: list[pa.Field], path: str) -> Iterator[str]:
    for field in fields:
        if arrow.is_struct(field.type):
            yield from _leaves([*field.type], f"{path}{field.name}.")
        elif any(test(field.type) for test in _ORDERED):
            yield f"{path}{field.name}"


class Bounds:
    """The bounds of the rows that were seen.

    >>> from sluice.protocol.batch import Records
    >>> from sluice.spark.rows import Layout
    >>> bounds = Bounds(pa.schema([("price", pa.int64())]))
    >>> bounds.add(Layout(pa.schema([("price", pa.int64())])).arrange(Records.of("a", 1, [{"price": 7}, {"price": 3}])))
    >>> bounds.found()["price"]
    Bound(low=3, high=7, nulls=0)
    """

    def __init__(self, attributes: pa.Schema) -> None:
        self.rows = 0
        self._found: dict[str, Bound] = {name: Bound(None, None, 0) for name in (*leaves(META), *leaves(attributes))}
        #: What was in `_rest`.
        self._elsewhere: set[str] = set()
        self._with_rest = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows are in the file."""
        self.rows += rows.num_rows
        rest = rows.column(REST.name)
        if rest.null_count < len(rest):
            self._with_rest += len(rest) - rest.null_count
            self._elsewhere.update(pc.unique(rest.drop_null().keys).to_pylist())
        for name, known in [*self._found.items()]:
            found = _bound(_column(rows, name))
            if found is None:
                del self._found[name]
            else:
                self._found[name] = _together(known, found)

    def found(self) -> dict[str, Bound]:
        """The bounds of each attribute that can be trusted to have no other values."""
        return {name: bound for name, bound in self._found.items() if not self._is_elsewhere(name)}

    def _is_elsewhere(self, name: str) -> bool:
        return any(
            other == name or other.startswith(f"{name}.") or name.startswith(f"{other}.") for other in self._elsewhere
        )

    def to_statistics(self) -> str:
        """The bounds as Delta writes them down."""
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        nulls: dict[str, Any] = {REST.name: self.rows - self._with_rest}
        for name, bound in self.found().items():
            low, high = _portable(bound.low, is_least=True), _portable(bound.high, is_least=False)
            if bound.low is None or (low is not None and high is not None):
                _put(nulls, name, bound.nulls)
                if bound.low is not None:
                    _put(least, name, low)
                    _put(greatest, name, high)
        return json.dumps({"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    first, *inner = name.split(".")
    column = rows.column(first)
    return pc.struct_field(column, inner) if inner else column


def _bound(column: pa.Array) -> Bound | None:
    """The bound of some values; None if there is none, because of a NaN, say, which compares with nothing."""
    if arrow.is_floating(column.type) and not pc.all(pc.is_finite(column.drop_null()), min_count=0).as_py():
        return None
    both = pc.min_max(column)
    return Bound(both["min"].as_py(), both["max"].as_py(), column.null_count)


def _together(a: Bound, b: Bound) -> Bound:
    nulls = a.nulls + b.nulls
    if a.low is None or b.low is None:
        known = b if a.low is None else a
        return Bound(known.low, known.high, nulls)
    return Bound(min(a.low, b.low), max(a.high, b.high), nulls)


def _put(tree: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        tree = tree.setdefault(part, {})
    tree[last] = value


def _portable(value: Any, *, is_least: bool) -> Any:
    """A bound as JSON; a long string is cut such that it stays a bound."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] if is_least else value[:MAX_TEXT] + _LAST_CHARACTER
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


# --- boxes ------------------------------------------------------------------------------------------------------------


def box(bounds: Mapping[str, Bound]) -> Filter:
    """The filter that all rows with these bounds satisfy.

    >>> print(box({"price": Bound(3, 7, 0), "symbol": Bound(None, None, 5)}))
    price BETWEEN 3 AND 7 AND symbol IS NULL
    """
    return Filter.of({name: _side(bound) for name, bound in bounds.items()})


def _side(bound: Bound) -> Constraint:
    if bound.low is None:
        return of_kind(Kind.NULL)
    low, high = _loosened(bound.low, -math.inf), _loosened(bound.high, math.inf)
    side: Constraint = between(low, high)
    if bound.nulls:
        wider = side.union(of_kind(Kind.NULL))
        assert wider is not None
        side = wider
    return side


def _loosened(value: Any, towards: float) -> Any:
    """A bound that holds also if a float was read from its text with the last digit wrong, as some readers do."""
    if isinstance(value, float):
        return math.nextafter(math.nextafter(value, towards), towards)
    return value


def may_hold(where: Subscription, rows: Filter) -> bool:
    """Whether something within a box may satisfy a subscription; if in doubt, yes."""
    return any(each.overlaps(rows) for each in where.filters)
