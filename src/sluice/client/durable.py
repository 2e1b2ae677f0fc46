"""Subscriptions that read the brokers' logs by position: they go on where they stopped, whoever was killed meanwhile.

Each stream is read by its offsets, page after page, so that every event comes once and in the order of its log. An event counts
as handled when the program asks for the next one; how far each stream is handled is kept at the broker at the other end, under
the name of the subscription, and carried along when the client moves to another one. After a crash of the program, what was
handled and not yet noted comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from sluice.client.event import Event
from sluice.client.gap import Gap
from sluice.client.inbox import Parcel
from sluice.client.questions import NoAnswer
from sluice.client.reading import NoLog, Pages, bounds
from sluice.client.signal import Signal
from sluice.client.subscription import AnySubscription
from sluice.errors import ConfigurationError, RequestError, SluiceError
from sluice.limits import MAX_NAME
from sluice.model import parse
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.questions import (
    Answer,
    Commit,
    Describe,
    Described,
    Failed,
    Fetched,
    Question,
    Recall,
    Resume,
    Resumed,
)

if TYPE_CHECKING:
    from sluice.client.engine import Engine

logger = logging.getLogger("sluice.client")

#: Where reading begins: with what comes next, with the first that is held, or with these offsets.
Start = Literal["latest", "earliest"] | Mapping[Peer, int]

#: How long a broker may wait for something new before it answers that there is nothing.
WAIT_SECONDS = 10.0
#: How often to look for streams that are new.
LOOK_SECONDS = 2.0
#: How often to note how far the program is.
COMMIT_SECONDS = 0.1
#: How long other brokers may take to say where the subscription stopped, if it was at one of them.
RECALL_SECONDS = 2.0
#: Pages of one stream that may wait for the program.
MAX_PAGES = 2


class Progress:
    """How far one stream is handled.

    >>> progress = Progress(4)
    >>> progress.came([7, 9], 12)
    >>> progress.came([], 20)
    >>> progress.handle(7), progress.done, progress.handle(9), progress.done
    (None, 7, None, 20)
    """

    __slots__ = ("_pages", "done")

    def __init__(self, done: int) -> None:
        #: Everything up to here is handled.
        self.done = done
        #: For each page that is not: the last offset in it, and how far it has looked.
        self._pages: deque[tuple[int, int]] = deque()

    @property
    def pages(self) -> int:
        """How many pages are not handled."""
        return len(self._pages)

    def came(self, offsets: list[int], through: int) -> None:
        """A page came, with events at these offsets."""
        if offsets:
            self._pages.append((offsets[-1], through))
        elif self._pages:
            self._pages[-1] = (self._pages[-1][0], through)
        else:
            self.done = through

    def handle(self, offset: int) -> None:
        """The event at this offset is handled, and all before it."""
        self.done = max(self.done, offset)
        while self._pages and self._pages[0][0] <= offset:
            self.done = self._pages.popleft()[1]


class DurableSubscription(AnySubscription):
    """What the brokers' logs hold and will hold; for one reader at a time."""

    def __init__(self, engine: Engine, where: Subscription, name: str | None, start: Start) -> None:
        super().__init__(engine, where)
        if name is not None and not 1 <= len(name) <= MAX_NAME:
            raise ConfigurationError(f"a durable subscription's name has 1 to {MAX_NAME} characters, not {len(name)}")
        if isinstance(start, str) and start not in ("latest", "earliest"):
            raise ConfigurationError(
                f"start is {start!r}: write 'latest', 'earliest', or the first offset of each stream"
            )
        self.name = name
        self._start = start
        self._progress: dict[Peer, Progress] = {}
        #: What was noted last, and at which broker.
        self._committed: dict[Peer, int] = {}
        self._kept_at: Peer | None = None
        self._readers: dict[Peer, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        #: Where the event is that the program has now.
        self._given: tuple[Peer, int] | None = None
        self._handled = Signal()

    @property
    def positions(self) -> dict[Peer, int]:
        """Where to go on: for each stream the first offset that is not handled. Another subscription can start there."""
        return {stream: progress.done + 1 for stream, progress in self._progress.items()}

    # --- its life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        positions = await self._first_positions()
        if self.name is not None:
            positions = await self._resume(positions, await self._recall(self.name))
        self._progress = {stream: Progress(done) for stream, done in positions.items()}
        self._engine.follow(self)
        self._tasks = [asyncio.create_task(self._look_for_streams())]
        if self.name is not None:
            self._tasks.append(asyncio.create_task(self._keep_committing()))
        self.asked.completed()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for task in (*self._tasks, *self._readers.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._readers.values(), return_exceptions=True)
        self._engine.unfollow(self)
        self.inbox.end()
        self.inbox.clear()
        if error is None:
            self.handle()
        if self.name is not None and not self._engine.has_ended:
            try:
                async with asyncio.timeout(self._engine.options.close_seconds):
                    await self._commit()
            except (TimeoutError, SluiceError) as error:
                problem = str(error) or "there was no answer"
                logger.warning("how far %s is could not be noted: %s; the last events come again", self.name, problem)

    async def commit(self) -> None:
        """Counts all that was given out as handled, and returns when that is noted on disk."""
        self.handle()
        await self._commit()

    async def __anext__(self) -> Event:
        self.handle()
        event = await self.inbox.__anext__()
        assert event.stream is not None and event.offset is not None
        self._given = event.stream, event.offset
        return event

    async def batches(self) -> AsyncIterator[list[Event] | pa.RecordBatch]:
        """What was logged together, as in `AnySubscription`; a batch is handled when the next one is asked for."""
        while True:
            self.handle()
            try:
                batch = await self.inbox.next_batch()
            except StopAsyncIteration:
                return
            assert self.inbox.portion is not None
            logged = self.inbox.portion.parcel.batch.logged
            assert logged is not None
            self._given = logged.stream, logged.offsets[self.inbox.portion.rows[-1]]
            yield batch

    def give(self, stream: Peer, offset: int) -> None:
        """All before this event is handled: the program has this one now."""
        self._given = None
        progress = self._progress.get(stream)
        if progress is not None:
            progress.handle(offset - 1)
            self._given = stream, offset
            self._handled.notify()

    def handle(self) -> None:
        """What was given out is handled."""
        if self._given is not None:
            stream, offset = self._given
            self._given = None
            self._progress[stream].handle(offset)
            self._handled.notify()

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _insist(self, question: Question) -> Answer:
        """The answer of the broker at the other end, however often the link breaks before it comes."""
        while True:
            try:
                answer = await self._engine.ask(None, question)
            except NoAnswer:
                continue
            if isinstance(answer, Failed):
                raise RequestError(answer.reason)
            return answer

    async def _recall(self, name: str) -> dict[Peer, int]:
        """Where the subscription stopped, as far as brokers know at which it may have been before."""
        home = await self._engine.home()
        others = [broker for broker in await self._streams() if broker != home]
        answers = await asyncio.gather(
            *(self._engine.ask(other, Recall(name), RECALL_SECONDS) for other in others), return_exceptions=True
        )
        known = [answer for answer in answers if isinstance(answer, Resumed) and parse(answer.where) == self.where]
        return _furthest(answer.positions for answer in known)

    async def _resume(self, start: Mapping[Peer, int], reached: Mapping[Peer, int]) -> dict[Peer, int]:
        """Has the broker at the other end keep how far it is; returns that."""
        assert self.name is not None
        while True:
            self._kept_at = await self._engine.home()
            answer = await self._insist(Resume(self.name, self.where.to_sql(), start, reached=reached))
            if self._kept_at == await self._engine.home():  # else it may have been asked of either
                break
        assert isinstance(answer, Resumed)
        self._committed = dict(answer.positions)
        return dict(answer.positions)

    async def _streams(self) -> list[Peer]:
        """The brokers that can be reached."""
        answer = await self._insist(Describe())
        assert isinstance(answer, Described)
        return [*answer.report["brokers"]]

    async def _first_positions(self) -> dict[Peer, int]:
        """Where reading begins if nothing is known of an earlier life, as the last offset before that."""
        if not isinstance(self._start, str):
            return {stream: offset - 1 for stream, offset in self._start.items()}
        positions = {}
        for stream in await self._streams():
            try:
                held = await bounds(self._engine, stream, self.where)
            except RequestError:
                continue  # it keeps no log, or is gone again: if it ever comes with one, that is read from its beginning
            positions[stream] = held.stop - 1 if self._start == "latest" else held.start - 1
        return positions

    async def _look_for_streams(self) -> None:
        """Has every stream read that there is or will be."""
        while True:
            try:
                streams = await self._streams()
            except RequestError as error:
                logger.warning("which streams there are could not be asked: %s", error)
                streams = []
            for stream in streams:
                if stream not in self._readers or self._readers[stream].done():
                    self._readers[stream] = asyncio.create_task(self._read(stream))
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(self, stream: Peer) -> None:
        """Reads one stream for as long as it can be read."""
        try:
            if stream not in self._progress:
                held = await bounds(self._engine, stream, self.where)
                self._progress[stream] = Progress(held.start - 1)
            after = self._progress[stream].done
            pages = Pages(self._engine, stream, self.where, after=after, wait_seconds=WAIT_SECONDS)
            while True:
                while self._progress[stream].pages >= MAX_PAGES:
                    await self._handled.wait()
                after = pages.after
                page = await pages.next()
                if page.head < after:
                    while self._progress[stream].pages:
                        await self._handled.wait()
                    self._tell_gap(
                        stream, range(page.first, page.head + 1), "its log was replaced: it is read from its beginning"
                    )
                    pages.after = page.first - 1
                    self._progress[stream] = Progress(pages.after)
                else:
                    self._take(stream, page)
        except NoLog:
            return
        except RequestError as error:
            logger.debug("%s is not read for now: %s", stream, error)

    def _take(self, stream: Peer, page: Fetched) -> None:
        for first, last in page.missing:
            self._tell_gap(stream, range(first, last + 1), "they are past their retention, or damaged")
        offsets: list[int] = []
        for batch in page.batches:
            assert batch.logged is not None
            offsets = [batch.logged.offsets[-1]]
            parcel = Parcel(batch, ((self,),), (), lambda count: None)
            self.inbox.put(parcel, range(len(batch)))
            parcel.release()
        self._progress[stream].came(offsets, page.through)
        self._handled.notify()

    def _tell_gap(self, stream: Peer, offsets: range, reason: str) -> None:
        now = datetime.now(UTC)
        self._engine.tell(Gap(reason, (self,), now, now, len(offsets), stream, offsets))

    # --- notes --------------------------------------------------------------------------------------------------------

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_SECONDS)
            try:
                await self._commit()
            except RequestError as error:
                logger.warning("how far %s is could not be noted: %s", self.name, error)
                await asyncio.sleep(1.0)

    async def _commit(self) -> None:
        """Notes how far every stream is handled, if that has changed."""
        if self.name is None:
            return
        home = await self._engine.home()
        if home != self._kept_at:  # the client has moved, and is to go on there
            await self._resume({}, {stream: progress.done for stream, progress in self._progress.items()})
        changed = {
            stream: progress.done
            for stream, progress in self._progress.items()
            if self._committed.get(stream) != progress.done
        }
        if changed:
            await self._insist(Commit(self.name, changed))
            self._committed.update(changed)

    def end(self, error: SluiceError, *, is_clean: bool) -> None:
        """There will be no link any more."""
        for task in (*self._tasks, *self._readers.values()):
            task.cancel()
        super().end(error, is_clean=is_clean)


def _furthest(positions: Iterable[Mapping[Peer, int]]) -> dict[Peer, int]:
    """The largest offset of each stream.

    >>> _furthest([{"a": 3, "b": 1}, {"b": 4}])
    {'a': 3, 'b': 4}
    """
    furthest: dict[Peer, int] = {}
    for each in positions:
        for stream, offset in each.items():
            furthest[stream] = max(offset, furthest.get(stream, 0))
    return furthest
