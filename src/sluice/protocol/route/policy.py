"""What an imperfect merger may waste: a policy decides which gaps between the intervals of a merged filter are closed.

A wider filter makes tables smaller and lets some notifications travel for nothing. `Ratio` is the measure of section 6.5.2,
`Traffic` weighs what is saved against the share of real traffic that statistics tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from sluice.errors import ConfigurationError
from sluice.model.filter import EVERYTHING, Filter
from sluice.model.ordered import Cut, Ordered
from sluice.model.statistics import Statistics
from sluice.model.values import Kind

Interval = tuple[Cut, Cut]

#: Of all notifications, what may travel in vain for each interval less in a table: one in a hundred thousand.
DEFAULT_BUDGET = 0.00001


class Policy(Protocol):
    """Which gaps a merger may close."""

    def close_gaps(self, name: str, whole: Ordered, rest: Filter = EVERYTHING) -> Ordered:
        """A superset of `whole`, the intervals of attribute `name` in a filter with the other sides `rest`.

        The same for the same input.
        """


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

    def close_gaps(self, name: str, whole: Ordered, rest: Filter = EVERYTHING) -> Ordered:
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
class Traffic:
    """Saves what costs little traffic: for each interval that goes, at most `budget` of all notifications.

    Costs are shares of all notifications, as statistics tell them, so those of gaps and sides add up, and each is judged by
    itself: what is rare may be lumped together, what is frequent stays exact.

    >>> from sluice.model.ordered import between, union_of
    >>> from sluice.model.statistics import Statistics
    >>> prices = Statistics.of([{"price": price} for price in (1, 2, 3, 15, 16, 22, 30)] * 100)
    >>> apart = union_of([between(0, 10), between(12, 20), between(25, 40)])
    >>> print(Traffic(prices, budget=0.01).close_gaps("price", apart).to_sql("price"))
    (price BETWEEN 0 AND 20 OR price BETWEEN 25 AND 40)
    """

    statistics: Statistics
    budget: float = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        if not 0 <= self.budget <= 1:
            raise ConfigurationError(f"a budget of {self.budget} is no share of notifications: take one from 0 to 1")

    def close_gaps(self, name: str, whole: Ordered, rest: Filter = EVERYTHING) -> Ordered:
        """Closes every gap within a kind that few notifications lie in which satisfy the other sides."""
        others = self.statistics.share(rest)
        cuts: list[Cut] = []
        for low, high in whole.intervals():
            is_within = bool(cuts) and cuts[-1][0] == low[0]
            if is_within and self._cost(name, Ordered((cuts[-1], low)), others) <= self.budget:
                cuts[-1] = high
            else:
                cuts += (low, high)
        return Ordered(tuple(cuts))

    def loosen(self, box: Filter) -> Filter:
        """The box without the sides that keep out little, the one that saves most for its cost first; one side stays.

        Boxes that have lost a side are often alike in what is left, and become one along another attribute.
        """
        while len(box.constraints) > 1:
            cost, name = min((self._cost_per_interval(box, name), name) for name in box.constraints)
            if cost > self.budget:
                break
            box = _without(box, name)
        return box

    def _cost_per_interval(self, box: Filter, name: str) -> float:
        side = box.constraints[name]
        if not isinstance(side, Ordered):
            return math.inf
        return self._cost(name, side.complement(), self.statistics.share(_without(box, name))) / (len(side.cuts) // 2)

    def _cost(self, name: str, gap: Ordered, others: float) -> float:
        """The share of notifications that come to lie in a gap; what was never seen is as rare as the statistics can tell."""
        return max(self.statistics.share_of(name, gap), self.statistics.resolution) * others


def _without(box: Filter, name: str) -> Filter:
    return Filter.of({other: side for other, side in box.constraints.items() if other != name}, box.residuals)
