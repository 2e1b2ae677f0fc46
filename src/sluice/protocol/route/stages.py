"""The steps that routing algorithms are made of. Each keeps a set derived from another one, and follows it change by change.

Whatever the order of the changes, a step's output depends on nothing but the set that went in: that is what makes tables
comparable, restarts harmless and snapshots small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from sluice.limits import MAX_MERGED_INTERVALS, MAX_TEXT
from sluice.match.filterset import FilterSet
from sluice.model.constraint import Constraint
from sluice.model.filter import Filter, Residual
from sluice.model.ordered import Cut, Ordered, union_of
from sluice.model.subscription import Subscription
from sluice.protocol.messages import Entry
from sluice.protocol.route.policy import Policy

T = TypeVar("T", bound=Hashable)

#: What one change adds to a set of filters and takes from it.
Filters = tuple[list[Subscription], list[Subscription]]


class Net(Generic[T]):
    """Collects comings and goings and tells what is left of them."""

    __slots__ = ("_balance",)

    def __init__(self) -> None:
        self._balance: dict[T, int] = {}

    def add(self, item: T, count: int = 1) -> None:
        """One more (or, with a negative count, fewer) of an item."""
        balance = self._balance.get(item, 0) + count
        if balance:
            self._balance[item] = balance
        else:
            self._balance.pop(item, None)

    def result(self) -> tuple[list[T], list[T]]:
        """What came and what went, on balance."""
        return [x for x, n in self._balance.items() if n > 0], [x for x, n in self._balance.items() if n < 0]


class Distinct:
    """Equal filters count once; with `split`, each box of a union on its own."""

    __slots__ = ("_counts", "_split")

    def __init__(self, split: bool) -> None:
        self._split = split
        self._counts: dict[Subscription, int] = {}

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Filters:
        """Follows a change of the entries."""
        net: Net[Subscription] = Net()
        for entry in added:
            for where in self._parts(entry.where):
                count = self._counts.get(where, 0)
                self._counts[where] = count + 1
                if count == 0:
                    net.add(where)
        for entry in removed:
            for where in self._parts(entry.where):
                count = self._counts[where] - 1
                if count == 0:
                    del self._counts[where]
                    net.add(where, -1)
                else:
                    self._counts[where] = count
        return net.result()

    def _parts(self, where: Subscription) -> Iterable[Subscription]:
        if self._split and len(where.filters) != 1:
            return [Subscription([box]) for box in where.filters]
        return (where,)


class Maximal:
    """Only filters that no other one covers (section 3.5.4).

    The filters form a forest: each hangs below one that covers it, and the roots are the result. Only roots are indexed, so
    the cost of a change follows the number of roots it concerns, not that of the filters below them.
    """

    __slots__ = ("_above", "_below", "_roots")

    def __init__(self) -> None:
        self._roots: FilterSet[Subscription] = FilterSet()
        self._above: dict[Subscription, Subscription | None] = {}
        self._below: dict[Subscription, dict[Subscription, None]] = {}

    def update(self, added: Iterable[Subscription], removed: Iterable[Subscription]) -> Filters:
        """Follows a change of the filters. What comes is put in first: it may cover what would surface for a moment."""
        net: Net[Subscription] = Net()
        for where in added:
            self._place(where, net)
        for where in removed:
            self._take(where, net)
        return net.result()

    def _place(self, where: Subscription, net: Net[Subscription]) -> None:
        for root in self._roots.covering(where):
            # Two filters may mean the same and read differently: then the one that comes first in the alphabet stays.
            if not where.covers(root) or root.to_sql() < where.to_sql():
                self._hang(where, root)
                return
        for root in self._roots.covered(where):
            self._roots.remove(root)
            net.add(root, -1)
            self._hang(root, where)
        self._roots.add(where, where)
        self._above[where] = None
        net.add(where)

    def _hang(self, where: Subscription, above: Subscription) -> None:
        self._above[where] = above
        self._below.setdefault(above, {})[where] = None

    def _take(self, where: Subscription, net: Net[Subscription]) -> None:
        above = self._above.pop(where)
        orphans = self._below.pop(where, {})
        if above is None:
            self._roots.remove(where)
            net.add(where, -1)
            for orphan in orphans:
                self._place(orphan, net)
            return
        siblings = self._below[above]
        del siblings[where]
        if not siblings:
            del self._below[above]
        for orphan in orphans:
            self._hang(orphan, above)


#: The attribute that a group of filters may differ in, and all else that they say.
GroupKey = tuple[str, tuple[tuple[str, Constraint], ...], tuple[Residual, ...]]


class Merged:
    """Filters that differ in one attribute only become one (section 3.5.5), each along its `position`-th attribute.

    A merger matches exactly what its parts match, unless a policy lets it close gaps between them (section 6.5.2).
    """

    __slots__ = ("_groups", "_policy", "_position")

    def __init__(self, position: int, policy: Policy | None) -> None:
        self._position = position
        self._policy = policy
        self._groups: dict[GroupKey, _Group] = {}

    def update(self, added: Iterable[Subscription], removed: Iterable[Subscription]) -> Filters:
        """Follows a change of the filters."""
        net: Net[Subscription] = Net()
        touched: dict[GroupKey, _Group] = {}
        for where in added:
            key = self._key(where)
            if key is None:
                net.add(where)
            else:
                group = touched[key] = self._groups.setdefault(key, _Group())
                group.parts[where] = None
        for where in removed:
            key = self._key(where)
            if key is None:
                net.add(where, -1)
            else:
                group = touched[key] = self._groups[key]
                del group.parts[where]
        for key, group in touched.items():
            for where in group.mergers:
                net.add(where, -1)
            group.mergers = list(_mergers(key, group.parts, self._policy))
            for where in group.mergers:
                net.add(where)
            if not group.parts:
                del self._groups[key]
        return net.result()

    def _key(self, where: Subscription) -> GroupKey | None:
        if len(where.filters) != 1:
            return None
        box = where.filters[0]
        if len(box.constraints) <= self._position:
            return None
        sides = list(box.constraints.items())
        name = sides.pop(self._position)[0]
        return name, tuple(sides), box.residuals


class _Group:
    __slots__ = ("mergers", "parts")

    def __init__(self) -> None:
        self.parts: dict[Subscription, None] = {}
        self.mergers: list[Subscription] = []


def _mergers(key: GroupKey, parts: Iterable[Subscription], policy: Policy | None) -> Iterator[Subscription]:
    """What a group of filters that differ in one attribute becomes."""
    name, rest, residuals = key
    ordered: list[Ordered] = []
    for where in parts:
        side = where.filters[0].constraints[name]
        if isinstance(side, Ordered):
            ordered.append(side)
        else:
            yield where
    if not ordered:
        return
    whole = union_of(ordered)
    if policy is not None:
        whole = policy.close_gaps(name, whole)
    for side in _portions(whole):
        yield Subscription([Filter.of({**dict(rest), name: side}, residuals)])


def _portions(whole: Ordered) -> Iterator[Ordered]:
    """A union in portions that stay within the limits of one filter, nearly always the whole."""
    cuts: list[Cut] = []
    length = 0
    for interval in whole.intervals():
        size = sum(len(str(cut[1])) for cut in interval if len(cut) > 1)
        if len(cuts) == 2 * MAX_MERGED_INTERVALS or (cuts and length + size > MAX_TEXT // 4):
            yield Ordered(tuple(cuts))
            cuts, length = [], 0
        cuts += interval
        length += size
    yield Ordered(tuple(cuts))
