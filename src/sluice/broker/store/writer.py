"""What a durable broker has to be written, on its way to the journal's thread and back as events of the core."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from sluice.broker.logs import log
from sluice.broker.store.journal import Journal
from sluice.broker.store.store import NewBatch, Store
from sluice.errors import StoreError
from sluice.protocol.batch import Batch, Logged, Peer
from sluice.protocol.events import NotStored, Reserved, Stored
from sluice.protocol.packing import encode_batch


class Writer:
    """Hands over what is to be written; `post` hears what came of it, on the event loop and in the same order."""

    def __init__(
        self, name: Peer, store: Store, journal: Journal, post: Callable[[Stored | NotStored | Reserved], None]
    ) -> None:
        self._name = name
        self._store = store
        self._journal = journal
        self._post = post
        self._loop = asyncio.get_running_loop()
        #: When something was last logged.
        self._logged_micros = store.latest_micros
        #: What the journal's thread has to say.
        self._settled: deque[tuple[NewBatch, Batch, int | StoreError]] = deque()

    def log(self, batch: Batch, after: int, moment: int) -> None:
        """Has publications logged, which follow a number of their publisher and have a moment in the order of all."""
        # The times of a log never go back, whatever the clock does: they put streams in order.
        now_micros = self._logged_micros = max(time.time_ns() // 1_000, self._logged_micros)
        payload, last = b"".join(encode_batch(batch)), batch.numbers[-1]
        new = NewBatch(batch.publisher, after, last, len(batch), now_micros, payload, moment)
        self._journal.submit(new, lambda result: self._logged(new, batch, result))

    def _logged(self, new: NewBatch, batch: Batch, result: int | StoreError) -> None:
        """Called by the journal's thread."""
        self._settled.append((new, batch, result))
        if len(self._settled) == 1:
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        while self._settled:
            new, batch, result = self._settled.popleft()
            if isinstance(result, StoreError):
                reason = str(result)
                log("not-stored", level=logging.ERROR, peer=batch.publisher, reason=reason)
                self._post(NotStored(batch, self._store.last_number(batch.publisher), reason, new.moment))
            else:
                offsets = range(result, result + len(batch))
                self._post(Stored(batch.placed(Logged(self._name, offsets, new.time_micros, new.moment))))

    def reserve(self, moment: int) -> None:
        """Has it written down that moments up to this one are given."""
        self._journal.call(lambda store: store.reserve(moment), lambda result: self._reserved(moment, result))

    def _reserved(self, moment: int, result: StoreError | None) -> None:
        """Called by the journal's thread."""
        self._loop.call_soon_threadsafe(self._post, Reserved(0 if isinstance(result, StoreError) else moment))
