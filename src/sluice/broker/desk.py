"""Answers what a broker is asked: ranges of its log, where durable subscriptions stand, how it is.

The log is read in a thread of its own, so that a long look holds nobody up. A question that may wait for something new waits in
an index of filters: what is stored is matched once, and wakes those whom it concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, assert_never

from sluice.broker.store.journal import Journal
from sluice.broker.store.store import Store, check_positions
from sluice.errors import SluiceError
from sluice.limits import MAX_REQUESTS
from sluice.match.filterset import FilterSet
from sluice.model import parse
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import EntryId, Reply, Request
from sluice.protocol.questions import (
    NO_LOG,
    Answer,
    Commit,
    Describe,
    Described,
    Done,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Recall,
    ReplayEvent,
    Resume,
    Resumed,
)
from sluice.protocol.rewiring import Connect, Leave, Part, Replace
from sluice.protocol.stream import Stream, only

#: No question waits longer than this for something new.
MAX_WAIT_SECONDS = 60.0
#: No answer is longer than about this.
MAX_ANSWER_BYTES = 2 << 20


class Waiting:
    """A question that has seen all there is and waits for more."""

    __slots__ = ("request", "through", "timer")

    def __init__(self, request: Request, through: int, timer: asyncio.TimerHandle) -> None:
        self.request = request
        self.through = through
        self.timer = timer


class Desk:
    """Where the questions to one broker are answered."""

    def __init__(
        self,
        name: Peer,
        store: Store | None,
        journal: Journal | None,
        *,
        describe: Callable[[], Mapping[str, Any]],
        orders: Callable[[Request], None],
        reply: Callable[[Reply], None],
    ) -> None:
        self._name = name
        self._store = store
        self._journal = journal
        self._describe = describe
        self._orders = orders
        self._reply = reply
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sluice-reader")
        self._reader = None if store is None else store.reader()
        #: The last offset that has come by, in the order in which things were stored.
        self._head = 0 if store is None else store.head
        self._wanted: FilterSet[EntryId] = FilterSet()
        self._waiting: dict[EntryId, Waiting] = {}
        #: How many questions wait for their turn to be looked up.
        self._looking = 0
        #: Notifications that were read from the log, and their bytes.
        self.fetched = self.fetched_bytes = 0

    def close(self) -> None:
        """Answers nothing any more."""
        for waiting in self._waiting.values():
            waiting.timer.cancel()
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._reader is not None:
            self._reader.close()

    def ask(self, request: Request) -> None:
        """Answers a question, now or later."""
        question = request.question
        if isinstance(question, Describe):
            self._answer(request.id, Described(self._describe()))
            return
        if isinstance(question, Connect | Part | Replace | Leave):
            self._orders(request)
            return
        if self._store is None or self._journal is None:
            self._answer(request.id, Failed(f"{self._name} {NO_LOG}: start it with a data directory"))
            return
        try:
            match question:
                case Fetch():
                    self._fetch(request, question)
                case Resume():
                    parse(question.where)
                    self._write(request.id, lambda store: _resume(store, self._name, question))
                case Recall(name):
                    self._write(request.id, lambda store: _recall(store, self._name, name))
                case Commit(name, positions):
                    self._commit(request.id, self._journal, name, positions)
                case Forget(name):
                    self._write(request.id, lambda store: _forget(store, name))
                case ReplayEvent():
                    self._answer(request.id, Failed(f"{self._name} is a broker: replays are for subscriptions"))
                case _:
                    assert_never(question)
        except SluiceError as error:
            self._answer(request.id, Failed(str(error)))

    def stored(self, batch: Batch) -> None:
        """Something new is in the log."""
        assert batch.logged is not None
        self._head = batch.logged.offsets[-1]
        if self._waiting:
            concerned = dict.fromkeys(chain.from_iterable(self._wanted.matching_each(batch.notifications)))
            for waiting in self._waiting.values():
                if waiting.request.id not in concerned:
                    waiting.through = max(waiting.through, self._head)
            for id in concerned:
                self._wake(id)

    def _answer(self, id: EntryId, answer: Answer) -> None:
        if isinstance(answer, Fetched):
            self.fetched += sum(map(len, answer.batches))
            self.fetched_bytes += sum(batch.size for batch in answer.batches)
        self._reply(Reply(id, answer))

    # --- ranges of the log --------------------------------------------------------------------------------------------

    def _fetch(self, request: Request, question: Fetch) -> None:
        where = _selector(question.where)
        if self._looking >= MAX_REQUESTS:
            self._answer(request.id, Failed(f"{self._name} has {MAX_REQUESTS:,} questions to look up: ask again later"))
            return
        self._looking += 1
        work = self._loop.run_in_executor(self._thread, self._look, question, where, self._head)
        work.add_done_callback(lambda future: self._looked(request, question, future))

    def _look(self, question: Fetch, where: FilterSet[None] | None, head: int) -> Fetched:
        """Reads the log, in the reader's thread."""
        assert self._store is not None and self._reader is not None
        bounded = replace(question, max_bytes=max(1, min(question.max_bytes, MAX_ANSWER_BYTES)))
        return Stream(self._name, self._reader.read).fetch(bounded, where, self._store.first, head)

    def _looked(self, request: Request, question: Fetch, future: asyncio.Future[Fetched]) -> None:
        self._looking -= 1
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._answer(request.id, Failed(f"{self._name} could not read its log: {error}"))
            return
        found = future.result()
        nothing = not found.batches and not found.missing and found.through >= found.head
        may_wait = question.wait_seconds > 0 and question.until is None  # not a number: it may not
        if not nothing or not may_wait:
            self._answer(request.id, found)
        elif found.head < self._head:
            self._fetch(request, question)  # something came while we looked
        else:
            self._wait(request, question, found.through)

    def _wait(self, request: Request, question: Fetch, through: int) -> None:
        self._give_up(request.id)
        seconds = min(question.wait_seconds, MAX_WAIT_SECONDS)
        self._waiting[request.id] = Waiting(
            request, through, self._loop.call_later(seconds, self._time_out, request.id)
        )
        self._wanted.add(request.id, parse(question.where))
        if len(self._waiting) > MAX_REQUESTS:
            self._time_out(next(iter(self._waiting)))

    def _give_up(self, id: EntryId) -> Waiting | None:
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            waiting.timer.cancel()
            self._wanted.remove(id)
        return waiting

    def _wake(self, id: EntryId) -> None:
        waiting = self._give_up(id)
        if waiting is not None:
            question = waiting.request.question
            assert isinstance(question, Fetch)
            self._fetch(waiting.request, replace(question, after=waiting.through))

    def _time_out(self, id: EntryId) -> None:
        waiting = self._give_up(id)
        if waiting is not None:
            assert self._store is not None
            self._answer(id, Fetched((), waiting.through, self._store.first, self._head))

    # --- durable subscriptions ----------------------------------------------------------------------------------------

    def _write(self, id: EntryId, work: Callable[[Store], Answer]) -> None:
        assert self._journal is not None
        self._journal.call(work, lambda result: self._written(id, result))

    def _commit(self, id: EntryId, journal: Journal, name: str, positions: Mapping[Peer, int]) -> None:
        journal.commit(name, positions, lambda error: self._written(id, error or Done()))

    def _written(self, id: EntryId, result: Answer | Exception) -> None:
        answer = Failed(str(result)) if isinstance(result, Exception) else result
        self._loop.call_soon_threadsafe(self._answer, id, answer)


