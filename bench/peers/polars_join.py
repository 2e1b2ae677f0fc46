"""Polars: the subscriptions are a data frame, made once; each batch of notifications is joined with it, lazily.

One thread (the environment says so before Polars is imported) and the streaming engine, which from 100,000
subscriptions on was 1.3 to 5 times as fast as the in-memory one. The formulations are those of the DuckDB peer; see
``bench/README.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from bench.peers import columns
from bench.peers.columns import BIN, NO_NUMBER, NO_VALUE, NO_VOLUME, OTHER_EXCHANGE, STRIDE, W2Encoded
from bench.timing import Runner
from bench.workloads import Subscriptions, W1Subscriptions, W2Subscriptions

Join = Callable[[pa.RecordBatch], pl.DataFrame]

_ALL = range(10)


def build(workload: str, formulation: str, subscriptions: Subscriptions) -> Runner:
    """Makes the data frames of a formulation."""
    match subscriptions:
        case W1Subscriptions():
            join = _w1(subscriptions)
        case W2Subscriptions():
            join = {"rarest equality": _w2_equality, "pairs and bins": _w2_pairs}[formulation](subscriptions)
    return Runner(join, lambda pairs: int(pairs.height), _ids)


def _ids(pairs: pl.DataFrame, events: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(events)]
    for i, id in pairs.select("i", "id").iter_rows():
        found[i].append(id)
    return found


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _w1(subscriptions: W1Subscriptions) -> Join:
    frame = _frame(columns.w1_encoded(subscriptions))
    symbols = pl.Enum(frame["symbol"].unique().sort())
    table = frame.with_columns(pl.col("symbol").cast(symbols)).sort("symbol", "low").lazy()
    bits = {f"X{k}": 1 << k for k in _ALL}
    matches = (
        pl.col("price").is_between("low", "high")
        & (pl.col("volume") > pl.col("floor"))
        & ((pl.col("mask") & pl.col("bit")) != 0)
    )

    def join(batch: pa.RecordBatch) -> pl.DataFrame:
        quotes = (
            _frame(pa.Table.from_batches([batch]))
            .lazy()
            .select(
                pl.int_range(pl.len(), dtype=pl.Int32).alias("i"),
                pl.col("symbol").cast(symbols, strict=False),
                "price",
                pl.col("volume").fill_null(NO_VOLUME),
                pl.col("exchange")
                .replace_strict(bits, default=OTHER_EXCHANGE, return_dtype=pl.Int16)
                .fill_null(OTHER_EXCHANGE)
                .alias("bit"),
            )
        )
        return table.join(quotes, on="symbol").filter(matches).select("i", "id").collect(engine="streaming")

    return join


_VALUES = pl.Enum([f"v{k}" for k in range(STRIDE)])
_W2_INSIDE = pl.all_horizontal(pl.col(f"n{a}").is_between(f"low{a}", f"high{a}") for a in _ALL)
_W2_EQUAL = pl.all_horizontal(pl.col(f"c{a}").is_between(f"from{a}", f"to{a}") for a in _ALL)


def _w2_notifications(batch: pa.RecordBatch) -> pl.DataFrame:
    """The notifications with their values as codes."""
    code = [pl.col(f"c{a}").cast(_VALUES, strict=False).to_physical().cast(pl.Int16) for a in _ALL]
    return _frame(pa.Table.from_batches([batch])).select(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("i"),
        *(code[a].fill_null(NO_VALUE).alias(f"c{a}") for a in _ALL),
        *(pl.col(f"n{a}").cast(pl.Int16).fill_null(NO_NUMBER) for a in _ALL),
    )


def _equality_key(a: int) -> pl.Expr:
    return pl.col(f"c{a}").cast(pl.Int32) + a * STRIDE


_SINGLES = [pl.when(pl.col(f"c{a}") >= 0).then(_equality_key(a)) for a in _ALL]
_PAIRS = [
    pl.when((pl.col(f"c{a}") >= 0) & (pl.col(f"c{b}") >= 0)).then(_equality_key(a) * (10 * STRIDE) + _equality_key(b))
    for a in _ALL
    for b in range(a + 1, 10)
]
_BINS = [pl.when(pl.col(f"n{a}") >= 0).then(pl.col(f"n{a}").cast(pl.Int32) // BIN + a * STRIDE) for a in _ALL]


def _keyed(notifications: pl.DataFrame, keys: Sequence[pl.Expr]) -> pl.LazyFrame:
    """The notifications once for each of their keys."""
    listed = notifications.lazy().with_columns(key=pl.concat_list(keys).list.drop_nulls())
    return listed.explode("key").filter(pl.col("key").is_not_null())


def _matched(joined: pl.LazyFrame, matches: pl.Expr) -> pl.LazyFrame:
    return joined.filter(matches).select("i", "id")


def _w2_equality(subscriptions: W2Subscriptions) -> Join:
    encoded = W2Encoded(subscriptions)
    equalities, others = _frame(encoded.equalities()).lazy(), _frame(encoded.others()).lazy()

    def join(batch: pa.RecordBatch) -> pl.DataFrame:
        n = _w2_notifications(batch)
        found = (
            _matched(_keyed(n, _SINGLES).join(equalities, on="key"), _W2_INSIDE & _W2_EQUAL),
            _matched(n.lazy().join(others, how="cross"), _W2_INSIDE),
        )
        return pl.concat(found).collect(engine="streaming")

    return join


def _w2_pairs(subscriptions: W2Subscriptions) -> Join:
    encoded = W2Encoded(subscriptions)
    pairs, singles = _frame(encoded.pairs()).lazy(), _frame(encoded.singles()).lazy()
    bins = _frame(encoded.bins()).lazy()

    def join(batch: pa.RecordBatch) -> pl.DataFrame:
        n = _w2_notifications(batch)
        found = (
            _matched(_keyed(n, _PAIRS).join(pairs, on="key"), _W2_INSIDE & _W2_EQUAL),
            _matched(_keyed(n, _SINGLES).join(singles, on="key"), _W2_INSIDE),
            _matched(_keyed(n, _BINS).join(bins, on="key"), _W2_INSIDE),
        )
        return pl.concat(found).collect(engine="streaming")

    return join
