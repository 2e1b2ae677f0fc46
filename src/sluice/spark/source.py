"""The source: the logs of the brokers as DataFrames, batch and streaming, filtered where the logs are.

A task reads one range of one stream, at the stream's own broker if its address is known, and hands Arrow batches on. Planning
asks the brokers which offsets they hold; nothing else is remembered anywhere but in Spark's checkpoint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sluice.client.blocking import BlockingBus
from sluice.errors import ConfigurationError, RequestError, SluiceError
from sluice.protocol.batch import Batch, Peer
from sluice.spark.network import Network, lost
from sluice.spark.offsets import Offsets, advance, ranges
from sluice.spark.options import Place, SourceOptions
from sluice.spark.pushdown import Pushdown, push
from sluice.spark.rows import META, REST, Layout, widened

logger = logging.getLogger("sluice.spark")

#: Rows that are handed to Spark together, about: each batch costs it some time, whatever its size.
ROWS_TOGETHER = 65_536
#: How often the brokers are asked what is new, at most: Spark would ask a hundred times a second.
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """What one task reads: the offsets from `start` to before `end` of a stream, as far as they match."""

    stream: Peer
    start: int
    end: int
    where: str
    #: The stream's own broker, if it is listed.
    address: str | None


# --- the shape of rows ------------------------------------------------------------------------------------------------


def inferred(options: SourceOptions) -> StructType:
    """The schema of what the streams hold, from a look at both ends of each."""
    attributes = widened(pa.schema([]), _sample(options))
    if not attributes.names:
        raise ConfigurationError(
            "there is no notification yet that a schema could be inferred from: declare one with .schema(...)"
        )
    schema = from_arrow_schema(Layout(attributes).schema)
    return schema if options.rest == "keep" else StructType([each for each in schema if each.name != REST.name])


def _sample(options: SourceOptions) -> Iterator[Batch]:
    network = options.network
    for stream, held in _chosen(options, network.streams()).items():
        head = range(held.start, min(held.start + options.infer_rows, held.stop))
        tail = range(max(held.stop - options.infer_rows, head.stop), held.stop)
        for part in (head, tail):
            for page in network.read(stream, part.start, part.stop, options.where):
                yield from page.batches


def layout_of(schema: StructType, *, rest: str) -> Layout:
    """How notifications are arranged for a schema; raises `ConfigurationError` if they cannot be."""
    for each in schema:
        if not each.nullable:
            raise ConfigurationError(
                f"column {each.name!r} is NOT NULL, and any attribute may be missing: let it be NULL"
            )
    columns = to_arrow_schema(schema, timezone="UTC")
    for known in (*META, REST):
        if known.name in columns.names and columns.field(known.name).type != known.type:
            raise ConfigurationError(
                f"column {known.name!r} is always of type {known.type}: declare it so, or leave it out"
            )
    if rest == "keep" and REST.name not in columns.names:
        raise ConfigurationError(
            "the schema has no column for attributes without a column of their own: add `_rest MAP<STRING, STRING>`, or say "
            'rest="drop" to lose them'
        )
    return Layout(pa.schema([each for each in columns if each.name not in (*META.names, REST.name)]))


class Rows:
    """What both readers have in common: the tasks' side of reading."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        layout_of(schema, rest=options.rest)  # what is wrong with it is said at once

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, many at a time."""
        if not isinstance(partition, Part):
            return  # what Spark makes up when there is none
        layout, names = layout_of(self._schema, rest=self._options.rest), self._schema.names
        gathered: list[pa.RecordBatch] = []
        count = 0
        for batch in self._batches(partition):
            gathered.append(layout.arrange(batch).select(names))
            count += len(batch)
            if count >= ROWS_TOGETHER:
                yield pa.concat_batches(gathered)
                gathered, count = [], 0
        if gathered:
            yield pa.concat_batches(gathered)

    def _batches(self, part: Part) -> Iterator[Batch]:
        pages = self._options.network.read(part.stream, part.start, part.end, part.where, part.address)
        with closing(pages):
            for page in pages:
                if page.missing and self._options.fail_on_loss:
                    raise lost(part.stream, page)
                if page.missing:
                    logger.warning("%s", lost(part.stream, page))
                yield from page.batches


# --- where to begin and where to end ----------------------------------------------------------------------------------


def _chosen(options: SourceOptions, held: Mapping[Peer, range]) -> dict[Peer, range]:
    """The streams that are to be read, of those there are."""
    return {stream: held[stream] for stream in sorted(held) if not options.streams or stream in options.streams}


def _check_streams(options: SourceOptions, held: Mapping[Peer, range]) -> None:
    """Raises for a stream that was named and is not there."""
    places = (options.start, options.end)
    named = {*options.streams, *(stream for place in places if isinstance(place, Mapping) for stream in place)}
    for stream in sorted(named - {*held}):
        raise RequestError(
            f"there is no log of {stream} that can be reached: there are {', '.join(sorted(held)) or 'none'}; a broker keeps "
            "one if it has a data directory"
        )


def _offset(network: Network, place: Place, stream: Peer, held: range, *, default: int) -> int:
    """The offset that a place is in a stream."""
    match place:
        case "earliest":
            return held.start
        case "latest":
            return held.stop
        case datetime():
            return network.first_since(stream, held, int(place.timestamp() * 1_000_000))
        case _:
            offset = place.get(stream, default)
            if offset > held.stop:
                raise ConfigurationError(f"{stream} has no offset {offset} yet: the next one will be {held.stop}")
            return offset


# --- batch ------------------------------------------------------------------------------------------------------------


class BatchReader(Rows, DataSourceReader):
    """`spark.read.format("sluice")`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pushdown = Pushdown(options.where)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what the brokers can do; returns what Spark has to do itself."""
        self._pushdown = push(filters, self._schema, self._options.where)
        logger.info("%s", self._pushdown)
        return self._pushdown.kept

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the streams, as they are now."""
        options, network, pushed = self._options, self._options.network, self._pushdown
        with network.connect() as bus:
            held = network.streams(bus)
        _check_streams(options, held)
        homes = network.homes()
        parts: list[InputPartition] = []
        for stream, offsets in _chosen(options, held).items():
            first = _offset(network, options.start, stream, offsets, default=offsets.start)
            end = _offset(network, options.end, stream, offsets, default=offsets.stop)
            wanted = pushed.narrowed(stream, range(first, end))
            for start in range(wanted.start, wanted.stop, options.rows_per_partition):
                stop = min(start + options.rows_per_partition, wanted.stop)
                parts.append(Part(stream, start, stop, pushed.where, homes.get(stream)))
        return parts