def _resume(store: Store, stream: Peer, question: Resume) -> Answer:
    held = store.subscription(question.name)
    if held is None:
        begin = question.reached or question.start
        store.create(question.name, question.where, begin, holds=question.holds)
        return Resumed(question.where, begin)
    where, positions = held
    if parse(where) != parse(question.where):
        return Failed(
            f"the durable subscription {question.name!r} asks for {where}: use that filter, another name, or forget it first"
        )
    if question.holds != (question.name in store.holds(stream)):
        holds = "does not hold" if question.holds else "holds"
        return Failed(
            f"the durable subscription {question.name!r} {holds} the log of {stream}: use another name, or forget it first"
        )
    ahead = {stream: offset for stream, offset in question.reached.items() if offset > positions.get(stream, -1)}
    if ahead:
        check_positions(question.name, ahead)
        store.append((), [(question.name, ahead)])
    return Resumed(where, {**positions, **ahead})


def _recall(store: Store, stream: Peer, name: str) -> Answer:
    held = store.subscription(name)
    if held is None or name in store.holds(stream):
        return Failed(f"{stream} knows of no durable subscription {name!r}")
    return Resumed(*held)


def _forget(store: Store, name: str) -> Answer:
    if store.subscription(name) is None:
        return Failed(f"there is no durable subscription {name!r}")
    store.forget(name)
    return Done()


@lru_cache(maxsize=256)
def _selector(where: str) -> FilterSet[None] | None:
    return only(parse(where))
