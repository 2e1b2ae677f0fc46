"""Bugs where the past of a subscription meets what is live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.client.session.seam import Phase, Seam, Tail
from sluice.protocol.questions import Fetched, ReplayEvent
from sluice.sim.mutants.mutant import Patch, mutant
from sluice.sim.world.historian import Archive


@mutant(
    "replay",
    "through-ignored",
    "what follows is read from the beginning, and not from where the replay ended",
    canary=True,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def end(self: Seam, through: Any) -> None:
            original(self, through)
            self.positions = dict.fromkeys(self.positions, 0)

        return end

    return Seam, "_end", make


@mutant("replay", "log-not-read", "what came between the replay and what is live is not read")
def _() -> Patch:
    def make(original: Any) -> Any:
        def fetched(self: Seam, stream: str, tail: Tail, page: Fetched) -> None:
            original(self, stream, tail, Fetched((), page.head, page.first, page.head))

        return fetched

    return Seam, "_fetched", make


@mutant("replay", "live-from-the-beginning", "what is live is given out while the past is still to come", canary=True)
def _() -> Patch:
    def make(original: Any) -> Any:
        def came(self: Seam, batch: Any, now: float) -> Sequence[int]:
            return range(len(batch)) if self.phase is Phase.PAST else original(self, batch, now)

        return came

    return Seam, "came", make


@mutant("replay", "head-before-keeping", "what comes live while the head is asked for is not kept")
def _() -> Patch:
    def make(original: Any) -> Any:
        def keep(self: Tail, batch: Any) -> None:
            if self.head is not None:
                original(self, batch)

        return keep

    return Tail, "keep", make


@mutant("replay", "kept-is-lost", "what came live before a stream was read is not given out afterwards", first=5)
def _() -> Patch:
    def make(original: Any) -> Any:
        def join(self: Seam, stream: str, tail: Tail) -> None:
            tail.kept = []
            original(self, stream, tail)

        return join

    return Seam, "_join", make


@mutant("replay", "head-does-not-divide", "what was read comes again if it comes live too")
def _() -> Patch:
    return Seam, "_beyond", lambda original: lambda self, stream, tail, batch: [*range(len(batch))]


@mutant("replay", "first-page-is-all", "a stream counts as live after its first page")
def _() -> Patch:
    def make(original: Any) -> Any:
        def fetched(self: Seam, stream: str, tail: Tail, page: Fetched) -> None:
            original(self, stream, tail, page)
            if not tail.is_live:
                self._join(stream, tail)

        return fetched

    return Seam, "_fetched", make


@mutant("replay", "no-seam-after-a-new-link", "after a broken link what is live goes on where it is by then", first=24)
def _() -> Patch:
    def make(original: Any) -> Any:
        def completed(self: Seam, now: float) -> None:
            original(self, now)
            if self._looks > 1:
                self._looking = None
                self._tails = {stream: Tail(at, at, is_live=True) for stream, at in self.positions.items()}

        return completed

    return Seam, "completed", make


@mutant("replay", "any-part-of-the-past", "a part of the past is taken whether it follows what was taken or not")
def _() -> Patch:
    def make(original: Any) -> Any:
        def asked(self: Seam, id: str, event: ReplayEvent, now: float) -> None:
            original(self, id, ReplayEvent(event.batches, self._place, event.through, event.missing), now)

        return asked

    return Seam, "asked", make


@mutant("replay", "archive-alone", "a history replays what it has kept, and says that this is all there is")
def _() -> Patch:
    def make(original: Any) -> Any:
        def take(self: Archive, stream: str, page: Fetched) -> None:
            original(self, stream, page)
            self.positions[stream] = page.head

        return take

    return Archive, "take", make


@mutant("replay", "by-stream", "a history replays one stream after the other")
def _() -> Patch:
    def make(original: Any) -> Any:
        def past(self: Archive, entry: Any, after: Any) -> Any:
            return sorted(
                original(self, entry, after), key=lambda batch: (batch.logged.stream, batch.logged.offsets[0])
            )

        return past

    return Archive, "past", make
