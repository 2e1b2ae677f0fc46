"""The subscriptions as tables for the joins of DuckDB and Polars.

Two styles. *Nullable*: what one writes first, a column per constraint and null for "not constrained". *Encoded*:
strings become small numbers and "not constrained" becomes an interval that holds everything, also the code of a missing
value, so that each constraint is one comparison without a case for null; rows get a join key and are sorted by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.workloads import W1Subscriptions, W2Subscriptions

#: The bit of an exchange that no subscription lists; "not constrained" has this bit too.
OTHER_EXCHANGE = 1 << 10
#: Codes of what a notification does not have: below everything that a constrained subscription accepts.
NO_VALUE, NO_NUMBER, NO_VOLUME = -2, -1, -1
#: Above every code.
TOP = 2_000
#: Ranges are cut into bins of this width where they serve as a join key.
BIN = 50
#: Room for the values (or bins) of one attribute in a key.
STRIDE = 100

Integers = npt.NDArray[Any]


def w1_nullable(subscriptions: W1Subscriptions) -> pa.Table:
    """id, symbol, low, high, exchanges (a list or null), volume (or null)."""
    rows = range(len(subscriptions))
    return pa.table(
        {
            "id": pa.array(rows, pa.int32()),
            "symbol": pa.array([f"S{k}" for k in subscriptions.symbol.tolist()]),
            "low": subscriptions.low,
            "high": subscriptions.high,
            "exchanges": pa.array([subscriptions.exchanges(row) or None for row in rows], pa.list_(pa.string())),
            "volume": pa.array(subscriptions.volume, mask=~subscriptions.has_volume),
        }
    )


def w1_encoded(subscriptions: W1Subscriptions) -> pa.Table:
    """id, symbol, low, high, mask (a bit per exchange), floor (of the volume)."""
    listed = subscriptions.exchange
    mask = np.where(listed.any(axis=1), listed @ (1 << np.arange(10)), 2 * OTHER_EXCHANGE - 1)
    return pa.table(
        {
            "id": pa.array(range(len(subscriptions)), pa.int32()),
            "symbol": pa.array([f"S{k}" for k in subscriptions.symbol.tolist()]),
            "low": subscriptions.low,
            "high": subscriptions.high,
            "mask": mask.astype(np.int16),
            "floor": np.where(subscriptions.has_volume, subscriptions.volume, NO_VOLUME - 1).astype(np.int16),
        }
    )


def _w2_by_attribute(subscriptions: W2Subscriptions) -> tuple[Integers, Integers, Integers]:
    """One column per attribute: the value, the low and the high end; NO_VALUE, NO_NUMBER, TOP where unconstrained."""
    size = len(subscriptions)
    value = np.full((size, 10), NO_VALUE, np.int16)
    low, high = np.full((size, 10), NO_NUMBER, np.int16), np.full((size, 10), TOP, np.int16)
    used = np.arange(subscriptions.attribute.shape[1]) < subscriptions.count[:, None]
    row, term = np.nonzero(used & (subscriptions.attribute < 10))
    value[row, subscriptions.attribute[row, term]] = subscriptions.value[row, term]
    row, term = np.nonzero(used & (subscriptions.attribute >= 10))
    low[row, subscriptions.attribute[row, term] - 10] = subscriptions.low[row, term]
    high[row, subscriptions.attribute[row, term] - 10] = subscriptions.high[row, term]
    return value, low, high


def w2_nullable(subscriptions: W2Subscriptions) -> pa.Table:
    """id, c0 to c9 (a value or null), low0 to low9 and high0 to high9 (ends or null)."""
    value, low, high = _w2_by_attribute(subscriptions)
    names = np.array([f"v{k}" for k in range(STRIDE)], dtype=object)
    columns: dict[str, Any] = {"id": pa.array(range(len(subscriptions)), pa.int32())}
    for a in range(10):
        columns[f"c{a}"] = pa.array(names[value[:, a]], pa.string(), mask=value[:, a] < 0)
        columns[f"low{a}"] = pa.array(low[:, a], mask=low[:, a] < 0)
        columns[f"high{a}"] = pa.array(high[:, a], mask=low[:, a] < 0)
    return pa.table(columns)


class W2Encoded:
    """The encoded tables of W2, by the join key that finds their rows."""

    def __init__(self, subscriptions: W2Subscriptions) -> None:
        value, self._low, self._high = _w2_by_attribute(subscriptions)
        columns: dict[str, Any] = {"id": pa.array(range(len(subscriptions)), pa.int32())}
        for a in range(10):
            columns[f"from{a}"] = value[:, a]
            columns[f"to{a}"] = np.where(value[:, a] < 0, np.int16(TOP), value[:, a])
            columns[f"low{a}"], columns[f"high{a}"] = self._low[:, a], self._high[:, a]
        self._table = pa.table(columns)
        # Of each row its equalities, rarest first, as keys: attribute and value in one number.
        key = np.where(value < 0, -1, np.arange(10) * STRIDE + value.astype(np.int32))
        often = np.bincount(key[key >= 0], minlength=10 * STRIDE)
        rarest = np.argsort(np.where(key < 0, np.iinfo(np.int64).max, often[key]), axis=1, kind="stable")[:, :2]
        first, second = np.take_along_axis(key, rarest, axis=1).T
        self._single = first
        self._pair = np.where(second < 0, -1, np.minimum(first, second) * 10 * STRIDE + np.maximum(first, second))

    def _keyed(self, rows: Integers, keys: Integers) -> pa.Table:
        table = self._table.take(pa.array(rows)).append_column("key", pa.array(keys, pa.int32()))
        return table.sort_by("key")

    def equalities(self) -> pa.Table:
        """All rows with an equality, by the rarest."""
        rows = np.flatnonzero(self._single >= 0)
        return self._keyed(rows, self._single[rows])

    def pairs(self) -> pa.Table:
        """The rows with two equalities or more, by the two rarest."""
        rows = np.flatnonzero(self._pair >= 0)
        return self._keyed(rows, self._pair[rows])

    def singles(self) -> pa.Table:
        """The rows with just one equality, by it."""
        rows = np.flatnonzero((self._single >= 0) & (self._pair < 0))
        return self._keyed(rows, self._single[rows])

    def others(self) -> pa.Table:
        """The rows without an equality."""
        return self._table.take(pa.array(np.flatnonzero(self._single < 0)))

    def bins(self) -> pa.Table:
        """The rows without an equality, once for each bin that the narrowest range touches."""
        rows = np.flatnonzero(self._single < 0)
        low, high = self._low[rows].astype(np.int64), self._high[rows].astype(np.int64)
        narrowest = np.argmin(np.where(low < 0, TOP, high - low), axis=1)
        at = np.arange(len(rows))
        first = low[at, narrowest] // BIN
        touched = high[at, narrowest] // BIN - first + 1
        repeated = np.repeat(at, touched)
        offset = np.arange(len(repeated)) - np.repeat(np.cumsum(touched) - touched, touched)
        return self._keyed(rows[repeated], narrowest[repeated] * STRIDE + first[repeated] + offset)
