"""Durable streams: what was accepted is in a log, once and in order, and a durable reader gets all of it by its offset.

Safety: a log has no holes, holds nothing twice and nothing that was refused (`logged`); who was told that something is accepted
can rely on it (`accepted`); nobody is notified of what is not on disk (`stored-first`); nothing is refused while there is room
(`room`); a reader leaves nothing out, sees offsets rise within a life, and nothing again that was noted (`read`).
Liveness, at the end of a trace, when faults are over: publishers know the fate of all they have published (`settled`), and
readers have read all there is (`caught-up`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.sim.spec.history import NEVER, History, Publication
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace import streamed
from sluice.sim.trace.trace import Attached, ClientDown, ClientUp, Notified, Published, Refused, TraceEvent

#: A stream and an offset in it.
Place = tuple[str, int]


class Logs:
    """All that was ever logged, as far as a trace has been read."""

    __slots__ = ("_history", "_publications", "first", "forced", "held", "of")

    def __init__(self, history: History) -> None:
        self._history = history
        self._publications = {(each.client, each.number): each for each in history.publications}
        #: Of each stream: the publications in the order of their offsets, and the first offset that is not trimmed.
        self.held: dict[str, list[streamed.Logged]] = {}
        self.first: dict[str, int] = {}
        #: The same, where only what went in spite of those who rely on it counts as trimmed.
        self.forced: dict[str, int] = {}
        #: Where each publication is logged.
        self.of: dict[tuple[str, int], streamed.Logged] = {}

    def take(self, event: TraceEvent) -> None:
        """Reads on."""
        if isinstance(event, streamed.Logged):
            self.held.setdefault(event.stream, []).append(event)
            self.of[event.publisher, event.number] = event
        elif isinstance(event, streamed.Trimmed):
            self.first[event.stream] = event.first
            if event.is_forced:
                self.forced[event.stream] = event.first

    def publication(self, event: streamed.Logged) -> Publication | None:
        """What was published under the number that is logged."""
        return self._publications.get((event.publisher, event.number))

    def wanted(self, where: str, stream: str, after: int, until: float = NEVER) -> Iterator[streamed.Logged]:
        """What in a range of a stream matches a filter."""
        held = self.held.get(stream, ())
        # Only this part is looked at: a trace has many notifications, and a log may be long.
        for event in held[after : None if until == NEVER else int(until)]:
            if event.offset > until:
                return
            publication = self.publication(event)
            if publication is not None and self._history.matching.matches(where, publication.record):
                yield event


def _logged(history: History) -> Iterator[Violation]:
    logs = Logs(history)
    refused: dict[tuple[str, int], Refused] = {}
    last: dict[tuple[str, str], streamed.Logged] = {}
    for index, event in enumerate(history.events):
        if isinstance(event, Refused):
            refused[event.client, event.number] = event
        if isinstance(event, streamed.Logged):
            name, known = (event.publisher, event.number), logs.held.get(event.stream, [])
            says, story = None, [event]
            publication = logs.publication(event)
            before = last.get((event.stream, event.publisher))
            if event.offset != len(known) + 1:
                says = f"the next offset of {event.stream} is {len(known) + 1}"
            elif name in logs.of:
                says, story = "it is logged already", [logs.of[name], event]
            elif publication is None or publication.index > index:
                says = "nobody has published it"
            elif before is not None and before.number > event.number:
                says, story = f"{event.publisher} has published it before", [before, event]
            if says is not None:
                yield Violation("logged", event.at, f"{event.publisher}#{event.number}: {says}", tuple(story))
            last[event.stream, event.publisher] = event
        logs.take(event)
    for name, refusal in refused.items():
        if name in logs.of:
            says = f"{refusal.client}#{refusal.number} was refused, and is logged"
            yield Violation("logged", max(refusal.at, logs.of[name].at), says, (refusal, logs.of[name]))


class Open:
    """What each client has published in its present life and knows nothing of."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: dict[str, dict[int, Published]] = {}

    def take(self, event: TraceEvent) -> list[Published]:
        """Follows a trace; returns what a client is told now to be accepted."""
        match event:
            case ClientUp(_, client) | ClientDown(_, client):
                self.left.pop(client, None)
            case Published(_, client, number):
                self.left.setdefault(client, {})[number] = event
            case Refused(_, client, number):
                self.left.get(client, {}).pop(number, None)
            case streamed.Accepted(_, client, number):
                mine = self.left.get(client, {})
                return [mine.pop(published) for published in [*mine] if published <= number]
        return []


