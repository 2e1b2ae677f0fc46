"""Ordinary subscription forwarding: each neighbour is told, by reduction, what is wanted by all others.

A link that goes takes what was held for it with it, a link that comes is told everything: that is the straightforward way to
replace one by the other (section 4.3 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.sim.cugola.dispatcher import Control, Dispatcher, Event, Update
from sluice.sim.cugola.pattern import NOTHING, Pattern, Patterns, Reducer
from sluice.sim.cugola.plan import Table, tidied
from sluice.sim.cugola.substitution import Substitution


class Forwarding(Dispatcher):
    """`sent[n] = reduce(everything heard from others than n)`, kept up by differences."""

    def __init__(self, name: str, neighbours: tuple[str, ...], table: Table, reduce: Reducer) -> None:
        super().__init__(name, neighbours)
        self.reduce = reduce
        #: What each hop, a client or a neighbour, wants.
        self.heard: dict[str, Patterns] = {**dict.fromkeys(neighbours, NOTHING), **table}
        #: What each neighbour has been told.
        self.sent: dict[str, Patterns] = {other: self.wanted(other, self.heard) for other in neighbours}

    def subscribe(self, client: str, pattern: Pattern) -> None:
        self.heard[client] = frozenset({pattern})
        self.refresh()

    def unsubscribe(self, client: str) -> None:
        del self.heard[client]
        self.refresh()

    def event(self, source: str | None, event: Event) -> None:
        if source is None or source in self.heard:
            for hop in interested(self.heard, event, source):
                self.hand_on(hop, event, self.plane_to(hop))

    def receive(self, sender: str, message: Control) -> None:
        if isinstance(message, Update) and sender in self.neighbours:
            self.heard[sender] = changed(self.heard[sender], message)
            self.refresh()

    def replace(self, substitution: Substitution, is_graceful: bool) -> None:
        (a, b), (c, d) = substitution.old, substitution.new
        for gone in _other_end((a, b), self.name):
            del self.heard[gone], self.sent[gone], self.neighbours[gone]
        for come in _other_end((c, d), self.name):
            self.heard[come] = self.sent[come] = NOTHING
            self.neighbours[come] = None
        self.refresh()

    def table(self) -> Table:
        return tidied(self.heard)

    def wanted(self, neighbour: str, *heard: Mapping[str, Patterns]) -> Patterns:
        """What a neighbour must be told: what all others want, reduced."""
        return self.reduce(
            pattern for each in heard for hop, patterns in each.items() if hop != neighbour for pattern in patterns
        )

    def refresh(self) -> None:
        """Tells neighbours what has changed for them."""
        self.tell(self.sent, self.heard)

    def tell(self, sent: dict[str, Patterns], *heard: Mapping[str, Patterns], plane: int | None = None) -> None:
        """Tells some neighbours the difference between what they have been told and what is wanted now."""
        for neighbour in sent:
            wanted = self.wanted(neighbour, *heard)
            update = difference(sent[neighbour], wanted, self.plane_to(neighbour) if plane is None else plane)
            if update.entries:
                sent[neighbour] = wanted
                self.send(neighbour, update)

    def plane_to(self, neighbour: str) -> int:
        """The plane of whatever is said to a neighbour when no substitution is under way."""
        return 0


def interested(heard: Mapping[str, Patterns], event: Event, source: str | None) -> Iterable[str]:
    """The hops other than the source that want an event."""
    for hop, patterns in heard.items():
        if hop != source and any(pattern.matches(event.value) for pattern in patterns):
            yield hop


def changed(patterns: Patterns, update: Update) -> Patterns:
    """Patterns after an update."""
    return (patterns - update.removed) | update.added


def difference(old: Patterns, new: Patterns, plane: int = 0) -> Update:
    """The update that leads from some patterns to others."""
    return Update(new - old, old - new, plane)


def _other_end(link: tuple[str, str], one: str) -> tuple[str, ...]:
    """The other end of a link, if this is one end."""
    return tuple(end for end in link if end != one) if one in link else ()
