"""Whether what was asked for has taken effect: the moment from which nothing is missed, and what to wait for until then."""

from __future__ import annotations

from sluice.client.signal import Signal
from sluice.errors import SluiceError


class Asked:
    """One thing that a client asks of its broker; after every new link it is asked for again."""

    __slots__ = ("_changed", "_error", "is_complete", "lost_at", "lost_reason")

    def __init__(self) -> None:
        self.is_complete = False
        #: Since when something may be missed although it was complete: the time and the reason of the first loss.
        self.lost_at: float | None = None
        self.lost_reason = ""
        self._changed = Signal()
        self._error: SluiceError | None = None

    async def complete(self) -> None:
        """Returns once it has taken effect everywhere."""
        while not self.is_complete:
            if self._error is not None:
                raise self._error
            await self._changed.wait()

    def completed(self) -> None:
        """It has taken effect."""
        self.is_complete = True
        self.lost_at = None
        self._changed.notify()

    def lost(self, heard: float, reason: str) -> None:
        """The link is gone; its broker was last heard at this time."""
        if self.is_complete:
            self.lost_at, self.lost_reason = heard, reason
        self.is_complete = False

    def end(self, error: SluiceError) -> None:
        """It will never take effect."""
        self._error = error
        self._changed.notify()