def _accepted(history: History) -> Iterator[Violation]:
    logs, open_ = Logs(history), Open()
    for event in history.events:
        for published in open_.take(event):
            if (published.client, published.number) not in logs.of:
                says = f"{published.client}#{published.number} is not in any log"
                yield Violation("accepted", event.at, says, (published, event))
        logs.take(event)


def _settled(history: History) -> Iterator[Violation]:
    """Everybody who is there at the end knows what became of what it has published in its present life."""
    open_ = Open()
    for event in history.events:
        open_.take(event)
    for client, left in open_.left.items():
        for number, publication in left.items():
            says = f"{client} never hears what became of {client}#{number}"
            yield Violation("settled", publication.at, says, (publication,))


def _stored_first(history: History) -> Iterator[Violation]:
    logs = Logs(history)
    for event in history.events:
        logs.take(event)
        if isinstance(event, Notified) and (event.publisher, event.number) not in logs.of:
            yield Violation("stored-first", event.at, f"{event.publisher}#{event.number} is not on disk", (event,))


def _room(history: History) -> Iterator[Violation]:
    if history.advertisements:
        return  # what is not advertised is refused as well
    full: dict[str, list[tuple[float, float]]] = {}
    homes = {event.client: event.broker for event in history.events if isinstance(event, Attached)}
    for event in history.events:
        match event:
            case streamed.DiskFull(at, broker):
                full.setdefault(broker, []).append((at, NEVER))
            case streamed.DiskFree(at, broker):
                since, _ = full[broker].pop()
                full[broker].append((since, at))
    # What was on its way behind something for which there was no room is refused with it.
    refused: dict[tuple[str, float], Publication] = {}
    for publication in history.publications:
        if publication.refused != NEVER:
            refused.setdefault((publication.client, history.at(publication.refused)), publication)
    for (client, at), first in refused.items():
        start = history.at(first.index)
        if not any(since <= at and until >= start for since, until in full.get(homes.get(client, ""), ())):
            story = (history.events[first.index], history.events[int(first.refused)])
            yield Violation("room", at, f"{first.name} was refused, and there was room", story)


class Reading:
    """What a durable reader has seen, over all of its lives."""

    __slots__ = ("at", "held", "noted", "opened", "seen")

    def __init__(self) -> None:
        #: The present life: how it began, None if it has not, and how far it is in each stream.
        self.opened: streamed.Opened | None = None
        self.at: dict[str, int] = {}
        #: The last position that it was told is on disk.
        self.noted: dict[str, int] = {}
        #: The stream that is kept for it and the first offset that was held when it knew so, and what it reads of it.
        self.held: tuple[str, int, str] | None = None
        #: Everything that it has read, or was told to be gone, in any life.
        self.seen: set[Place] = set()

    def begin(self, event: streamed.Opened) -> None:
        """A life begins to read."""
        self.opened = event
        self.at = {stream: int(offset) for stream, offset in event.positions.items()}


