"""One order without loss, at the subscriber's broker: up to which moment of the order of all every stream has come.

The moments of a stream rise with its offsets, so a stream that is complete up to an offset behind which only later moments
follow is complete up to that moment. What an ordered subscription gets waits at its client until all of its streams are past
it; the client is told how far they are. A stream that does not say so by itself is asked, one question at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from sluice.protocol.batch import Peer
from sluice.protocol.messages import EntryId, Missing, Passed
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.subscribers import MAX_DOUBLINGS, Stream, Subscribers, ToClient, Wish


class Moments:
    """What the ordered ones among the reliable subscriptions of a broker wait for."""

    __slots__ = ("_config", "_name", "_subscribers", "asked", "waits_for")

    def __init__(self, name: Peer, subscribers: Subscribers, config: ReliableConfig) -> None:
        self._name = name
        self._subscribers = subscribers
        self._config = config
        #: The streams that hold something back, each with the moment that it has to be past.
        self.waits_for: dict[Peer, int] = {}
        #: For the record: how often a stream was asked.
        self.asked = 0

    @property
    def deadline(self) -> float:
        """When a stream is to be asked again."""
        streams = self._subscribers.streams
        return min((streams[name].await_at for name in self.waits_for if name in streams), default=math.inf)

    @property
    def own(self) -> int:
        """The moment that this broker's own stream has to be past."""
        return self.waits_for.get(self._name, 0)

    def settle(self, promised: int) -> Iterator[ToClient]:
        """After a step: tells clients how far all of their streams are; `promised` is how far this broker's own is."""
        subscribers = self._subscribers
        self.waits_for = {}
        own = subscribers.streams.get(self._name)
        if own is not None:
            own.date(promised)
        told: dict[tuple[Peer, int], list[EntryId]] = {}
        for wish in list(subscribers.behind.values()):
            limit = self._limit(wish)
            if limit > wish.told:
                wish.told = limit
                told.setdefault((wish.client, limit), []).append(wish.id)
            if limit >= wish.owed and not wish.undated:
                del subscribers.behind[wish.id]
        for (client, limit), ids in told.items():
            yield client, Passed({}, tuple(ids), limit)

    def _limit(self, wish: Wish) -> int:
        """How far all streams of a subscription are; takes note of those that are not far enough.

        As long as some have not begun, nothing is said: they would have to begin behind what was given out without them.
        """
        streams = self._subscribers.streams
        for name, date in list(wish.undated.items()):
            if streams[name].dates > date:
                # Whatever its client reads from the log is older than that.
                wish.owed = max(wish.owed, streams[name].moment)
                del wish.undated[name]
        for name in wish.starts:
            if streams[name].moment < wish.owed or name in wish.undated:
                self.waits_for[name] = max(self.waits_for.get(name, 1), wish.owed)
        return min(streams[name].moment for name in wish.starts) if wish.is_ready and wish.starts else 0

    def ask(self, now: float) -> Iterator[Missing]:
        """What other streams are to be asked now."""
        for name, goal in self.waits_for.items():
            stream = self._subscribers.streams[name]
            if name != self._name and (stream.await_at <= now or not stream.awaited):
                yield self._ask(name, stream, goal, now)

    def _ask(self, name: Peer, stream: Stream, goal: int, now: float) -> Missing:
        stream.awaits = stream.awaits + 1 if stream.awaited else 0
        stream.awaited = goal
        pause = self._config.gap_seconds * 2.0 ** min(stream.awaits, MAX_DOUBLINGS)
        stream.await_at = now + min(pause, self._config.patience_seconds)
        self.asked += 1
        return Missing(name, self._name, (), stream.needed, goal)
