"""The two matcher workloads W1 and W2, always the same: fixed seeds, known numbers of matches.

Subscriptions are kept as columns, so that every system can be given the form that suits it best: the WHERE text
(`Workload.where`), or the columns themselves (`W1Subscriptions`, `W2Subscriptions`). A size is a prefix of one
million: the random numbers of the whole million are always drawn, only the prefix is worked out.

- W1, stock quotes: ``symbol = s AND price BETWEEN l AND h``, half of them with a list of 2 to 4 exchanges, a fifth with
  a floor for the volume. Symbols follow Zipf's law. One equality, many matches.
- W2, twenty attributes: 3 to 7 of them constrained, an equality on the categorical ``c0`` to ``c9`` (values follow
  Zipf's law), a closed range on the numeric ``n0`` to ``n9``; a notification has 15 of the 20. Few matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SUBSCRIPTIONS = 1_000_000
NOTIFICATIONS = 10_000
BATCH = 1_024
SIZES = (1_000, 10_000, 100_000, 1_000_000)

W2_CATEGORICAL = tuple(f"c{k}" for k in range(10))
W2_NUMERIC = tuple(f"n{k}" for k in range(10))
W2_ATTRIBUTES = W2_CATEGORICAL + W2_NUMERIC

Record = dict[str, str | int | float]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class W1Subscriptions:
    """The columns of W1: row i is subscription i."""

    symbol: Ints
    low: Floats
    high: Floats
    exchange: Bools
    """One row per subscription, one column per exchange; all False where the exchange is not constrained."""
    has_volume: Bools
    volume: Ints

    def __len__(self) -> int:
        return len(self.symbol)

    def exchanges(self, row: int) -> list[str]:
        """The listed exchanges of a subscription, empty when any exchange will do."""
        return [f"X{k}" for k in np.flatnonzero(self.exchange[row])]

    def where(self, row: int) -> str:
        """The subscription as the WHERE of a query."""
        text = f"symbol = 'S{self.symbol[row]}' AND price BETWEEN {self.low[row]} AND {self.high[row]}"
        if names := self.exchanges(row):
            text += " AND exchange IN (" + ", ".join(f"'{name}'" for name in names) + ")"
        if self.has_volume[row]:
            text += f" AND volume > {self.volume[row]}"
        return text

    def matching(self, record: Record) -> Ints:
        """The ids that match, by trying all of them: slow, plain, the reference for everybody."""
        price, volume = float(record["price"]), int(record["volume"])
        exchange = self.exchange[:, int(str(record["exchange"])[1:])] | ~self.exchange.any(axis=1)
        symbol = self.symbol == int(str(record["symbol"])[1:])
        inside = (self.low <= price) & (price <= self.high)
        return np.flatnonzero(symbol & inside & exchange & (~self.has_volume | (self.volume < volume)))


@dataclass(frozen=True, slots=True)
class W2Subscriptions:
    """The columns of W2: row i is subscription i; columns are terms in the order of the text."""

    count: Ints
    attribute: Ints
    """Which of the twenty attributes a term constrains: below 10 categorical, else numeric."""
    value: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.count)

    def terms(self, row: int) -> Iterator[tuple[str, str | tuple[int, int]]]:
        """The terms of a subscription: an attribute, and its value or its closed range."""
        for term in range(self.count[row]):
            name = W2_ATTRIBUTES[self.attribute[row, term]]
            if name in W2_CATEGORICAL:
                yield name, f"v{self.value[row, term]}"
            else:
                yield name, (int(self.low[row, term]), int(self.high[row, term]))

    def where(self, row: int) -> str:
        """The subscription as the WHERE of a query."""
        return " AND ".join(
            f"{name} = '{wanted}'" if isinstance(wanted, str) else f"{name} BETWEEN {wanted[0]} AND {wanted[1]}"
            for name, wanted in self.terms(row)
        )

    def matching(self, record: Record) -> Ints:
        """The ids that match, by trying all of them: slow, plain, the reference for everybody."""
        # A missing attribute gets a value that no term accepts.
        value = np.array([int(str(record.get(name, "v-1"))[1:]) for name in W2_CATEGORICAL] + [-1] * 10)
        number = np.array([-1] * 10 + [int(record.get(name, -1)) for name in W2_NUMERIC])
        wanted = np.arange(self.attribute.shape[1]) < self.count[:, None]
        equal = (self.attribute < 10) & (self.value == value[self.attribute])
        point = number[self.attribute]
        inside = (self.attribute >= 10) & (self.low <= point) & (point <= self.high)
        return np.flatnonzero((equal | inside | ~wanted).all(axis=1))


Subscriptions = W1Subscriptions | W2Subscriptions


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload: how to make its subscriptions and notifications, and how many matches there are."""

    name: str
    subscriptions: Callable[[int], Subscriptions]
    notifications: Callable[[], list[Record]]
    schema: pa.Schema
    matches: Mapping[int, int]
    """Number of subscriptions -> total matches of all the notifications."""

    def batches(self, records: list[Record]) -> list[pa.RecordBatch]:
        """The records as Arrow batches with plain string columns; a missing attribute is null."""
        columns = {field.name: [record.get(field.name) for record in records] for field in self.schema}
        table = pa.table({name: pa.array(column, self.schema.field(name).type) for name, column in columns.items()})
        return [
            pa.RecordBatch.from_arrays(
                [column.slice(start, BATCH).combine_chunks() for column in table.columns], schema=self.schema
            )
            for start in range(0, len(records), BATCH)
        ]


