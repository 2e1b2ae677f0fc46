"""Many subscriptions at once: the rows of a table or pairs, checked, with errors that name the row."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import SupportsIndex

import pyarrow as pa

from sluice.errors import MatcherError, SluiceError
from sluice.model.parse import parse
from sluice.model.subscription import Subscription

#: Rows that are added in one go.
CHUNK = 4_096


def parse_row(id: object, text: object) -> Subscription:
    """What a text means; an error names its id."""
    if not isinstance(text, str):
        raise MatcherError(f"the subscription with id {id!r} has no text in its column `where`")
    try:
        return parse(text)
    except SluiceError as error:
        raise MatcherError(f"the subscription with id {id!r} is wrong: {error}") from error


def pairs(
    table: pa.Table | pa.RecordBatch | Iterable[tuple[SupportsIndex, str]],
) -> Iterator[tuple[SupportsIndex, str]]:
    """The rows of a table as pairs of id and text."""
    if not isinstance(table, pa.Table | pa.RecordBatch):
        if not isinstance(table, Iterable):
            raise MatcherError(f"{table!r} is no table: give a pyarrow Table with columns `id` and `where`, or pairs")
        for pair in table:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise MatcherError(f"{pair!r} is not a pair of id and text")
            yield pair[0], pair[1]
        return
    names = table.schema.names
    wrong = [f"{names.count(name) or 'no'} columns `{name}`" for name in ("id", "where") if names.count(name) != 1]
    if wrong:
        raise MatcherError(f"the table has {' and '.join(wrong)}; it needs one `id` and one `where`")
    for batch in table.to_batches(max_chunksize=CHUNK) if isinstance(table, pa.Table) else [table]:
        yield from zip(batch.column("id").to_pylist(), batch.column("where").to_pylist(), strict=True)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the garbage collector: it would look for cycles, of which there are none, through every filter just made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
