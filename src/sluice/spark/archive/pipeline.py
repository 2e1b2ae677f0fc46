"""From the brokers' logs into an archive, batch after batch: what is new in each stream, fetched by workers, committed at once.

The table is the checkpoint, so that a pipeline may be killed at any moment and goes on when it is started again. The brokers
keep what is not archived: a hold on each of their logs follows the table one commit behind, so that even a commit that is lost
afterwards can be made again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyarrow import types as arrow
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluice.client.blocking import BlockingBus
from sluice.errors import ConfigurationError, RequestError, SparkError
from sluice.limits import MAX_COLUMNS
from sluice.model import parse
from sluice.protocol.batch import Peer
from sluice.spark.archive.compact import SMALL_FILES, compact, due
from sluice.spark.archive.fetch import Range, Task, Written, fetch
from sluice.spark.archive.table import KEEP_HOURS, Table
from sluice.spark.network import Network
from sluice.spark.session import cores

logger = logging.getLogger("sluice.spark")

#: Rows in one batch at most.
MAX_ROWS = 2_000_000
#: A worker is not asked for fewer rows than this while others have none: to ask costs more.
TASK_ROWS = 20_000
#: How often files that nobody needs are deleted.
VACUUM_SECONDS = 3_600.0
#: The durable subscription that holds the brokers' logs.
HOLD = "archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a pipeline works."""

    where: str = "true"
    max_rows: int = MAX_ROWS
    hold: str = HOLD
    #: Whether offsets that are gone are noted and passed over; else they end the pipeline.
    go_on_after_loss: bool = False
    #: Small files of one day that are put together.
    compact_files: int = SMALL_FILES
    #: How long files stay that the table does not need any more.
    keep_hours: int = KEEP_HOURS

    def __post_init__(self) -> None:
        parse(self.where)
        least = {"max_rows": 1, "compact_files": 2, "keep_hours": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: give at least {smallest}")


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch has done."""

    rows: int
    files: int
    seconds: float
    #: How far the table is behind each stream, as it was when the batch began.
    lag: Mapping[Peer, int]


class Pipeline:
    """Archives what the brokers log; `step` does a batch."""

    def __init__(
        self, spark: SparkSession, network: Network, archive: str | Path, options: Options | None = None
    ) -> None:
        self.options = options or Options()
        self._spark = spark
        self._network = network
        # Workers have another working directory.
        self._table = Table.create(Path(archive).absolute(), parse(self.options.where).to_sql())
        if parse(self._table.where) != parse(self.options.where):
            raise SparkError(
                f"the archive {archive} is of {self._table.where}, not of {self.options.where}: use that filter, or "
                "another directory"
            )
        self._homes = network.homes()
        #: Streams whose brokers keep what is not archived.
        self._held: set[Peer] = set()
        #: Files since somebody has looked whether there are too many small ones: nobody has looked yet.
        self._new_files = self.options.compact_files
        self._vacuum_at = -math.inf

    # --- batches ------------------------------------------------------------------------------------------------------

    def step(self, bus: BlockingBus, until: Mapping[Peer, int] | None = None) -> Progress | None:
        """Archives what is new, a batch of it, up to the offsets `until` if they are given; None if nothing is new."""
        began = time.monotonic()
        before, heads = self._table.positions(), self.heads(bus)
        ranges = self._reachable(bus, _capped(self._ranges(before, heads, until), self.options.max_rows))
        if not ranges:
            return None
        written = self._fetched(ranges)
        lost = sorted({gone for each in written for gone in each.missing})
        if lost and not self.options.go_on_after_loss:
            raise _lost(lost)
        for stream, first, last in lost:
            logger.warning("offsets %d to %d of %s are gone, and not in the archive", first, last, stream)
        files = [file for each in written for file in each.files]
        after = {each.stream: each.end - 1 for each in ranges}
        self._table.extend(merged(self._table.layout.attributes, written)[0], after)
        self._table.append(files, before, after, {"missing": lost} if lost else None)
        self._new_files += len(files)
        for each in ranges:
            self._hold(bus, each)
        lag = {each.stream: each.end - each.start for each in self._ranges({**before, **after}, heads, until)}
        return Progress(sum(file.rows for file in files), len(files), time.monotonic() - began, lag)

    def heads(self, bus: BlockingBus) -> dict[Peer, range]:
        """The offsets that each stream holds now."""
        try:
            return self._network.streams(bus)
        except TimeoutError:
            raise SparkError(f"no broker has answered for {self._network.patience_seconds:g} seconds") from None

    def lag(self, heads: Mapping[Peer, range]) -> int:
        """How many offsets are not archived."""
        return sum(each.end - each.start for each in self._ranges(self._table.positions(), heads))

    def _ranges(
        self, before: Mapping[Peer, int], heads: Mapping[Peer, range], until: Mapping[Peer, int] | None = None
    ) -> list[Range]:
        """What is new in each stream."""
        found = []
        for stream, held in sorted(heads.items()):
            # What a log has trimmed before it was archived for the first time is nothing that the archive has lost.
            after = before.get(stream, held.start - 1)
            if held.stop - 1 < after:
                raise SparkError(
                    f"the log of {stream} ends with {held.stop - 1}, but {after} is archived: it was replaced; give its "
                    "broker another name, or begin another archive"
                )
            end = held.stop if until is None else min(held.stop, until.get(stream, 0) + 1)
            if end > after + 1:
                found.append(Range(stream, after + 1, end, self._homes.get(stream)))
        return found

    # --- workers ------------------------------------------------------------------------------------------------------

    def _fetched(self, ranges: Sequence[Range]) -> list[Written]:
        """Has ranges written into files whose columns agree."""
        attributes, path = self._table.layout.attributes, str(self._table.path)
        tasks = [
            Task(self._network, path, self.options.where, attributes, part)
            for part in dealt(ranges, cores(self._spark))
        ]
        written = self._run(tasks)
        while True:
            wider, losers = merged(attributes, written)
            if not losers:
                return written
            # Two have met a new attribute and chose different types: all follow the first.
            again = self._run([replace(tasks[place], attributes=wider) for place in losers])
            for place, each in zip(losers, again, strict=True):
                written[place] = each

    def _run(self, tasks: Sequence[Task]) -> list[Written]:
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        try:
            rows = numbers.mapInArrow(partial(fetch, tuple(tasks)), "number bigint, written string").collect()
        except (PySparkException, Py4JError) as error:
            raise SparkError(f"the workers have failed: {reason(error)}") from error
        written = [Written.from_text(row.written) for row in sorted(rows, key=lambda row: int(row.number))]
        for each in written:
            if each.problem is not None:
                raise SparkError(each.problem)
        return written

    # --- holds --------------------------------------------------------------------------------------------------------

    def _reachable(self, bus: BlockingBus, ranges: Sequence[Range]) -> list[Range]:
        """The ranges that their brokers will keep until they are archived."""
        return [each for each in ranges if each.stream in self._held or self._hold(bus, each)]

    def _hold(self, bus: BlockingBus, each: Range) -> bool:
        """Has a broker keep a range and all that follows; False if it does not answer now."""
        try:
            bus.hold(self.options.hold, each.stream, each.start - 1, self._network.patience_seconds)
        except (RequestError, TimeoutError) as error:
            if each.stream in self.heads(bus):
                raise SparkError(f"the log of {each.stream} cannot be held: {error}") from None
            logger.warning("%s is left out for now: %s", each.stream, error)
            self._held.discard(each.stream)
            return False
        self._held.add(each.stream)
        return True

    # --- order --------------------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Puts small files together and deletes old ones, if it is time."""
        if self._new_files >= self.options.compact_files:
            self._new_files = 0
            for files in due(self._table.files(), self.options.compact_files):
                compact(self._table, files)
        if time.monotonic() >= self._vacuum_at:
            self._vacuum_at = time.monotonic() + VACUUM_SECONDS
            self._table.vacuum(self.options.keep_hours)


def _capped(ranges: Sequence[Range], max_rows: int) -> list[Range]:
    """The beginnings of ranges, about as many rows in all."""
    share = max(1, max_rows // max(1, len(ranges)))
    return [replace(each, end=min(each.end, each.start + share)) for each in ranges]


def dealt(ranges: Sequence[Range], workers: int) -> list[tuple[Range, ...]]:
    """Ranges in equal portions, one for each worker, but none that is not worth it.

    >>> [[(each.start, each.end) for each in part] for part in dealt([Range("b1", 1, 50_001), Range("b2", 5, 9)], 2)]
    [[(1, 25003)], [(25003, 50001), (5, 9)]]
    """
    total = sum(each.end - each.start for each in ranges)
    size = max(TASK_ROWS, math.ceil(total / workers))
    portions: list[list[Range]] = [[]]
    room = size
    for each in ranges:
        while each.start < each.end:
            if not room:
                portions.append([])
                room = size
            part = replace(each, end=min(each.end, each.start + room))
            portions[-1].append(part)
            room -= part.end - part.start
            each = replace(each, start=part.end)
    return [tuple(portion) for portion in portions]


def merged(attributes: pa.Schema, written: Sequence[Written]) -> tuple[pa.Schema, list[int]]:
    """The columns of all, and which of them do not agree with those before them."""
    fields = [*attributes]
    losers = []
    for place, each in enumerate(written):
        wider = _with(fields, [*each.attributes])
        if wider is None or len(wider) > MAX_COLUMNS:
            losers.append(place)
        else:
            fields = wider
    return pa.schema(fields), losers


def _with(fields: list[pa.Field], others: list[pa.Field]) -> list[pa.Field] | None:
    """Fields and others that are new; None if one is another already, which upper and lower case do not change."""
    known = {field.name.lower(): place for place, field in enumerate(fields)}
    found = [*fields]
    for other in others:
        place = known.get(other.name.lower())
        if place is None:
            found.append(other)
        elif found[place] != other:
            mine, kind = found[place], other.type
            if mine.name != other.name or not (arrow.is_struct(mine.type) and arrow.is_struct(kind)):
                return None
            inner = _with([*mine.type], [*kind])
            if inner is None:
                return None
            found[place] = pa.field(mine.name, pa.struct(inner))
    return found


def _lost(lost: Sequence[tuple[Peer, int, int]]) -> SparkError:
    ranges = ", ".join(f"{first}–{last} of {stream}" for stream, first, last in lost)
    return SparkError(
        f"offsets {ranges} are gone before they were archived: they are past their retention, or damaged; to go on without "
        "them, and have that noted in the archive, say --go-on-after-loss"
    )


def reason(error: BaseException) -> str:
    """What a failure on a worker was, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("sluice.errors.")]
    return ours[-1].partition(": ")[2] if ours else lines[0] if lines else repr(error)
