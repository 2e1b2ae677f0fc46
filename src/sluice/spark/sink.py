"""The sink: publishes the rows of DataFrames, batch and streaming; a batch that is run again publishes nothing twice.

The rows of a task are dealt into publications by what they say, so that the same rows make the same publications in whatever
order they come. A publication is stored whole or not at all, under numbers that follow from the micro-batch and the row, at a
broker that follows from the task. A task that is run again asks how far its publisher came, and goes on there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc
from pyarrow import types as arrow
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sluice.client.blocking import BlockingBus
from sluice.client.publisher import MAX_BODY_BYTES
from sluice.errors import ConfigurationError, PublishError, SparkError
from sluice.limits import MAX_BATCH
from sluice.spark.options import SinkOptions
from sluice.spark.rows import META, notifications, to_text

#: How many rows of a task are counted before the numbers of the next micro-batch begin.
_ROW_BITS = 32
#: What Spark tells a task of the micro-batch that it belongs to.
_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"
_DIGEST_BITS = 64
_Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """How many rows a task has published, or found published."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("sluice").mode("append")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        # Chosen once, on the driver: all attempts of all tasks publish under it.
        self._publisher = options.publisher or f"spark-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publishes the rows of one task."""
        return _write(iterator, self._options, self._publisher, _context(), micro_batch=0)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("sluice")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publishes the rows of one task of one micro-batch."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise SparkError(
                f"Spark does not say which micro-batch of which query this is ({_QUERY}, {_BATCH}): use the release that "
                "Sluice is made for; `sluice doctor` tells which"
            )
        # The query's id is in its checkpoint, and its batches count from there: another checkpoint is another publisher.
        publisher = f"{self._options.publisher or 'spark'}-{query.replace('-', '')}"
        return _write(iterator, self._options, publisher, context, micro_batch=int(batch))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkError("the sink runs within tasks of Spark only: write a DataFrame with it")
    return context


def _write(
    rows: Iterator[pa.RecordBatch], options: SinkOptions, publisher: str, context: TaskContext, *, micro_batch: int
) -> Written:
    partition = context.partitionId()
    publications = dealt([*rows], options.rows_per_publication)
    if not publications:
        return Written(0)
    address = options.brokers[partition % len(options.brokers)]
    with options.network.connect(address, f"{publisher}-{partition}") as bus:
        if not bus.is_durable:
            raise ConfigurationError(
                f"the broker at {address} keeps no log, so a batch that is run again would be published twice: start it with a "
                "data directory"
            )
        try:
            count = publish(bus, publications, ((micro_batch + 1) << _ROW_BITS) + 1, options.patience_seconds)
        except TimeoutError:
            raise SparkError(
                f"the broker at {address} has not accepted everything within {options.patience_seconds:g} s: is it overloaded? "
                "Say a larger patience_seconds, or write less at once"
            ) from None
        except PublishError as error:
            raise SparkError(f"the broker at {address} does not take rows of this task: {error}") from error
    return Written(count)


def publish(bus: BlockingBus, publications: Sequence[Publication], first: int, patience_seconds: float) -> int:
    """Publishes under numbers from `first` on what is not published yet; returns how many rows there are in all."""
    accepted, number = bus.published, first
    for publication in publications:
        last = number + len(publication) - 1
        if accepted < number:
            if bus.published < number - 1:
                bus.skip_to(number, patience_seconds)
            if isinstance(publication, list):
                bus.publish_many(publication, patience_seconds)
                bus.flush(patience_seconds)  # else it might be put together with the next one, and is to be whole
            else:
                bus.publish_arrow(publication, patience_seconds)
        elif accepted < last:
            raise SparkError(
                f"of publications {number} to {last} of {bus.name!r} only a part is stored, because the broker has refused the "
                "rest: see the error of the first attempt"
            )
        number = last + 1
    bus.flush(patience_seconds)
    return number - first


# --- rows into publications -------------------------------------------------------------------------------------------

#: Bytes of the values of one publication, about: with all that goes with them they fit into one frame.
MAX_PUBLICATION_BYTES = MAX_BODY_BYTES // 2
#: Rows that are stored together: columns where the rows allow it, else records.
Publication: TypeAlias = "pa.RecordBatch | list[dict[str, Any]]"


def dealt(batches: Sequence[pa.RecordBatch], max_rows: int) -> list[Publication]:
    """Rows as publications: the same for the same rows, in whatever order they come.

    >>> rows = [pa.RecordBatch.from_pydict({"n": numbers}) for numbers in ([1, 2, 3], [4, 5])]
    >>> again = [pa.RecordBatch.from_pydict({"n": numbers}) for numbers in ([5, 4, 1], [3], [2])]
    >>> [sorted(part["n"].to_pylist()) for part in dealt(rows, max_rows=3)]
    [[1], [2], [3, 4, 5]]
    >>> [sorted(part["n"].to_pylist()) for part in dealt(again, max_rows=3)]
    [[1], [2], [3, 4, 5]]
    """
    whole = [batch for batch in batches if batch.num_rows]
    if not whole:
        return []
    table = pa.concat_batches(whole)
    content = notifications(table)
    columns = [
        _plain(column) for name, column in zip(table.schema.names, table.columns, strict=True) if name not in META.names
    ]
    sizes = sum(map(_sizes, columns), np.zeros(len(table), np.int64))
    parts = _split(np.arange(len(table)), sizes, cache(lambda: _digests(columns)), min(max_rows, MAX_BATCH))
    if isinstance(content, list):
        return [[content[row] for row in part] for part in parts]
    return [content if len(part) == len(table) else content.take(pa.array(part)) for part in parts]


def _split(
    rows: _Numbers, sizes: _Numbers, digests: Callable[[], _Numbers], max_rows: int, bit: int = 0
) -> Iterator[_Numbers]:
    """Rows in parts that are small enough: halves by one bit of the digest of each, and so on with the next."""
    if len(rows) == 1 or (len(rows) <= max_rows and sizes[rows].sum() <= MAX_PUBLICATION_BYTES):
        yield rows
        return
    if bit < _DIGEST_BITS:
        is_set = (digests()[rows] >> np.uint64(bit)) & np.uint64(1) == 1
        halves = [rows[~is_set], rows[is_set]]
    else:  # all the same: it does not matter which is where
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    for half in halves:
        if len(half):
            yield from _split(half, sizes, digests, max_rows, bit + 1)


def _plain(column: pa.Array) -> pa.Array:
    """A column of plain values as it is; of others, a text for each value."""
    if arrow.is_primitive(column.type) or arrow.is_string(column.type) or arrow.is_binary(column.type):
        return column
    return pa.array([None if value is None else to_text(value) for value in column.to_pylist()], pa.string())


def _sizes(column: pa.Array) -> _Numbers:
    """About how many bytes each value takes."""
    if arrow.is_primitive(column.type):
        return np.full(len(column), max(1, column.type.bit_width // 8), np.int64)
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64) + 4


def _digests(columns: Sequence[pa.Array]) -> _Numbers:
    """A number for each row that depends on what is in it, and on nothing else."""
    frame = pd.DataFrame({place: column.to_pandas() for place, column in enumerate(columns)})
    return np.asarray(pd.util.hash_pandas_object(frame, index=False))
