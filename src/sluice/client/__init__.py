"""Publish and subscribe from Python."""

from sluice.client.bus import Bus
from sluice.client.connect import connect
from sluice.client.event import Event
from sluice.client.gap import Gap
from sluice.client.session import Session
from sluice.protocol.messages import Replay

__all__ = ["Bus", "Event", "Gap", "Replay", "Session", "connect"]
