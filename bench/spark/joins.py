"""Counting matches per subscription with Spark SQL and with DuckDB: the join that one writes first, and the best one by hand.

The subscriptions come as columns, not as texts, and whatever can be made of them beforehand is made and cached before
the clock starts: encoded strings, bins, sorted tables. Only the notifications are read while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from bench.peers import columns
from bench.workloads import W1Subscriptions

Job = Callable[[], pa.Table]
Ints = npt.NDArray[np.int64]

#: Price bins: 1,024 fine ones (and one for the price 100), of which 32 are a coarse one.
FINE_PER_UNIT, FINE_PER_COARSE = 10.24, 32
#: Volume bins are this wide.
VOLUME_BIN = 313
#: Partitions of a shuffle.
PARTITIONS = 4
#: Room in a key for the bins of one symbol.
STRIDE = 4_096
_ALL_EXCHANGES = (1 << 10) - 1


def plain_join(spark: SparkSession, quotes: Path, subscriptions: W1Subscriptions) -> Job:
    """What one writes first: an equality, a range, two conditions that may be absent."""
    table = spark.createDataFrame(columns.w1_nullable(subscriptions)).cache()
    table.count()
    table.createOrReplaceTempView("subscription")
    spark.read.parquet(str(quotes)).createOrReplaceTempView("quote")
    query = """
        SELECT s.id, count(*) AS count FROM quote n JOIN subscription s
        ON n.symbol = s.symbol AND n.price BETWEEN s.low AND s.high
        AND (s.exchanges IS NULL OR array_contains(s.exchanges, n.exchange))
        AND (s.volume IS NULL OR n.volume > s.volume)
        GROUP BY s.id"""
    return lambda: spark.sql(query).toArrow()


def binned_join(spark: SparkSession, quotes: Path, subscriptions: W1Subscriptions) -> Job:
    """By hand: quotes are counted in bins, and only those in a bin that a range ends in are compared one by one.

    Bins are of a symbol and a price, in two widths, so that a range is few wide and few narrow ones. A bin has a count
    for each exchange, of which a subscription adds up those it lists.
    """
    rows = _Rows(subscriptions)
    _cache(spark, "node", rows.nodes(), "key")
    _cache(spark, "node_edge", rows.price_edges(~subscriptions.has_volume, _fine))
    node, wide = f"symbol * {STRIDE} + fine", f"symbol * {STRIDE} + {STRIDE // 2} + coarse"
    return _by_hand(
        *(spark, quotes, rows, subscriptions),
        f"""node_bin AS (SELECT key, {_PER_EXCHANGE} FROM
            (SELECT exchange, explode(array({node}, {wide})) AS key FROM n) GROUP BY key)""",
        f"""SELECT /*+ SHUFFLE_HASH(b) */ s.id, sum({_LISTED}) AS part FROM node s JOIN node_bin b
                ON s.key = b.key GROUP BY s.id
            UNION ALL SELECT /*+ BROADCAST(s) */ s.id, count(*) FROM n JOIN node_edge s
                ON n.symbol * {STRIDE} + n.fine = s.key {_FITS} GROUP BY s.id""",
    )


def running_counts(spark: SparkSession, quotes: Path, subscriptions: W1Subscriptions) -> Job:
    """By hand, without a join where that is possible: quotes and ends of ranges are sorted together, and counted as they go by.

    Sorted by price, the quotes before the high end of a range less those before its low end are those inside. There is
    an order for each exchange of a symbol, and one for all of them.
    """
    rows = _Rows(subscriptions)
    _cache(spark, "range_end", rows.ends())
    return _by_hand(
        *(spark, quotes, rows, subscriptions),
        """passing AS (
            SELECT explode(array(symbol * 11 + exchange, symbol * 11 + 10)) AS key, price, 1 AS place, 0 AS sign,
                CAST(NULL AS INT) AS id FROM n
            UNION ALL SELECT key, price, place, sign, id FROM range_end)""",
        """SELECT id, sum(sign * before) AS part FROM (
            SELECT id, sign, sum(IF(sign = 0, 1, 0)) OVER
                (PARTITION BY key ORDER BY price, place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before
            FROM passing) WHERE sign != 0 GROUP BY id""",
    )


_PER_EXCHANGE = ", ".join(f"sum(IF(exchange = {x}, 1, 0)) AS n{x}" for x in range(10))
_LISTED = " + ".join(f"IF(s.mask & {1 << x} != 0, b.n{x}, 0)" for x in range(10))
_FITS = "AND n.price BETWEEN s.low AND s.high AND s.mask & shiftleft(1, n.exchange) != 0"


def _by_hand(
    spark: SparkSession, quotes: Path, rows: _Rows, subscriptions: W1Subscriptions, table: str, without_floor: str
) -> Job:
    """Counts subscriptions without a floor of the volume as told; for those with one, bins are cells of price and volume."""
    _cache(spark, "cell", rows.cells(), "key")
    _cache(spark, "cell_edge", rows.price_edges(subscriptions.has_volume, _coarse))
    _cache(spark, "volume_edge", rows.volume_edges())
    spark.read.parquet(str(quotes)).createOrReplaceTempView("quote")
    cell = f"(symbol * {STRIDE} + coarse) * 64 + tall"
    query = f"""
        WITH n AS (
            SELECT *, fine DIV {FINE_PER_COARSE} AS coarse, volume DIV {VOLUME_BIN} AS tall FROM (
                SELECT price, volume, CAST(substring(symbol, 2) AS BIGINT) AS symbol,
                    CAST(substring(exchange, 2) AS INT) AS exchange, CAST(price * {FINE_PER_UNIT}D AS BIGINT) AS fine
                FROM quote)),
        cell_bin AS (SELECT {cell} AS key, {_PER_EXCHANGE} FROM n GROUP BY {cell}),
        {table}
        SELECT id, sum(part) AS count FROM (
            {without_floor}
            UNION ALL SELECT /*+ SHUFFLE_HASH(b) */ s.id, sum({_LISTED}) FROM cell s JOIN cell_bin b
                ON s.key = b.key GROUP BY s.id
            UNION ALL SELECT /*+ BROADCAST(s) */ s.id, count(*) FROM n JOIN cell_edge s
                ON n.symbol * {STRIDE} + n.coarse = s.key {_FITS} AND n.volume > s.floor GROUP BY s.id
            UNION ALL SELECT /*+ BROADCAST(s) */ s.id, count(*) FROM n JOIN volume_edge s
                ON n.symbol * {STRIDE} + n.tall = s.key AND n.coarse > s.first AND n.coarse < s.last
                AND n.volume > s.floor AND s.mask & shiftleft(1, n.exchange) != 0 GROUP BY s.id)
        GROUP BY id HAVING count > 0"""
    return lambda: spark.sql(query).toArrow()


def _cache(spark: SparkSession, name: str, table: pa.Table, key: str | None = None) -> None:
    """A table in memory, partitioned by its key if it has one: as the bins will be, so that it is not shuffled again."""
    frame = spark.createDataFrame(table)
    frame = (frame if key is None else frame.repartition(PARTITIONS, key)).cache()
    frame.count()
    frame.createOrReplaceTempView(name)


def _fine(price: npt.NDArray[np.float64]) -> Ints:
    return (price * FINE_PER_UNIT).astype(np.int64)


def _coarse(price: npt.NDArray[np.float64]) -> Ints:
    return _fine(price) // FINE_PER_COARSE


class _Rows:
    """The tables of the join by hand. Inside a range are the bins after that of its low end and before that of its high end."""

    def __init__(self, subscriptions: W1Subscriptions) -> None:
        self._all = subscriptions
        listed = subscriptions.exchange
        mask = listed @ (1 << np.arange(10))
        self._mask = np.where(listed.any(axis=1), mask, _ALL_EXCHANGES).astype(np.int32)
        self._key = subscriptions.symbol * STRIDE

    def nodes(self) -> pa.Table:
        """Without a floor: the wide bins inside, and the narrow ones inside that are in no such wide one."""
        ids = np.flatnonzero(~self._all.has_volume)
        first, last = _fine(self._all.low[ids]) + 1, _fine(self._all.high[ids])  # narrow ones inside: first to last - 1
        wide_first = -(-first // FINE_PER_COARSE)
        wide_last = np.maximum(last // FINE_PER_COARSE, wide_first)
        has_wide = wide_last > wide_first
        before = np.where(has_wide, wide_first * FINE_PER_COARSE, last)
        after = np.where(has_wide, wide_last * FINE_PER_COARSE, last)
        parts = [
            _spread(ids, self._key[ids] + STRIDE // 2, wide_first, wide_last),
            _spread(ids, self._key[ids], first, before),
            _spread(ids, self._key[ids], after, last),
        ]
        id, key = (np.concatenate(each) for each in zip(*parts, strict=True))
        return self._table(id, key)

    def ends(self) -> pa.Table:
        """Without a floor: where a range begins, before the quotes of that price, and where it ends, after them."""
        any_exchange = self._mask == _ALL_EXCHANGES
        wanted = np.column_stack([self._all.exchange, any_exchange]) & ~self._all.has_volume[:, None]
        id, exchange = np.nonzero(wanted)
        key = self._all.symbol[id] * 11 + exchange
        both = {"id": np.tile(id.astype(np.int32), 2), "key": np.tile(key, 2)}
        price = np.concatenate([self._all.low[id], self._all.high[id]])
        place = np.repeat(np.array([0, 2], np.int32), len(id))
        return pa.table({**both, "price": price, "place": place, "sign": place - np.int32(1)})

    def cells(self) -> pa.Table:
        """With a floor: the cells of wide price bins inside and of volume bins above the one of the floor."""
        ids = np.flatnonzero(self._all.has_volume)
        first, last = _coarse(self._all.low[ids]) + 1, _coarse(self._all.high[ids])
        id, key = _spread(ids, self._key[ids], first, np.maximum(last, first))
        lowest = self._all.volume[id] // VOLUME_BIN + 1
        row, cell = _spread(np.arange(len(id)), key * 64, lowest, np.full(len(id), 10_000 // VOLUME_BIN + 1))
        return self._table(id[row], cell)

    def price_edges(self, chosen: npt.NDArray[np.bool_], bin_of: Callable[[npt.NDArray[np.float64]], Ints]) -> pa.Table:
        """The bins that a range begins and ends in."""
        ids = np.flatnonzero(chosen)
        low, high = bin_of(self._all.low[ids]), bin_of(self._all.high[ids])
        other = low != high
        id, key = (
            np.concatenate([ids, ids[other]]),
            np.concatenate([self._key[ids] + low, (self._key[ids] + high)[other]]),
        )
        floor = np.where(self._all.has_volume, self._all.volume, -1)
        edges = {"low": self._all.low[id], "high": self._all.high[id], "floor": floor[id].astype(np.int32)}
        return self._table(id, key, **edges)

    def volume_edges(self) -> pa.Table:
        """The volume bins that a floor lies in, with the wide price bins that a range begins and ends in."""
        ids = np.flatnonzero(self._all.has_volume)
        floor = self._all.volume[ids]
        first, last = _coarse(self._all.low[ids]), _coarse(self._all.high[ids])
        return self._table(
            ids, self._key[ids] + floor // VOLUME_BIN, first=first, last=last, floor=floor.astype(np.int32)
        )

    def _table(self, id: Ints, key: Ints, **more: npt.NDArray[np.generic]) -> pa.Table:
        return pa.table({"id": id.astype(np.int32), "key": key, "mask": self._mask[id], **more})


def _spread(ids: Ints, keys: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Each id with its key plus every number from its first to before its last."""
    counts = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(ids)), counts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ids[row], keys[row] + first[row] + number


def duckdb_join(threads: int, quotes: Path, subscriptions: W1Subscriptions) -> Job:
    """DuckDB reads the files itself; the subscriptions are sorted and encoded, as in the matcher's benchmark."""
    import duckdb

    from bench.peers.duckdb_join import w1_encoded

    connection = duckdb.connect(config={"threads": threads})
    connection.execute("SET preserve_insertion_order = false")
    pairs = w1_encoded(connection, subscriptions)
    connection.execute(f"CREATE VIEW batch AS SELECT *, 0 AS i FROM read_parquet('{quotes}/*.parquet')")
    query = f"SELECT id, count(*) AS count FROM ({pairs}) GROUP BY id"
    return lambda: connection.sql(query).to_arrow_table()
