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
from sluice.protocol.route.policy import Policy, Traffic

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


class Counted(Generic[T]):
    """A set whose members may come from several sides: a member is there as long as one of them holds it."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[T, int] = {}

    def update(self, added: Iterable[T], removed: Iterable[T]) -> tuple[list[T], list[T]]:
        """One more of each item that is added, one fewer of each that is removed: what came and what went."""
        net: Net[T] = Net()
        for item in added:
            count = self._counts[item] = self._counts.get(item, 0) + 1
            if count == 1:
                net.add(item)
        for item in removed:
            count = self._counts[item] = self._counts[item] - 1
            if count == 0:
                del self._counts[item]
                net.add(item, -1)
        return net.result()


class Distinct:
    """Equal filters count once; with `split`, each box of a union on its own."""

    __slots__ = ("_counted", "_split")

    def __init__(self, split: bool) -> None:
        self._split = split
        self._counted: Counted[Subscription] = Counted()

    def update(self, added: Iterable[Entry], removed: Iterable[Entry]) -> Filters:
        """Follows a change of the entries."""
        return self._counted.update(self._parts(added), self._parts(removed))

    def _parts(self, entries: Iterable[Entry]) -> Iterator[Subscription]:
        for entry in entries:
            if self._split and len(entry.where.filters) != 1:
                yield from (Subscription([box]) for box in entry.where.filters)
            else:
                yield entry.where


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

    __slots__ = ("_groups", "_mergers", "_policy", "_position")

    def __init__(self, position: int, policy: Policy | None) -> None:
        self._position = position
        self._policy = policy
        self._groups: dict[GroupKey, _Group] = {}
        #: Mergers of several groups may be the same filter: a side that lets everything through is no side.
        self._mergers: Counted[Subscription] = Counted()

    def update(self, added: Iterable[Subscription], removed: Iterable[Subscription]) -> Filters:
        """Follows a change of the filters."""
        come: list[Subscription] = []
        go: list[Subscription] = []
        touched: dict[GroupKey, _Group] = {}
        for where in added:
            key = self._key(where)
            if key is None:
                come.append(where)
            else:
                group = touched[key] = self._groups.setdefault(key, _Group())
                group.parts[where] = None
        for where in removed:
            key = self._key(where)
            if key is None:
                go.append(where)
            else:
                group = touched[key] = self._groups[key]
                del group.parts[where]
        for key, group in touched.items():
            go += group.mergers
            group.mergers = list(_mergers(key, group.parts, self._policy))
            come += group.mergers
            if not group.parts:
                del self._groups[key]
        return self._mergers.update(come, go)

    def _key(self, where: Subscription) -> GroupKey | None:
        if len(where.filters) != 1:
            return None
        box = where.filters[0]
        if len(box.constraints) <= self._position:
            return None
        sides = list(box.constraints.items())
        name = sides.pop(self._position)[0]
        return name, tuple(sides), box.residuals


class Loosened:
    """Filters without the sides that keep out little traffic, each by itself."""

    __slots__ = ("_counted", "_policy")

    def __init__(self, policy: Traffic) -> None:
        self._policy = policy
        #: Filters that differed in a side that went are the same now.
        self._counted: Counted[Subscription] = Counted()

    def update(self, added: Iterable[Subscription], removed: Iterable[Subscription]) -> Filters:
        """Follows a change of the filters."""
        return self._counted.update(map(self._loosen, added), map(self._loosen, removed))

    def _loosen(self, where: Subscription) -> Subscription:
        return Subscription(map(self._policy.loosen, where.filters))


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
        whole = policy.close_gaps(name, whole, Filter.of(dict(rest), residuals))
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
