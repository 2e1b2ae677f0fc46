"""The market meets the subscribers: each step takes a batch of quotes and finds out who gets each of them.

The matcher is the whole of it; what is counted and remembered here is for people to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from sluice import Matcher
from sluice.demo.market import Market
from sluice.demo.subscribers import NAMED, Subscriber, crowd

BATCH_QUOTES = 1024


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote and how many subscribers it went to."""

    symbol: str
    price: float
    volume: int
    exchange: str
    receivers: int


@dataclass(slots=True)
class Inbox:
    """What one named subscriber has got so far."""

    owner: Subscriber
    received: int = 0
    last: Quote | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One batch, matched: the quotes, who gets which (rows and ids), and how long the matcher took."""

    quotes: Any
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    ids: np.ndarray[Any, np.dtype[np.int32]]
    seconds: float

    @property
    def matches(self) -> int:
        """Deliveries in all: one for each quote and each subscriber who gets it."""
        return len(self.ids)

    def quote(self, row: int) -> Quote:
        """One of the quotes."""
        symbol, price, volume, exchange = (column[row].as_py() for column in self.quotes.columns)
        return Quote(symbol, price, volume, exchange, int(self.offsets[row + 1] - self.offsets[row]))

    def last(self, count: int) -> list[Quote]:
        """The latest quotes, the newest first."""
        rows = len(self.offsets) - 1
        return [self.quote(row) for row in range(rows - 1, max(-1, rows - 1 - count), -1)]


@dataclass(slots=True)
class Feed:
    """A market, all its subscribers in one matcher, and the inboxes of the named ones (their ids come first)."""

    market: Market
    matcher: Matcher
    clock: Callable[[], float]
    inboxes: tuple[Inbox, ...] = field(default_factory=lambda: tuple(map(Inbox, NAMED)))

    @classmethod
    def open(
        cls,
        subscriptions: int,
        seed: int,
        clock: Callable[[], float],
        progress: Callable[[int], object] | None = None,
    ) -> Feed:
        """A feed with this many generated subscriptions beside the named ones; `progress` hears how many are loaded."""
        market, matcher = Market(seed), Matcher()
        texts = chain((subscriber.where for subscriber in NAMED), crowd(market, subscriptions, seed))
        matcher.load(enumerate(texts), progress)
        return cls(market, matcher, clock)

    def step(self) -> Delivery:
        """Match the next batch of quotes and put them into the inboxes."""
        quotes = self.market.quotes(BATCH_QUOTES)
        started = self.clock()
        offsets, ids = self.matcher.match_batch(quotes)
        delivery = Delivery(quotes, offsets, ids, self.clock() - started)
        self._deliver(delivery)
        return delivery

    def _deliver(self, delivery: Delivery) -> None:
        for position in np.flatnonzero(delivery.ids < len(self.inboxes)):
            inbox = self.inboxes[delivery.ids[position]]
            inbox.received += 1
            inbox.last = delivery.quote(int(np.searchsorted(delivery.offsets, position, side="right")) - 1)
