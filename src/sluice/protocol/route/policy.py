"""What an imperfect merger may waste: a policy decides which gaps between the intervals of a merged filter are closed.

A wider filter makes tables smaller and lets some notifications travel for nothing. `Ratio` is the measure of section 6.5.2,
`Selectivity` estimates the share of real traffic from a sample of values.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sluice.errors import ConfigurationError
from sluice.model.ordered import Cut, Ordered
from sluice.model.values import Kind

Interval = tuple[Cut, Cut]


class Policy(Protocol):
    """Which gaps a merger may close."""

    def close_gaps(self, name: str, whole: Ordered) -> Ordered:
        """A superset of `whole`, the intervals of attribute `name`; the same for the same input."""


def _close_gaps(whole: Ordered, waste: Any, budget: float) -> Ordered:
    """Closes the gap with the least waste, again and again, as long as one is within the budget."""
    pieces = list(whole.intervals())
    while len(pieces) > 1:
        costs = [waste(pieces[i], pieces[i + 1]) for i in range(len(pieces) - 1)]
        best = min(range(len(costs)), key=costs.__getitem__)
        if costs[best] > budget:
            break
        pieces[best : best + 2] = [(pieces[best][0], pieces[best + 1][1])]
    return Ordered(tuple(cut for piece in pieces for cut in piece))


def _number(cut: Cut) -> float | None:
    """The number at a cut, or None where there is none, or none that a float can hold."""
    if cut[0] != Kind.NUMBER or len(cut) == 1:
        return None
    try:
        return float(cut[1])
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two intervals become one if that is at most `limit` times as long as both together; 1 is perfect merging.

    >>> from sluice.model.ordered import between, union_of
    >>> apart = union_of([between(0, 10), between(12, 20)])
    >>> print(Ratio(1.5).close_gaps("price", apart).to_sql("price"))
    price BETWEEN 0 AND 20
    """

    limit: float = 1.5

    def __post_init__(self) -> None:
        if not self.limit >= 1:
            raise ConfigurationError(f"a merging ratio of {self.limit} is below 1, which is perfect merging already")

    def close_gaps(self, name: str, whole: Ordered) -> Ordered:
        """Closes gaps between intervals of numbers, the cheapest first."""
        return _close_gaps(whole, self._waste, self.limit)

    @staticmethod
    def _waste(left: Interval, right: Interval) -> float:
        ends = [_number(cut) for cut in (*left, *right)]
        a, b, c, d = ends
        if a is None or b is None or c is None or d is None:
            return math.inf
        length = (b - a) + (d - c)
        return (d - a) / length if 0 < length < math.inf else math.inf


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Two intervals become one if at most `budget` of what that lets through was asked for by neither.

    `samples` has, for each attribute, numbers as they occur in the traffic.

    >>> from sluice.model.ordered import between, union_of
    >>> prices = Selectivity({"price": [1, 2, 3, 15, 16, 30]}, budget=0.2)
    >>> apart = union_of([between(0, 10), between(12, 20), between(25, 40)])
    >>> print(prices.close_gaps("price", apart).to_sql("price"))
    price BETWEEN 0 AND 40
    """

    samples: Mapping[str, Sequence[float]]
    budget: float = 0.1
    _sorted: dict[str, list[float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.budget < 1:
            raise ConfigurationError(f"a waste budget of {self.budget} is no share: take one from 0 up to below 1")
        object.__setattr__(self, "_sorted", {name: sorted(values) for name, values in self.samples.items()})

    def close_gaps(self, name: str, whole: Ordered) -> Ordered:
        """Closes gaps between intervals, the cheapest first; attributes without a sample are left alone."""
        values = self._sorted.get(name)
        if not values:
            return whole

        def count(low: Cut, high: Cut) -> int:
            return bisect_left(values, high, key=_point) - bisect_left(values, low, key=_point)

        def waste(left: Interval, right: Interval) -> float:
            through = count(left[0], right[1])
            # A gap in which nothing was ever seen costs nothing, as far as the sample can tell.
            return count(left[1], right[0]) / through if through else 0.0

        return _close_gaps(whole, waste, self.budget)


def _point(value: float) -> tuple[int, float, float]:
    """The place of a number on the axis of cuts."""
    return int(Kind.NUMBER), value, 0.5
