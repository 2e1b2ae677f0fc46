"""One reading of the past for one subscription: what is kept of it, then what the logs hold beyond that, up to now.

What it will have given out at its end is known when it begins (`through`), because where the logs end is asked first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

from sluice.client.bus import Bus
from sluice.client.reading import MAX_ATTEMPTS
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Peer, Place
from sluice.spark.replay.merge import after, last_of, merged
from sluice.spark.replay.past import Past


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a subscriber wishes for: at most `last`, none logged before `since_micros`; or all that follows a place."""

    where: Subscription
    since_micros: int | None = None
    last: int | None = None
    after: Place | None = None


@dataclass(slots=True)
class Reading:
    """The past as of the moment at which it was opened."""

    wanted: Wanted
    through: Mapping[Peer, int]
    batches: AsyncIterator[Batch]
    #: Offsets that should be there and are not; complete when everything is read.
    missing: list[tuple[Peer, int, int]] = field(default_factory=list)


async def open_reading(bus: Bus, past: Past, wanted: Wanted) -> Reading:
    """Begins to read what a subscriber wishes for."""
    kept = dict(await asyncio.to_thread(past.positions))
    held = await bus.streams()
    heads = {stream: offsets.stop - 1 for stream, offsets in held.items()}
    through = {stream: max(kept.get(stream, 0), heads.get(stream, 0)) for stream in (*kept, *heads)}
    if wanted.after is not None:
        # Whoever has begun gets all that follows, however much that is by now.
        wanted = Wanted(wanted.where, wanted.after.time_micros, None, wanted.after)
    missing: list[tuple[Peer, int, int]] = []
    sources = [_kept(past, wanted, kept)]
    for stream, offsets in held.items():
        start = kept[stream] + 1 if stream in kept else offsets.start
        if stream not in kept and wanted.since_micros is not None:
            start = await _first_since(bus, stream, offsets, wanted.since_micros)
        if start < offsets.stop:
            sources.append(_logged(bus, stream, range(start, offsets.stop), wanted, missing))
    batches = merged(sources)
    if wanted.after is not None:
        batches = after(batches, wanted.after)
    if wanted.last is not None:
        batches = last_of(batches, wanted.last)
    return Reading(wanted, through, batches, missing)


async def _kept(past: Past, wanted: Wanted, kept: Mapping[Peer, int]) -> AsyncIterator[Batch]:
    """What is kept, up to where it was when the reading began: the rest is read from the logs."""
    batches = past.read(wanted.where, wanted.since_micros, wanted.last)
    while (batch := await asyncio.to_thread(_next, batches)) is not None:
        assert batch.logged is not None
        until = kept.get(batch.logged.stream, 0)
        rows = [row for row, offset in enumerate(batch.logged.offsets) if offset <= until]
        if rows:
            yield batch.whole_or(rows)


def _next(batches: Iterator[Batch]) -> Batch | None:
    return next(batches, None)


async def _logged(
    bus: Bus, stream: Peer, offsets: range, wanted: Wanted, missing: list[tuple[Peer, int, int]]
) -> AsyncIterator[Batch]:
    """What a log holds of a range."""
    pages = bus.pages(stream, offsets.start, offsets.stop, wanted.where, max_attempts=MAX_ATTEMPTS)
    while pages.after < offsets.stop - 1:
        page = await pages.next()
        missing += [(stream, first, last) for first, last in page.missing]
        for batch in page.batches:
            assert batch.logged is not None
            if wanted.since_micros is None or batch.logged.time_micros >= wanted.since_micros:
                yield batch
        if page.through >= page.head:
            return  # also where the log was replaced by a shorter one


async def _first_since(bus: Bus, stream: Peer, held: range, time_micros: int) -> int:
    """The first offset of a log that was logged at a time or later; times rise with the offsets."""
    low, high = held.start, held.stop
    while low < high:
        middle = (low + high) // 2
        page = await bus.pages(stream, middle, middle + 1, max_attempts=MAX_ATTEMPTS).next()
        logged = page.batches[0].logged if page.batches else None
        if logged is not None and logged.time_micros < time_micros:
            low = middle + 1
        else:
            high = middle
    return low
