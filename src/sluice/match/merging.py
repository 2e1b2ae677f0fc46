"""Which filters differ from a given one in a single attribute? Those are the candidates for perfect merging (figure 4.9).

Each box is filed once per attribute under the hash of everything but that attribute, so that finding candidates costs one
look-up per attribute instead of a comparison with every filter.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.model.filter import Filter
from sluice.model.subscription import Subscription


class MergeIndex:
    """Subscriptions of one box, by what is left of the box when one side is taken away."""

    def __init__(self) -> None:
        self._by_rest: dict[tuple[str, int], dict[int, Filter]] = {}

    def add(self, slot: int, subscription: Subscription) -> None:
        """Files a subscription."""
        for key in _rests(subscription):
            self._by_rest.setdefault(key, {})[slot] = subscription.filters[0]

    def remove(self, slot: int, subscription: Subscription) -> None:
        """Takes a subscription out."""
        for key in _rests(subscription):
            del self._by_rest[key][slot]
            if not self._by_rest[key]:
                del self._by_rest[key]

    def candidates(self, subscription: Subscription) -> set[int]:
        """The slots of the boxes that differ from this one in exactly one side."""
        found: set[int] = set()
        for name, key in _rests(subscription):
            mine = subscription.filters[0]
            for slot, other in self._by_rest.get((name, key), {}).items():
                rest = {n: side for n, side in other.constraints.items() if n != name}
                if (
                    rest == {n: side for n, side in mine.constraints.items() if n != name}
                    and other.residuals == mine.residuals
                    and other.side(name) != mine.side(name)
                ):
                    found.add(slot)
        return found


def _rests(subscription: Subscription) -> Iterator[tuple[str, int]]:
    if len(subscription.filters) == 1:
        box = subscription.filters[0]
        for name in box.constraints:
            rest = tuple((other, side) for other, side in box.constraints.items() if other != name)
            yield name, hash((rest, box.residuals))
