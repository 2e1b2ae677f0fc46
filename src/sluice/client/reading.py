"""Reads the log of a broker again, page by page, with the filter applied there.

A page says how far it has looked, and the next question goes on from there: after a failure the same question is asked again,
so that nothing is read twice and nothing is left out.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.client.event import Event
from sluice.client.inbox import Parcel, Portion
from sluice.client.link import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from sluice.client.questions import ANSWER_SECONDS, NoAnswer
from sluice.errors import ConfigurationError, RequestError
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.questions import NO_LOG, Failed, Fetch, Fetched

if TYPE_CHECKING:
    from sluice.client.engine import Engine

#: How much one page may hold, about.
PAGE_BYTES = 512 << 10
#: The same for programs that read whole logs; brokers give out no more at once.
MAX_PAGE_BYTES = 2 << 20
#: How often `fetch` asks in vain before it gives up.
MAX_ATTEMPTS = 8


class NoLog(RequestError):
    """A broker keeps no log that could be read."""


class Pages:
    """The pages of one log from an offset on."""

    def __init__(
        self,
        engine: Engine,
        stream: Peer,
        where: Subscription,
        *,
        after: int,
        until: int | None = None,
        wait_seconds: float = 0.0,
        max_attempts: int | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self._engine = engine
        self._stream = stream
        self._where = where.to_sql()
        #: Everything up to here has been read.
        self.after = after
        self.until = until
        self._wait_seconds = wait_seconds
        self._max_attempts = max_attempts
        self._page_bytes = page_bytes

    async def next(self) -> Fetched:
        """The next page; asks again after a failure, at most as often as it may."""
        pause, attempts = FIRST_PAUSE_SECONDS, 0
        while True:
            problem = "it is not known"
            try:
                page = await self._ask()
            except NoAnswer as error:
                problem = str(error)
            else:
                if isinstance(page, Fetched):
                    self.after = page.through
                    return page
                problem = page.reason
                if NO_LOG in problem:
                    raise NoLog(problem)
            attempts += 1
            if attempts == self._max_attempts:
                raise RequestError(f"the log of {self._stream} could not be read: {problem}")
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _ask(self) -> Fetched | Failed:
        question = Fetch(self.after, self.until, self._where, self._page_bytes, self._wait_seconds)
        answer = await self._engine.ask(self._stream, question, self._wait_seconds + ANSWER_SECONDS)
        assert isinstance(answer, Fetched | Failed)
        return answer


async def bounds(engine: Engine, stream: Peer, where: Subscription, max_attempts: int = MAX_ATTEMPTS) -> range:
    """The offsets that a log holds now."""
    page = await Pages(engine, stream, where, after=0, until=0, max_attempts=max_attempts).next()
    return range(page.first, page.head + 1)


class Reading(AsyncIterator[list[Event] | pa.RecordBatch]):
    """A range of a log: batches in order, as they were published. `missing` are the offsets that are gone."""

    def __init__(self, engine: Engine, stream: Peer, start: int, end: int | None, where: Subscription) -> None:
        if start < 1 or (end is not None and end < start):
            raise ConfigurationError(f"offsets count from 1, and {start} to {end} is no range of them")
        until = None if end is None else end - 1
        self._pages = Pages(engine, stream, where, after=start - 1, until=until, max_attempts=MAX_ATTEMPTS)
        self._portions: deque[Portion] = deque()
        self._is_read = end == start
        self.missing: list[range] = []

    async def __anext__(self) -> list[Event] | pa.RecordBatch:
        pages = self._pages
        while not self._portions:
            if self._is_read:
                raise StopAsyncIteration
            page = await pages.next()
            pages.until = page.head if pages.until is None else min(pages.until, page.head)
            self._is_read = page.through >= pages.until
            self.missing += [range(first, last + 1) for first, last in page.missing]
            for batch in page.batches:
                self._portions.append(Portion(Parcel(batch, ((),), (), lambda count: None), range(len(batch))))
        return self._portions.popleft().together()
