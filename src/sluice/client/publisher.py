"""What a program publishes on its way to the broker: numbered, put together, sent, and followed until it is accepted.

What is published within one turn of the event loop leaves as one batch. A program that publishes faster than the broker accepts
waits; a publication that waits is not published yet, so that whoever is cancelled meanwhile knows where he stands.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

import pyarrow as pa

from sluice.client.session.commands import Publish, PublishRefused, PublishUnknown
from sluice.client.session.session import Session
from sluice.client.signal import Signal
from sluice.errors import ConfigurationError, NotificationError, PublishError, SluiceError
from sluice.limits import MAX_BATCH, MAX_FRAME_BYTES
from sluice.model.notification import attributes
from sluice.protocol.batch import MARKED, Batch, Records, Rows, Stamp, decode_table, encode_record, nested

logger = logging.getLogger("sluice.client")

#: What may have been published and not accepted before the program waits.
MAX_UNACCEPTED = 65_536
MAX_UNACCEPTED_BYTES = 16 << 20
#: What is put together before it leaves in the middle of a turn of the event loop.
MAX_TOGETHER = 512
MAX_TOGETHER_BYTES = 256 << 10
#: Bytes of the records of one batch: it and its header fit into a frame.
MAX_BODY_BYTES = MAX_FRAME_BYTES // 2
#: Failed publications that are remembered until somebody asks with `flush`.
MAX_FAILED = 10_000


class Columns(NamedTuple):
    """Rows that are published as they are, and their bytes."""

    table: pa.RecordBatch
    body: bytes | memoryview

    @property
    def rows(self) -> int:
        """How many publications that is."""
        return int(self.table.num_rows)


#: What is encoded: one record, or many rows.
Part = bytes | Columns


class Publisher:
    """The publications of one client."""

    def __init__(self, session: Session, step: Callable[[Publish], None]) -> None:
        self._session = session
        self._step = step
        self._loop = asyncio.get_running_loop()
        #: The number of the last publication.
        self.last = session.published
        #: What is not handed over yet, encoded, and how many more may join without looking.
        self._parts: list[bytes] = []
        self._part_bytes = 0
        #: Whether they are to be in order for all.
        self._ordered = False
        self._room = 0
        self._scheduled = False
        self._is_up = False
        #: The last number and the bytes of each batch that is not accepted.
        self._sizes: deque[tuple[int, int]] = deque()
        self._unaccepted_bytes = 0
        self._refused: dict[int, str] = {}
        self._unknown: list[int] = []
        self._changed = Signal()
        #: Why nothing can be published any more.
        self.error: SluiceError | None = None

    # --- what the program asks for ------------------------------------------------------------------------------------

    async def publish(self, record: object, *, ordered: bool = False) -> int:
        """Publishes one record; returns its number. `ordered`: everybody gets it in the order of all."""
        body = encoded(record)
        while self._room <= 0 or self._part_bytes > MAX_TOGETHER_BYTES or not self._may_join(ordered):
            await self._make_room()
        self._room -= 1
        self._parts.append(body)
        self._part_bytes += len(body)
        if not self._scheduled:
            self._schedule()
        self.last += 1
        return self.last

    def _may_join(self, ordered: bool) -> bool:
        """Whether what is published may leave with what was put together: a batch is in order, or it is not."""
        if ordered != self._ordered:
            self.hand_over()
            if self._parts:
                return False
            self._ordered = ordered
        return True

    async def publish_all(self, parts: Sequence[Part], *, ordered: bool = False) -> int:
        """Publishes what is encoded already, all or none of it; returns the number of the last."""
        if parts:
            await self.room()
            self.put(parts, ordered=ordered)
        return self.last

    async def room(self) -> None:
        """Returns when something may be published. Whoever is cancelled here has published nothing."""
        while self._room <= 0:
            await self._make_room()

    def put(self, parts: Sequence[Part], *, ordered: bool = False) -> None:
        """Publishes what is encoded already, at once."""
        self.hand_over()
        stamp = MARKED if ordered else None
        for is_rows, group in groupby(parts, lambda part: isinstance(part, Columns)):
            if is_rows:
                for table, body in cast("Iterator[Columns]", group):
                    numbers = self._next(table.num_rows)
                    self._publish(Rows(self._session.name, numbers, table=table, body=body, stamp=stamp))
            else:
                for run in _runs(cast("Iterator[bytes]", group)):
                    self._hand_over(run, stamp)
        self._room = 0  # look again

    async def skip_to(self, number: int) -> None:
        """Has the next publication get this number. Waits until all that came before is settled."""
        self.hand_over()
        while self._parts or self._session.settled < self.last:
            if self.error is not None:
                raise self.error
            await self._changed.wait()
        if number <= self.last:
            raise ConfigurationError(f"number {self.last} was published, and numbers do not go back to {number}")
        self.last = self._session.published = number - 1
        self._room = 0

    async def flush(self) -> None:
        """Returns when all that was published before is accepted; raises `PublishError` if something was not."""
        goal = self.last
        self.hand_over()
        while self._session.settled < goal and self.error is None:
            await self._changed.wait()
        if self._refused or self._unknown or self._session.settled < goal:
            raise self.failure(max(goal, self._session.settled))

    def failure(self, last: int) -> PublishError:
        """What was not accepted up to a number, for whoever waits no longer; what was told is not told again."""
        error = PublishError(self._refused, [*self._unknown, *range(self._session.settled + 1, last + 1)])
        self._refused, self._unknown = {}, []
        return error

    # --- what happens on the link -------------------------------------------------------------------------------------

    def up(self) -> None:
        """There is a link."""
        self._is_up = True
        # Another broker may know of more, from an earlier life of this name: what is not handed over yet comes after that.
        self.last = max(self.last, self._session.published + len(self._parts))
        self._settle()
        self.hand_over()

    def down(self) -> None:
        """There is none."""
        self._is_up = False
        self._room = 0

    def accepted(self) -> None:
        """The broker has accepted something."""
        self._settle()

    def refused(self, news: PublishRefused) -> None:
        """The broker does not take something."""
        if not self._refused:  # once until somebody asks: a full disk refuses thousands
            logger.warning("publication %d was refused: %s", news.id.number, news.reason)
        if len(self._refused) < MAX_FAILED:
            self._refused[news.id.number] = news.reason
        self._settle()

    def unknown(self, news: PublishUnknown) -> None:
        """Nobody knows whether the broker has something."""
        logger.warning("the link broke before %d publications were accepted", len(news.batch))
        self._note_unknown(news.batch.numbers)
        self._settle()

    def over(self, error: SluiceError) -> None:
        """There will be no link any more."""
        self.error = error
        self._room = 0
        self._changed.notify()

    # --- how it is done -----------------------------------------------------------------------------------------------

    def _note_unknown(self, numbers: Iterable[int]) -> None:
        self._unknown.extend(list(numbers)[: MAX_FAILED - len(self._unknown)])

    def _settle(self) -> None:
        settled = self._session.settled
        while self._sizes and self._sizes[0][0] <= settled:
            self._unaccepted_bytes -= self._sizes.popleft()[1]
        self._changed.notify()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.hand_over)

    async def _make_room(self) -> None:
        """Waits until more may be published; looks again at least once, so that others get their turn."""
        self.hand_over()
        await asyncio.sleep(0)
        while not self._may_go_on:
            if self.error is not None:
                raise self.error
            await self._changed.wait()
        self._room = min(MAX_TOGETHER - len(self._parts), MAX_UNACCEPTED - (self.last - self._session.settled))

    @property
    def _may_go_on(self) -> bool:
        is_behind = (
            self.last - self._session.settled >= MAX_UNACCEPTED or self._unaccepted_bytes >= MAX_UNACCEPTED_BYTES
        )
        return self._is_up and self.error is None and not is_behind

    def hand_over(self) -> None:
        """Sends what was put together. While there is no link it stays, and goes first when there is one."""
        self._scheduled = False
        if self._parts and self._is_up:
            parts, self._parts = self._parts, []
            self._part_bytes = 0
            self.last -= len(parts)
            self._hand_over(parts, MARKED if self._ordered else None)

    def _hand_over(self, parts: list[bytes], stamp: Stamp | None) -> None:
        lengths = array("I", map(len, parts))
        numbers = self._next(len(parts))
        self._publish(Records(self._session.name, numbers, body=b"".join(parts), lengths=lengths, stamp=stamp))

    def _next(self, count: int) -> range:
        self.last += count
        return range(self.last - count + 1, self.last + 1)

    def _publish(self, batch: Batch) -> None:
        size = batch.size
        self._sizes.append((batch.numbers[-1], size))
        self._unaccepted_bytes += size
        self._step(Publish(batch))


def encoded(record: object) -> bytes:
    """A record as it travels; raises `NotificationError` for what is none."""
    flat = attributes(record)
    return encode_record(flat if flat is record else nested(flat))


def encoded_columns(table: pa.RecordBatch | pa.Table) -> list[Columns]:
    """The rows of a table in parts that each fit into a frame; raises `NotificationError` if they are no notifications."""
    batches = [table] if isinstance(table, pa.RecordBatch) else table.to_batches()
    return [
        part
        for batch in batches
        for start in range(0, batch.num_rows, MAX_BATCH)
        for part in _halved(batch.slice(start, MAX_BATCH))
    ]


def _halved(table: pa.RecordBatch) -> Iterator[Columns]:
    count = table.num_rows
    body = Rows("", range(count), table=table).body
    if len(body) <= MAX_BODY_BYTES:
        # Read as the broker will read it, so that what it would not take is known here.
        yield Columns(decode_table(body, count), body)
    elif count == 1:
        raise NotificationError(
            f"a row takes {len(body):,} bytes and the limit is {MAX_BODY_BYTES:,}: publish a reference to the data"
        )
    else:
        yield from _halved(table.slice(0, count // 2))
        yield from _halved(table.slice(count // 2))


def _runs(parts: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Records in runs that each fit into a batch."""
    run: list[bytes] = []
    size = 0
    for part in parts:
        if run and (len(run) == MAX_BATCH or size + len(part) > MAX_BODY_BYTES):
            yield run
            run, size = [], 0
        run.append(part)
        size += len(part)
    if run:
        yield run
