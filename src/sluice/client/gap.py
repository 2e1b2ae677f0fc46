"""What a subscriber may have missed, said aloud: a gap is told to the program, kept with its subscriptions, and logged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sluice.protocol.batch import Peer

if TYPE_CHECKING:
    from sluice.client.subscription import AnySubscription

#: Gaps that a subscription remembers, the latest ones.
GAPS_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Notifications may be missing: those of a time, or those of a range of a log."""

    reason: str
    subscriptions: tuple[AnySubscription, ...]
    #: What was published before this moment and after that one has come.
    since: datetime
    until: datetime
    #: How many are missing for certain, where that is known.
    count: int | None = None
    #: The log and the offsets that are missing, where they are known.
    stream: Peer | None = None
    offsets: range | None = None

    def __str__(self) -> str:
        if self.offsets is not None:
            return (
                f"offsets {self.offsets.start} to {self.offsets.stop - 1} of {self.stream} are missing: {self.reason}"
            )
        much = "notifications may be missing" if self.count is None else f"{self.count:,} notifications are missing"
        return f"{much} between {self.since:%H:%M:%S.%f} and {self.until:%H:%M:%S.%f} UTC: {self.reason}"
