"""DuckDB: the subscriptions are a table, made once; each batch of notifications is joined with it.

One thread. The result is an Arrow table of pairs (notification, subscription), fetched through the relational API
(`sql(...).to_arrow_table()`), which spares a copy. ``bench/README.md`` describes the formulations, with figures.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa

from bench.peers import columns
from bench.peers.columns import BIN, NO_NUMBER, NO_VALUE, NO_VOLUME, OTHER_EXCHANGE, STRIDE, W2Encoded
from bench.timing import Runner
from bench.workloads import Subscriptions, W1Subscriptions, W2Subscriptions

Connection = duckdb.DuckDBPyConnection

_ALL = range(10)
_VALUES = [f"v{k}" for k in range(STRIDE)]


def build(workload: str, formulation: str, subscriptions: Subscriptions) -> Runner:
    """Makes the tables and the query of a formulation."""
    connection = duckdb.connect(config={"threads": 1})
    # The order of the pairs is nobody's concern, and DuckDB is faster without keeping one.
    connection.execute("SET preserve_insertion_order = false")
    match subscriptions:
        case W1Subscriptions():
            make: dict[str, Callable[[Connection, W1Subscriptions], str]] = {
                "nullable columns": _w1_nullable,
                "sorted and encoded": w1_encoded,
            }
            query = make[formulation](connection, subscriptions)
        case W2Subscriptions():
            make2: dict[str, Callable[[Connection, W2Subscriptions], str]] = {
                "nullable columns": _w2_nullable,
                "rarest equality": _w2_equality,
                "pairs and bins": _w2_pairs,
            }
            query = make2[formulation](connection, subscriptions)

    def join(batch: pa.RecordBatch) -> pa.Table:
        numbered = batch.append_column("i", pa.array(np.arange(batch.num_rows, dtype=np.int32)))
        connection.register("batch", numbered)
        pairs = connection.sql(query).to_arrow_table()
        connection.unregister("batch")
        return pairs

    return Runner(join, lambda pairs: int(pairs.num_rows), _ids)


def _ids(pairs: pa.Table, events: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(events)]
    for i, id in zip(pairs["i"].to_pylist(), pairs["id"].to_pylist(), strict=True):
        found[i].append(id)
    return found


def _create(connection: Connection, name: str, table: pa.Table, select: str = "*", order: str = "") -> None:
    connection.register("source", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT {select} FROM source {order and f'ORDER BY {order}'}")
    connection.unregister("source")


def _create_type(connection: Connection, name: str, values: list[str]) -> None:
    connection.execute(f"CREATE TYPE {name} AS ENUM ({', '.join(map(repr, values))})")


def _w1_nullable(connection: Connection, subscriptions: W1Subscriptions) -> str:
    _create(connection, "subscription", columns.w1_nullable(subscriptions))
    return """
        SELECT n.i, s.id FROM batch n JOIN subscription s
        ON n.symbol = s.symbol AND n.price BETWEEN s.low AND s.high
        AND (s.exchanges IS NULL OR list_contains(s.exchanges, n.exchange))
        AND (s.volume IS NULL OR n.volume > s.volume)"""


def w1_encoded(connection: Connection, subscriptions: W1Subscriptions) -> str:
    """Makes the table, and says the query for the pairs of a notification `i` and a subscription `id`."""
    table = columns.w1_encoded(subscriptions)
    connection.register("source", table)
    connection.execute("CREATE TYPE symbol AS ENUM (SELECT DISTINCT symbol FROM source ORDER BY symbol)")
    _create_type(connection, "exchange", [f"X{k}" for k in _ALL])
    # Sorted by what is compared: whole blocks of rows are skipped by their smallest and largest value.
    _create(connection, "subscription", table, "* REPLACE (symbol::symbol AS symbol)", "symbol, low")
    return f"""
        WITH n AS (
            SELECT i, price, TRY_CAST(symbol AS symbol) AS symbol, coalesce(volume, {NO_VOLUME}) AS volume,
                coalesce(1 << enum_code(TRY_CAST(exchange AS exchange))::INT, {OTHER_EXCHANGE})::SMALLINT AS exchange
            FROM batch)
        SELECT n.i, s.id FROM n JOIN subscription s
        ON n.symbol = s.symbol AND n.price BETWEEN s.low AND s.high
        AND n.volume > s.floor AND (s.mask & n.exchange) <> 0"""


def _w2_nullable(connection: Connection, subscriptions: W2Subscriptions) -> str:
    _create(connection, "subscription", columns.w2_nullable(subscriptions))
    equal = [f"(s.c{a} IS NULL OR s.c{a} = n.c{a})" for a in _ALL]
    inside = [f"(s.low{a} IS NULL OR n.n{a} BETWEEN s.low{a} AND s.high{a})" for a in _ALL]
    return f"SELECT n.i, s.id FROM batch n JOIN subscription s ON {' AND '.join(equal + inside)}"


#: The notifications of W2 with their values as codes.
_W2_NOTIFICATIONS = "n AS MATERIALIZED (SELECT i, {} FROM batch)".format(
    ", ".join(
        f"coalesce(enum_code(TRY_CAST(c{a} AS value))::SMALLINT, {NO_VALUE}) AS c{a}, "
        f"coalesce(n{a}, {NO_NUMBER})::SMALLINT AS n{a}"
        for a in _ALL
    )
)
_W2_INSIDE = " AND ".join(f"n.n{a} BETWEEN s.low{a} AND s.high{a}" for a in _ALL)
_W2_EQUAL = " AND ".join(f"n.c{a} BETWEEN s.from{a} AND s.to{a}" for a in _ALL)


def _w2_keys(name: str, keys: list[str]) -> str:
    """The notifications once for each of their keys."""
    return f"{name} AS (SELECT n.*, unnest([{', '.join(keys)}]) AS key FROM n)"


_W2_SINGLES = _w2_keys("single", [f"CASE WHEN c{a} >= 0 THEN {a * STRIDE} + c{a}::INT END" for a in _ALL])
_W2_PAIRS = _w2_keys(
    "pair",
    [
        f"CASE WHEN c{a} >= 0 AND c{b} >= 0 THEN ({a * STRIDE} + c{a}::INT) * {10 * STRIDE} + {b * STRIDE} + c{b} END"
        for a in _ALL
        for b in range(a + 1, 10)
    ],
)
_W2_BINS = _w2_keys("bin", [f"CASE WHEN n{a} >= 0 THEN {a * STRIDE} + n{a}::INT // {BIN} END" for a in _ALL])


def _w2_equality(connection: Connection, subscriptions: W2Subscriptions) -> str:
    _create_type(connection, "value", _VALUES)
    encoded = W2Encoded(subscriptions)
    _create(connection, "equality", encoded.equalities())
    _create(connection, "other", encoded.others())
    return f"""
        WITH {_W2_NOTIFICATIONS}, {_W2_SINGLES}
        SELECT n.i, s.id FROM single n JOIN equality s ON n.key = s.key AND {_W2_INSIDE} AND {_W2_EQUAL}
        UNION ALL SELECT n.i, s.id FROM n JOIN other s ON {_W2_INSIDE}"""


def _w2_pairs(connection: Connection, subscriptions: W2Subscriptions) -> str:
    _create_type(connection, "value", _VALUES)
    encoded = W2Encoded(subscriptions)
    _create(connection, "pairs", encoded.pairs())
    _create(connection, "singles", encoded.singles())
    _create(connection, "bins", encoded.bins())
    return f"""
        WITH {_W2_NOTIFICATIONS}, {_W2_PAIRS}, {_W2_SINGLES}, {_W2_BINS}
        SELECT n.i, s.id FROM pair n JOIN pairs s ON n.key = s.key AND {_W2_INSIDE} AND {_W2_EQUAL}
        UNION ALL SELECT n.i, s.id FROM single n JOIN singles s ON n.key = s.key AND {_W2_INSIDE}
        UNION ALL SELECT n.i, s.id FROM bin n JOIN bins s ON n.key = s.key AND {_W2_INSIDE}"""
