"""How fast it goes: quotes and matches a second, and how long a batch takes, over a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sluice.demo.feed import BATCH_QUOTES, Delivery


@dataclass(frozen=True, slots=True)
class Rates:
    """The figures of a stretch of time."""

    seconds: float
    quotes: int
    matches: int
    median_milliseconds: float
    slow_milliseconds: float  # 99 of 100 batches took less

    @property
    def quotes_per_second(self) -> float:
        """Quotes made, matched and shown in a second."""
        return self.quotes / self.seconds if self.seconds else 0.0

    @property
    def matches_per_second(self) -> float:
        """Subscribers found in a second."""
        return self.matches / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Meter:
    """Counts deliveries from one moment on."""

    since: float
    matches: int = 0
    milliseconds: list[float] = field(default_factory=list)

    def count(self, delivery: Delivery) -> None:
        """Take one more batch into account."""
        self.matches += delivery.matches
        self.milliseconds.append(delivery.seconds * 1e3)

    def rates(self, now: float) -> Rates:
        """The figures from the first moment until now."""
        took = self.milliseconds or [0.0]
        median, slow = np.quantile(took, (0.5, 0.99)).tolist()
        return Rates(now - self.since, len(self.milliseconds) * BATCH_QUOTES, self.matches, median, slow)
