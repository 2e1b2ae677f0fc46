"""Reliable subscriptions: from its start to its end, a subscription gets exactly what matches it, in order, once.

Safety (`gapless`): of each stream a reliable subscription gets nothing before its start, and from there on the offsets rise and
none that matches is left out, but for those it was told are lost; as long as its client is in touch, nothing is lost of what a
log was not forced to let go. Liveness (`arrived`), when everything has come to rest after the faults, and at the end of a
trace: every active subscription has started in every stream, before anything that was published at rest, and has got
everything up to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sluice.sim.spec.history import History
from sluice.sim.spec.streams import Logs
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace import streamed
from sluice.sim.trace.trace import (
    Attached,
    BrokerDown,
    ClientDown,
    LinkLost,
    Notified,
    Quiet,
    Subscribed,
    Topology,
    TraceEvent,
    Unsubscribed,
)


@dataclass(slots=True)
class Relying:
    """A reliable subscription while a trace is read."""

    client: str
    id: str
    where: str
    said: TraceEvent
    starts: dict[str, int] = field(default_factory=dict)
    #: Of each stream the last offset that it got.
    last: dict[str, int] = field(default_factory=dict)
    lost: list[tuple[str, int, int]] = field(default_factory=list)
    #: Whether the link of its client has ever been broken: what it had not read then may be past its retention.
    was_away: bool = False

    def is_lost(self, stream: str, offset: int) -> bool:
        """Whether it was told that it will not get something."""
        return any(name == stream and first <= offset <= last for name, first, last in self.lost)


class Reading:
    """Goes through a trace and knows who relies on what."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = Logs(history)
        self.active: dict[str, Relying] = {}
        self.streams: tuple[str, ...] = ()
        self._homes: dict[str, str] = {}
        #: Where each stream ended when everything was at rest.
        self.rest: dict[str, int] | None = None
        #: What had not arrived then.
        self.late: list[Violation] = []

    def events(self) -> Iterator[Violation]:
        """What is wrong on the way."""
        texts: dict[str, str] = {}
        for event in self.history.events:
            self.logs.take(event)
            match event:
                case Topology(brokers=brokers):
                    self.streams = brokers
                case Attached(_, client, broker):
                    self._homes[client] = broker
                case BrokerDown(_, broker):
                    self._away(client for client, home in self._homes.items() if home == broker)
                case LinkLost(_, a, b):
                    self._away((a, b))
                case Subscribed(_, _, id, where):
                    texts[id] = where
                case streamed.Relied(_, client, id):
                    self.active[id] = Relying(client, id, texts[id], event)
                case Unsubscribed(_, _, id):
                    self.active.pop(id, None)
                case ClientDown(_, client):
                    for id in [id for id, each in self.active.items() if each.client == client]:
                        del self.active[id]
                case streamed.Begun(_, _, id, stream, offset):
                    if id in self.active:
                        yield from self._begin(self.active[id], event, stream, offset)
                case streamed.Skipped(_, _, id, stream, first, last):
                    if id in self.active:
                        yield from self._lose(self.active[id], event, stream, first, last)
                case Notified(subscriptions=ids):
                    for id in ids:
                        if id in self.active:
                            yield from self._get(self.active[id], event)
                case Quiet():
                    self.rest = {stream: len(held) for stream, held in self.logs.held.items()}
                    for who in self.active.values():
                        for stream in who.starts:
                            self.late += self._missed(who, stream, self.rest.get(stream, 0), event.at, "arrived")

    def _away(self, clients: Iterable[str]) -> None:
        names = tuple(clients)
        for each in self.active.values():
            each.was_away |= each.client in names

    def _begin(self, who: Relying, event: TraceEvent, stream: str, offset: int) -> Iterator[Violation]:
        if stream in who.starts:
            yield Violation("gapless", event.at, f"{who.id} starts in {stream} once more", (who.said, event))
        who.starts[stream], who.last[stream] = offset, offset - 1

    def _lose(self, who: Relying, event: TraceEvent, stream: str, first: int, last: int) -> Iterator[Violation]:
        who.lost.append((stream, first, last))
        if last >= (self.logs.first if who.was_away else self.logs.forced).get(stream, 1):
            yield Violation(
                "gapless",
                event.at,
                f"{who.id} is told that {stream}:{first} to {last} are lost, and nothing forces that",
            )

    def _get(self, who: Relying, event: Notified) -> Iterator[Violation]:
        logged = self.logs.of.get((event.publisher, event.number))
        if logged is None:
            return  # nobody may be notified of it at all, which is another rule
        stream, offset = logged.stream, logged.offset
        if stream not in who.starts:
            yield Violation("gapless", event.at, f"{who.id} gets {stream}:{offset} before its start", (who.said, event))
        elif offset <= who.last[stream]:
            says = f"{who.id} gets {stream}:{offset} when it is at {who.last[stream]} already"
            yield Violation("gapless", event.at, says, (who.said, event))
        else:
            yield from self._missed(who, stream, offset - 1, event.at, "gapless")
            who.last[stream] = offset

    def _missed(self, who: Relying, stream: str, until: int, at: float, check: str) -> Iterator[Violation]:
        for logged in self.logs.wanted(who.where, stream, who.last[stream], until):
            if not who.is_lost(stream, logged.offset):
                says = f"{who.id}, which starts at {who.starts[stream]}, never gets {stream}:{logged.offset}"
                yield Violation(check, at, says, (who.said, logged))

    def end(self, at: float) -> Iterator[Violation]:
        """What is wrong at the end."""
        if self.rest is None:
            return
        yield from self.late
        for who in self.active.values():
            for stream in self.streams:
                if stream not in who.starts:
                    yield Violation("arrived", at, f"{who.id} never starts in {stream}", (who.said,))
                elif who.starts[stream] > self.rest.get(stream, 0) + 1:
                    says = f"{who.id} starts in {stream} at {who.starts[stream]}, after what was published at rest"
                    yield Violation("arrived", at, says, (who.said,))
                else:
                    yield from self._missed(who, stream, len(self.logs.held.get(stream, ())), at, "arrived")


def _gapless(history: History) -> Iterator[Violation]:
    yield from Reading(history).events()


def _arrived(history: History) -> Iterator[Violation]:
    reading = Reading(history)
    for _ in reading.events():
        pass
    yield from reading.end(history.events[-1].at if history.events else 0.0)


GAPLESS = Check("gapless", "a reliable subscription gets everything from its start on, in order, once", _gapless)
ARRIVED = Check("arrived", "a reliable subscription starts everywhere and gets all there is", _arrived)
