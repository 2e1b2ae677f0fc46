"""What clients ask for and take back, as a trace tells it."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.client.session import commands as client
from sluice.sim.trace import ordered, streamed
from sluice.sim.trace import trace as said


def said_of(command: client.Command, name: str, now: float) -> Iterator[said.TraceEvent]:
    """What a trace says of a command of a client; nothing of one that asks for nothing."""
    match command:
        case client.Subscribe(id, where, replay, reliable, is_ordered):
            yield said.Subscribed(now, name, id, where.to_sql())
            if reliable:
                yield streamed.Relied(now, name, id)
            if is_ordered:
                yield ordered.Ordered(now, name, id)
            if replay is not None and replay.last is not None:
                yield streamed.Wished(now, name, id, replay.last)
        case client.Unsubscribe(id):
            yield said.Unsubscribed(now, name, id)
        case client.Advertise(id, where):
            yield said.Advertised(now, name, id, where.to_sql())
        case client.Unadvertise(id):
            yield said.Unadvertised(now, name, id)
        case client.Watch(id, where):
            yield said.Watched(now, name, id, where.to_sql())
        case client.Unwatch(id):
            yield said.Unwatched(now, name, id)
