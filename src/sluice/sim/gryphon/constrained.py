"""The generic algorithm: brokers that know identities, and apply a change when its constraints hold (sections 4 and 5).

A change that does not fit is ignored. What was missed that way, or lost, comes with a restatement, of which there are two: one
only adds, and fits always where nothing of it is known to be gone; the other replaces everything, and fits where nobody is
active whom the sender does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sluice.sim.gryphon.aggregate import Presumed, aggregate, having
from sluice.sim.gryphon.asked import NOBODY, NOTHING_KNOWN, Asked, AskedSet, Known, Oracle
from sluice.sim.gryphon.change import Change, Upward
from sluice.sim.gryphon.conjunction import Conjunctions, ordered, union
from sluice.sim.gryphon.constraint import Backed, Constraint, NobodyUnknown, holds
from sluice.sim.gryphon.guard import Constraints, Kind, Raises
from sluice.sim.gryphon.message import Listed, Message, Stamp
from sluice.sim.gryphon.router import Leaf, Router


@dataclass(frozen=True, slots=True)
class Edge:
    """S(e), S̄(e) and Λ(e)."""

    known: Known = NOTHING_KNOWN
    conjunctions: Conjunctions = ()


class ConstrainedRouter(Router):
    """Tables of identities; an edge that is new is empty."""

    __slots__ = ("edges", "guard", "presumed", "shbs", "together", "withheld")

    def __init__(self, shbs: frozenset[str], guard: Constraints) -> None:
        self.guard = guard
        self.shbs = shbs
        self.edges: dict[str, Edge] = {}
        self.presumed = Presumed(NOTHING_KNOWN, ())
        #: With whom each subscription was ever active here.
        self.together: dict[Asked, AskedSet] = {}
        #: What no root changed by, and was not told yet.
        self.withheld = Change()

    def presume(self) -> Presumed:
        """Works out what upstream should know: formulas 4.1 to 4.3."""
        edges = self.edges.values()
        self.presumed = Presumed(
            NOTHING_KNOWN.plus(*(edge.known for edge in edges)),
            ordered(one for edge in edges for one in edge.conjunctions),
        )
        return self.presumed

    def edge(self, child: str) -> Edge:
        """What is known of an edge."""
        return self.edges.get(child, Edge())

    def hear(self, child: str, change: Upward) -> tuple[Upward, ...]:
        assert isinstance(change, Change), "a network of constraints knows no vectors"
        edge = self.edge(child)
        new = Edge(change.knowledge(edge.known), change.conjunctions(edge.conjunctions))
        if new == edge or not all(holds(constraint, edge.known, new.known) for constraint in change.constraints):
            return ()
        before = self.presumed
        self.edges[child] = new
        after = self.presume()
        if self.guard.raises is Raises.WITHHELD:
            active = after.known.active
            self.together.update((own, active | self.together.get(own, NOBODY)) for own in active)
        return self._told(aggregate(before, after, change, change.gone(edge.conjunctions), self.shbs, self.guard))

    def _told(self, change: Change) -> tuple[Change, ...]:
        if not self.guard.withholds:
            return (change,)
        held = self.withheld
        change = replace(
            change,
            subscribed=held.subscribed | change.subscribed,
            unsubscribed=held.unsubscribed | change.unsubscribed,
            constraints=(*held.constraints, *change.constraints),
        )
        tells = bool(change.added or change.removed)
        self.withheld = Change() if tells else change
        return (change,) if tells else ()

    def restated(self) -> tuple[Upward, ...]:
        presumed = self.presumed
        known = presumed.known
        backed: tuple[Constraint, ...] = tuple(Backed(having(one, known.active)) for one in presumed.roots)
        backed = backed if Kind.BACKED in self.guard.kinds else ()
        whole: tuple[Constraint, ...] = (NobodyUnknown(self.shbs, known.subscribed),)
        whole = whole if Kind.NOBODY_UNKNOWN in self.guard.kinds else ()
        return (
            Change(known.subscribed, known.unsubscribed, presumed.roots, (), (*backed, *whole), is_anew=True),
            Change(known.active, NOBODY, presumed.roots, (), backed),
        )

    def stamp(self) -> Stamp:
        return Listed(self.presumed.known.active)

    def raised(self, message: Message) -> Message:
        assert isinstance(message.stamp, Listed), "a network of constraints knows no vectors"
        stamp = message.stamp.subscriptions
        match self.guard.raises:
            case Raises.NOTHING:
                added = NOBODY
            case Raises.DATA:
                added = NOBODY if message.is_silence else self._covered(lambda own: stamp)
            case Raises.WITHHELD:
                added = self._covered(lambda own: stamp & self.together[own])
            case Raises.EVERYTHING:
                added = self._covered(lambda own: stamp)
        return replace(message, stamp=Listed(stamp | added))

    def _covered(self, covering: Callable[[Asked], AskedSet]) -> AskedSet:
        """The active subscriptions that are covered by those which count for them."""
        return frozenset(
            own
            for own in self.presumed.known.active
            if own.matched & ~union(one for asked in covering(own) for one in asked.conjunctions) == 0
        )

    def is_sufficient(self, child: str, stamp: Stamp) -> bool:
        assert isinstance(stamp, Listed), "a network of constraints knows no vectors"
        known = self.edge(child).known
        return stamp.subscriptions <= known.subscribed | known.unsubscribed

    def conjunctions(self, child: str) -> Conjunctions:
        return self.edge(child).conjunctions

    def known(self, child: str, oracle: Oracle) -> Known:
        return self.edge(child).known


class ConstrainedLeaf(ConstrainedRouter, Leaf):
    """The tables of an SHB: each subscription is a child of its own, with its conjunctions (induction base of theorem 2)."""

    __slots__ = ("shb",)

    def __init__(self, shb: str, guard: Constraints) -> None:
        super().__init__(frozenset({shb}), guard)
        self.shb = shb

    def subscribe(self, id: str, conjunctions: Conjunctions) -> tuple[Asked, tuple[Upward, ...]]:
        asked = Asked(id, self.shb, conjunctions)
        return asked, self.hear(id, Change(subscribed=frozenset({asked}), added=conjunctions))

    def unsubscribe(self, asked: Asked) -> tuple[int, tuple[Upward, ...]]:
        return 0, self.hear(asked.id, Change(unsubscribed=frozenset({asked}), removed=asked.conjunctions))

    def flush(self) -> tuple[Upward, ...]:
        return ()

    def needed(self, started: tuple[Asked, ...]) -> Stamp:
        return Listed(frozenset(started))
