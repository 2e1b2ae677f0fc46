"""A history: watches who wishes for the past, and replays it to each of them alone, as fast as that one takes it.

Every replay begins with the question how far the subscriber is, and goes on from there. A subscriber that does not answer for
a while costs nothing but the question: what was open for it is closed, and opened again from its place when it answers. Where
the archive cannot be read, a replay is given up: the subscriber hears from another history, or is told that it hears from none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from sluice.client.bus import Bus
from sluice.client.interest import Interest
from sluice.errors import LinkError, SluiceError, SparkError
from sluice.protocol.batch import Batch, Place
from sluice.protocol.messages import Entry, EntryId
from sluice.protocol.questions import ReplayEvent, Replaying
from sluice.spark.replay.merge import chunks
from sluice.spark.replay.past import Past
from sluice.spark.replay.reading import Wanted, open_reading

logger = logging.getLogger("sluice.history")

#: How much of the past is offered at a time, about.
CHUNK_ROWS, CHUNK_BYTES = 2_048, 512 << 10
#: Replays that read at the same time; others wait for their turn.
MAX_READING = 8
#: How long a subscriber may take for a part before what is open for it is closed.
SLOW_SECONDS = 2.0
#: How often a subscriber hears from a history that is still looking.
PROBE_SECONDS = 3.0
#: The pause after a failure.
RETRY_SECONDS = 0.5


@dataclass(slots=True)
class Account:
    """What a history does and has done."""

    #: The replays under way, with how many notifications each has sent.
    running: dict[EntryId, int] = field(default_factory=dict)
    done: int = 0
    #: Replays that ended for want of something that is archived.
    given_up: int = 0
    sent: int = 0
    #: The last thing that went wrong.
    problem: str = ""

    def __str__(self) -> str:
        given_up = f", {self.given_up:,} given up" if self.given_up else ""
        now = f"{len(self.running)} replays under way, {self.done:,} done{given_up}, {self.sent:,} notifications sent"
        return f"{now}; {self.problem}" if self.problem else now


class History:
    """The service, on one connection."""

    def __init__(self, bus: Bus, past: Past) -> None:
        self._bus = bus
        self._past = past
        self.account = Account()
        self._replays: dict[EntryId, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(MAX_READING)
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Returns when everybody who wishes for the past is heard."""
        await self._ready.wait()

    async def run(self) -> None:
        """Replays until it is cancelled, or until there will be no link any more."""
        try:
            async with self._bus.watch("true") as interest:
                watching = asyncio.create_task(self._become_ready(interest))
                try:
                    async for change in interest:
                        for entry in change.removed:
                            self._stop(str(entry.id))
                        for entry in change.added:
                            self._start(entry)
                finally:
                    watching.cancel()
        finally:
            running = [*self._replays.values()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _become_ready(self, interest: Interest) -> None:
        await interest.complete()
        self._ready.set()

    def _start(self, entry: Entry) -> None:
        if entry.replay is None or entry.id is None:
            return
        if not self._past.where.covers(entry.where):
            logger.info("%s asks for more than is archived (%s): it is not answered", entry.id, self._past.where)
            return
        self._stop(entry.id)
        self._replays[entry.id] = asyncio.create_task(self._attend(entry, entry.id))

    def _stop(self, id: EntryId) -> None:
        task = self._replays.pop(id, None)
        if task is not None:
            task.cancel()

    # --- one subscription ---------------------------------------------------------------------------------------------

    async def _attend(self, entry: Entry, id: EntryId) -> None:
        """Replays to one subscription until it has all, whatever goes wrong meanwhile; only a damaged archive ends it."""
        self.account.running[id] = 0
        failed_after: int | None = None
        try:
            while True:
                try:
                    await self._replay(entry, id)
                    self.account.done += 1
                    return
                except LinkError:
                    raise
                except SparkError as error:
                    # An archive that was tidied up meanwhile is read anew, from where the subscriber is. What cannot be read
                    # then either is damaged or gone.
                    self.account.problem = str(error)
                    if failed_after == self.account.running[id]:
                        logger.error("the replay for %s is given up: %s", id, error)
                        self.account.given_up += 1
                        return
                    failed_after = self.account.running[id]
                except SluiceError as error:
                    # A way that broke: it goes on from where the subscriber is.
                    logger.debug("the replay for %s begins again: %s", id, error)
                    self.account.problem = str(error)
                except Exception as error:
                    logger.exception("the replay for %s has failed", id)
                    self.account.problem = str(error)
                    return
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            del self.account.running[id]
            if self._replays.get(id) is asyncio.current_task():
                del self._replays[id]

    async def _replay(self, entry: Entry, id: EntryId) -> None:
        answer = await self._bus.offer(id, ReplayEvent())
        while not answer.is_over:
            async with self._turns:
                late = await self._send(entry, id, answer.after)
            if late is None:
                return
            answer = await late

    async def _send(self, entry: Entry, id: EntryId, after: Place | None) -> asyncio.Task[Replaying] | None:
        """Sends what follows a place until all is sent, then returns None; or until a subscriber is slow: its late answer."""
        assert entry.replay is not None
        seconds = entry.replay.seconds
        since = None if seconds is None else time.time_ns() // 1_000 - round(seconds * 1e6)
        reading = await open_reading(self._bus, self._past, Wanted(entry.where, since, entry.replay.last, after))
        async with aclosing(chunks(reading.batches, CHUNK_ROWS, CHUNK_BYTES)) as parts:  # type: ignore[type-var]
            while True:
                part = await self._next(parts, id)
                last = None if part else dict(reading.through)
                event = ReplayEvent(part, after, last, () if part else tuple(reading.missing))
                offer = asyncio.create_task(self._bus.offer(id, event))
                try:
                    await asyncio.wait([offer], timeout=SLOW_SECONDS)
                except asyncio.CancelledError:
                    offer.cancel()
                    raise
                if not offer.done():
                    return offer
                answer = offer.result()
                if answer.is_over:
                    return None
                if part:
                    assert part[-1].logged is not None
                    after = part[-1].logged.place(len(part[-1]) - 1)
                if answer.after != after:
                    return offer  # another history was faster: what follows is read anew
                self._count(id, part)

    async def _next(self, parts: AsyncIterator[tuple[Batch, ...]], id: EntryId) -> tuple[Batch, ...]:
        """The next part, empty at the end; the subscriber hears meanwhile that somebody is looking."""
        looking = asyncio.create_task(_next_of(parts))
        try:
            while not (await asyncio.wait([looking], timeout=PROBE_SECONDS))[0]:
                await self._bus.offer(id, ReplayEvent())
            return looking.result()
        finally:
            if not looking.done():
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    def _count(self, id: EntryId, part: tuple[Batch, ...]) -> None:
        rows = sum(map(len, part))
        self.account.running[id] += rows
        self.account.sent += rows


async def _next_of(parts: AsyncIterator[tuple[Batch, ...]]) -> tuple[Batch, ...]:
    return await anext(parts, None) or ()
