"""A subscription as a program holds it: an iterator over what it brings, and what it may have missed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from sluice.client.asked import Asked
from sluice.client.event import Event
from sluice.client.gap import GAPS_KEPT, Gap
from sluice.client.inbox import Inbox
from sluice.client.session.commands import Subscribe, Unsubscribe
from sluice.client.session.merged import Merged
from sluice.client.session.tracked import Tracked
from sluice.errors import SluiceError
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Peer
from sluice.protocol.messages import EntryId, Replay

if TYPE_CHECKING:
    from sluice.client.engine import Engine


class AnySubscription(ABC, AsyncIterator[Event]):
    """What live and durable subscriptions have in common; use it with `async with`."""

    def __init__(self, engine: Engine, where: Subscription) -> None:
        self._engine = engine
        self.where = where
        self.id: EntryId = engine.session.new_id()
        self.inbox = Inbox()
        self.asked = Asked()
        #: What may have been missed, the latest last.
        self.gaps: deque[Gap] = deque(maxlen=GAPS_KEPT)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.where}>"

    async def complete(self) -> dict[Peer, int] | None:
        """Returns at the moment from which nothing is missed; a reliable subscription knows from which offsets on that is."""
        await self.asked.complete()
        return None

    def __anext__(self) -> Coroutine[Any, Any, Event]:
        return self.inbox.__anext__()

    async def batches(self) -> AsyncIterator[list[Event] | pa.RecordBatch]:
        """What came together: lists of events, or Arrow record batches where they were published as such."""
        while True:
            try:
                batch = await self.inbox.next_batch()
            except StopAsyncIteration:
                return
            yield batch

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Subscribes."""

    @abstractmethod
    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Unsubscribes."""

    def end(self, error: SluiceError, *, is_clean: bool) -> None:
        """Nothing more will come."""
        self.asked.end(error)
        self.inbox.end(None if is_clean else error)


class LiveSubscription(AnySubscription):
    """What is published from now on; after a broken link from then on again, and a gap is told.

    With a replay the past comes first, and after a broken link what was missed is read from the brokers' logs.
    """

    def __init__(self, engine: Engine, where: Subscription, replay: Replay | None, *, is_ordered: bool = False) -> None:
        super().__init__(engine, where)
        self.replay = replay
        #: Whether everything comes in the order of all.
        self.is_ordered = is_ordered
        #: Whether the past has come, or never will.
        self.past = Asked()

    async def replayed(self) -> None:
        """Returns when all of the past has come that was wished for; if it never will, a gap was told."""
        if self.replay is not None:
            await self.past.complete()

    async def __aenter__(self) -> Self:
        if self.is_ordered:
            await self._engine.check_ordered()
        self._engine.ask_for(self, Subscribe(self.id, self.where, self.replay, ordered=self.is_ordered))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._engine.take_back(self, Unsubscribe(self.id))
        self.inbox.end()
        self.inbox.clear()

    def end(self, error: SluiceError, *, is_clean: bool) -> None:
        """Nothing more will come."""
        self.past.end(error)
        super().end(error, is_clean=is_clean)


class ReliableSubscription(LiveSubscription):
    """What is published from its start on, each stream in order and without a gap, whatever fails on the way.

    An ordered one gets all streams in the order of all, and waits for each of them. What its log holds no more when it is
    missed is told as a gap, by stream and offsets.
    """

    def __init__(self, engine: Engine, where: Subscription, *, is_ordered: bool = False) -> None:
        super().__init__(engine, where, None, is_ordered=is_ordered)
        #: The first offset of each stream that it gets, of the streams that it has begun to get.
        self.starts: dict[Peer, int] = {}
        self._positions: dict[Peer, int] = {}

    async def complete(self) -> dict[Peer, int]:
        """Returns the starts when it has begun to get all streams that there are."""
        await super().complete()
        return dict(self.starts)

    @property
    def positions(self) -> dict[Peer, int]:
        """For each stream the first offset that has not come to this process. A subscription of the log can start there."""
        tracked = self._engine.session.seams.get(self.id)
        if isinstance(tracked, Tracked):
            self._positions = {stream: position + 1 for stream, position in tracked.positions.items()}
        return dict(self._positions)

    @property
    def waits_for(self) -> list[Peer]:
        """The streams that an ordered one holds something back for; one whose broker is away is waited for until it is back."""
        merged = self._engine.session.seams.get(self.id)
        return merged.waits_for if isinstance(merged, Merged) else []

    async def __aenter__(self) -> Self:
        await self._engine.check_reliable()
        self._engine.ask_for(self, Subscribe(self.id, self.where, reliable=True, ordered=self.is_ordered))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._positions = self.positions
        await super().__aexit__(kind, error, trace)
