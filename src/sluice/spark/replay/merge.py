"""Several sources of notifications as one, in the order of places, with one batch of each in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from heapq import heapify, heappop, heapreplace

from sluice.protocol.batch import Batch, Place


def first_place(batch: Batch) -> Place:
    """Where a batch begins."""
    assert batch.logged is not None, "what is replayed has its place"
    return batch.logged.place(0)


async def merged(sources: Sequence[AsyncIterator[Batch]]) -> AsyncIterator[Batch]:
    """What is in order in each source, in order; a batch has one stream and one time, so that none lies within another."""
    waiting: list[tuple[Place, int, Batch]] = []
    for number, source in enumerate(sources):
        batch = await anext(source, None)
        if batch is not None:
            waiting.append((first_place(batch), number, batch))
    heapify(waiting)
    while waiting:
        _, number, batch = waiting[0]
        yield batch
        following = await anext(sources[number], None)
        if following is None:
            heappop(waiting)
        else:
            heapreplace(waiting, (first_place(following), number, following))


async def last_of(source: AsyncIterator[Batch], count: int) -> AsyncIterator[Batch]:
    """The last so many notifications of a source."""
    kept: deque[Batch] = deque()
    rows = 0
    async for batch in source:
        kept.append(batch)
        rows += len(batch)
        while rows - len(kept[0]) >= count:
            rows -= len(kept.popleft())
    if kept and rows > count:
        first = kept.popleft()
        kept.appendleft(first.take(range(rows - count, len(first))))
    for batch in kept:
        yield batch


async def after(source: AsyncIterator[Batch], place: Place) -> AsyncIterator[Batch]:
    """What of a source is behind a place."""
    async for batch in source:
        assert batch.logged is not None
        rows = [row for row in range(len(batch)) if batch.logged.place(row) > place]
        if rows:
            yield batch.whole_or(rows)


async def chunks(source: AsyncIterator[Batch], max_rows: int, max_bytes: int) -> AsyncIterator[tuple[Batch, ...]]:
    """Batches put together, about so many rows or bytes at a time."""
    together: list[Batch] = []
    rows = size = 0
    async for batch in source:
        for start in range(0, len(batch), max_rows):
            part = batch.whole_or(range(start, min(start + max_rows, len(batch))))
            together.append(part)
            rows += len(part)
            size += part.size
            if rows >= max_rows or size >= max_bytes:
                yield tuple(together)
                together, rows, size = [], 0, 0
    if together:
        yield tuple(together)
