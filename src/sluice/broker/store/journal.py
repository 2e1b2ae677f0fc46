"""Writes the store from a thread of its own: whoever hands something over goes on, and is called back when it is on the disk.

While one commit waits for the disk, what is handed over meanwhile collects and becomes the next: the busier the broker, the
more publications share one wait (group commit).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sluice.broker.store.store import NewBatch, Retention, Store, check_positions
from sluice.errors import StoreError
from sluice.protocol.stream import keep_from

T = TypeVar("T")

#: What is committed together at most: more would save no time, and let the first of it wait for the last.
GROUP_BYTES = 8 << 20
#: What something that waits costs beside its payload, about.
OVERHEAD_BYTES = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Publication:
    batch: NewBatch
    done: Callable[[int | StoreError], None]

    @property
    def bytes(self) -> int:
        return len(self.batch.payload) + OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class _Positions:
    name: str
    positions: Mapping[str, int]
    done: Callable[[StoreError | None], None]

    @property
    def bytes(self) -> int:
        return OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class _Work:
    #: Does it and calls back.
    run: Callable[[], None]

    @property
    def bytes(self) -> int:
        return OVERHEAD_BYTES


class Journal:
    """The one writer of a store: any thread may hand over, callbacks come from the writer's thread in the same order.

    A callback should do next to nothing (wake an event loop, say), since the next commit waits for it.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_pending_bytes: int,
        stream: str = "",
        retention: Retention | None = None,
        trim_seconds: float = 1.0,
        needed_from: int | None = None,
        now_micros: Callable[[], int] = lambda: time.time_ns() // 1_000,
    ) -> None:
        self.max_pending_bytes = max_pending_bytes
        self._store = store
        #: The name of what the store logs: durable subscriptions that hold the log have a position under it.
        self._stream = stream
        self._retention = retention
        self._trim_seconds = trim_seconds
        self._now_micros = now_micros
        self._trim_at = time.monotonic()
        #: The first offset that other brokers may still ask for: it stays, but no more than twice what is to be kept.
        self.needed_from = needed_from
        self._waiting: deque[_Publication | _Positions | _Work] = deque()
        self._pending_bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sluice-journal", daemon=True)
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """What was handed over and is not written yet, in bytes of memory, about."""
        return self._pending_bytes

    @property
    def full(self) -> bool:
        """Whether more is pending than should be: time to stop reading from publishers until it is less."""
        return self._pending_bytes > self.max_pending_bytes

    def submit(self, batch: NewBatch, done: Callable[[int | StoreError], None]) -> None:
        """Logs a batch; `done` is told its first offset once that is on the disk, or why it could not be logged."""
        self._hand_over(_Publication(batch, done))

    def commit(self, name: str, positions: Mapping[str, int], done: Callable[[StoreError | None], None]) -> None:
        """Notes how far a durable subscription has read; `done` is told None once that is on the disk, or why it is not."""
        check_positions(name, positions)
        self._hand_over(_Positions(name, positions, done))

    def call(self, work: Callable[[Store], T], done: Callable[[T | StoreError], None]) -> None:
        """Does something else with the store in its turn, creating a subscription, say; `done` is told what came of it."""

        def run() -> None:
            result: T | StoreError
            try:
                result = work(self._store)
            except Exception as error:
                result = _as_store_error(error)
            _call_back(done, result)

        self._hand_over(_Work(run))

    def close(self) -> None:
        """Writes what is pending, calls back, and ends the thread; the store stays open, and nothing more is taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _hand_over(self, item: _Publication | _Positions | _Work) -> None:
        with self._changed:
            if self._closed:
                raise StoreError("the journal of this broker is closed: hand nothing over while it stops")
            self._waiting.append(item)
            self._pending_bytes += item.bytes
            self._changed.notify()

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            match group:
                case []:
                    pass
                case [_Work(run)]:
                    self._forget_pending(group)
                    run()
                case _:
                    self._write(group)
            self._keep_house()

    def _next_group(self) -> list[_Publication | _Positions | _Work] | None:
        """What to write together next; empty if it is only time to trim, None at the end."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                if self._retention is None:
                    self._changed.wait()
                elif not self._changed.wait(max(0.0, self._trim_at - time.monotonic())):
                    return []
            group = [self._waiting.popleft()]
            size = group[0].bytes
            # Other work keeps its turn: it is a group by itself, and ends the one before it.
            while self._waiting and size < GROUP_BYTES and not isinstance(group[0], _Work):
                if isinstance(self._waiting[0], _Work):
                    break
                group.append(self._waiting.popleft())
                size += group[-1].bytes
            return group

    def _write(self, group: Sequence[_Publication | _Positions | _Work]) -> None:
        """One commit for all of them, then the callbacks."""
        batches = [item.batch for item in group if isinstance(item, _Publication)]
        positions = [(item.name, item.positions) for item in group if isinstance(item, _Positions)]
        failure: StoreError | None = None
        offsets: list[int | StoreError] = []
        try:
            offsets = self._store.append(batches, positions)
        except Exception as error:
            # Whatever it was: a writer that died of it would leave everybody waiting for ever.
            failure = _as_store_error(error)
            offsets = [failure] * len(batches)
        self._forget_pending(group)
        results = iter(offsets)
        for item in group:
            match item:
                case _Publication(_, done):
                    _call_back(done, next(results))
                case _Positions(_, _, noted):
                    _call_back(noted, failure)
                case _Work():
                    raise AssertionError("work is done in a group by itself")

    def _forget_pending(self, group: Sequence[_Publication | _Positions | _Work]) -> None:
        with self._changed:
            self._pending_bytes -= sum(item.bytes for item in group)

    def _keep_house(self) -> None:
        """What nobody waits for, a portion of it between two groups; if the disk does not let it, later."""
        try:
            self._store.checkpoint()
            if self._retention is not None and time.monotonic() >= self._trim_at:
                self._trim_at = time.monotonic() + self._trim_seconds
                if self._trim(self._retention):
                    self._trim_at = time.monotonic()
        except Exception as error:
            _log.warning("the store could not be tidied up, which will be tried again: %s", error)

    def _trim(self, retention: Retention) -> int:
        held, now = keep_from(self._store.holds(self._stream).values()), self._now_micros()
        needed = self.needed_from
        if needed is None:
            return self._store.trim(retention, now, held)
        kept = needed if held is None else min(held, needed)
        return self._store.trim(retention, now, kept) + self._store.trim(retention.doubled, now, held)


def _call_back(done: Callable[[T], None], result: T) -> None:
    try:
        done(result)
    except Exception:
        # It concerns one caller; the others still want to know.
        _log.exception("what was to be told of a commit could not be told")


def _as_store_error(error: Exception) -> StoreError:
    return (
        error if isinstance(error, StoreError) else StoreError(f"the store failed unexpectedly ({error!r}): report it")
    )
