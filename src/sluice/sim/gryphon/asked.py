"""A subscription has an identity, the broker at which it was made (its SHB), and conjunctions; what is known of it is two sets.

S is what has been subscribed, S̄ what has been unsubscribed; both only grow (section 3.1). A broker knows subsets of them for
each of its edges, and what all of them together have said only the `Oracle` knows, whom nobody but the checks may ask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sluice.sim.gryphon.conjunction import Conjunctions, union


@dataclass(frozen=True, slots=True)
class Asked:
    """A subscription s; two are the same if they have the same identity."""

    id: str
    shb: str = field(compare=False)
    conjunctions: Conjunctions = field(compare=False)
    #: The virtual start time, where there are clocks (section 6.2).
    begin: int = field(default=0, compare=False)
    #: All that matches it, as bits.
    matched: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matched", union(self.conjunctions))

    def matches(self, record: int) -> bool:
        """Whether a record of the domain, by its position, matches."""
        return bool(self.matched >> record & 1)


AskedSet = frozenset[Asked]
NOBODY: AskedSet = frozenset()


@dataclass(frozen=True, slots=True)
class Known:
    """S(e) and S̄(e): what a broker knows of the subscriptions behind an edge (definition 3.1)."""

    subscribed: AskedSet = NOBODY
    unsubscribed: AskedSet = NOBODY

    @property
    def active(self) -> AskedSet:
        """S(e) − S̄(e)."""
        return self.subscribed - self.unsubscribed

    def plus(self, *others: Known) -> Known:
        """What all know together."""
        return Known(
            self.subscribed.union(*(other.subscribed for other in others)),
            self.unsubscribed.union(*(other.unsubscribed for other in others)),
        )


NOTHING_KNOWN = Known()


class Oracle:
    """All subscriptions of the whole system, and all unsubscriptions with their virtual end times."""

    __slots__ = ("subscribed", "unsubscribed")

    def __init__(self) -> None:
        self.subscribed: dict[str, Asked] = {}
        self.unsubscribed: dict[str, int] = {}

    def is_active(self, asked: Asked) -> bool:
        """Whether nobody has unsubscribed it."""
        return asked.id not in self.unsubscribed

    def end(self, asked: Asked) -> float:
        """The virtual end time of a subscription; it is endless while nobody has unsubscribed it."""
        return self.unsubscribed.get(asked.id, math.inf)
