"""What has come for a program and waits to be taken: whole batches, made into events one by one as they are taken.

Nothing is awaited while there is something to take, except that a program which takes without end lets others run now and
then. Whoever is cancelled while he waits has taken nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sluice.client.event import Event, PastEvent
from sluice.client.signal import Signal
from sluice.protocol.batch import Batch, Rows

if TYPE_CHECKING:
    from sluice.client.subscription import AnySubscription

#: So many events in a row may be taken before other tasks get their turn.
MAX_TAKEN = 1_024


_numbers = count()


class Parcel:
    """A batch that came, and how many inboxes still hold something of it."""

    __slots__ = ("_on_taken", "batch", "combinations", "holders", "is_past", "number", "which")

    def __init__(
        self,
        batch: Batch,
        combinations: Sequence[tuple[AnySubscription, ...]],
        which: Sequence[int],
        on_taken: Callable[[int], None],
        *,
        is_past: bool = False,
    ) -> None:
        self.batch = batch
        #: Whether it was replayed.
        self.is_past = is_past
        #: The combinations of subscriptions that occur, and the number of its combination for each row (empty: the first).
        self.combinations = combinations
        self.which = which
        #: In which order parcels came.
        self.number = next(_numbers)
        #: Whoever made it holds it too, until it is where it belongs.
        self.holders = 1
        self._on_taken = on_taken

    def release(self) -> None:
        """One inbox less holds it."""
        self.holders -= 1
        if not self.holders:
            self._on_taken(len(self.batch))


class Portion(NamedTuple):
    """The rows of a parcel that one inbox gets."""

    parcel: Parcel
    rows: Sequence[int]

    def events(self) -> Iterator[Event]:
        """One by one."""
        parcel, make = self.parcel, (PastEvent if self.parcel.is_past else Event).of
        batch, combinations, which = parcel.batch, parcel.combinations, parcel.which
        records = batch.records
        if which:
            for row in self.rows:
                yield make(batch, row, records[row], combinations[which[row]])
        else:
            all_of_them = combinations[0]
            for row in self.rows:
                yield make(batch, row, records[row], all_of_them)

    def together(self) -> list[Event] | pa.RecordBatch:
        """All at once, in the form in which they travelled."""
        batch = self.parcel.batch
        if isinstance(batch, Rows):
            whole = len(self.rows) == len(batch)
            return batch.table if whole else batch.table.take(pa.array(self.rows, pa.int64()))
        return [*self.events()]


class Inbox(AsyncIterator[Event]):
    """A queue of events for the tasks of one event loop."""

    __slots__ = ("_changed", "_end", "_events", "_in_a_row", "_portions", "portion")

    def __init__(self) -> None:
        self._portions: deque[Portion] = deque()
        #: The portion that is being taken, or was taken last, and what is left of it.
        self.portion: Portion | None = None
        self._events: Iterator[Event] = iter(())
        self._changed = Signal()
        self._in_a_row = 0
        #: What is raised once everything is taken; None: more may come.
        self._end: Exception | None = None

    def put(self, parcel: Parcel, rows: Sequence[int]) -> None:
        """Something came."""
        if self._end is None:
            parcel.holders += 1
            self._portions.append(Portion(parcel, rows))
            self._changed.notify()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come; with an error if that is not as it should be."""
        if self._end is None:
            self._end = error or StopAsyncIteration()
            self._changed.notify()

    def waiting(self) -> Sequence[Portion]:
        """All that waits, without the portion that is being taken."""
        return tuple(self._portions)

    def clear(self) -> None:
        """Gives all that waits away."""
        portions = [*self._portions]
        self._portions.clear()
        for portion in portions:
            portion.parcel.release()

    async def __anext__(self) -> Event:
        while (event := next(self._events, None)) is None:
            self._events = (await self.take()).events()
        return event

    async def next_batch(self) -> list[Event] | pa.RecordBatch:
        """What came together with the next event, as far as it is not taken yet."""
        if left := [*self._events]:
            return left
        return (await self.take()).together()

    async def take(self) -> Portion:
        """The next portion, whole."""
        if self._in_a_row >= MAX_TAKEN:
            self._in_a_row = 0
            await asyncio.sleep(0)
        while not self._portions:
            if self._end is not None:
                raise self._end
            self._in_a_row = 0
            await self._changed.wait()
        self.portion = portion = self._portions.popleft()
        self._in_a_row += len(portion.rows)
        portion.parcel.release()
        return portion
