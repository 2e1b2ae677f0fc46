"""Virtual time vectors with the equal-vector guard (section 6.2): the generic algorithm where sets are told as times.

An SHB counts a clock up for each batch of changes; S(e) is what began by the time that a broker has of each SHB, S̄(e) what
ended by then. A broker applies a change if its vector is the very one that the change starts from: then, the paper argues, all
constraints hold. A snapshot is taken by a broker that is behind it in no element.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.sim.gryphon.aggregate import roots_changed
from sluice.sim.gryphon.asked import Asked, Known, Oracle
from sluice.sim.gryphon.change import Advance, Change, Snapshot, Upward
from sluice.sim.gryphon.conjunction import Conjunction, Conjunctions, ordered, roots
from sluice.sim.gryphon.guard import Vectors
from sluice.sim.gryphon.message import Message, Stamp, Timed
from sluice.sim.gryphon.router import Leaf, Router
from sluice.sim.gryphon.vector import ORIGIN, Vector


@dataclass(frozen=True, slots=True)
class TimedEdge:
    """The times of the SHBs behind an edge, and Λ(e)."""

    vector: Vector = ORIGIN
    conjunctions: Conjunctions = ()


class TimedRouter(Router):
    """Tables with vectors."""

    __slots__ = ("edges", "guard")

    def __init__(self, guard: Vectors) -> None:
        self.guard = guard
        self.edges: dict[str, TimedEdge] = {}

    def vector(self) -> Vector:
        """The broker's vector."""
        return ORIGIN.joined(*(edge.vector for edge in self.edges.values()))

    def graph(self) -> Conjunctions:
        """The conjunctions of all edges."""
        return ordered(one for edge in self.edges.values() for one in edge.conjunctions)

    def edge(self, child: str) -> TimedEdge:
        """What is known of an edge."""
        return self.edges.get(child, TimedEdge())

    def hear(self, child: str, change: Upward) -> tuple[Upward, ...]:
        edge = self.edge(child)
        new = self._applied(edge, change)
        if new == edge:
            return ()
        base, before = self.vector(), self.graph()
        self.edges[child] = new
        left = tuple(one for one in edge.conjunctions if one not in new.conjunctions)
        told = roots_changed(before, self.graph(), change.removed if isinstance(change, Advance) else left, _lasts)
        return (Advance(base, self.vector(), told.added, told.removed),)

    def _applied(self, edge: TimedEdge, change: Upward) -> TimedEdge:
        """The edge after a change; the same one if it does not fit."""
        match change:
            case Advance(base, to, added, removed):
                if edge.vector != base:
                    return edge
                kept = (one for one in edge.conjunctions if one not in removed)
                return TimedEdge(to, roots((*kept, *added)))
            case Snapshot(vector, conjunctions):
                if vector >= edge.vector:
                    return edge if vector == edge.vector else TimedEdge(vector, conjunctions)
                if edge.vector >= vector or not self.guard.merges:
                    return edge
                return TimedEdge(edge.vector.joined(vector), roots((*edge.conjunctions, *conjunctions)))
            case Change():
                raise AssertionError("a network of vectors knows no constraints")

    def restated(self) -> tuple[Upward, ...]:
        return (Snapshot(self.vector(), roots(self.graph())),)

    def stamp(self) -> Stamp:
        return Timed(self.vector())

    def raised(self, message: Message) -> Message:
        return message

    def is_sufficient(self, child: str, stamp: Stamp) -> bool:
        assert isinstance(stamp, Timed), "a network of vectors knows no lists"
        return self.edge(child).vector >= stamp.vector

    def conjunctions(self, child: str) -> Conjunctions:
        return self.edge(child).conjunctions

    def known(self, child: str, oracle: Oracle) -> Known:
        vector = self.edge(child).vector
        begun = [asked for asked in oracle.subscribed.values() if asked.begin <= vector.at(asked.shb)]
        ended = (asked for asked in begun if oracle.end(asked) <= vector.at(asked.shb))
        return Known(frozenset(begun), frozenset(ended))


def _lasts(conjunction: Conjunction) -> bool:
    """With equal vectors all that is known here is known upstream."""
    return True


class TimedLeaf(Leaf):
    """The tables of an SHB: its clock, its active subscriptions, and what it has told."""

    __slots__ = ("_active", "_changed", "_told", "clock", "shb")

    def __init__(self, shb: str) -> None:
        self.shb = shb
        self.clock = 0
        #: The active subscriptions with the start times of their conjunctions.
        self._active: dict[Asked, tuple[int, ...]] = {}
        #: The conjunctions that were active when it told last, and whether it has news.
        self._told: Conjunctions = ()
        self._changed = False

    def subscribe(self, id: str, conjunctions: Conjunctions) -> tuple[Asked, tuple[Upward, ...]]:
        """A new subscription: each conjunction begins with the earliest active one that covers it, at the latest now."""
        times = tuple(min((self.clock + 1, *self._begins(one))) for one in conjunctions)
        asked = Asked(id, self.shb, conjunctions, begin=max(times, default=self.clock + 1))
        self._active[asked] = times
        self._changed = True
        return asked, ()

    def _begins(self, conjunction: Conjunction) -> tuple[int, ...]:
        return tuple(
            time
            for asked, times in self._active.items()
            for other, time in zip(asked.conjunctions, times, strict=True)
            if other.covers(conjunction)
        )

    def unsubscribe(self, asked: Asked) -> tuple[int, tuple[Upward, ...]]:
        """A subscription ends with the next step of the clock."""
        del self._active[asked]
        self._changed = True
        return self.clock + 1, ()

    def flush(self) -> tuple[Upward, ...]:
        """Steps the clock and tells what has changed since it did so last."""
        if not self._changed:
            return ()
        now = ordered(one for asked in self._active for one in asked.conjunctions)
        gone = tuple(one for one in self._told if one not in now)
        told = roots_changed(self._told, now, gone, _lasts)
        base = Vector.of({self.shb: self.clock})
        self.clock += 1
        self._told, self._changed = now, False
        return (Advance(base, Vector.of({self.shb: self.clock}), told.added, told.removed),)

    def restated(self) -> tuple[Upward, ...]:
        return (Snapshot(Vector.of({self.shb: self.clock}), roots(self._told)),)

    def raised(self, message: Message) -> Message:
        return message

    def needed(self, started: tuple[Asked, ...]) -> Stamp:
        return Timed(Vector.of({self.shb: max((asked.begin for asked in started), default=0)}))
