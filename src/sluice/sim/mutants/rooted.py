"""Bugs in order by a root: places that others give, times that it does not hear of, and ways that are not kept."""

from __future__ import annotations

from typing import Any

from sluice.client.session.inorder import InOrder
from sluice.protocol.arrival import Arrival
from sluice.protocol.order.ordering import Ordering
from sluice.protocol.order.rooted import Rooted
from sluice.sim.mutants.mutant import Patch, mutant


@mutant("order", "stamped-on-the-way", "a broker stamps what its own clients publish, root or not")
def _() -> Patch:
    def make(original: Any) -> Any:
        def place(self: Rooted, arrival: Arrival, is_marked: bool, now: float) -> Any:
            parent, self._parent = self._parent, None
            placed = original(self, arrival, is_marked, now)
            self._parent = parent
            return placed

        return place

    return Rooted, "place", make


@mutant("order", "root-moment-used-twice", "the root's clock does not move on when something is stamped")
def _() -> Patch:
    def make(original: Any) -> Any:
        def place(self: Rooted, arrival: Arrival, is_marked: bool, now: float) -> Any:
            self.clock -= self._parent is None and self.clock > 0
            return original(self, arrival, is_marked, now)

        return place

    return Rooted, "place", make


@mutant("order", "delivered-on-the-way-up", "who is on the way up gets a publication at once, and again in its place")
def _() -> Patch:
    def make(original: Any) -> Any:
        def place(self: Ordering, arrival: Arrival, is_marked: bool, now: float) -> Any:
            placed = original(self, arrival, is_marked, now)
            if any(each.upward is not None for each in placed):
                return [*placed, arrival._replace(batch=arrival.batch.stamped(None))]
            return placed

        return place

    return Ordering, "_place", make


@mutant("order", "not-sent-back", "the root sends a publication everywhere but the way it came")
def _() -> Patch:
    def make(original: Any) -> Any:
        def place(self: Rooted, arrival: Arrival, is_marked: bool, now: float) -> Any:
            placed = original(self, arrival, is_marked, now)
            return placed if placed is None else placed._replace(source=arrival.source)

        return place

    return Rooted, "place", make


@mutant("order", "time-unheard", "the clock does not follow what others say that they have seen", first=66)
def _() -> Patch:
    return Rooted, "hear", lambda original: lambda self, peer, message: None


@mutant("order", "time-untold", "a new root is not told of the times that were seen", first=66)
def _() -> Patch:
    def make(original: Any) -> Any:
        def survey(self: Rooted) -> None:
            told = self._told
            original(self)
            self._told = max(told, self.clock)

        return survey

    return Rooted, "survey", make


@mutant("order", "roots-by-way", "every broker has a root of its own: the one that it has heard of first")
def _() -> Patch:
    def make(original: Any) -> Any:
        def survey(self: Rooted) -> None:
            known = next(iter(self._brokers), self._name)
            self.root = known
            self._parent = None if known == self._name else self._brokers.get(known)

        return survey

    return Rooted, "survey", make


@mutant("order", "root-for-ever", "a root that is gone is still the root")
def _() -> Patch:
    def make(original: Any) -> Any:
        def survey(self: Rooted) -> None:
            if self._parent is None:
                original(self)

        return survey

    return Rooted, "survey", make


@mutant("order", "nobody-follows", "what is not ordered passes what is, also that of the same publisher", first=23)
def _() -> Patch:
    return Rooted, "follows", lambda original: lambda self, publisher, now: False


@mutant(
    "order", "root-unadvertised", "where subscriptions are steered by advertisements, nothing leads them to the root"
)
def _() -> Patch:
    return Ordering, "is_root", lambda original: property(lambda self: False)


@mutant("order", "overtaken-delivered", "a client delivers what was overtaken by something of its publisher", first=85)
def _() -> Patch:
    return InOrder, "take", lambda original: lambda self, batch, rows, number: original(self, batch, rows)
