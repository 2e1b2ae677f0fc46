"""The subscriber's side: streams are put together again, and reliable subscriptions get them gapless and in order.

A subscription has a time, that of this broker's clock when it came. Whatever knows of that time has been judged with the
subscription in mind, by every broker on the way: the first message that does is the first of the subscription (its *start*),
and from there on every offset is accounted for, as data or as a silence that knows of it. What is missing, or knows too little,
is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sluice.match.filterset import FilterSet
from sluice.model.subscription import Subscription
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import (
    NO_CLOCKS,
    Clocks,
    Deliver,
    Entry,
    EntryId,
    Message,
    Missing,
    Passed,
    Reached,
    Ready,
    Runs,
    Skipped,
    Started,
)
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.runs import first_of, rows_in, runs_of, union, within, without
from sluice.protocol.route.forward import Index, Route, routes, routes_of

#: What came too early is kept, so many pieces of it, and asked for again beyond that.
MAX_PIECES = 1_024
#: So many offsets are asked for at a time.
WINDOW = 4_096

#: So often the pause before something is asked for again doubles, if it may grow as long.
MAX_DOUBLINGS = 20

#: A message to a client.
ToClient = tuple[Peer, Message]


@dataclass(slots=True)
class Wish:
    """A reliable subscription of a client here."""

    client: Peer
    entry: Entry
    #: What knows of this time knows of this subscription.
    clock: int
    #: For each stream the first offset that it gets.
    starts: dict[Peer, int] = field(default_factory=dict)
    #: How far its client was told that it is.
    passed: tuple[tuple[Peer, int], ...] = ()
    #: Whether its client knows that it has started everywhere.
    is_ready: bool = False
    #: For an ordered one: the latest moment of what its client has got, and the moment that its client knows all streams
    #: to be past.
    owed: int = 0
    told: int = 0
    #: Streams that have not said how late they were when it started, and how often they had said such a thing by then.
    undated: dict[Peer, int] = field(default_factory=dict)

    @property
    def id(self) -> EntryId:
        """The name its client has for it."""
        assert self.entry.id is not None
        return self.entry.id


class Piece(NamedTuple):
    """Something that accounts for offsets: data where the batch has them, silence elsewhere."""

    runs: Runs
    batch: Batch | None
    clock: int
    #: Whether the offsets are lost for good instead.
    is_gone: bool = False
    #: What follows these offsets has a later moment; 0: nothing is known of that.
    moment: int = 0

    def has(self, offset: int) -> bool:
        """Whether the data of an offset is here."""
        return self.batch is not None and self.batch.logged is not None and offset in self.batch.logged.offsets


class Stream:
    """One stream, as far as it is put together."""

    __slots__ = (
        "ask_at",
        "asked",
        "await_at",
        "awaited",
        "awaits",
        "clock",
        "cursor",
        "dates",
        "head",
        "known",
        "moment",
        "needed",
        "pieces",
        "reported",
        "started",
        "waiting",
    )

    def __init__(self) -> None:
        #: All up to here is accounted for; None: nothing was heard yet.
        self.cursor: int | None = None
        #: The last offset that was heard of.
        self.known = 0
        self.pieces: list[Piece] = []
        #: The latest time that anything knew of that was accounted for.
        self.clock = 0
        #: What was said last of the end of the stream: from there on everything knows of this time, and has a later moment.
        self.head: tuple[int, int, int] | None = None
        #: Whatever is not accounted for has a later moment; and how often that was said.
        self.moment = 0
        self.dates = 0
        #: The moment that it was asked to be past, 0 if none; when it will be asked again, and how often it was.
        self.awaited = 0
        self.await_at = math.inf
        self.awaits = 0
        #: Subscriptions that have no start yet, and how many have one.
        self.waiting: dict[EntryId, Wish] = {}
        self.started = 0
        #: The latest time of a subscription that has started.
        self.needed = 0
        #: When the gap is due to be asked for, and how often it was.
        self.ask_at = math.inf
        self.asked = 0
        #: How far the stream's broker knows this one to be.
        self.reported: int | None = None

    def date(self, moment: int) -> None:
        """What is not accounted for has a later moment than this, and what is accounted for has not."""
        self.moment = max(self.moment, moment)
        self.dates += 1
        if self.moment >= self.awaited:
            self.awaited, self.await_at = 0, math.inf

    def missing(self) -> Runs:
        """The offsets that are not accounted for, or not well enough."""
        if self.cursor is None or self.cursor >= self.known:
            return ()
        held: list[tuple[int, int]] = []
        for piece in self.pieces:
            if piece.is_gone or piece.clock >= self.needed:
                held += piece.runs
            elif piece.batch is not None and piece.batch.logged is not None:
                held += runs_of(piece.batch.logged.offsets)
        return without(((self.cursor + 1, self.known),), union(held))


class Subscribers:
    """The reliable subscriptions of a broker's clients."""

    def __init__(self, name: Peer, incarnation: int, config: ReliableConfig) -> None:
        self._name = name
        self._config = config
        self._clock = incarnation << 32
        self._wishes: dict[EntryId, Wish] = {}
        #: The subscriptions that are not ordered, and those that are.
        self._indexes: tuple[Index, Index] = FilterSet(), FilterSet()
        #: The ordered ones that have got something, or have started, and do not know all streams to be past that.
        self.behind: dict[EntryId, Wish] = {}
        self.streams: dict[Peer, Stream] = {}
        #: For the record: how often something was asked for again.
        self.asked = 0

    @property
    def clocks(self) -> Clocks:
        """What this broker adds to the clocks of its table: its own, if anybody here relies on it."""
        return {self._name: self._clock} if self._wishes else NO_CLOCKS

    @property
    def wishes(self) -> Iterable[Wish]:
        """The subscriptions."""
        return self._wishes.values()

    @property
    def deadline(self) -> float:
        """When something is due."""
        return min((stream.ask_at for stream in self.streams.values()), default=math.inf) if self._wishes else math.inf

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def update(self, client: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """A client asks for something, or no longer; the clock moves on if somebody has to hear of it."""
        for entry in removed:
            if entry.reliable:
                self._remove(entry)
        now = self._clock
        for entry in added:
            if entry.reliable and entry.id is not None:
                wish = Wish(client, entry, self._time_of(entry.where, now + 1))
                self._clock = max(self._clock, wish.clock)
                self._wishes[wish.id] = wish
                self._indexes[entry.ordered].add((client, entry), entry.where)
                for stream in self.streams.values():
                    stream.waiting[wish.id] = wish
        if not self._wishes:
            self.streams.clear()

    def _time_of(self, where: Subscription, now: int) -> int:
        """The time from which on a subscription is known: that of those that cover it, if there are any."""
        return max((self._time_of_box(Subscription([box]), now) for box in where.filters), default=0)

    def _time_of_box(self, box: Subscription, now: int) -> int:
        covering = (entry.id or "" for index in self._indexes for _, entry in index.covering(box))
        return min((self._wishes[id].clock for id in covering), default=now)

    def _remove(self, entry: Entry) -> None:
        wish = self._wishes.pop(entry.id or "", None)
        if wish is None:
            return
        self._indexes[wish.entry.ordered].remove((wish.client, wish.entry))
        self.behind.pop(wish.id, None)
        for name, stream in self.streams.items():
            stream.waiting.pop(wish.id, None)
            stream.started -= name in wish.starts

    # --- what comes ---------------------------------------------------------------------------------------------------

    def take(self, name: Peer, piece: Piece, now: float) -> Iterator[ToClient]:
        """Takes in a part of a stream; yields what the clients get of it."""
        if not self._wishes or not piece.runs:
            return
        stream = self._stream(name)
        if stream.cursor is None:
            stream.cursor = piece.runs[0][0] - 1
        stream.known = max(stream.known, piece.runs[-1][1])
        stream.pieces.append(piece)
        yield from self._advance(name, stream, now)

    def hear(self, name: Peer, offset: int, clock: int, moment: int, now: float) -> Iterator[ToClient]:
        """Hears where a stream ends."""
        if not self._wishes:
            return
        stream = self._stream(name)
        if stream.cursor is None or (not stream.started and offset > stream.cursor):
            stream.cursor = offset
        stream.known = max(stream.known, offset)
        stream.head = offset, clock, moment
        stream.reported = None
        yield from self._advance(name, stream, now)

    def _stream(self, name: Peer) -> Stream:
        if name not in self.streams:
            stream = self.streams[name] = Stream()
            stream.waiting = dict(self._wishes)
        return self.streams[name]

    def _advance(self, name: Peer, stream: Stream, now: float) -> Iterator[ToClient]:
        assert stream.cursor is not None
        before = stream.cursor
        while True:
            stream.pieces = [piece for piece in stream.pieces if piece.runs[-1][1] > stream.cursor]
            step = self._next(stream)
            if step is None:
                break
            piece, last = step
            yield from self._account(name, stream, piece, last)
        if stream.head is not None and stream.cursor >= stream.head[0]:
            yield from self._start(name, stream, stream.head[1])
            stream.date(stream.head[2])
            stream.head = None
        self._watch(stream, stream.cursor > before, now)

    def _next(self, stream: Stream) -> tuple[Piece, int] | None:
        """What accounts for the next offsets, and up to which; None if nothing does, or not well enough."""
        assert stream.cursor is not None
        while True:
            offset = stream.cursor + 1
            here = [(piece, run) for piece in stream.pieces if (run := within(offset, piece.runs))]
            if here or stream.started or not stream.pieces:
                break
            # Nobody was promised anything yet, so nobody minds what was missed.
            ahead = [first for piece in stream.pieces for first, _ in piece.runs if first > offset]
            stream.cursor = min(ahead) - 1
        strong = [(piece, run[1]) for piece, run in here if piece.clock >= stream.needed]
        if strong:
            return max(strong, key=lambda found: (found[0].has(offset), found[0].clock))
        for piece, run in here:
            if piece.has(offset):
                last = offset
                while last < run[1] and piece.has(last + 1):
                    last += 1
                return piece, last
        lost = [(piece, run[1]) for piece, run in here if piece.is_gone]
        return lost[0] if lost else None

    def _account(self, name: Peer, stream: Stream, piece: Piece, last: int) -> Iterator[ToClient]:
        """Goes on to an offset: starts what can start here, and delivers."""
        assert stream.cursor is not None
        first = stream.cursor + 1
        if piece.is_gone:
            yield from self._lose(name, first, last)
        else:
            yield from self._start(name, stream, piece.clock)
            if piece.batch is not None and piece.batch.logged is not None:
                rows = rows_in(piece.batch.logged.offsets, ((first, last),))
                if rows:
                    yield from self._deliver(name, piece.batch.whole_or(rows))
        stream.cursor = last
        if piece.moment and last == piece.runs[-1][1]:
            stream.date(piece.moment)

    def _start(self, name: Peer, stream: Stream, clock: int) -> Iterator[ToClient]:
        """Starts what everything from here on knows of."""
        assert stream.cursor is not None
        stream.clock = max(stream.clock, clock)
        ready = [wish for wish in stream.waiting.values() if wish.clock <= clock]
        for wish in ready:
            del stream.waiting[wish.id]
            wish.starts[name] = stream.cursor + 1
            if wish.entry.ordered:
                # Its client is to hear of this stream, too, that it is past all that the others were past.
                wish.owed, wish.told = max(wish.owed, wish.told), 0
                wish.undated[name] = stream.dates
                self.behind[wish.id] = wish
            stream.started += 1
            stream.needed = max(stream.needed, wish.clock)
        for client, ids in _by_client(ready):
            yield client, Started(name, stream.cursor + 1, ids)

    def begin(self, streams: Iterable[Peer], now: float) -> Iterator[ToClient]:
        """Starts what is covered by something that is known already: it need not wait for a message."""
        for name in streams:
            stream = self._stream(name)
            if stream.waiting:
                if stream.cursor is not None:
                    yield from self._start(name, stream, stream.clock)
                self._watch(stream, False, now)

    def ready(self, streams: Iterable[Peer]) -> Iterator[ToClient]:
        """Tells clients of the subscriptions that have started in every stream there is."""
        new = [wish for wish in self._wishes.values() if not wish.is_ready]
        if new:
            names = list(streams)
            done = [wish for wish in new if all(name in wish.starts for name in names)]
            for wish in done:
                wish.is_ready = True
            for client, ids in _by_client(done):
                yield client, Ready(ids)

    def _deliver(self, name: Peer, batch: Batch) -> Iterator[ToClient]:
        for index in self._indexes:
            for client, route in self._routes(name, batch, index) if len(index) else ():
                if index is self._indexes[True]:
                    self._owe(route, batch)
                yield client, Deliver(batch.whole_or(route.rows), route.combinations, route.which, reliable=True)

    def _routes(self, name: Peer, batch: Batch, index: Index) -> Iterable[tuple[Peer, Route]]:
        if self.streams[name].waiting:
            started = [
                [(client, entry) for client, entry in keys if name in self._wishes[entry.id or ""].starts]
                for keys in index.matching_each(batch.notifications)
            ]
            return routes_of(started).items()
        [found] = routes(index, batch.notifications, [len(batch)])
        return found.items()

    def _owe(self, route: Route, batch: Batch) -> None:
        """Ordered subscriptions get something: they are to hear when all streams are past it."""
        assert batch.logged is not None
        for id in dict.fromkeys(id for ids in route.combinations for id in ids):
            wish = self._wishes[id]
            wish.owed = max(wish.owed, batch.logged.moment)
            if wish.owed > wish.told:
                self.behind[id] = wish

    def _lose(self, name: Peer, first: int, last: int) -> Iterator[ToClient]:
        for client, ids in _by_client(wish for wish in self._wishes.values() if name in wish.starts):
            yield client, Skipped(name, ((first, last),), ids)

    # --- what is missing ----------------------------------------------------------------------------------------------

    def _watch(self, stream: Stream, is_moving: bool, now: float) -> None:
        """Looks for a gap, or for somebody who waits to start; what stays so is asked for."""
        if len(stream.pieces) > MAX_PIECES:
            stream.pieces.sort(key=lambda piece: piece.runs[0][0])
            del stream.pieces[MAX_PIECES:]
        if not stream.waiting and (not stream.started or not stream.missing()):
            stream.ask_at, stream.asked = math.inf, 0
        elif is_moving or stream.ask_at == math.inf:
            stream.ask_at, stream.asked = now + self._config.gap_seconds, 0

    def ask(self, now: float) -> Iterator[Missing]:
        """What is to be asked for now."""
        for name, stream in self.streams.items():
            if stream.ask_at <= now:
                self.asked += 1
                stream.asked += 1
                pause = self._config.gap_seconds * 2.0 ** min(stream.asked, MAX_DOUBLINGS)
                stream.ask_at = now + min(pause, self._config.patience_seconds)
                runs = first_of(stream.missing(), WINDOW) if stream.started else ()
                yield Missing(name, self._name, runs, stream.needed)

    def report(self) -> Iterator[Reached]:
        """How far this broker is in each stream, as far as the stream's broker does not know."""
        for name, stream in self.streams.items():
            if stream.cursor is not None and stream.cursor != stream.reported:
                stream.reported = stream.cursor
                yield Reached(name, {self._name: stream.cursor})

    def progress(self) -> Iterator[ToClient]:
        """Tells clients how far subscriptions are that have come further.

        Should their link break, they need not read again what was not theirs.
        """
        found: dict[tuple[Peer, tuple[tuple[Peer, int], ...]], list[EntryId]] = {}
        for wish in self._wishes.values():
            passed = tuple((name, self.streams[name].cursor or 0) for name in wish.starts)
            if passed != wish.passed:
                wish.passed = passed
                found.setdefault((wish.client, passed), []).append(wish.id)
        for (client, passed), ids in found.items():
            yield client, Passed(dict(passed), tuple(ids))


def _by_client(wishes: Iterable[Wish]) -> Iterator[tuple[Peer, tuple[EntryId, ...]]]:
    found: dict[Peer, list[EntryId]] = {}
    for wish in wishes:
        found.setdefault(wish.client, []).append(wish.id)
    return ((client, tuple(ids)) for client, ids in found.items())
