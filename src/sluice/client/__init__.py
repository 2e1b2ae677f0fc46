"""Publish and subscribe from Python: a `Bus` for asyncio, a `BlockingBus` beside it, and the pure `Session` behind both."""

from typing import TYPE_CHECKING

from sluice.lazy import imported_when_asked

if TYPE_CHECKING:
    from sluice.client.blocking import BlockingBus
    from sluice.client.bus import Bus
    from sluice.client.event import Event
    from sluice.client.gap import Gap
    from sluice.client.session.session import Session

__all__ = ["BlockingBus", "Bus", "Event", "Gap", "Session"]

__getattr__ = imported_when_asked(
    __name__,
    {
        "BlockingBus": "sluice.client.blocking",
        "Bus": "sluice.client.bus",
        "Event": "sluice.client.event",
        "Gap": "sluice.client.gap",
        "Session": "sluice.client.session.session",
    },
)
