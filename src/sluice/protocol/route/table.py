"""One table of a broker: what each peer has told about itself, and what each neighbour is told because of it.

Entries come in from peers as replicas. For every neighbour H an `Outlet` keeps `sent[H] == reduce(alpha(H))`, where alpha(H) is
what peers in any direction but that of H have told; in a steered table only what overlaps the steering filters that came from H
(section 3.6: advertisements steer subscriptions; in the same way, watches steer interest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sluice.match.filterset import FilterSet
from sluice.protocol.batch import Peer
from sluice.protocol.export import Delta, Export, Replica
from sluice.protocol.messages import NO_CLOCKS, Change, Clocks, Entry, Kind, Version
from sluice.protocol.reliable.clocks import latest
from sluice.protocol.route.directions import Direction, Directions
from sluice.protocol.route.reduce import Reducer
from sluice.protocol.route.stages import Counted, Net

#: What is said with the entries: the clocks, and whether somebody wants order.
Tags = tuple[Clocks, bool]
#: Goes through the entries that a table tells about, each with the peer it came from; called only where that is needed.
Contents = Callable[[], Iterable[tuple[Peer, Entry]]]


class Relevance:
    """The entries that overlap what a neighbour steers by."""

    __slots__ = ("_counted", "_passed", "_steering", "_waiting")

    def __init__(self) -> None:
        self._steering: FilterSet[Entry] = FilterSet()
        self._counted: Counted[Entry] = Counted()
        self._passed: FilterSet[Entry] = FilterSet()
        self._waiting: FilterSet[Entry] = FilterSet()

    @property
    def is_steered(self) -> bool:
        """Whether there is anything to overlap."""
        return len(self._steering) > 0

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Follows a change of the entries."""
        come: list[Entry] = []
        go: list[Entry] = []
        added, removed = self._counted.update(added, removed)
        for entry in added:
            if self._steering.overlaps(entry.where):
                self._passed.add(entry, entry.where)
                come.append(entry)
            else:
                self._waiting.add(entry, entry.where)
        for entry in removed:
            if entry in self._passed:
                self._passed.remove(entry)
                go.append(entry)
            else:
                self._waiting.remove(entry)
        return come, go

    def steer(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        """Follows a change of what the neighbour steers by: asks again only about entries that overlap it."""
        net: Net[Entry] = Net()
        for steering in added:
            self._steering.add(steering, steering.where)
            for entry in self._waiting.overlapping(steering.where):
                self._waiting.remove(entry)
                self._passed.add(entry, entry.where)
                net.add(entry)
        for steering in removed:
            self._steering.remove(steering)
            for entry in self._passed.overlapping(steering.where):
                if not self._steering.overlaps(entry.where):
                    self._passed.remove(entry)
                    self._waiting.add(entry, entry.where)
                    net.add(entry, -1)
        return net.result()


class Outlet:
    """What one neighbour is told of one table.

    An outlet of a steered table whose neighbour steers by nothing is *idle*: it holds nothing and follows nothing, so that
    clients who watch nobody cost nothing.
    """

    __slots__ = ("_make", "_reducer", "_relevance", "_steered", "export")

    def __init__(self, export: Export, reducer: Callable[[], Reducer], steered: bool) -> None:
        self.export = export
        self._make = reducer
        self._steered = steered
        self._reducer, self._relevance = reducer(), Relevance() if steered else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing can concern the neighbour."""
        return self._relevance is not None and not self._relevance.is_steered

    def rebuild(self, contents: Iterable[Entry], steering: Iterable[Entry], tags: Tags) -> Change | None:
        """Works everything out anew from what it depends on, and tells the neighbour what differs."""
        self._reducer, self._relevance = self._make(), Relevance() if self._steered else None
        told = dict.fromkeys(self._reducer.start())
        for added, removed in (self._feed(contents, ()), self._turn(steering, ())):
            for entry in removed:
                told.pop(entry, None)
            told.update(dict.fromkeys(added))
        come = [entry for entry in told if entry not in self.export.sent]
        go = [entry for entry in self.export.sent if entry not in told]
        return self.export.change(come, go, *tags)

    def update(self, added: Iterable[Entry], removed: Iterable[Entry], tags: Tags) -> Change | None:
        """Follows a change of the entries and of what is said with them, in one step."""
        return self.export.change(*self._feed(added, removed), *tags)

    def steer(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Change | None:
        """Follows a change of what the neighbour steers by."""
        return self.export.change(*self._turn(added, removed), self.export.clocks, self.export.ordered)

    def _feed(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        added, removed = [*map(_told, added)], [*map(_told, removed)]
        if self._relevance is not None:
            added, removed = self._relevance.update(added, removed)
            if not added and not removed:
                return [], []
        return self._reducer.update(added, removed)

    def _turn(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Delta:
        if self._relevance is None:
            return [], []
        return self._reducer.update(*self._relevance.steer(added, removed))


def _told(entry: Entry) -> Entry:
    """An entry as others hear of it: that it is reliable or ordered concerns its own broker alone."""
    return replace(entry, reliable=False, ordered=False) if entry.reliable or entry.ordered else entry


class Table:
    """The replicas of one kind and the outlets that depend on them."""

    def __init__(
        self, kind: Kind, reducer: Callable[[], Reducer], directions: Directions, steering: Table | None = None
    ) -> None:
        self.kind = kind
        self._directions = directions
        #: The time of the broker's own clock, if it has reliable subscribers.
        self.clock: Clocks = NO_CLOCKS
        #: Whether clients of the broker want what is published in the order of all.
        self.ordered = False
        #: What brokers have told with their entries, of those who have told something.
        self._clocks: dict[Peer, Clocks] = {}
        #: Brokers that have told that somebody behind them wants order.
        self._wanting: dict[Peer, None] = {}
        self.replicas: dict[Peer, Replica] = {}
        self.exports: dict[Peer, Export] = {}
        self._outlets: dict[Peer, Outlet] = {}
        self._reducer = reducer
        self._steering = steering
        #: The highest version that any export had: a neighbour that comes back is told by versions it has not seen.
        self._last = 0

    def replica(self, peer: Peer, now: float) -> Replica:
        """What is held of a peer, from now on if nothing was."""
        if peer not in self.replicas:
            self.replicas[peer] = Replica(now)
        return self.replicas[peer]

    def tell(self, peer: Peer, incarnation: int, contents: Contents) -> None:
        """Begins to tell a neighbour; the export is to be sent as a snapshot."""
        version = Version(incarnation, self._last)
        outlet = Outlet(Export(self.kind, version), self._reducer, self._steering is not None)
        self._outlets[peer], self.exports[peer] = outlet, outlet.export
        self._rebuild(peer, contents)

    def stop_telling(self, peer: Peer) -> None:
        """Tells a neighbour nothing any more."""
        self._outlets.pop(peer, None)
        export = self.exports.pop(peer, None)
        if export is not None:
            self._last = max(self._last, export.version.sequence + 1)

    def stop_hearing(self, peer: Peer) -> Delta:
        """Gives up what a peer has told."""
        replica = self.replicas.pop(peer, None)
        return ([], []) if replica is None else replica.clear()

    @property
    def is_relied_on(self) -> bool:
        """Whether there are reliable subscriptions anywhere, for all that is known."""
        return bool(self.clock or self._clocks)

    @property
    def is_ordered(self) -> bool:
        """Whether somebody somewhere wants what is published in the order of all, for all that is known."""
        return self.ordered or bool(self._wanting)

    def wants_order(self, peer: Peer) -> bool:
        """Whether somebody behind a broker does."""
        return peer in self._wanting

    def clocks_of(self, direction: Direction) -> Clocks:
        """Up to which times the reliable subscriptions that lie in a direction are covered by what was told from there."""
        of = self._directions.of
        return latest(clocks for peer, clocks in self._clocks.items() if of(peer) == direction)

    def has_told_of(self, peer: Peer, brokers: Iterable[Peer]) -> bool:
        """Whether a peer has told of the reliable subscriptions of all these brokers."""
        told = self._clocks.get(peer, NO_CLOCKS)
        return all(broker in told for broker in brokers)

    def _tags_for(self, peer: Peer) -> Tags:
        tells = self._directions.tells
        clocks = latest([self.clock, *(clocks for source, clocks in self._clocks.items() if tells(source, peer))])
        return clocks, self.ordered or any(tells(source, peer) for source in self._wanting)

    def _note_tags(self, peer: Peer) -> None:
        replica = self.replicas.get(peer)
        if replica is not None and replica.clocks:
            self._clocks[peer] = replica.clocks
        else:
            self._clocks.pop(peer, None)
        if replica is not None and replica.ordered:
            self._wanting[peer] = None
        else:
            self._wanting.pop(peer, None)

    def contents(self) -> Iterator[tuple[Peer, Entry]]:
        """All entries, each with the peer it came from."""
        for peer, replica in self.replicas.items():
            for entry in replica.entries:
                yield peer, entry

    def update(self, source: Peer, added: Iterable[Entry], removed: Iterable[Entry]) -> Iterator[tuple[Peer, Change]]:
        """A peer's entries changed, or what is said with them: what the others are told."""
        self._note_tags(source)
        for peer, outlet in self._outlets.items():
            if self._directions.tells(source, peer) and not outlet.is_idle:
                change = outlet.update(added, removed, self._tags_for(peer))
                if change is not None:
                    yield peer, change

    def steer(
        self, source: Peer, added: Iterable[Entry], removed: Iterable[Entry], contents: Contents
    ) -> Iterator[tuple[Peer, Change]]:
        """What a neighbour steers by changed: what it is told because of that."""
        outlet = self._outlets.get(source)
        if outlet is None:
            return
        if outlet.is_idle or not self._steering_of(source):
            change = self._rebuild(source, contents)
        else:
            change = outlet.steer(added, removed)
        if change is not None:
            yield source, change

    def retell(self, peers: Iterable[Peer], contents: Contents) -> Iterator[tuple[Peer, Change]]:
        """Works out anew what some neighbours are told, since they are told of other peers than before."""
        for peer in peers:
            outlet = self._outlets.get(peer)
            if outlet is not None and not outlet.is_idle:
                change = self._rebuild(peer, contents)
                if change is not None:
                    yield peer, change

    def rebuild(self, contents: Contents) -> Iterator[tuple[Peer, Change]]:
        """Works out anew what every neighbour is told: what differs from what it was told."""
        self._clocks = {peer: replica.clocks for peer, replica in self.replicas.items() if replica.clocks}
        self._wanting = {peer: None for peer, replica in self.replicas.items() if replica.ordered}
        for peer in self._outlets:
            change = self._rebuild(peer, contents)
            if change is not None:
                yield peer, change

    def _rebuild(self, peer: Peer, contents: Contents) -> Change | None:
        steering = self._steering_of(peer)
        others: list[Entry] = []
        if self._steering is None or steering:
            others = [entry for source, entry in contents() if self._directions.tells(source, peer)]
        return self._outlets[peer].rebuild(others, steering, self._tags_for(peer))

    def _steering_of(self, peer: Peer) -> tuple[Entry, ...]:
        if self._steering is None or peer not in self._steering.replicas:
            return ()
        return tuple(self._steering.replicas[peer].entries)
