"""The data of the bulk match: quotes of W1 drawn with further seeds, in Parquet files, and the subscriptions as texts.

Everything is made once and kept in `.cache`; a file is drawn with a seed of its own, so that a larger set begins with a
smaller one.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from bench.match import ROOT
from bench.workloads import W1, w1_subscriptions, zipf

DIRECTORY = ROOT / ".cache" / "bench-spark"
#: Quotes in one file, and in one row group of it.
FILE_ROWS, GROUP_ROWS = 250_000, 125_000
_FIRST_SEED = 20260103


def quotes(count: int) -> Path:
    """A directory with so many quotes."""
    path = DIRECTORY / f"quotes-{count}"
    if not path.exists():
        building = path.with_name(f"{path.name}.{os.getpid()}")
        building.mkdir(parents=True)
        for number, start in enumerate(range(0, count, FILE_ROWS)):
            table = _quotes(_FIRST_SEED + number, min(FILE_ROWS, count - start))
            parquet.write_table(table, building / f"part-{number:03}.parquet", row_group_size=GROUP_ROWS)
        building.rename(path)
    return path


def _quotes(seed: int, count: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    symbols, exchanges = (pa.array([f"{letter}{k}" for k in range(size)]) for letter, size in (("S", 1000), ("X", 10)))
    symbol = zipf(rng, 1000, count)
    price = np.round(rng.uniform(0, 100, count), 2)
    volume = rng.integers(0, 10001, count)
    exchange = rng.integers(0, 10, count)
    columns = [
        pa.repeat("quote", count),
        symbols.take(pa.array(symbol)),
        price,
        volume,
        exchanges.take(pa.array(exchange)),
    ]
    return pa.table(dict(zip(W1.schema.names, columns, strict=True)), schema=W1.schema)


def texts(size: int) -> Path:
    """A file with the first subscriptions of W1: `id` and `where`."""
    path = DIRECTORY / f"subscriptions-{size}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subscriptions = w1_subscriptions(size)
        table = pa.table(
            {"id": pa.array(range(size), pa.int64()), "where": list(map(subscriptions.where, range(size)))}
        )
        building = path.with_suffix(f".{os.getpid()}")
        parquet.write_table(table, building)
        building.rename(path)
    return path