class Readers:
    """Reads a trace and says what is wrong with what readers see."""

    def __init__(self, history: History) -> None:
        self.events = history.events
        self.logs = Logs(history)
        self.readings: dict[str, Reading] = {}

    def check(self) -> Iterator[Violation]:
        """What is wrong, from the first event to the last."""
        for event in self.events:
            self.logs.take(event)
            match event:
                case ClientUp(_, client) | ClientDown(_, client):
                    if client in self.readings:
                        self.readings[client].opened = None
                case streamed.Opened(_, client):
                    yield from self._open(event, self.readings.setdefault(client, Reading()))
                case streamed.Held(_, client, stream):
                    reading = self.readings[client]
                    assert reading.opened is not None
                    if reading.held is None:
                        reading.held = stream, self.logs.first.get(stream, 1), reading.opened.where
                case streamed.Trimmed():
                    yield from self._trimmed(event)
                case streamed.Read(_, client):
                    yield from self._read(event, self.readings[client])
                case streamed.Missed(_, client):
                    yield from self._missed(event, self.readings[client])
                case streamed.Noted(at, client, stream, offset):
                    reading = self.readings[client]
                    yield from self._left_out(event, reading, stream, 0, offset)
                    if offset < reading.noted.get(stream, 0):
                        yield Violation("read", at, f"{client} goes back", (event,))
                    reading.noted[stream] = offset

    def _open(self, event: streamed.Opened, reading: Reading) -> Iterator[Violation]:
        reading.begin(event)
        for stream in dict.fromkeys((*reading.at, *reading.noted)):
            at = reading.at.get(stream, 0)
            if at < reading.noted.get(stream, 0):
                says = f"{event.client} has {stream}:{at} for the {reading.noted[stream]} that was noted"
                yield Violation("read", event.at, says, (event,))
            yield from self._left_out(event, reading, stream, 0, at)

    def _read(self, event: streamed.Read, reading: Reading) -> Iterator[Violation]:
        stream, offset = event.stream, event.offset
        assert reading.opened is not None, "nobody reads before it has opened"
        held = self.logs.held.get(stream, [])
        at = reading.at.get(stream, 0)
        if offset > len(held) or (held[offset - 1].publisher, held[offset - 1].number) != (
            event.publisher,
            event.number,
        ):
            yield Violation("read", event.at, f"{stream}:{offset} is something else", (event,))
            return
        if offset <= at:
            yield Violation("read", event.at, f"{event.client} is at {stream}:{at} already", (event,))
        if not any(self.logs.wanted(reading.opened.where, stream, offset - 1, offset)):
            yield Violation("read", event.at, f"it does not match {reading.opened.where}", (event,))
        yield from self._left_out(event, reading, stream, at, offset - 1)
        reading.at[stream] = max(at, offset)
        reading.seen.add((stream, offset))

    def _trimmed(self, event: streamed.Trimmed) -> Iterator[Violation]:
        for client, reading in self.readings.items():
            if reading.held is not None and reading.held[0] == event.stream:
                stream, first, where = reading.held
                for logged in self.logs.wanted(where, stream, first - 1, event.first - 1):
                    if (stream, logged.offset) not in reading.seen:
                        says = f"{client} holds {stream} and has not read {stream}:{logged.offset}"
                        yield Violation("read", event.at, says, (logged, event))

    def _missed(self, event: streamed.Missed, reading: Reading) -> Iterator[Violation]:
        if event.last >= self.logs.first.get(event.stream, 1):
            yield Violation(
                "read", event.at, f"not all of {event.stream}:{event.first} to {event.last} is gone", (event,)
            )
        reading.seen.update((event.stream, offset) for offset in range(event.first, event.last + 1))

    def _left_out(
        self,
        event: streamed.Opened | streamed.Read | streamed.Noted,
        reading: Reading,
        stream: str,
        after: int,
        until: int,
    ) -> Iterator[Violation]:
        """What the reader should have seen by now and has not."""
        assert reading.opened is not None
        for logged in self.logs.wanted(reading.opened.where, stream, after, until):
            if (stream, logged.offset) not in reading.seen:
                says = f"{event.client} has not read {stream}:{logged.offset}"
                yield Violation("read", event.at, says, (logged, event))


def _read(history: History) -> Iterator[Violation]:
    return Readers(history).check()


def _caught_up(history: History) -> Iterator[Violation]:
    readers = Readers(history)
    for _ in readers.check():
        pass
    end = history.times[-1] if history.times else 0.0
    for client, reading in readers.readings.items():
        if reading.opened is not None:
            for stream in readers.logs.held:
                for logged in readers.logs.wanted(reading.opened.where, stream, 0):
                    if (stream, logged.offset) not in reading.seen:
                        says = f"{client} never reads {stream}:{logged.offset}"
                        yield Violation("caught-up", end, says, (reading.opened, logged))


LOGGED = Check("logged", "a log has no holes, and holds each publication once and in order", _logged)
ACCEPTED = Check("accepted", "what was accepted is on disk", _accepted)
SETTLED = Check("settled", "a publisher hears what became of each publication", _settled)
STORED_FIRST = Check("stored-first", "nobody is notified of what is not on disk", _stored_first)
ROOM = Check("room", "nothing is refused while there is room", _room)
READ = Check(
    "read", "a reader leaves nothing out, goes back no further than to what was noted, and keeps what it holds", _read
)
CAUGHT_UP = Check("caught-up", "a reader gets all there is", _caught_up)
