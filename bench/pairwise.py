"""What people would write first: routing by covering and merging with a list of filters and a loop over it.

`Covering` compares the filter that comes or goes with the others in the list, `Merging` also tries to merge what is left. Two
formulations: *all* compares with every filter of the list, *until found* stops at the first that covers. Both answer the same
as a broker does; they are the yardstick for it. They start from what is told already: to find that would take them hours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from sluice.model.subscription import Subscription

Formulation = Literal["all", "until found"]
FORMULATIONS: tuple[Formulation, ...] = ("all", "until found")


class Plain(Protocol):
    """What one neighbour is told, kept up to date the plain way."""

    told: Any
    """The filters that the neighbour holds."""

    def add(self, where: Subscription) -> None:
        """A filter comes."""

    def remove(self, where: Subscription) -> None:
        """A filter goes."""


class Covering:
    """The filters of a list that no other one covers. All filters are distinct."""

    def __init__(self, formulation: Formulation, filters: Iterable[Subscription], told: Iterable[Subscription]) -> None:
        self._until_found = formulation == "until found"
        # A dict and not a list, so that taking a filter out costs nothing: only comparing shall count.
        self._filters = dict.fromkeys(filters)
        self.told = dict.fromkeys(told)
        #: What the last change took from the told ones and added to them.
        self.gone: list[Subscription] = []
        self.come: list[Subscription] = []

    def add(self, where: Subscription) -> None:
        """Told, unless another one covers it; then those that it covers are not told any more."""
        self.gone, self.come = [], []
        if not self._is_covered(where):
            self.gone = [other for other in self.told if where.covers(other)]
            self.come = [where]
        self._filters[where] = None
        self._turn()

    def remove(self, where: Subscription) -> None:
        """If it was told, then now those are that it alone covered."""
        self.gone, self.come = [], []
        del self._filters[where]
        if where in self.told:
            self.gone = [where]
            self.come = [other for other in self._filters if where.covers(other) and not self._is_covered(other)]
        self._turn()

    def _is_covered(self, where: Subscription) -> bool:
        if self._until_found:
            return any(other.covers(where) for other in self._filters if other is not where)
        return len([1 for other in self._filters if other is not where and other.covers(where)]) > 0

    def _turn(self) -> None:
        for where in self.gone:
            del self.told[where]
        self.told.update(dict.fromkeys(self.come))


class Merging:
    """The told filters of `Covering`, those that merge exactly made one."""

    def __init__(self, covering: Covering, told: Iterable[Subscription]) -> None:
        self._covering = covering
        self.told = list(told)

    def add(self, where: Subscription) -> None:
        """A filter comes."""
        self._covering.add(where)
        self._follow()

    def remove(self, where: Subscription) -> None:
        """A filter goes."""
        self._covering.remove(where)
        self._follow()

    def _follow(self) -> None:
        """Mergers with a part that is gone are made anew from the parts that are left."""
        gone = self._covering.gone
        broken = [merger for merger in self.told if any(merger.covers(where) for where in gone)]
        fresh = dict.fromkeys(self._covering.come)
        if broken:
            self.told = [merger for merger in self.told if merger not in broken]
            fresh |= {where: None for where in self._covering.told if any(merger.covers(where) for merger in broken)}
        for where in fresh:
            self._merge(where)

    def _merge(self, where: Subscription) -> None:
        """Puts a filter in, merged with the first that it merges with, and that one again with the others."""
        merged = True
        while merged:
            merged = False
            for place, other in enumerate(self.told):
                box = other.filters[0].merge(where.filters[0])
                if box is not None:
                    where = Subscription([box])
                    del self.told[place]
                    merged = True
                    break
        self.told.append(where)
