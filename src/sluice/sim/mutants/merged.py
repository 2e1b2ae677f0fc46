"""Bugs in order without loss: moments that are lost or given twice, promises that do not hold, streams nobody waits for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappush
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session import merged
from sluice.client.session.merged import Held, Merged
from sluice.protocol.order.algorithm import Algorithm
from sluice.protocol.order.floors import Floors
from sluice.protocol.reliable.moments import Moments
from sluice.protocol.reliable.reliable import Reliable
from sluice.protocol.reliable.source import Source
from sluice.protocol.reliable.subscribers import Stream, Subscribers, Wish
from sluice.protocol.stream import Stream as Log
from sluice.sim.mutants.mutant import Patch, mutant

# --- the log and the clock --------------------------------------------------------------------------------------------


@mutant("reliable", "moment-not-logged", "what is read from a log has no moment", first=15)
def _() -> Patch:
    def make(original: Any) -> Any:
        def matching(self: Log, stored: Any, where: Any, start: int, end: int) -> Any:
            return original(self, replace(stored, moment=0), where, start, end)

        return matching

    return Log, "_matching", make


@mutant(
    "reliable",
    "moment-when-stored",
    "the moment of what is stored is not the one under which it goes on",
    first=69,
)
def _() -> Patch:
    return Floors, "stamp", lambda original: lambda self, is_marked, moment: original(self, is_marked, 0)


@mutant("reliable", "promised-over-the-disk", "a broker promises the moment of what it is still storing", first=8)
def _() -> Patch:
    return Floors, "present", lambda original: property(lambda self: self.clock)


@mutant("order", "own-disk-not-awaited", "what is held back does not wait for what this broker is storing", first=18)
def _() -> Patch:
    def make(original: Any) -> Any:
        return property(lambda self: min((hop.heard for hop in self.hops.values() if hop.carries), default=math.inf))

    return Floors, "limit", make


@mutant("reliable", "clock-not-restored", "a broker that restarts gives moments from the beginning", first=52)
def _() -> Patch:
    def make(original: Any) -> Any:
        def init(self: Broker, *arguments: Any, moment: int = 0, **more: Any) -> None:
            original(self, *arguments, moment=0, **more)

        return init

    return Broker, "__init__", make


@mutant("reliable", "promise-not-written", "a broker promises moments that it gives again after a crash", first=106)
def _() -> Patch:
    def make(original: Any) -> Any:
        def reserve(self: Source, needed: int) -> None:
            self.reserved = max(self.reserved, needed)

        return reserve

    return Source, "reserve", make


# --- the subscriber's broker ------------------------------------------------------------------------------------------


@mutant("reliable", "unanswered-not-awaited", "a stream that has not said how far it is counts for nothing", first=9)
def _() -> Patch:
    def make(original: Any) -> Any:
        def limit(self: Moments, wish: Wish) -> int:
            original(self, wish)
            moments = [self._subscribers.streams[name].moment for name in wish.starts]
            return min((moment for moment in moments if moment), default=0)

        return limit

    return Moments, "_limit", make


@mutant(
    "reliable", "end-dated-early", "the moment of the end of a stream counts before all up to there has come", first=9
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def hear(self: Subscribers, name: str, offset: int, clock: int, moment: int, now: float) -> Iterator[Any]:
            yield from original(self, name, offset, clock, moment, now)
            if name in self.streams:
                self.streams[name].date(moment)

        return hear

    return Subscribers, "hear", make


@mutant(
    "reliable", "silent-not-asked", "streams that say nothing by themselves are not asked how far they are", first=3
)
def _() -> Patch:
    return Moments, "ask", lambda original: lambda self, now: iter(())


@mutant("reliable", "asked-in-vain", "a broker that is asked to be past a moment does not move its clock", first=3)
def _() -> Patch:
    def make(original: Any) -> Any:
        def promise(self: Reliable, moment: int) -> None:
            algorithm: Algorithm = self._algorithm
            clock = algorithm.clock
            original(self, moment)
            algorithm.clock = clock

        return promise

    return Reliable, "_promise", make


@mutant("reliable", "start-untold", "a client does not hear how far a stream is in which it has just started", first=16)
def _() -> Patch:
    def make(original: Any) -> Any:
        def start(self: Subscribers, name: str, stream: Stream, clock: int) -> Iterator[Any]:
            told = {id: wish.told for id, wish in self._wishes.items()}
            yield from original(self, name, stream, clock)
            for id, moment in told.items():
                self._wishes[id].told = moment

        return start

    return Subscribers, "_start", make


@mutant(
    "reliable", "log-undated", "what a client reads from a log after a broken link does not count as owed", first=83
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def limit(self: Moments, wish: Wish) -> int:
            wish.undated.clear()
            return int(original(self, wish))

        return limit

    return Moments, "_limit", make


# --- the client -------------------------------------------------------------------------------------------------------


@mutant(
    "reliable",
    "away-not-awaited",
    "a client does not wait for streams that its broker does not deliver at present",
    first=15,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def advance(self: Merged, now: float) -> None:
            past = dict(self._past)
            self._past.update((stream, 1 << 62) for stream in past if stream not in self._said)
            if self._said:
                original(self, now)
            self._past.update((stream, moment) for stream, moment in past.items() if stream not in self._said)

        return advance

    return Merged, "_advance", make


@mutant(
    "reliable",
    "said-while-reading",
    "what the broker says of a stream counts while its log is still being read",
    first=15,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def advance(self: Merged, now: float) -> None:
            for stream, said in self._said.items():
                self._past[stream] = max(self._past[stream], said)
            original(self, now)

        return advance

    return Merged, "_advance", make


@mutant(
    "reliable",
    "new-stream-at-once",
    "a stream that is new to a client begins where its broker begins with it",
    first=15,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def started(self: Merged, stream: str, offset: int, now: float) -> None:
            given, self._given = self._given, 0
            original(self, stream, offset, now)
            self._given = given

        return started

    return Merged, "started", make


@mutant("reliable", "merged-as-it-came", "streams become one in the order in which they come", first=5)
def _() -> Patch:
    def make(original: Any) -> Any:
        def push(heap: list[Held], held: Held) -> None:
            heappush(heap, held._replace(moment=0))

        return push

    return merged, "heappush", make
