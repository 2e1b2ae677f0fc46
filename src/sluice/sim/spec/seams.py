"""The past and then what is live: a subscription that wishes for the past gets it first, in order, and the rest without a seam.

What is replayed is the end of what its history holds: nothing is left out between the first notification that comes and the
last one before what is live, each comes once, in the order of the times at which they were logged, then by stream and offset.
What follows comes by rising offsets, with nothing left out, whatever happens to the subscriber's own link and broker. If a
stream's broker, or the way to it, fails while the subscription is live, what is under way is lost as for any subscription.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.sim.spec.history import History
from sluice.sim.spec.streams import Logs
from sluice.sim.spec.violation import Check, Violation
from sluice.sim.trace import streamed
from sluice.sim.trace.trace import ClientDown, ClientUp, Notified, Replayed, TraceEvent, Unsubscribed

Place = tuple[int, str, int]


class Seam:
    """What one subscription has got so far."""

    __slots__ = ("ended", "ended_at", "excused", "given", "is_over", "last", "past", "skipped", "wish")

    def __init__(self, wish: streamed.Wished) -> None:
        self.wish = wish
        self.given: set[tuple[str, int]] = set()
        #: What was replayed, in order.
        self.past: list[Place] = []
        #: Up to where the past has come, and when; None: it has not.
        self.ended: dict[str, int] | None = None
        self.ended_at = -1
        #: The last offset of each stream that was not replayed.
        self.last: dict[str, int] = {}
        self.skipped: set[tuple[str, int]] = set()
        #: What was lost where nobody promises anything.
        self.excused: set[tuple[str, int]] = set()
        #: It was told that its past does not come.
        self.is_over = False


class Seams:
    """Reads a trace and says what is wrong with what subscriptions with a past get."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = Logs(history)
        self.seams: dict[tuple[str, str], Seam] = {}
        self.where = {
            key: [(wish.start, wish.where) for wish in wishes]
            for key, wishes in history.wishes["subscriptions"].items()
        }

    def check(self) -> Iterator[Violation]:
        """What is wrong, from the first event to the last."""
        for index, event in enumerate(self.history.events):
            self.logs.take(event)
            match event:
                case streamed.Wished(_, client, id):
                    self.seams[client, id] = Seam(event)
                case Unsubscribed(_, client, id):
                    self.seams.pop((client, id), None)
                case ClientDown(_, client) | ClientUp(_, client):
                    self.seams = {key: seam for key, seam in self.seams.items() if key[0] != client}
                case Replayed(_, client, id) if (client, id) in self.seams:
                    yield from self._replayed(event, self.seams[client, id])
                case streamed.Past(_, client, id) if (client, id) in self.seams:
                    yield from self._ended(event, self.seams[client, id], index)
                case streamed.Skipped(_, client, id) if (client, id) in self.seams:
                    self._skipped(event, self.seams[client, id])
                case Notified(_, client, _, _, ids):
                    for id in ids:
                        if (client, id) in self.seams:
                            yield from self._live(event, self.seams[client, id], index)
        yield from self._at_the_end()

    def _wanted(self, seam: Seam, stream: str, after: int, until: int) -> Iterator[streamed.Logged]:
        where = self.where[seam.wish.client, seam.wish.subscription][-1][1]
        for logged in self.logs.wanted(where, stream, after, until):
            place = stream, logged.offset
            if place not in seam.given and place not in seam.skipped and place not in seam.excused:
                yield logged

    def _replayed(self, event: Replayed, seam: Seam) -> Iterator[Violation]:
        logged = self.logs.of.get((event.publisher, event.number))
        if logged is None:
            yield _violation(event, "it is in no log", event)
            return
        place = _place(logged)
        if seam.ended is not None or seam.is_over:
            yield _violation(event, "the past was over", seam.wish, event)
        if seam.past and place <= seam.past[-1]:
            yield _violation(event, f"it comes after {seam.past[-1]}, and its place is {place}", seam.wish, event)
        if (logged.stream, logged.offset) in seam.given:
            yield _violation(event, "it comes twice", seam.wish, event)
        seam.past.append(place)
        seam.given.add((logged.stream, logged.offset))

    def _ended(self, event: streamed.Past, seam: Seam, index: int) -> Iterator[Violation]:
        if seam.ended is not None:
            yield _violation(event, "the past has come before", seam.wish, event)
        seam.ended, seam.ended_at = {stream: int(offset) for stream, offset in event.positions.items()}, index
        left = sorted(
            _place(logged) for stream, offset in seam.ended.items() for logged in self._wanted(seam, stream, 0, offset)
        )
        if left and seam.past and left[-1] > seam.past[0]:
            yield _violation(event, f"{left[-1]} is left out of the past", seam.wish, event)
        elif left and len(seam.past) < seam.wish.last:
            says = f"{len(seam.past)} of {seam.wish.last} notifications came, and there is {left[-1]}"
            yield _violation(event, says, seam.wish, event)

    def _skipped(self, event: streamed.Skipped, seam: Seam) -> None:
        if event.stream:
            seam.skipped.update((event.stream, offset) for offset in range(event.first, event.last + 1))
        else:
            seam.is_over = True

    def _live(self, event: Notified, seam: Seam, index: int) -> Iterator[Violation]:
        logged = self.logs.of.get((event.publisher, event.number))
        if logged is None or seam.is_over:
            return
        stream, offset = logged.stream, logged.offset
        if (stream, offset) in seam.given:
            yield _violation(event, f"{stream}:{offset} comes twice", seam.wish, event)
            return
        if seam.ended is None:
            yield _violation(event, f"{stream}:{offset} comes before the past", seam.wish, event)
            return
        if offset <= max(seam.ended.get(stream, 0), seam.last.get(stream, 0)):
            yield _violation(event, f"{stream}:{offset} comes late", seam.wish, event)
        seam.given.add((stream, offset))
        seam.last[stream] = max(offset, seam.last.get(stream, 0))
        yield from self._left_out(event, seam, stream, offset - 1, index)

    def _left_out(self, event: TraceEvent, seam: Seam, stream: str, until: int, index: int) -> Iterator[Violation]:
        """What should have come before and has not."""
        assert seam.ended is not None
        # A stream that nobody knew of is read from where it begins by then.
        after = seam.ended[stream] if stream in seam.ended else self.logs.first.get(stream, 1) - 1
        for logged in [*self._wanted(seam, stream, after, until)]:
            seam.excused.add((stream, logged.offset))
            if not self._may_be_lost(seam, stream, index):
                yield _violation(event, f"{stream}:{logged.offset} is left out", seam.wish, logged, event)

    def _may_be_lost(self, seam: Seam, stream: str, index: int) -> bool:
        """Whether something between the stream and the subscriber's own broker has failed since the past had come."""
        home = self.history.broker_of(seam.wish.client, index)
        path = self.history.path(home, stream)
        if path is None:
            return True
        return any(
            seam.ended_at < since <= index
            for element in path
            if element != home
            for since, _ in self.history.downs.get(element, ())
        )

    def _at_the_end(self) -> Iterator[Violation]:
        events = self.history.events
        for (client, id), seam in self.seams.items():
            if seam.is_over:
                continue
            if seam.ended is None:
                says = f"{client} never hears what becomes of the past of {id}"
                yield Violation("seam", events[-1].at, says, (seam.wish,))
                continue
            # A stream that nobody knew of is noticed when something of it comes.
            for stream in dict.fromkeys((*seam.ended, *seam.last)):
                held = len(self.logs.held.get(stream, ()))
                yield from self._left_out(events[-1], seam, stream, held, len(events))


def _place(logged: streamed.Logged) -> Place:
    return round(logged.at * 1e6), logged.stream, logged.offset


def _violation(event: TraceEvent, says: str, *story: TraceEvent) -> Violation:
    return Violation("seam", event.at, says, tuple(sorted(story, key=lambda each: each.at)))


def _seam(history: History) -> Iterator[Violation]:
    return Seams(history).check()


SEAM = Check("seam", "the past, then what is live: nothing twice, nothing left out, in order", _seam)
