"""A reliable subscription in the order of all at its client: its streams, each gapless, become one by their moments. Pure.

What has a moment is given out when every stream is past it. Its broker says how far all streams are that it delivers; of one
that is read from its log, only what was read tells. A stream that nobody delivers at present is waited for: what it may still
bring would come first. A stream that is new begins with what is later than all that was given out. Nothing is ever given out
behind what is later: should a broker break its word, what comes too late is withheld, and told as a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from sluice.client.session.seam import CaughtUp, Live, Missed
from sluice.client.session.tracked import Track, Tracked
from sluice.limits import MAX_KEPT
from sluice.protocol.batch import Batch, Peer
from sluice.protocol.reliable.runs import runs_of


class Held(NamedTuple):
    """Something that waits, by its place: the moment, the stream and the offset."""

    moment: int
    stream: Peer
    offset: int
    news: CaughtUp | Live


class Merged(Tracked):
    """One subscription that is reliable and ordered."""

    __slots__ = ("_count", "_cuts", "_given", "_held", "_past", "_said")

    def _prepare(self) -> None:
        self._held: list[Held] = []
        #: How many notifications are held.
        self._count = 0
        #: Each stream has brought all that it has up to this moment.
        self._past: dict[Peer, int] = {}
        #: The same, as the broker said over this link, of those that it delivers: it counts once nothing is left to be read.
        self._said: dict[Peer, int] = {}
        #: Streams that have not begun: theirs is what has a later moment than this.
        self._cuts: dict[Peer, int] = {}
        #: All was given out up to this moment.
        self._given = 0

    @property
    def positions(self) -> Mapping[Peer, int]:
        """Up to where each stream was given out."""
        positions = dict(super().positions)
        for held in self._held:
            positions[held.stream] = min(positions[held.stream], held.offset - 1)
        return {stream: position for stream, position in positions.items() if stream not in self._cuts}

    @property
    def waits_for(self) -> list[Peer]:
        """The streams for which something is held back."""
        return [stream for stream, past in self._past.items() if past < self._held[0].moment] if self._held else []

    # --- what comes ---------------------------------------------------------------------------------------------------

    def started(self, stream: Peer, offset: int, now: float) -> None:
        """From an offset on everything comes; a new stream begins there, or later if something later was given out."""
        self._said[stream] = 0
        if stream in self._tracks or not self._given:
            self._past.setdefault(stream, 0)
            super().started(stream, offset, now)
            return
        self._tracks[stream] = Track(offset - 1)
        self._past[stream] = self._cuts[stream] = self._given

    def came(self, batch: Batch, now: float) -> Sequence[int]:
        """Takes in a delivery; what is to be given out is said when it is its turn."""
        logged = batch.logged
        track = None if logged is None else self._tracks.get(logged.stream)
        if logged is not None and track is not None and track.until is None and not self._may_take(logged.stream):
            # There is no room, and the log has it, too.
            track.until = float(logged.offsets[-1])
        rows = super().came(batch, now)
        if rows and logged is not None:
            self._hold(logged.stream, Live(self._id, batch.whole_or(rows)))
            self._advance(now)
        return ()

    def passed(self, offsets: Mapping[Peer, int], moment: int, now: float) -> None:
        """There was nothing more for it up to some offsets, or up to a moment."""
        super().passed(offsets, moment, now)
        if moment:
            self._said.update(dict.fromkeys(self._said, moment))
            self._advance(now)

    def unlinked(self) -> None:
        """The link is gone: what the streams bring from now on nobody knows before it is delivered, or read."""
        self._said.clear()
        for stream in self._cuts:
            del self._tracks[stream], self._past[stream]
        self._cuts.clear()
        super().unlinked()

    def _say(self, stream: Peer, news: Iterable[CaughtUp | Live]) -> None:
        for each in news:
            self._hold(stream, each)

    def _hold(self, stream: Peer, news: CaughtUp | Live) -> None:
        logged = news.batch.logged
        assert logged is not None
        moment, offset = logged.moment, logged.offsets[0]
        if stream in self._cuts:
            if moment <= self._cuts[stream]:
                return
            self._begin(stream, offset)
        if moment <= self._given:
            # Its broker has forgotten what it promised, as one does whose disk was restored from a copy.
            for first, last in runs_of(logged.offsets):
                self._voice.say(Missed(self._id, "they came too late to keep the order", stream, first, last))
            return
        # What was stored together has one moment, and there may be more of it.
        self._past[stream] = max(self._past[stream], moment - 1)
        heappush(self._held, Held(moment, stream, offset, news))
        self._count += len(news.batch)

    def _begin(self, stream: Peer, offset: int) -> None:
        del self._cuts[stream]
        self._told_start(stream, offset)

    # --- what is given out --------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Gives out what no stream can precede any more."""
        for stream, said in self._said.items():
            track = self._tracks[stream]
            if track.until is None:
                self._past[stream] = max(self._past[stream], said)
                if said >= self._cuts.get(stream, said + 1):
                    self._begin(stream, track.position + 1)
        self._given = max(self._given, min(self._past.values(), default=0))
        while self._held and self._held[0].moment <= self._given:
            news = heappop(self._held).news
            self._count -= len(news.batch)
            self._voice.say(news)
        for stream, track in self._tracks.items():
            if track.is_due_to_read and self._may_take(stream):
                super()._ask(stream, track, now)

    def _may_take(self, stream: Peer) -> bool:
        """Whether there is room for more of a stream; what all others wait for always has some."""
        return self._count < MAX_KEPT or self._past[stream] <= self._given

    def _ask(self, stream: Peer, track: Track, now: float) -> None:
        if self._may_take(stream):
            super()._ask(stream, track, now)
        else:
            track.due = math.inf

    def _read_on(self, now: float) -> None:
        self._advance(now)
