"""Bugs in reliable delivery: the traps that others fell into, and some more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sluice.broker.core.broker import Broker
from sluice.client.session.tracked import Tracked
from sluice.protocol.export import Replica
from sluice.protocol.messages import Head, Missing, Passage, Quiet, Reached
from sluice.protocol.reliable import relay
from sluice.protocol.reliable.relay import Relay
from sluice.protocol.reliable.reliable import Reliable
from sluice.protocol.reliable.source import Source
from sluice.protocol.reliable.subscribers import Stream, Subscribers
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.table import Table
from sluice.sim.mutants.mutant import Patch, mutant

# --- brokers on the way -----------------------------------------------------------------------------------------------


@mutant("reliable", "judges-unknowing", "a broker leaves out what it knows too little of", first=40)
def _() -> Patch:
    return relay, "knows", lambda original: lambda held, needed: True


@mutant("reliable", "silence-raised", "a silence says that it knows of more than whoever left something out", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def flush(self: Relay, key: Any) -> None:
            if key in self._pending:
                runs, clocks = self._pending[key]
                self._pending[key] = runs, {**clocks, **self._table.clocks_of(key[0])}
            original(self, key)

        return flush

    return Relay, "_flush", make


@mutant(
    "reliable",
    "silence-merged-up",
    "two silences that know of different times become one that knows of the later",
    first=147,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def say(self: Relay, direction: str, part: Any, passage: Passage, now: float) -> None:
            key = direction, passage.stream
            if key in self._pending:
                self._pending[key] = self._pending[key][0], passage.clocks
            original(self, direction, part, passage, now)

        return say

    return Relay, "_say", make


@mutant("reliable", "silence-too-long", "a silence speaks for one offset more than was left out")
def _() -> Patch:
    def make(original: Any) -> Any:
        def flush(self: Relay, key: Any) -> None:
            if key in self._pending:
                runs, clocks = self._pending[key]
                self._pending[key] = (*runs[:-1], (runs[-1][0], runs[-1][1] + 1)), clocks
            original(self, key)

        return flush

    return Relay, "_flush", make


@mutant(
    "reliable", "silence-forgotten", "silences that wait are dropped when something is sent, and nobody asks", first=1
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def say(self: Relay, direction: str, part: Any, passage: Passage, now: float) -> None:
            if part is not None:
                self._pending.pop((direction, passage.stream), None)
                first, last = passage.runs[0][0], passage.runs[-1][1]
                passage = replace(passage, runs=((max(1, first - 1), last),))
            original(self, direction, part, passage, now)

        return say

    return Relay, "_say", make


@mutant("reliable", "again-as-silence", "what is sent again is left out where it should be passed on", first=7)
def _() -> Patch:
    def make(original: Any) -> Any:
        def pass_again(self: Relay, batch: Any, passage: Passage) -> None:
            original(self, None if len(passage.runs) == 1 and passage.runs[0][0] % 3 == 0 else batch, passage)

        return pass_again

    return Relay, "pass_again", make


# --- tables -----------------------------------------------------------------------------------------------------------


@mutant("reliable", "no-base-check", "a change is taken over whatever it is based on", first=6)
def _() -> Patch:
    def make(original: Any) -> Any:
        def change(self: Replica, message: Any) -> Any:
            removed = [entry for entry in message.removed if entry in self.entries]
            added = [entry for entry in message.added if entry not in self.entries]
            if self.version is not None:
                self.version = message.base
                message = replace(message, added=tuple(added), removed=tuple(removed))
            return original(self, message)

        return change

    return Replica, "change", make


@mutant("reliable", "clocks-outlive-entries", "the clocks of a peer that is gone still count", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def note(self: Table, peer: str) -> None:
            if peer in self.replicas and self.replicas[peer].clocks:
                original(self, peer)

        return note

    return Table, "_note_tags", make


@mutant("reliable", "clocks-first", "a clock is told before the subscription that it stands for")
def _() -> Patch:
    def make(original: Any) -> Any:
        return property(lambda self: {name: time + 1 for name, time in original.fget(self).items()})

    return Subscribers, "clocks", make


@mutant(
    "reliable",
    "incarnation-reused",
    "a broker that restarts counts its versions and its clock from the beginning",
    first=47,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def init(
            self: Broker, name: str, config: Any = None, incarnation: int = 1, accepted: Any = None, **more: Any
        ) -> None:
            original(self, name, config, 1, accepted, **more)

        return init

    return Broker, "__init__", make


@mutant("reliable", "clock-gone-back", "the clock of a broker that restarts begins anew", first=47)
def _() -> Patch:
    def make(original: Any) -> Any:
        return lambda self, name, incarnation, config: original(self, name, 1, config)

    return Subscribers, "__init__", make


# --- the subscriber's broker ------------------------------------------------------------------------------------------


@mutant("reliable", "always-known", "a new subscription counts as known everywhere")
def _() -> Patch:
    return Subscribers, "_time_of_box", lambda original: lambda self, box, now: original(self, box, now - 1)


@mutant("reliable", "weak-silence-counts", "a silence counts for subscriptions that it knows nothing of", first=2)
def _() -> Patch:
    def make(original: Any) -> Any:
        def start(self: Subscribers, name: str, stream: Stream, clock: int) -> Iterator[Any]:
            yield from original(self, name, stream, 1 << 62)
            stream.needed = 0

        return start

    return Subscribers, "_start", make


@mutant("reliable", "jumps-gaps", "a stream goes on behind a gap though somebody was promised what is in it", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def following(self: Subscribers, stream: Stream) -> Any:
            started, stream.started = stream.started, 0
            try:
                return original(self, stream)
            finally:
                stream.started = started

        return following

    return Subscribers, "_next", make


@mutant("reliable", "end-believed", "a broker takes the end of a stream for what it has got of it")
def _() -> Patch:
    def make(original: Any) -> Any:
        def hear(self: Subscribers, name: str, offset: int, clock: int, now: float) -> Iterator[Any]:
            if name in self.streams and self.streams[name].cursor is not None:
                self.streams[name].cursor = max(self.streams[name].cursor or 0, offset)
            yield from original(self, name, offset, clock, now)

        return hear

    return Subscribers, "hear", make


@mutant("reliable", "never-asks", "what is missing is not asked for", first=7)
def _() -> Patch:
    return (
        Subscribers,
        "ask",
        lambda original: lambda self, now: [replace(missing, runs=()) for missing in original(self, now)],
    )


@mutant(
    "reliable",
    "asks-without-time",
    "whoever asks does not say which of its subscriptions the answer has to know of",
    first=7,
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def ask(self: Subscribers, now: float) -> Iterator[Missing]:
            return (replace(missing, clock=0) for missing in original(self, now))

        return ask

    return Subscribers, "ask", make


@mutant("reliable", "loss-untold", "what is lost for good is passed over in silence", first=40)
def _() -> Patch:
    return Subscribers, "_lose", lambda original: lambda self, name, first, last: iter(())


@mutant("reliable", "starts-behind", "a subscription is told a start before the one that it has")
def _() -> Patch:
    def make(original: Any) -> Any:
        def start(self: Subscribers, name: str, stream: Stream, clock: int) -> Iterator[Any]:
            for client, message in original(self, name, stream, clock):
                yield client, replace(message, offset=max(1, message.offset - 1))

        return start

    return Subscribers, "_start", make


# --- the publisher's broker, its node, the client ---------------------------------------------------------------------


@mutant("reliable", "end-untold", "nobody is told where a stream ends")
def _() -> Patch:
    return Relay, "end", lambda original: lambda self, direction, message: None


@mutant(
    "reliable", "end-told-once", "who does not answer is not told again where a stream ends, nor when it asks", first=79
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def end(self: Relay, direction: str, message: Head) -> None:
            said = self.__dict__.setdefault("_said", {})
            if said.get((direction, message.stream)) != message:
                said[direction, message.stream] = message
                original(self, direction, message)

        return end

    return Relay, "end", make


@mutant("reliable", "log-silent", "the log does not answer", first=2)
def _() -> Patch:
    return Reliable, "answered", lambda original: lambda self, id, answer: self.source.was_read(id) is not None


@mutant("reliable", "log-lies", "what the log holds no more counts as unwanted", first=38)
def _() -> Patch:
    def make(original: Any) -> Any:
        def gone(self: Relay, message: Any) -> None:
            direction = self._home(message.to, None)
            if direction is not None:
                passage = Passage(message.stream, message.runs, {message.to: 1 << 62}, message.to)
                self._send_to(direction, message.stream, Quiet(passage), (message.to,))

        return gone

    return Relay, "gone", make


@mutant(
    "reliable", "trimmed-for-the-first", "the log lets go of what one of those who rely on it has reached", first=316
)
def _() -> Patch:
    def make(original: Any) -> Any:
        def needs_from(self: Source, now: float) -> int | None:
            first = original(self, now)
            return first if first is None else max(first, *(offset + 1 for offset in self.reached.values()), 1)

        return needs_from

    return Source, "needs_from", make


@mutant("reliable", "trimmed-unheard", "the log does not wait for those who have not said how far they are", first=166)
def _() -> Patch:
    def make(original: Any) -> Any:
        def needs_from(self: Source, now: float) -> int | None:
            return min((offset + 1 for offset in self.reached.values()), default=None)

        return needs_from

    return Source, "needs_from", make


@mutant("reliable", "trimmed-ahead", "brokers say that they have reached what they have only heard of", first=51)
def _() -> Patch:
    def make(original: Any) -> Any:
        def report(self: Subscribers) -> Iterator[Reached]:
            for reached in original(self):
                yield replace(reached, offsets={self._name: self.streams[reached.stream].known})

        return report

    return Subscribers, "report", make


@mutant("reliable", "trimmed-for-the-present", "the log waits for nobody who is out of touch at the moment", first=267)
def _() -> Patch:
    def make(original: Any) -> Any:
        def see(self: Source, known: Iterable[str], now: float) -> None:
            names = list(known)
            original(self, names, now)
            self._seen = {name: at for name, at in self._seen.items() if name in names}

        return see

    return Source, "see", make


@mutant("reliable", "siblings-strangers", "brokers of a node tell each other nothing")
def _() -> Patch:
    def make(original: Any) -> Any:
        def tells(self: Directions, source: str, peer: str) -> bool:
            return peer not in self._siblings and bool(original(self, source, peer))

        return tells

    return Directions, "tells", make


@mutant("reliable", "nothing-read-again", "a client goes on with what is live after a broken link", first=1)
def _() -> Patch:
    def make(original: Any) -> Any:
        def started(self: Tracked, stream: str, offset: int, now: float) -> bool:
            if stream in self._tracks:
                self._tracks[stream].position = max(self._tracks[stream].position, offset - 1)
            return bool(original(self, stream, offset, now))

        return started

    return Tracked, "started", make
