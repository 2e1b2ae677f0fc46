"""Every broker on the way: what nobody behind a neighbour wants is left out, and accounted for as silence.

A message names the clocks of the subscribers it was meant to serve. A broker that has heard less than that from a direction
must not judge what is wanted there: it sends everything on. One that has heard as much may leave something out, and what it
leaves out is silent for exactly those clocks, never for later ones. Brokers of a node need not agree on anything for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from sluice.protocol.batch import Batch, Peer
from sluice.protocol.messages import Clocks, Gone, Head, Message, Missing, Notify, Passage, Quiet, Reached, Runs
from sluice.protocol.reliable.cache import Cache
from sluice.protocol.reliable.clocks import knows
from sluice.protocol.reliable.config import ReliableConfig
from sluice.protocol.reliable.runs import count, union, without
from sluice.protocol.route.directions import Direction, Directions
from sluice.protocol.route.forward import Forwarding, Route
from sluice.protocol.route.table import Table

#: Finds the direction in which a broker lies, for what comes from a peer or from here; None if nothing is known of it.
Home = Callable[[Peer, Peer | None], Direction | None]


class Relay:
    """Passes streams on."""

    def __init__(
        self,
        config: ReliableConfig,
        directions: Directions,
        *,
        table: Table,
        forwarding: Forwarding,
        home: Home,
        send: Callable[[Peer, Message], None],
    ) -> None:
        self._directions = directions
        self._table = table
        self._forwarding = forwarding
        self._home = home
        self._send = send
        self._config = config
        self._cache = Cache(config.cache_bytes)
        #: Silences that wait for something to travel with, by direction and stream.
        self._pending: dict[tuple[Direction, Peer], tuple[Runs, Clocks]] = {}
        self._flush_at = math.inf
        #: How far brokers are in streams of others, by who said so and the stream, to be passed on.
        self._reached: dict[tuple[Peer, Peer], dict[Peer, int]] = {}
        #: For the record: notifications that were passed on because it could not be told whether anybody wants them, silences
        #: that went by themselves, and offsets that were answered for because they had passed lately.
        self.unjudged = self.silences = self.from_cache = 0

    @property
    def deadline(self) -> float:
        """When silences have waited long enough."""
        return self._flush_at

    # --- towards subscribers ------------------------------------------------------------------------------------------

    def onward(self, source: Peer, clocks: Clocks) -> Iterator[tuple[Direction, Clocks]]:
        """The directions in which something goes on, with the clocks of the brokers that lie there, or may lie there."""
        homes = {name: self._home(name, source) for name in clocks}
        for direction in self._directions.brokers():
            if self._directions.passes(source, direction):
                yield direction, {name: clocks[name] for name, home in homes.items() if home in (direction, None)}

    def pass_on(
        self, source: Peer, batch: Batch | None, routes: Mapping[Direction, Route], passage: Passage, now: float
    ) -> None:
        """Sends a passage on that comes for the first time."""
        if passage.clocks:
            self._cache.keep(passage, batch)
        for direction, below in self.onward(source, passage.clocks):
            part = self._part(direction, batch, routes, below)
            if below:
                self._say(direction, part, Passage(passage.stream, passage.runs, below), now)
            elif part is not None:
                self._send_to(direction, passage.stream, Notify(part), ())

    def _part(
        self, direction: Direction, batch: Batch | None, routes: Mapping[Direction, Route], below: Clocks
    ) -> Batch | None:
        """What of a batch goes on in a direction: what is wanted there, or all if that cannot be told."""
        if batch is None:
            return None
        if not knows(self._table.clocks_of(direction), below):
            self.unjudged += len(batch)
            return batch
        route = routes.get(direction)
        return None if route is None else batch.whole_or(route.rows)

    def _say(self, direction: Direction, part: Batch | None, passage: Passage, now: float) -> None:
        """Sends data with the silences before it, or has silence wait for it."""
        key = direction, passage.stream
        runs = passage.runs
        earlier, clocks = self._pending.get(key, ((), passage.clocks))
        if clocks == passage.clocks:
            runs = union((*earlier, *runs))
            self._pending.pop(key, None)
        else:
            self._flush(key)  # each silence says what it knows, no less
        if part is None:
            self._pending[key] = runs, passage.clocks
            self._flush_at = min(self._flush_at, now + self._config.silence_seconds)
        else:
            whole = Passage(passage.stream, runs, passage.clocks)
            self._send_to(direction, passage.stream, Notify(part, whole), whole.clocks)

    def _flush(self, key: tuple[Direction, Peer]) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            direction, stream = key
            self.silences += 1
            passage = Passage(stream, *pending)
            self._send_to(direction, stream, Quiet(passage), passage.clocks)

    def tick(self, now: float) -> None:
        """Sends the silences that have waited long enough."""
        if self._flush_at <= now:
            self._flush_at = math.inf
            for key in list(self._pending):
                self._flush(key)

    def flush(self, direction: Direction) -> None:
        """Sends the silences that wait for one direction."""
        for key in [key for key in self._pending if key[0] == direction]:
            self._flush(key)

    def head(self, source: Peer, message: Head) -> None:
        """Passes on where a stream ends, behind all that was said of it."""
        for direction, below in self.onward(source, message.clocks):
            if below:
                self.end(direction, Head(message.stream, message.offset, below, message.moment))

    def end(self, direction: Direction, message: Head) -> None:
        """Says in one direction where a stream ends."""
        self._flush((direction, message.stream))
        self._send_to(direction, message.stream, message, message.clocks)

    def keep(self, batch: Batch, passage: Passage) -> None:
        """Keeps what comes again for one broker: others may have missed it as well, and ask for it next."""
        self._cache.keep(passage, batch)

    def pass_again(self, batch: Batch | None, passage: Passage) -> None:
        """Sends on what one broker has missed; it need not wait for anything."""
        assert passage.to is not None
        direction = self._home(passage.to, None)
        if direction is None:
            return
        if batch is not None:
            [routes] = self._forwarding.find([batch])
            batch = self._part(direction, batch, routes, passage.clocks)
        message = Quiet(passage) if batch is None else Notify(batch, passage)
        self._send_to(direction, passage.stream, message, (passage.to,))

    def gone(self, message: Gone) -> None:
        """Passes on that something is lost."""
        direction = self._home(message.to, None)
        if direction is not None:
            self._send_to(direction, message.stream, message, (message.to,))

    # --- towards publishers -------------------------------------------------------------------------------------------

    def ask(self, source: Peer, message: Missing) -> None:
        """Passes on what is missing, as far as it did not pass here lately.

        What this broker itself has missed may have passed since, for another one: that was not for its own subscribers.
        """
        runs = message.runs
        is_own = message.by == self._directions.name
        for found, batch in () if is_own else self._cache.find(message.stream, runs, message.by, message.clock):
            runs = without(runs, found)
            self.from_cache += count(found)
            self.pass_again(batch, Passage(message.stream, found, {message.by: message.clock}, message.by))
        if runs or not message.runs:
            self._send_up(source, Missing(message.stream, message.by, runs, message.clock, message.moment))

    def note(self, source: Peer, message: Reached) -> None:
        """Takes note of how far brokers are, to be passed on together with what others say."""
        self._reached.setdefault((source, message.stream), {}).update(message.offsets)

    def report(self) -> None:
        """Passes on how far the brokers behind this one are."""
        reached, self._reached = self._reached, {}
        for (source, stream), offsets in reached.items():
            self._send_up(source, Reached(stream, offsets))

    def _send_up(self, source: Peer, message: Missing | Reached) -> None:
        """Sends something towards a stream, through a broker of the same node if there is no other way."""
        direction = self._home(message.stream, None)
        peer = None if direction is None else self._directions.choose(direction, message.stream)
        if peer is None and not self._directions.is_sibling(source):
            peer = self._directions.choose_sibling(message.stream)
        if peer is not None:
            self._send(peer, message)

    def _send_to(self, direction: Direction, stream: Peer, message: Message, behind: Iterable[Peer]) -> None:
        """Sends something of a stream to a broker of a direction: one that has told of those for whom it is, if any has."""
        peer = self._directions.choose(direction, stream, lambda peer: self._table.has_told_of(peer, behind))
        if peer is not None:
            self._send(peer, message)
