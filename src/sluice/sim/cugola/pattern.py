"""Patterns of a small domain, and how a dispatcher reduces what it tells its neighbours.

The paper's dispatchers tell every pattern once (`identity`). Covering leaves out what another pattern contains, merging joins
what touches. All three can be applied to parts: reduce(reduce(X) ∪ Y) = reduce(X ∪ Y), which keeps a substitution local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class Pattern(NamedTuple):
    """The values from `low` to `high`, both included."""

    low: int
    high: int

    def matches(self, value: int) -> bool:
        """Whether a value is one of these."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"


Patterns = frozenset[Pattern]
#: From all that is wanted to what has to be told.
Reducer = Callable[[Iterable[Pattern]], Patterns]

NOTHING: Patterns = frozenset()


def identity(patterns: Iterable[Pattern]) -> Patterns:
    """Every pattern, once."""
    return frozenset(patterns)


def covering(patterns: Iterable[Pattern]) -> Patterns:
    """The patterns that no other one contains.

    >>> sorted(covering([Pattern(1, 3), Pattern(2, 3), Pattern(2, 4)]))
    [Pattern(low=1, high=3), Pattern(low=2, high=4)]
    """
    kept: list[Pattern] = []
    for pattern in sorted(frozenset(patterns), key=lambda one: (one.low, -one.high)):
        if not kept or pattern.high > kept[-1].high:
            kept.append(pattern)
    return frozenset(kept)


def merging(patterns: Iterable[Pattern]) -> Patterns:
    """The fewest patterns that match the same values.

    >>> sorted(merging([Pattern(1, 2), Pattern(3, 4), Pattern(6, 7)]))
    [Pattern(low=1, high=4), Pattern(low=6, high=7)]
    """
    kept: list[Pattern] = []
    for pattern in sorted(patterns):
        if kept and pattern.low <= kept[-1].high + 1:
            kept[-1] = Pattern(kept[-1].low, max(kept[-1].high, pattern.high))
        else:
            kept.append(pattern)
    return frozenset(kept)


REDUCERS: Mapping[str, Reducer] = MappingProxyType({"identity": identity, "covering": covering, "merging": merging})
