"""Four small runs in which the published algorithm gives two subscribers different orders; a link takes one unit of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sluice.sim.padres.network import Algorithm
from sluice.sim.padres.plan import Plan, Publisher, Subscriber
from sluice.sim.padres.published import Published
from sluice.sim.padres.tree import Tree


@dataclass(frozen=True, slots=True)
class CounterExample:
    """A plan, and the form of the published algorithm that fails on it."""

    name: str
    plan: Plan
    fails: Algorithm


def _publisher(name: str, broker: str, *values: int) -> Publisher:
    return Publisher(name, broker, frozenset(values))


def _subscriber(name: str, broker: str, *values: int) -> Subscriber:
    return Subscriber(name, broker, frozenset(values))


#: s1 is not held and sees y, x as they arrive. s0 holds both until all of its queue is acknowledged and sorts them to x, y:
#: sorting reverses a pair that FIFO links had ordered.
SORTED_LATE = CounterExample(
    "whole queue",
    Plan(
        Tree.line("B0", "B1"),
        (_publisher("x", "B1", 1), _publisher("y", "B1", 1), _publisher("z", "B0", 1)),
        (_subscriber("s0", "B1", 1), _subscriber("s1", "B0", 1)),
        ((0.0, "y", 1), (1.0, "x", 1)),
    ),
    partial(Published, release="whole"),
)

#: s1 gets c at once. The acknowledgement of c waits at B0 for B2, because b might publish; meanwhile a overtakes it, and s0
#: sorts the head of its queue to a, c.
OVERTAKEN = CounterExample(
    "progressive",
    Plan(
        Tree.line("B1", "B0", "B2"),
        (_publisher("a", "B0", 2), _publisher("b", "B2", 0), _publisher("c", "B1", 2)),
        (_subscriber("s0", "B1", 2), _subscriber("s1", "B2", 0, 2)),
        ((0.0, "c", 2), (2.0, "a", 2)),
    ),
    partial(Published, release="progressive"),
)

#: s0 has no conflict and gets w, u as they arrive; s1, at the same broker, has one because of s2, is held, and sorts to u, w.
NEIGHBOURS = CounterExample(
    "two subscribers of one broker",
    Plan(
        Tree.line("B0", "B1"),
        (_publisher("u", "B1", 1, 2), _publisher("w", "B0", 3)),
        (_subscriber("s0", "B0", 1, 3), _subscriber("s1", "B0", 1, 2, 3), _subscriber("s2", "B1", 2, 3)),
        ((0.0, "u", 1), (0.0, "w", 3)),
    ),
    partial(Published, release="progressive"),
)

#: Stamps instead of ids: s1 gets b, a as they arrive; s0 holds both and sorts to a, b, since their times are equal.
STAMPED = CounterExample(
    "stamps",
    Plan(
        Tree.line("B0", "B1", "B2"),
        (_publisher("a", "B0", 1), _publisher("b", "B1", 1), _publisher("c", "B2", 1)),
        (_subscriber("s0", "B1", 1), _subscriber("s1", "B2", 1)),
        ((0.0, "a", 1), (0.0, "b", 1)),
    ),
    partial(Published, release="whole", sorting="stamp"),
)

COUNTER_EXAMPLES = (SORTED_LATE, OVERTAKEN, NEIGHBOURS, STAMPED)