def zipf(rng: np.random.Generator, values: int, size: int | tuple[int, ...]) -> Ints:
    """Zipf's law with exponent 1: value k (from 0) has weight 1 / (k + 1)."""
    weight = 1 / np.arange(1, values + 1)
    return rng.choice(values, size=size, p=weight / weight.sum())


def w1_subscriptions(size: int = SUBSCRIPTIONS) -> W1Subscriptions:
    """The first `size` subscriptions of W1."""
    rng, n, kept = np.random.default_rng(20260101), SUBSCRIPTIONS, slice(size)
    symbol = zipf(rng, 1000, n)[kept]
    low = np.round(50 - rng.uniform(0, 50, n)[kept], 2)
    high = np.round(50 + rng.uniform(0, 50, n)[kept], 2)
    has_exchange = rng.random(n)[kept] < 0.5
    listed = rng.integers(2, 5, n)[kept]
    # The exchanges of a subscription are the first `listed` of a random order of the ten.
    order = np.argsort(rng.random((n, 10))[kept], axis=1)[:, :4]
    exchange = np.zeros((len(symbol), 10), dtype=np.bool_)
    np.put_along_axis(exchange, order, np.arange(4) < listed[:, None], axis=1)
    has_volume = rng.random(n)[kept] < 0.2
    volume = rng.integers(0, 10001, n)[kept]
    return W1Subscriptions(symbol, low, high, exchange & has_exchange[:, None], has_volume, volume)


def w1_notifications() -> list[Record]:
    """The 10,000 quotes of W1."""
    rng, n = np.random.default_rng(20260102), NOTIFICATIONS
    symbol = zipf(rng, 1000, n).tolist()
    price = np.round(rng.uniform(0, 100, n), 2).tolist()
    volume = rng.integers(0, 10001, n).tolist()
    exchange = rng.integers(0, 10, n).tolist()
    return [
        {"type": "quote", "symbol": f"S{s}", "price": p, "volume": v, "exchange": f"X{x}"}
        for s, p, v, x in zip(symbol, price, volume, exchange, strict=True)
    ]


def w2_subscriptions(size: int = SUBSCRIPTIONS) -> W2Subscriptions:
    """The first `size` subscriptions of W2."""
    rng, n, kept = np.random.default_rng(20260201), SUBSCRIPTIONS, slice(size)
    count = rng.integers(3, 8, n)[kept]
    attribute = np.argsort(rng.random((n, 20))[kept], axis=1)[:, :7]
    value = zipf(rng, 100, (n, 7))[kept]
    bounds = np.sort(rng.integers(0, 1001, (n, 7, 2))[kept], axis=2)
    return W2Subscriptions(count, attribute, value, bounds[..., 0], bounds[..., 1])


def w2_notifications() -> list[Record]:
    """The 10,000 records of W2, each with 15 of the 20 attributes."""
    rng, n = np.random.default_rng(20260202), NOTIFICATIONS
    chosen = np.sort(np.argsort(rng.random((n, 20)), axis=1)[:, :15], axis=1).tolist()
    value = zipf(rng, 100, (n, 20)).tolist()
    number = rng.integers(0, 1001, (n, 20)).tolist()
    return [
        {W2_ATTRIBUTES[a]: f"v{values[a]}" if W2_ATTRIBUTES[a] in W2_CATEGORICAL else numbers[a] for a in attributes}
        for attributes, values, numbers in zip(chosen, value, number, strict=True)
    ]


def _known(*counts: int) -> Mapping[int, int]:
    return MappingProxyType(dict(zip(SIZES, counts, strict=True)))


W1 = Workload(
    "w1",
    w1_subscriptions,
    w1_notifications,
    pa.schema(
        [
            ("type", pa.string()),
            ("symbol", pa.string()),
            ("price", pa.float64()),
            ("volume", pa.int64()),
            ("exchange", pa.string()),
        ]
    ),
    _known(92_233, 839_452, 8_269_245, 83_575_609),
)
W2 = Workload(
    "w2",
    w2_subscriptions,
    w2_notifications,
    pa.schema([(name, pa.string() if name in W2_CATEGORICAL else pa.int64()) for name in W2_ATTRIBUTES]),
    _known(8_606, 66_372, 671_961, 6_550_485),
)
WORKLOADS: Mapping[str, Workload] = MappingProxyType({workload.name: workload for workload in (W1, W2)})
