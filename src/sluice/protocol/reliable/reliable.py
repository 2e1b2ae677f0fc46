"""What a broker does for reliable subscriptions: its own clients', those behind it, and those of its own stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from sluice.protocol.batch import Batch, Peer
from sluice.protocol.events import Ask, Reserve
from sluice.protocol.messages import (
    NO_CLOCKS,
    Clocks,
    Entry,
    Gone,
    Head,
    Message,
    Missing,
    Passage,
    Quiet,
    Reached,
    ReliableMessage,
    Request,
    Started,
)
from sluice.protocol.order.algorithm import Algorithm
from sluice.protocol.questions import Answer, Fetch, Fetched
from sluice.protocol.reliable.clocks import latest
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.moments import Moments
from sluice.protocol.reliable.relay import Home, Relay
from sluice.protocol.reliable.runs import common, count, rows_in, runs_of, without
from sluice.protocol.reliable.source import Source, clipped
from sluice.protocol.reliable.subscribers import Piece, Subscribers, ToClient
from sluice.protocol.route.directions import Direction, Directions
from sluice.protocol.route.forward import Forwarding, Route
from sluice.protocol.route.table import Table

#: How much of the log is read at a time for those who have missed something.
READ_BYTES = 1 << 20


class Reliable:
    """The three parts of a broker, and what happens between them."""

    def __init__(
        self,
        config: ReliableConfig,
        directions: Directions,
        *,
        table: Table,
        forwarding: Forwarding,
        algorithm: Algorithm,
        home: Home,
        streams: Callable[[], Iterable[Peer]],
        send: Callable[[Peer, Message], None],
        act: Callable[[Ask | Reserve], None],
        incarnation: int,
        head: int,
        moment: int,
    ) -> None:
        self._name = directions.name
        self._directions = directions
        self._table = table
        self._streams = streams
        self._send = send
        self._act = act
        self._algorithm = algorithm
        self._config = config
        self.subscribers = Subscribers(self._name, incarnation, config)
        self.relay = Relay(config, directions, table=table, forwarding=forwarding, home=home, send=send)
        self.source = Source(self._name, head, moment, config)
        self.moments = Moments(self._name, self.subscribers, config)
        #: When somebody is to be told of the end of the stream, and when to look who is behind.
        self._head_at = math.inf
        self._report_at = math.inf
        #: When clients are told how far they are.
        self._progress_at = math.inf

    @property
    def deadline(self) -> float:
        """When a tick is due."""
        return min(
            *(self.subscribers.deadline, self.relay.deadline, self.moments.deadline, self.source.reserve_at),
            *(self._head_at, self._report_at, self._progress_at),
        )

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribed(self, client: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> None:
        """The subscriptions of a client change; the clocks of the table follow before anybody is told of the entries."""
        self.subscribers.update(client, added, removed)
        self._table.clock = self.subscribers.clocks

    def heard(self, now: float) -> None:
        """The table has changed, or a link: there may be news for somebody, and work for the clock."""
        if self.is_needed:
            self.source.see(self._clocks(), now)
            self._report_at = min(self._report_at, now + self._config.report_seconds)
            if any(self.source.is_news(direction, clocks) for direction, clocks in self._by_direction()):
                self._head_at = min(self._head_at, now + self._config.silence_seconds)
            if self._table.clock:
                self._progress_at = min(self._progress_at, now + self._config.progress_seconds)
                # There is no stream that its own broker knows too little of.
                clock = self._table.clock[self._name]
                self._deliver(self.subscribers.hear(self._name, self.source.head, clock, self._promised, now))
                self._deliver(self.subscribers.begin(self._streams(), now))
                self._deliver(self.subscribers.ready(self._streams()))

    def relinked(self, peer: Peer) -> None:
        """A link came up or is gone: whoever is behind it may have missed something."""
        self.source.told.pop(self._directions.of(peer), None)

    def _clocks(self) -> Clocks:
        """All that is known here."""
        return latest([self._table.clock, *(clocks for _, clocks in self._by_direction())])

    def _by_direction(self) -> list[tuple[Direction, Clocks]]:
        return [(direction, self._table.clocks_of(direction)) for direction in self._directions.brokers()]

    @property
    def is_needed(self) -> bool:
        """Whether anybody relies on what passes here."""
        return self._table.is_relied_on

    # --- notifications ------------------------------------------------------------------------------------------------

    def publish(
        self, source: Peer, batch: Batch, routes: Mapping[Direction, Route], passage: Passage | None, now: float
    ) -> None:
        """Sends a batch of a log on, and delivers it here; without a passage it is news of this broker, or of nobody's."""
        assert batch.logged is not None
        stream = batch.logged.stream
        if passage is None:
            clocks = self._clocks() if stream == self._name else NO_CLOCKS
            passage = Passage(stream, runs_of(batch.logged.offsets), clocks)
        if passage.to is None:
            self.relay.pass_on(source, batch, routes, passage, now)
        else:
            self.relay.keep(batch, passage)
            if passage.to != self._name:
                self.relay.pass_again(batch, passage)
        self._take(batch, passage, now)

    def _take(self, batch: Batch | None, passage: Passage, now: float) -> None:
        if passage.to in (None, self._name):
            moment = 0
            if batch is not None and batch.logged is not None and passage.to is None:
                # The first time, a passage ends with the end of what was stored together, which has one moment.
                moment = batch.logged.moment
            piece = Piece(passage.runs, batch, passage.clocks.get(self._name, 0), moment=moment)
            self._deliver(self.subscribers.take(passage.stream, piece, now))

    def _deliver(self, messages: Iterable[ToClient]) -> None:
        """Sends clients what is theirs; when something has started, others may be complete."""
        has_started = False
        for client, message in messages:
            self._send(client, message)
            has_started |= isinstance(message, Started)
        if has_started:
            self._deliver(self.subscribers.ready(self._streams()))

    def receive(self, peer: Peer, message: ReliableMessage, now: float) -> None:
        """Takes in what another broker says for the sake of reliable subscriptions."""
        match message:
            case Quiet(passage):
                if passage.to is None:
                    self.relay.pass_on(peer, None, {}, passage, now)
                elif passage.to != self._name:
                    self.relay.pass_again(None, passage)
                self._take(None, passage, now)
            case Head(stream, offset, clocks, moment):
                self.relay.head(peer, message)
                if self._name in clocks:
                    self._deliver(self.subscribers.hear(stream, offset, clocks[self._name], moment, now))
                    self._report_at = min(self._report_at, now + self._config.report_seconds)
            case Missing():
                if message.stream == self._name:
                    self._look_up(message)
                else:
                    self.relay.ask(peer, message)
            case Gone(stream, runs, to):
                if to == self._name:
                    self._deliver(self.subscribers.take(stream, Piece(runs, None, 0, is_gone=True), now))
                else:
                    self.relay.gone(message)
            case Reached(stream, offsets):
                if stream == self._name:
                    self.source.note(offsets)
                else:
                    self.relay.note(peer, message)
                    self._report_at = min(self._report_at, now + self._config.report_seconds)
            case _:
                assert_never(message)

    # --- the log ------------------------------------------------------------------------------------------------------

    def _look_up(self, message: Missing) -> None:
        if message.runs:
            id, first, last = self.source.read(message)
            self._act(Ask(Request(id, self._name, Fetch(first - 1, last, "true", READ_BYTES))))
        elif message.moment:
            self.source.wanted[message.by] = max(message.moment, self.source.wanted.get(message.by, 0))
        else:
            self._tell_end(lambda _, clocks: message.by in clocks)

    def answered(self, id: str, answer: Answer) -> bool:
        """Takes an answer of the log in; False if somebody else has asked."""
        missing = self.source.was_read(id)
        if missing is None:
            return False
        if isinstance(answer, Fetched):
            by, clocks = missing.by, {missing.by: missing.clock}
            lost = common(missing.runs, answer.missing)
            if lost:
                self.relay.gone(Gone(self._name, lost, by))
            wanted = without(tuple(clipped(missing.runs, answer.through)), lost)
            for batch in answer.batches:
                assert batch.logged is not None
                rows = rows_in(batch.logged.offsets, wanted)
                if rows:
                    self.source.from_log += len(rows)
                    runs = runs_of([batch.logged.offsets[row] for row in rows])
                    self.relay.pass_again(batch.whole_or(rows), Passage(self._name, runs, clocks, by))
        return True

    def needs_from(self, now: float) -> int | None:
        """The first offset of this broker's log that somebody may still ask for; None: nobody relies on what there is."""
        self.source.see(self._clocks(), now)
        return self.source.needs_from(now)

    # --- moments ------------------------------------------------------------------------------------------------------

    @property
    def _promised(self) -> int:
        return self.source.promised(self._algorithm.present)

    def reserved(self, moment: int, now: float) -> None:
        """A moment is written down as given, or could not be."""
        self.source.was_reserved(moment, now)

    def settle(self, now: float) -> None:
        """After a step: tells and asks how far streams are, for those who want all of them in one order."""
        if self.subscribers.behind or self.moments.waits_for:
            self._deliver(self.moments.settle(self._promised))
            if self.moments.own:
                self._promise(self.moments.own)
                self._deliver(self.moments.settle(self._promised))
            for missing in self.moments.ask(now):
                self.relay.ask(self._name, missing)
        if self.source.wanted:
            self._promise(max(self.source.wanted.values()))
            promised = self._promised
            due = {name: None for name, moment in self.source.wanted.items() if moment <= promised}
            if due:
                self._tell_end(lambda _, clocks: any(name in clocks for name in due))
                for name in due:
                    del self.source.wanted[name]

    def _promise(self, moment: int) -> None:
        """Sees to it that nothing of this broker's stream is stamped any more up to a moment."""
        self._algorithm.see(moment)
        needed = self.source.reserve(moment)
        if needed is not None:
            self._act(Reserve(needed))

    # --- its own account ----------------------------------------------------------------------------------------------

    def account(self) -> dict[str, int]:
        """How it goes: who relies on this broker, what it does for others, and who waits for its stream."""
        gaps = [count(stream.missing()) for stream in self.subscribers.streams.values() if stream.started]
        lags = self.source.lags(self._clocks())
        wishes = list(self.subscribers.wishes)
        return {
            "subscriptions": len(wishes),
            "not_ready": sum(not wish.is_ready for wish in wishes),
            "streams_behind": sum(gap > 0 for gap in gaps),
            "gap_offsets": sum(gaps),
            "asked": self.subscribers.asked,
            "silences": self.relay.silences,
            "unjudged": self.relay.unjudged,
            "from_cache": self.relay.from_cache,
            "from_log": self.source.from_log,
            "brokers_relying": len(lags),
            "lag_offsets": max(lags, default=0),
            "ordered": sum(wish.entry.ordered for wish in wishes),
            "moments_asked": self.moments.asked,
        }

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Does what is due."""
        self.relay.tick(now)
        if self.source.reserve_at <= now:
            self.source.reserve_at = math.inf
        for missing in self.subscribers.ask(now):
            self.relay.ask(self._name, missing)
        if self._head_at <= now:
            self._head_at = math.inf
            self._tell_end(lambda direction, clocks: self.source.is_news(direction, clocks))
        if self._report_at <= now:
            self._report(now)
        if self._progress_at <= now:
            self._deliver(self.subscribers.progress())
            self._progress_at = now + self._config.progress_seconds if self._table.clock else math.inf

    def _report(self, now: float) -> None:
        for reached in self.subscribers.report():
            if reached.stream != self._name:
                self.relay.note(self._name, reached)
        self.relay.report()
        clocks = self._clocks()
        self.source.see(clocks, now)
        self._tell_end(lambda _, clocks: self.source.is_behind(clocks, now))
        self._report_at = now + self._config.report_seconds if clocks else math.inf

    def _tell_end(self, is_due: Callable[[Direction, Clocks], bool]) -> None:
        """Tells those directions where the stream ends in which somebody wants to know."""
        for direction, clocks in self._by_direction():
            if clocks and is_due(direction, clocks):
                self.source.told[direction] = clocks
                self.relay.end(direction, Head(self._name, self.source.head, clocks, self._promised))
