"""Where the past of a subscription meets what is live: no gap and no duplicate, by stream and offset. Pure, like the session.

A history replays; what comes live meanwhile is let go, for it is in the logs. When the replay has ended and the subscription is
complete, each stream is read from where the replay ended to its head, and what comes live from the moment its head was asked
for is kept until then. What was stored after that moment comes live, what was stored before it is read: the head divides the
two. After a broken link the same begins again, from what was given out last.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from sluice.limits import MAX_KEPT, MAX_SEEN
from sluice.protocol.batch import Batch, NotificationId, Peer, Place
from sluice.protocol.messages import EntryId
from sluice.protocol.questions import (
    NO_LOG,
    Answer,
    Describe,
    Described,
    Failed,
    Fetch,
    Fetched,
    Question,
    ReplayEvent,
    Replaying,
)

#: How long a history may be silent before the subscriber goes on without the past.
HISTORY_SECONDS = 10.0
#: How long a broker may take for an answer, twice as long after each time that it has not answered.
ANSWER_SECONDS = 10.0
#: How long to wait after a failure before a broker is asked again: twice as long each time, up to the longest.
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.25, 10.0
#: How much of a log to read at a time, about.
PAGE_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class Replayed:
    """Notifications of the past came for a subscription."""

    subscription: EntryId
    batch: Batch


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Notifications were read from a log for a subscription, between its past and what is live."""

    subscription: EntryId
    batch: Batch


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing more of the past of a subscription is asked for before the program says `Proceed`."""

    subscription: EntryId


@dataclass(frozen=True, slots=True)
class Missed:
    """A subscription with a past will never get something: these offsets of a stream, if there is a stream."""

    subscription: EntryId
    reason: str
    stream: Peer | None = None
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """All of the past has come for a subscription, up to these offsets of each stream."""

    subscription: EntryId
    positions: Mapping[Peer, int]


@dataclass(frozen=True, slots=True)
class Live:
    """Notifications that came live a little earlier, and whose turn it is now."""

    subscription: EntryId
    batch: Batch


@dataclass(frozen=True, slots=True)
class Begun:
    """A reliable subscription gets everything of a stream from this offset on."""

    subscription: EntryId
    stream: Peer
    offset: int


#: What a program is told; `Live` is told with everything else that is live.
SeamNews = Replayed | Ended | CaughtUp | Full | Missed | Begun


class Voice(Protocol):
    """How a seam is heard: its session carries what it says."""

    def say(self, news: SeamNews | Live) -> None:
        """Tells the program something."""

    def ask(self, to: Peer | None, question: Question) -> EntryId:
        """Asks a broker, by default the one at the other end."""

    def answer(self, id: EntryId, answer: Answer) -> None:
        """Answers a question of a history."""


class Phase(Enum):
    """How far a subscription is."""

    #: Histories replay.
    PAST = auto()
    #: The replay is over: streams are read up to where they are live, each in its own time.
    JOINING = auto()
    #: No history has answered: the subscription is like any other.
    GIVEN_UP = auto()


@dataclass(slots=True)
class Tail:
    """One stream between the end of the replay and what is live."""

    #: Everything up to here was given out, or does not match.
    after: int
    #: The head: what is beyond comes live. None: it is not known.
    head: int | None = None
    is_live: bool = False
    #: Whether the head has been asked for, so that from now on what comes live may be beyond it.
    keeps: bool = False
    kept: list[Batch] = field(default_factory=list)
    kept_count: int = 0
    #: More came live than can be kept: when all is read, it is read on.
    is_overrun: bool = False
    #: The question that is open, and when to ask if there is none, or if there is still no answer.
    asked: EntryId | None = None
    due: float = -math.inf
    retry_seconds: float = RETRY_SECONDS

    def begin(self) -> None:
        """Asks for the head anew: what was kept is below it, and will be read."""
        self.head, self.asked, self.keeps, self.is_overrun = None, None, False, False
        self._let_go()

    def keep(self, batch: Batch) -> None:
        """Keeps what came live until it is its turn, if that is not too much."""
        if not self.keeps or self.is_overrun:
            return
        self.kept.append(batch)
        self.kept_count += len(batch)
        if self.kept_count > MAX_KEPT:
            self.is_overrun = True
            self._let_go()

    def _let_go(self) -> None:
        self.kept, self.kept_count = [], 0


class Seam:
    """The past and the present of one subscription."""

    def __init__(self, id: EntryId, where: str, voice: Voice, history_seconds: float, page_bytes: int) -> None:
        self._id = id
        self._where = where
        self._voice = voice
        self._history_seconds = history_seconds
        self._page_bytes = page_bytes
        self.phase = Phase.PAST
        #: Up to where the replay was taken.
        self._place: Place | None = None
        #: Of each stream: everything up to here was given out, or does not match.
        self.positions: dict[Peer, int] = {}
        #: What is in no log and has come: it has no place that would tell.
        self._seen: OrderedDict[NotificationId, None] = OrderedDict()
        self._is_complete = False
        #: Whether the program has no room, and the questions that are answered when it has some.
        self._is_full = False
        self._owed: list[EntryId] = []
        #: When to give histories up, or to ask again which streams there are.
        self._due = math.inf
        #: The open question which streams there are; the streams are known once it is answered.
        self._looking: EntryId | None = None
        self._looks = 0
        self._answer_seconds = ANSWER_SECONDS
        self._tails: dict[Peer, Tail] | None = None

    @property
    def deadline(self) -> float:
        """When a tick is due."""
        if not self._can_read:
            return self._due
        reading = self._reading()
        return min([self._due, *(tail.due for _, tail in ([reading] if reading is not None else self._unread()))])

    @property
    def _can_read(self) -> bool:
        return self._is_complete and not self._is_full

    # --- the link and the program -------------------------------------------------------------------------------------

    def unlinked(self) -> None:
        """The link is gone: what is live may have been missed from here on."""
        self._is_complete = False
        self._owed.clear()
        self._looking = self._tails = None
        self._due = math.inf
        self._answer_seconds = ANSWER_SECONDS

    def completed(self, now: float) -> None:
        """The subscription has taken effect everywhere: what is stored from now on comes live."""
        self._is_complete = True
        if self.phase is Phase.JOINING:
            self._look(now)
        elif self.phase is Phase.PAST and not self._is_full:
            self._due = now + self._history_seconds

    def lagged(self, now: float) -> None:
        """The broker has dropped something that was live: it is read instead."""
        if self._is_complete and self.phase is Phase.JOINING:
            self._look(now)

    def proceed(self, now: float) -> None:
        """The program has room again."""
        if not self._is_full:
            return
        self._is_full = False
        if self.phase is Phase.PAST:
            owed, self._owed = self._owed, []
            for id in owed:
                self._voice.answer(id, Replaying(self._place))
            if self._is_complete:
                self._due = now + self._history_seconds
        else:
            self._read(now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        if now >= self._due:
            self._due = math.inf
            if self.phase is Phase.PAST:
                self.phase = Phase.GIVEN_UP
                self._miss(f"no history has answered for {self._history_seconds:g} s: this goes on with what is live")
            elif self.phase is Phase.JOINING:
                if self._looking is not None:
                    self._answer_seconds *= 2
                self._look(now)
        reading = self._reading()
        if reading is not None and now >= reading[1].due:
            self._answer_seconds *= 2
            reading[1].begin()
        self._read(now)

    # --- the past -----------------------------------------------------------------------------------------------------

    def asked(self, id: EntryId, event: ReplayEvent, now: float) -> None:
        """A history replays. What does not follow on what was taken is not taken: the answer says what would."""
        if self.phase is not Phase.PAST:
            self._voice.answer(id, Replaying(self._place, is_over=True))
            return
        if self._is_full:
            self._owed.append(id)
            return
        if self._is_complete:
            self._due = now + self._history_seconds
        if event.after != self._place:
            self._voice.answer(id, Replaying(self._place))
            return
        for stream, first, last in event.missing:
            self._miss("the history has lost them, or they are damaged", stream, first, last)
        for batch in event.batches:
            self._take(batch)
        if event.through is not None:
            self._end(event.through)
            self._voice.answer(id, Replaying(self._place, is_over=True))
            if self._is_complete:
                self._look(now)
        elif event.batches:
            self._is_full = True
            self._due = math.inf
            self._owed.append(id)
            self._voice.say(Full(self._id))
        else:
            self._voice.answer(id, Replaying(self._place))

    def _take(self, batch: Batch) -> None:
        if batch.logged is None:
            rows = self._unlogged(batch)
            if rows:
                self._voice.say(Replayed(self._id, batch.whole_or(rows)))
            return
        self._place = batch.logged.place(len(batch) - 1)
        self._reach(batch.logged.stream, batch.logged.offsets[-1])
        self._voice.say(Replayed(self._id, batch))

    def _end(self, through: Mapping[Peer, int]) -> None:
        for stream, offset in through.items():
            self._reach(stream, offset)
        self.phase = Phase.JOINING
        self._due = math.inf
        self._voice.say(Ended(self._id, dict(self.positions)))

    def _miss(self, reason: str, stream: Peer | None = None, first: int = 0, last: int = 0) -> None:
        self._voice.say(Missed(self._id, reason, stream, first, last))

    def _reach(self, stream: Peer, offset: int) -> None:
        self.positions[stream] = max(offset, self.positions.get(stream, 0))

    # --- what is live -------------------------------------------------------------------------------------------------

    def came(self, batch: Batch, now: float) -> Sequence[int]:
        """Something came live; the rows whose turn it is now. What is kept is said later, and the rest is in a log."""
        if batch.logged is None:
            return self._unlogged(batch)
        if self.phase is Phase.GIVEN_UP:
            return range(len(batch))
        if self._tails is None:
            return ()
        stream = batch.logged.stream
        if stream not in self._tails:
            # A stream that nobody knew of is read from its beginning.
            self._tails[stream] = Tail(self.positions.get(stream, 0))
            self._read(now)
        tail = self._tails[stream]
        if not tail.is_live:
            tail.keep(batch)
            return ()
        return self._beyond(stream, tail, batch)

    def _beyond(self, stream: Peer, tail: Tail, batch: Batch) -> list[int]:
        """The rows that were not read."""
        assert tail.head is not None and batch.logged is not None
        rows = [row for row, offset in enumerate(batch.logged.offsets) if offset > tail.head]
        if rows:
            self._reach(stream, batch.logged.offsets[-1])
        return rows

    def _unlogged(self, batch: Batch) -> list[int]:
        """The rows that are new. What is in no log is given out as it comes; what is both live and replayed counts once."""
        rows = []
        for row in range(len(batch)):
            id = batch.id(row)
            if id not in self._seen:
                self._seen[id] = None
                rows.append(row)
                if len(self._seen) > MAX_SEEN:
                    self._seen.popitem(last=False)
        return rows

    # --- the logs -----------------------------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Asks which streams there are, to read each of them up to where it is live."""
        self._looks += 1
        self._tails = None
        self._looking = self._voice.ask(None, Describe())
        self._due = now + self._answer_seconds

    def told(self, id: EntryId, answer: Answer, now: float) -> None:
        """A broker has answered."""
        if id == self._looking:
            self._looking = None
            if isinstance(answer, Described):
                self._due = math.inf
                streams = dict.fromkeys((*answer.report["brokers"], *self.positions))
                self._tails = {stream: Tail(self.positions.get(stream, 0)) for stream in streams}
                self._read(now)
            else:
                self._due = now + RETRY_SECONDS
            return
        reading = self._reading()
        if reading is not None and reading[1].asked == id:
            stream, tail = reading
            tail.asked, tail.due = None, now
            if isinstance(answer, Fetched):
                self._fetched(stream, tail, answer)
            else:
                assert isinstance(answer, Failed)
                self._failed(stream, tail, answer, now)
            self._read(now)

    def _read(self, now: float) -> None:
        """Asks for the next page, one at a time: whoever takes what is read slowly holds one page."""
        if not self._can_read or self._reading() is not None:
            return
        for stream, tail in self._unread():
            if tail.due <= now:
                tail.keeps = True
                tail.due = now + self._answer_seconds
                tail.asked = self._voice.ask(stream, Fetch(tail.after, tail.head, self._where, self._page_bytes))
                return

    def _unread(self) -> list[tuple[Peer, Tail]]:
        return [(stream, tail) for stream, tail in (self._tails or {}).items() if not tail.is_live]

    def _reading(self) -> tuple[Peer, Tail] | None:
        """The stream whose next page is asked for."""
        return next((each for each in self._unread() if each[1].asked is not None), None)

    def _fetched(self, stream: Peer, tail: Tail, page: Fetched) -> None:
        if page.head < tail.after:
            self._miss("its log was replaced: it is read from its beginning", stream, page.first, page.head)
            tail.begin()
            tail.after = self.positions[stream] = page.first - 1
            return
        # Of a stream that nobody knew of, nobody expects what was before.
        expected = page.missing if stream in self.positions else ()
        for first, last in expected:
            self._miss("they are past their retention, or damaged", stream, first, last)
        tail.after, tail.retry_seconds = page.through, RETRY_SECONDS
        tail.head = page.head if tail.head is None else tail.head
        self.positions[stream] = page.through
        for batch in page.batches:
            self._voice.say(CaughtUp(self._id, batch))
        if tail.after >= tail.head:
            self._join(stream, tail)
        if page.batches:
            self._is_full = True
            self._voice.say(Full(self._id))

    def _join(self, stream: Peer, tail: Tail) -> None:
        """All that is not live is read."""
        if tail.is_overrun:
            tail.begin()
            return
        tail.is_live, kept = True, tail.kept
        tail.kept, tail.kept_count = [], 0
        for batch in kept:
            rows = self._beyond(stream, tail, batch)
            if rows:
                self._voice.say(Live(self._id, batch.whole_or(rows)))

    def _failed(self, stream: Peer, tail: Tail, answer: Failed, now: float) -> None:
        if NO_LOG in answer.reason:
            if self._looks > 1:
                self._miss(f"{stream} keeps no log to read what came while there was no link, or no room")
            tail.head, tail.is_live = 0, True
            return
        # What is live may be lost with the way to it: its head is asked for anew when there is a way again.
        tail.begin()
        tail.due = now + tail.retry_seconds
        tail.retry_seconds = min(2 * tail.retry_seconds, LONGEST_RETRY_SECONDS)