# --- streaming --------------------------------------------------------------------------------------------------------


class StreamReader(Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("sluice")`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        #: What only the driver's reader has: a connection, where brokers are, and where an `AvailableNow` ends.
        self._connection: ExitStack | None = None
        self._bus: BlockingBus | None = None
        self._homes: dict[Peer, str] = {}
        self._target: dict[Peer, range] | None = None
        self._next_poll = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Nothing is read, and nothing is begun: where a stream begins is decided, and written down, with the first batch."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """How far a micro-batch may go."""
        rows = self._options.max_rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        held = self._held()
        if not start:
            _check_streams(self._options, held)
        if self._target is not None:
            ends = self._target
            held = {
                stream: range(each.start, min(each.stop, ends[stream].stop))
                for stream, each in held.items()
                if stream in ends
            }
        return {
            **advance(
                start,
                held,
                self._begin,
                max_rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                fail_on_loss=self._options.fail_on_loss,
            )
        }

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that there is."""
        self._target = self._held()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """One for each stream that has something new."""
        wanted = ranges(start, end)
        if not wanted.keys() <= self._homes.keys():
            self._homes = self._options.network.homes()
        where = self._options.where
        return [Part(stream, each.start, each.stop, where, self._homes.get(stream)) for stream, each in wanted.items()]

    def commit(self, end: Offsets) -> None:
        """The checkpoint knows; nobody else needs to."""

    def stop(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._bus = None

    def _begin(self, stream: Peer, held: range) -> int:
        return _offset(self._options.network, self._options.start, stream, held, default=held.start)

    def _held(self) -> dict[Peer, range]:
        time.sleep(max(0.0, self._next_poll - time.monotonic()))
        self._next_poll = time.monotonic() + POLL_SECONDS
        try:
            return self._ask()
        except (SluiceError, TimeoutError) as error:
            logger.info("the brokers are asked again: %s", error)
            self.stop()
            return self._ask()

    def _ask(self) -> dict[Peer, range]:
        network = self._options.network
        if self._bus is None:
            self._connection = ExitStack()
            self._bus = self._connection.enter_context(network.connect())
        return _chosen(self._options, network.streams(self._bus))
