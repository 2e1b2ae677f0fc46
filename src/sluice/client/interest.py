"""Who asks for what this client could publish: watches, and advertisements, which say what it will publish."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sluice.client.asked import Asked
from sluice.client.session.commands import Advertise, Unadvertise, Unwatch, Watch
from sluice.client.signal import Signal
from sluice.errors import SluiceError
from sluice.model.subscription import Subscription
from sluice.protocol.messages import Entry, EntryId

if TYPE_CHECKING:
    from sluice.client.engine import Engine


class Advertisement:
    """A promise to publish nothing but what matches; use it with `async with`."""

    def __init__(self, engine: Engine, where: Subscription) -> None:
        self._engine = engine
        self.where = where
        self.id: EntryId = engine.session.new_id()
        self.asked = Asked()

    async def complete(self) -> None:
        """Returns when everybody who could be interested knows of it."""
        await self.asked.complete()

    async def __aenter__(self) -> Self:
        self._engine.ask_for(self, Advertise(self.id, self.where))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._engine.take_back(self, Unadvertise(self.id))

    def end(self, error: SluiceError, *, is_clean: bool) -> None:
        """There will be no link any more."""
        self.asked.end(error)


@dataclass(frozen=True, slots=True)
class InterestChange:
    """Subscriptions of others that overlap what is watched came or went."""

    added: tuple[Entry, ...]
    removed: tuple[Entry, ...]


class Interest(AsyncIterator[InterestChange]):
    """Who is interested in what matches a filter, and how that changes; use it with `async with`.

    A program that looks rarely sees the sum of the changes since it last looked.
    """

    def __init__(self, engine: Engine, where: Subscription) -> None:
        self._engine = engine
        self.where = where
        self.id: EntryId = engine.session.new_id()
        self.asked = Asked()
        #: The subscriptions of others that overlap.
        self.subscriptions: dict[EntryId | None, Entry] = {}
        self._added: dict[Entry, None] = {}
        self._removed: dict[Entry, None] = {}
        self._changed = Signal()
        self._end: Exception | None = None

    async def complete(self) -> None:
        """Returns when everybody knows that somebody watches: `subscriptions` holds all that there were by then."""
        await self.asked.complete()

    async def __aenter__(self) -> Self:
        # What another watch has brought already is not sent again.
        self.change(self._engine.session.interest, ())
        self._engine.ask_for(self, Watch(self.id, self.where))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._engine.take_back(self, Unwatch(self.id))
        self._finish(StopAsyncIteration())

    async def __anext__(self) -> InterestChange:
        while not self._added and not self._removed:
            if self._end is not None:
                raise self._end
            await self._changed.wait()
        change = InterestChange(tuple(self._added), tuple(self._removed))
        self._added.clear()
        self._removed.clear()
        return change

    def change(self, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """Subscriptions of others came or went."""
        for entry in removed:
            if self.subscriptions.pop(entry.id, None) is not None:
                _sum_up(entry, self._added, self._removed)
        for entry in added:
            if entry.where.overlaps(self.where) and self.subscriptions.setdefault(entry.id, entry) is entry:
                _sum_up(entry, self._removed, self._added)
        self._changed.notify()

    def end(self, error: SluiceError, *, is_clean: bool) -> None:
        """There will be no link any more."""
        self.asked.end(error)
        self._finish(StopAsyncIteration() if is_clean else error)

    def _finish(self, end: Exception) -> None:
        self._end = self._end or end
        self._changed.notify()


def _sum_up(entry: Entry, undone: dict[Entry, None], done: dict[Entry, None]) -> None:
    """What came and went, or went and came back, has not changed."""
    if undone.pop(entry, entry) is entry:
        done[entry] = None
