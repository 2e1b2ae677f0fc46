"""A subscription is a finite union of boxes: what one subscriber asked for, whatever the boolean form they wrote it in.

Matching asks whether some box matches; covering whether each box of the other lies in one of ours; merging and simplifying
keep the union small. This is the class people hold in their hands: `sluice.parse` makes one.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.errors import LimitError
from sluice.limits import MAX_FILTERS
from sluice.model.filter import Filter
from sluice.model.notification import attributes
from sluice.model.types import class_filter

#: Above this many boxes a union is not searched for mergers: the search is quadratic.
MAX_MERGED = 64


class Subscription:
    """A union of filters. Immutable; `&` and `|` make new ones.

    >>> from sluice import parse
    >>> cheap = parse("symbol = 'IBM' AND price < 100 OR symbol = 'SUN' AND price < 5")
    >>> cheap.matches({"symbol": "SUN", "price": 4.5})
    True
    >>> cheap.covers(parse("symbol = 'SUN' AND price BETWEEN 1 AND 2"))
    True
    >>> print(cheap & parse("price > 4"))
    ((price > 4 AND price < 100) AND symbol = 'IBM' OR (price > 4 AND price < 5) AND symbol = 'SUN')
    """

    __slots__ = ("_hash", "filters", "id")

    filters: tuple[Filter, ...]
    id: int | None

    def __init__(self, filters: Iterable[Filter], id: int | None = None) -> None:
        self.filters = simplify(filters)
        self.id = id
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subscription):
            return NotImplemented
        return self is other or self.filters == other.filters

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.filters)
        return self._hash

    def __repr__(self) -> str:
        return f"Subscription({self.to_sql()!r})"

    def __str__(self) -> str:
        return self.to_sql()

    @property
    def is_empty(self) -> bool:
        """Whether surely nothing matches."""
        return not self.filters

    def matches(self, record: object) -> bool:
        """Whether a record (a dict, a dataclass, any object with attributes) satisfies the subscription."""
        flat = attributes(record)
        return any(box.matches(flat) for box in self.filters)

    def covers(self, other: Subscription) -> bool:
        """Whether everything that matches `other` surely matches this."""
        return all(any(mine.covers(theirs) for mine in self.filters) for theirs in other.filters)

    def overlaps(self, other: Subscription) -> bool:
        """Whether something may match both."""
        return any(mine.overlaps(theirs) for mine in self.filters for theirs in other.filters)

    def identical(self, other: Subscription) -> bool:
        """Whether both surely match the same."""
        return self == other or (self.covers(other) and other.covers(self))

    def __and__(self, other: Subscription) -> Subscription:
        return Subscription(mine.intersect(theirs) for mine in self.filters for theirs in other.filters)

    def __or__(self, other: Subscription) -> Subscription:
        return Subscription((*self.filters, *other.filters))

    def to_sql(self) -> str:
        """The subscription as the text of a WHERE; `parse` of it gives an equal subscription."""
        if not self.filters:
            return "false"
        if len(self.filters) == 1:
            return self.filters[0].to_sql()
        return f"({' OR '.join(box.to_sql() for box in self.filters)})"


def simplify(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """The same union in fewer boxes, in a fixed order: empty and covered ones go, pairs that merge exactly become one."""
    kept = [box for box in filters if not box.is_empty]
    if len(kept) == 1:
        return (kept[0],)
    if len(kept) > MAX_FILTERS:
        raise LimitError(
            f"the subscription is a union of {len(kept)} boxes, more than the limit of {MAX_FILTERS}: "
            "split it into several subscriptions"
        )
    if len(kept) > MAX_MERGED:
        return tuple(sorted(dict.fromkeys(kept), key=Filter.to_sql))
    merged = True
    while merged:
        merged = False
        for i, a in enumerate(kept):
            for j in range(i + 1, len(kept)):
                one = a.merge(kept[j])
                if one is not None:
                    kept[i] = one
                    del kept[j]
                    merged = True
                    break
            if merged:
                break
    return tuple(sorted(kept, key=Filter.to_sql))


def instance_of(cls: type | str) -> Subscription:
    """A subscription to the instances of a class (or a declared type) and its subclasses (section 4.5.2).

    >>> from dataclasses import dataclass
    >>> from sluice import instance_of, parse
    >>> @dataclass
    ... class Quote:
    ...     symbol: str
    ...     price: float
    >>> cheap = instance_of(Quote) & parse("price < 100")
    >>> cheap.matches(Quote("IBM", 95.5)), cheap.matches({"price": 95.5})
    (True, False)
    """
    return Subscription([class_filter(cls)])
