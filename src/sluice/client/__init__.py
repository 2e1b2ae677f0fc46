"""Publish and subscribe from Python."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.client.blocking import BlockingBus
    from sluice.client.bus import Bus
    from sluice.client.event import Event
    from sluice.client.gap import Gap
    from sluice.client.session import Session

__all__ = ["BlockingBus", "Bus", "Event", "Gap", "Session"]

#: Where the names live; the verbs of the command line are described without any of them.
_HOMES = {
    "BlockingBus": "sluice.client.blocking",
    "Bus": "sluice.client.bus",
    "Event": "sluice.client.event",
    "Gap": "sluice.client.gap",
    "Session": "sluice.client.session",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sluice.client' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
