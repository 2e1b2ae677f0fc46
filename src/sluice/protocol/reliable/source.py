"""The publisher's side: where its stream ends, and how far everybody is who relies on it.

Who seems to be behind is told where the stream ends until it says that it is there: what was lost at the end of a stream is
noticed in no other way. The log may let go of what all have reached: of those who are out of touch it remembers for a while
how far they were, and after a start, when it knows of nobody yet, it waits for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from sluice.protocol.batch import Peer
from sluice.protocol.messages import Clocks, Missing, Runs
from sluice.protocol.reliable.clocks import knows
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.route.directions import Direction
from sluice.protocol.stream import keep_from


class Source:
    """The stream of one broker."""

    __slots__ = (
        "_config",
        "_name",
        "_number",
        "_pauses",
        "_reads",
        "_seen",
        "_waits_until",
        "from_log",
        "head",
        "is_reserving",
        "moment",
        "reached",
        "reserve_at",
        "reserved",
        "told",
        "wanted",
    )

    def __init__(self, name: Peer, head: int, moment: int, config: ReliableConfig) -> None:
        self._name = name
        self._config = config
        #: For brokers that are told of the end of the stream: when to tell them again, and how long to wait after that.
        self._pauses: dict[Peer, tuple[float, float]] = {}
        #: The last offset that is on disk.
        self.head = head
        #: Its moment, and the one up to which this broker gives none again, also after a crash.
        self.moment = self.reserved = moment
        #: Whether more is being reserved; if that has just failed, when to try again.
        self.is_reserving = False
        self.reserve_at = math.inf
        #: Who has asked for the end of the stream to be past a moment.
        self.wanted: dict[Peer, int] = {}
        #: How far brokers with reliable subscribers have said they are.
        self.reached: dict[Peer, int] = {}
        #: What each direction was told of with the end of the stream.
        self.told: dict[Direction, Clocks] = {}
        #: When brokers with reliable subscribers were last known of; and until when all may be out of touch after a start.
        self._seen: dict[Peer, float] = {}
        self._waits_until: float | None = None if head else -math.inf
        self._number = 0
        #: For the record: notifications that were read from the log because somebody has missed them.
        self.from_log = 0
        #: What is read from the log for whom.
        self._reads: dict[str, Missing] = {}

    def note(self, offsets: Mapping[Peer, int]) -> None:
        """Takes note of how far brokers are."""
        for name, offset in offsets.items():
            self.reached[name] = max(self.reached.get(name, 0), offset)
            self._pauses.pop(name, None)

    def is_behind(self, clocks: Iterable[Peer], now: float) -> bool:
        """Whether some of these brokers are to be told of the end of the stream: it is not known that they are there.

        Who does not answer is told again, after a pause that is twice as long each time.
        """
        due = False
        for name in clocks:
            if self.reached.get(name, -1) < self.head:
                at, pause = self._pauses.get(name, (now, self._config.report_seconds))
                if at <= now:
                    due = True
                    self._pauses[name] = now + pause, min(2 * pause, self._config.patience_seconds)
        return due

    def is_news(self, direction: Direction, clocks: Clocks) -> bool:
        """Whether subscriptions in a direction are known that it was not told of."""
        return not knows(self.told.get(direction, {}), clocks)

    def see(self, known: Iterable[Peer], now: float) -> None:
        """Takes note of who relies on the stream, and forgets who did so and was out of touch for too long."""
        if self._waits_until is None:
            self._waits_until = now + self._config.absence_seconds
        self._seen.update((name, now) for name in known if name != self._name)
        for name in [name for name, at in self._seen.items() if now - at > self._config.absence_seconds]:
            del self._seen[name]
            self.reached.pop(name, None)
            self._pauses.pop(name, None)

    def needs_from(self, now: float) -> int | None:
        """The first offset that somebody may still ask for; None: nobody relies on what there is."""
        if self._waits_until is None or now < self._waits_until:
            return 1
        return keep_from(self.reached.get(name, 0) for name in self._seen)

    def lags(self, known: Iterable[Peer]) -> list[int]:
        """How many offsets each of these brokers has not reached, for all that is known."""
        return [self.head - min(self.reached.get(name, 0), self.head) for name in known if name != self._name]

    def stored(self, offset: int, moment: int) -> None:
        """The stream goes on; or something of it comes by again, on its way from one broker to another that has missed it."""
        if offset > self.head:
            self.head = offset
            self.moment = moment or self.moment

    def promised(self, present: int) -> int:
        """The moment that all that is to come will be later than; `present` is that without any crash."""
        return max(self.moment, min(present, self.reserved))

    def reserve(self, needed: int) -> int | None:
        """The moment that is to be written down as given, so that one can be promised; None: nothing is."""
        if needed <= self.reserved or self.is_reserving or self.reserve_at != math.inf:
            return None
        self.is_reserving = True
        return needed + self._config.reserved_moments

    def was_reserved(self, moment: int, now: float) -> None:
        """It is written down, or could not be."""
        self.is_reserving = False
        self.reserved = max(self.reserved, moment)
        self.reserve_at = math.inf if moment else now + self._config.report_seconds

    def read(self, message: Missing) -> tuple[str, int, int]:
        """Takes note of what is read from the log: a name for it, and the first and last offset to read."""
        self._number += 1
        id = f"{self._name}//{self._number}"
        self._reads[id] = message
        return id, message.runs[0][0], message.runs[-1][1]

    def was_read(self, id: str) -> Missing | None:
        """What was asked for under a name; None: nothing was."""
        return self._reads.pop(id, None)


def clipped(runs: Runs, through: int) -> Iterator[tuple[int, int]]:
    """The offsets up to one of them."""
    for first, last in runs:
        if first <= through:
            yield first, min(last, through)
