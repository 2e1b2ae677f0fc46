"""A reliable subscription at its client: each stream in order and without gaps, also over several links. Pure.

Its broker says from which offset on it gets everything. The first time that is its start; after a broken link what lies between
is read from the log of the stream, while what comes live is kept. What comes twice is let go, by its offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.client.session.seam import (
    ANSWER_SECONDS,
    RETRY_SECONDS,
    Begun,
    CaughtUp,
    Live,
    Missed,
    Voice,
)
from sluice.limits import MAX_KEPT
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import EntryId, Runs
from sluice.protocol.questions import NO_LOG, Answer, Failed, Fetch, Fetched, ReplayEvent, Replaying

#: So often the times double that are waited for an answer, and after a failure.
MAX_DOUBLINGS = 5


@dataclass(slots=True)
class Track:
    """One stream of a reliable subscription."""

    #: Everything up to here was given out, or does not match.
    position: int
    #: What is missing up to here is read; None: nothing is, what comes is live.
    until: float | None = None
    kept: list[Batch] = field(default_factory=list)
    kept_count: int = 0
    asked: EntryId | None = None
    due: float = math.inf
    failures: int = 0

    @property
    def is_due_to_read(self) -> bool:
        """Whether something is missing and nobody was asked for it, nor will be."""
        return self.until is not None and self.asked is None and self.due == math.inf


class Tracked:
    """One reliable subscription."""

    __slots__ = ("_id", "_page_bytes", "_tracks", "_voice", "_where", "starts")

    def __init__(self, id: EntryId, where: str, voice: Voice, page_bytes: int) -> None:
        self._id = id
        self._where = where
        self._voice = voice
        self._page_bytes = page_bytes
        #: The first offset of each stream.
        self.starts: dict[Peer, int] = {}
        self._tracks: dict[Peer, Track] = {}
        self._prepare()

    def _prepare(self) -> None:
        """What else there is to begin with."""

    @property
    def deadline(self) -> float:
        """When a log is to be asked, or asked again."""
        return min((track.due for track in self._tracks.values()), default=math.inf)

    @property
    def positions(self) -> Mapping[Peer, int]:
        """Up to where each stream was given out."""
        return {stream: track.position for stream, track in self._tracks.items()}

    def started(self, stream: Peer, offset: int, now: float) -> None:
        """From an offset on everything comes: the first time that is the start of the subscription."""
        track = self._tracks.get(stream)
        if track is None:
            self._tracks[stream] = Track(offset - 1)
            self._told_start(stream, offset)
        elif track.position < offset - 1:
            self._read(stream, track, offset - 1, now)

    def _told_start(self, stream: Peer, offset: int) -> None:
        self.starts[stream] = offset
        self._voice.say(Begun(self._id, stream, offset))

    def came(self, batch: Batch, now: float) -> Sequence[int]:
        """The rows of a delivery that are new, if it is their turn; if not, they are kept."""
        logged = batch.logged
        if logged is None or logged.stream not in self._tracks:
            return ()
        track = self._tracks[logged.stream]
        rows = [row for row, offset in enumerate(logged.offsets) if offset > track.position]
        if not rows:
            return ()
        if track.until is None:
            track.position = logged.offsets[rows[-1]]
            return rows
        track.kept.append(batch.whole_or(rows))
        track.kept_count += len(rows)
        if track.kept_count > MAX_KEPT:
            # It is in the log, too.
            track.until = max(track.until, logged.offsets[rows[-1]])
            track.kept, track.kept_count = [], 0
        return ()

    def passed(self, offsets: Mapping[Peer, int], moment: int, now: float) -> None:
        """There was nothing more for it up to some offsets."""
        for stream, offset in offsets.items():
            track = self._tracks.get(stream)
            if track is not None and track.until is None:
                track.position = max(track.position, offset)

    def skipped(self, stream: Peer, runs: Runs) -> None:
        """Some offsets are lost."""
        track = self._tracks.get(stream)
        for first, last in runs:
            if track is not None and track.position < last:
                self._voice.say(Missed(self._id, "its log holds them no more", stream, first, last))
                if track.until is None:
                    track.position = last

    def lagged(self, now: float) -> None:
        """Something was dropped on its last way: it is read up to where each stream ends."""
        for stream, track in self._tracks.items():
            self._read(stream, track, math.inf, now)

    def unlinked(self) -> None:
        """The link is gone: its broker will say again from where on it gets everything."""
        for track in self._tracks.values():
            track.until, track.asked, track.due = None, None, math.inf
            track.kept, track.kept_count = [], 0

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, stream: Peer, track: Track, until: float, now: float) -> None:
        track.until = until if track.until is None else max(track.until, until)
        if track.asked is None:
            self._ask(stream, track, now)

    def _ask(self, stream: Peer, track: Track, now: float) -> None:
        until = None if track.until in (None, math.inf) else int(track.until or 0)
        track.asked = self._voice.ask(stream, Fetch(track.position, until, self._where, self._page_bytes))
        track.due = now + ANSWER_SECONDS * 2.0 ** min(track.failures, MAX_DOUBLINGS)

    def told(self, id: EntryId, answer: Answer, now: float) -> None:
        """A log has answered."""
        for stream, track in self._tracks.items():
            if track.asked == id:
                track.asked, track.due = None, math.inf
                if isinstance(answer, Fetched):
                    track.failures = 0
                    self._fetched(stream, track, answer, now)
                else:
                    self._failed(stream, track, answer, now)

    def _fetched(self, stream: Peer, track: Track, answer: Fetched, now: float) -> None:
        for first, last in answer.missing:
            self._voice.say(Missed(self._id, "its log holds them no more", stream, first, last))
        self._say(stream, [CaughtUp(self._id, batch) for batch in answer.batches])
        track.position = max(track.position, answer.through)
        assert track.until is not None
        if track.position < min(track.until, answer.head):
            self._ask(stream, track, now)
        else:
            self._go_live(stream, track)
        self._read_on(now)

    def _say(self, stream: Peer, news: Iterable[CaughtUp | Live]) -> None:
        """Some of a stream has come."""
        for each in news:
            self._voice.say(each)

    def _read_on(self, now: float) -> None:
        """A page was read."""

    def _failed(self, stream: Peer, track: Track, answer: Answer, now: float) -> None:
        if isinstance(answer, Failed) and NO_LOG in answer.reason:
            self._voice.say(Missed(self._id, answer.reason))
            self._go_live(stream, track)
            self._read_on(now)
            return
        track.due = now + RETRY_SECONDS * 2.0 ** min(track.failures, MAX_DOUBLINGS)
        track.failures += 1

    def _go_live(self, stream: Peer, track: Track) -> None:
        kept, track.kept, track.kept_count, track.until = track.kept, [], 0, None
        for batch in kept:
            assert batch.logged is not None
            rows = [row for row, offset in enumerate(batch.logged.offsets) if offset > track.position]
            if rows:
                track.position = batch.logged.offsets[rows[-1]]
                self._say(stream, [Live(self._id, batch.whole_or(rows))])

    def tick(self, now: float) -> None:
        """Asks again where no answer came."""
        for stream, track in self._tracks.items():
            if track.due <= now:
                track.failures += track.asked is not None
                self._ask(stream, track, now)

    # --- what does not concern it -------------------------------------------------------------------------------------

    def asked(self, id: EntryId, event: ReplayEvent, now: float) -> None:
        """It has asked for no replay."""
        self._voice.answer(id, Replaying(None, is_over=True))

    def completed(self, now: float) -> None:
        """That it has started everywhere is all it waits for."""

    def proceed(self, now: float) -> None:
        """It holds nothing back."""
