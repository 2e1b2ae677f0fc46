"""Subscriptions in every form that people have them, as one table of `id` and `where`, checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame

from sluice.errors import MatcherError
from sluice.files import InputError, Source, read_subscriptions
from sluice.spark.matching.files import is_delta

#: A DataFrame or Arrow table with columns `id` and `where`, pairs of these, a file, a Delta table, or a saved matcher.
Subscriptions: TypeAlias = DataFrame | pa.Table | str | Path | Iterable[tuple[int | str, str]]


def is_saved_matcher(subscriptions: Subscriptions) -> bool:
    """Whether this is the path of a matcher that was saved."""
    return isinstance(subscriptions, str | Path) and (Path(subscriptions) / "state.json").is_file()


def table_of(subscriptions: Subscriptions) -> pa.Table:
    """The subscriptions as a table of `id` (whole numbers or strings) and `where`."""
    return checked(_read(subscriptions))


def _read(subscriptions: Subscriptions) -> pa.Table:
    if isinstance(subscriptions, pa.Table):
        return subscriptions
    if isinstance(subscriptions, DataFrame):
        missing = [name for name in ("id", "where") if name not in subscriptions.columns]
        if missing:
            raise MatcherError(f"the subscriptions have no column {' and no column '.join(missing)}: name them so")
        return subscriptions.select("id", "where").toArrow()
    if isinstance(subscriptions, str | Path):
        return _from_path(Path(subscriptions))
    return _from_pairs(subscriptions)


def _from_path(path: Path) -> pa.Table:
    if is_delta(path):
        from deltalake import DeltaTable

        return DeltaTable(str(path)).to_pyarrow_table(columns=["id", "where"])
    if path.is_dir() or path.suffix == ".parquet":
        try:
            return parquet.read_table(path, columns=["id", "where"])
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: no subscriptions can be read from here: {error}") from error
    source = Source(str(path))
    source.check()
    return _from_pairs((row.id, row.where) for row in read_subscriptions(source))


def _from_pairs(pairs: Iterable[object]) -> pa.Table:
    ids, texts = list[object](), list[object]()
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise MatcherError(f"{pair!r} is not a pair of id and text: give a table with columns id and where")
        ids.append(pair[0])
        texts.append(pair[1])
    if any(isinstance(id, str) for id in ids):
        ids = [str(id) for id in ids]
    try:
        return pa.table({"id": pa.array(ids), "where": pa.array(texts, pa.string())})
    except (pa.ArrowException, OverflowError) as error:
        raise MatcherError(f"ids are whole numbers or strings, and each has the text of a filter: {error}") from error


def checked(table: pa.Table) -> pa.Table:
    """The table with ids of one of the two types, each there once, and a text for each."""
    missing = [name for name in ("id", "where") if name not in table.column_names]
    if missing:
        raise MatcherError(f"the subscriptions have no column {' and no column '.join(missing)}: name them so")
    table = table.select(["id", "where"])
    kind = table.schema.field("id").type
    if pa.types.is_null(kind) and not table.num_rows:
        kind = pa.int64()
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise MatcherError(f"the ids of the subscriptions are of type {kind}: whole numbers or strings are needed")
    kinds = pa.schema([("id", pa.int64() if pa.types.is_integer(kind) else pa.string()), ("where", pa.string())])
    try:
        table = table.cast(kinds).combine_chunks()
    except pa.ArrowException as error:
        raise MatcherError(f"the subscriptions are no ids and texts: {error}") from error
    for name in kinds.names:
        nulls = table.column(name).null_count
        if nulls:
            raise MatcherError(
                f"{nulls:,} of {table.num_rows:,} subscriptions have no {name}: each needs an id and a filter"
            )
    counts = pc.value_counts(table.column("id"))
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise MatcherError(
            f"the id {twice[0]['values'].as_py()!r} is given to {twice[0]['counts']} subscriptions: ids are unique"
        )
    return table
