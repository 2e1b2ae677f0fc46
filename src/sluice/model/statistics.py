"""What traffic looks like in a few numbers, and from them the share of it that a filter would match.

For each attribute and kind of value: how many notifications carry it, how many values there are, the frequent ones, and
quantiles. They lie on the one axis of `sluice.model.ordered`, so that the share of an interval is the difference of two places
on a curve: frequent values count exactly, the others by interpolation. Attributes are taken to be independent, and what the
statistics know nothing about counts as if every notification matched.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any

from sluice.errors import SluiceError
from sluice.model.constraint import Constraint
from sluice.model.filter import Filter
from sluice.model.notification import attributes
from sluice.model.ordered import Cut, Ordered
from sluice.model.subscription import Subscription
from sluice.model.values import Kind, Scalar, Value, is_ordered, kind_of, to_utc

#: Of the file; another number is another format.
VERSION = 1
#: Frequent values that are kept of each attribute: the more, the more of the traffic is known exactly.
FREQUENT = 256
#: Quantiles are taken in so many steps, so that an end of an interval is off by at most one of them.
STEPS = 256


class StatisticsError(SluiceError):
    """Statistics that cannot be read, or that say what cannot be."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one kind that one attribute has; shares are of all notifications.

    `frequent` has the most frequent values, each with its share; `quantiles` values at equal steps from the least to the
    greatest of all, frequent or not. Kinds without an order have a share only.
    """

    share: float
    distinct: int = 0
    frequent: tuple[tuple[Scalar, float], ...] = ()
    quantiles: tuple[Scalar, ...] = ()
    _curve: _Curve = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_curve", _Curve(self))

    def below(self, cut: Cut) -> float:
        """The share of notifications whose value lies below a cut within the kind."""
        return 0.0 if len(cut) == 1 else self._curve.below(cut[1], cut[2])

    def share_at(self, value: Scalar) -> float:
        """The share of notifications with this very value."""
        return max(0.0, self._curve.below(value, 1) - self._curve.below(value, 0))


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known about the values of notifications.

    >>> from sluice import parse
    >>> quotes = [{"symbol": "IBM", "price": 100 + i} for i in range(30)] + [{"symbol": "SUN", "price": 5}] * 10
    >>> statistics = Statistics.of(quotes)
    >>> statistics.share(parse("symbol = 'SUN'")), round(statistics.share(parse("symbol = 'IBM' AND price < 115")), 3)
    (0.25, 0.469)
    """

    #: How many notifications were looked at.
    count: int
    attributes: Mapping[str, Mapping[Kind, Values]]

    def __repr__(self) -> str:
        return f"Statistics({self.count:,} notifications, {len(self.attributes):,} attributes)"

    @classmethod
    def of(cls, records: Iterable[object]) -> Statistics:
        """Statistics of records in memory, counted one by one."""
        count = 0
        found: dict[str, dict[Kind, Counter[Value]]] = {}
        for record in records:
            count += 1
            for name, value in attributes(record).items():
                kind = kind_of(value)
                if kind != Kind.NULL:
                    counts = found.setdefault(name, {}).setdefault(kind, Counter())
                    counts[value if is_ordered(kind) else None] += 1
        return cls(
            count,
            {
                name: {kind: values_of(kinds[kind], count) for kind in sorted(kinds)}
                for name, kinds in sorted(found.items())
            },
        )

    @property
    def resolution(self) -> float:
        """The least share that so many notifications can tell from none at all."""
        return 1 / (self.count + 1)

    def share(self, where: Filter | Subscription) -> float:
        """The estimated share of notifications that match.

        Of a union of boxes that overlap it is an upper estimate; predicates beyond the boxes are taken to match.
        """
        if isinstance(where, Subscription):
            return self._share_of_any(where.filters)
        share = 1.0
        for name, side in where.constraints.items():
            share *= self.share_of(name, side)
        return share

    def share_of(self, name: str, side: Constraint) -> float:
        """The estimated share of notifications whose attribute `name` satisfies a constraint."""
        kinds = self.attributes.get(name)
        if kinds is None:
            return 0.0 if side.is_empty else 1.0
        hull = side.hull()
        share = sum(max(0.0, self._below(kinds, high) - self._below(kinds, low)) for low, high in hull.intervals())
        if not isinstance(side, Ordered):
            # The hull of a pattern is far wider than the pattern, but the frequent values can be asked one by one.
            values = (pair for kind in kinds.values() for pair in kind.frequent)
            share -= sum(much for value, much in values if hull.matches(value) and not side.matches(value))
        return min(1.0, max(0.0, share))

    def waste(self, merger: Filter | Subscription, parts: Iterable[Filter | Subscription]) -> float:
        """The estimated share of notifications that match a merger and none of its parts.

        >>> from sluice import parse
        >>> statistics = Statistics.of([{"price": price} for price in (1, 2, 3, 4, 50, 51, 60, 61)])
        >>> statistics.waste(parse("price < 55"), [parse("price < 5"), parse("price = 51")])
        0.125
        """
        boxes = [box for part in parts for box in (part.filters if isinstance(part, Subscription) else (part,))]
        return max(0.0, self.share(merger) - self._share_of_any(boxes))

    def _share_of_any(self, boxes: Sequence[Filter]) -> float:
        """The share of a union: each box adds at most what is outside the one before it that it has most in common with."""
        total = 0.0
        for i, box in enumerate(boxes):
            again = max((self.share(box.intersect(other)) for other in boxes[:i] if box.overlaps(other)), default=0.0)
            total += max(0.0, self.share(box) - again)
        return min(1.0, total)

    @staticmethod
    def _below(kinds: Mapping[Kind, Values], cut: Cut) -> float:
        """The share of notifications below a cut of the whole axis; at its very beginning lie those without the attribute."""
        if cut[0] == Kind.NULL:
            return 0.0
        present = sum(values.share for values in kinds.values())
        before = sum(values.share for kind, values in kinds.items() if kind < cut[0])
        inside = kinds[Kind(cut[0])].below(cut) if cut[0] in kinds else 0.0
        return max(0.0, 1.0 - present) + before + inside

    def joined(self, other: Statistics) -> Statistics:
        """The statistics of the notifications of both; values that both have are not known, so `distinct` may be too low.

        >>> old, new = Statistics.of([{"price": 1}, {"price": 2}]), Statistics.of([{"price": 2}, {}])
        >>> both = old.joined(new)
        >>> from sluice import parse
        >>> both.count, both.share(parse("price = 2")), both.share(parse("price IS NULL"))
        (4, 0.5, 0.25)
        """
        count = self.count + other.count
        sides = [(one, one.count / count) for one in (self, other) if one.count]
        found: dict[str, dict[Kind, Values]] = {}
        for name in sorted({*self.attributes, *other.attributes}):
            kinds = sorted({kind for one, _ in sides for kind in one.attributes.get(name, {})})
            found[name] = {
                kind: _joined([(one.attributes.get(name, {}).get(kind, _NONE), weight) for one, weight in sides])
                for kind in kinds
            }
        return Statistics(count, found)

    # As a file

    def to_text(self) -> str:
        """The statistics as JSON, one attribute and kind on a line."""
        lines = []
        for name, kinds in self.attributes.items():
            inside = [f"    {_text(kind.name.lower())}: {_text(_to_json(values))}" for kind, values in kinds.items()]
            lines.append(f"  {_text(name)}: {{\n" + ",\n".join(inside) + "\n  }")
        head = f'"sluice": "statistics", "version": {VERSION}, "count": {self.count}'
        return f'{{{head}, "attributes": {{\n' + ",\n".join(lines) + "\n}}\n"

    @classmethod
    def from_text(cls, text: str) -> Statistics:
        """The statistics that `to_text` wrote; anything else is refused with what is wrong with it."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise StatisticsError(f"this is no JSON: {error}; make the file anew with sluice statistics") from None
        if not isinstance(found, dict) or found.get("sluice") != "statistics":
            raise StatisticsError("this is no file of statistics: make one with sluice statistics")
        if found.get("version") != VERSION:
            raise StatisticsError(
                f"version {found.get('version')} of the format is unknown here, where {VERSION} is: make the file anew "
                "with the sluice statistics of this version"
            )
        count = found.get("count")
        if type(count) is not int or count < 0:
            raise StatisticsError(f"count is {count!r}: it is a number of notifications")
        return cls(
            count,
            {
                name: {_kind(name, kind): _values(name, kind, inside) for kind, inside in _object(name, kinds).items()}
                for name, kinds in _object("attributes", found.get("attributes")).items()
            },
        )


def values_of(counts: Counter[Value], count: int) -> Values:
    """What is kept of the values of one kind, counted exactly, among `count` notifications."""
    total = counts.total()
    if None in counts:
        return Values(total / count)
    ordered = sorted(counts)
    ends = list(accumulate(counts[value] for value in ordered))
    quantiles = [ordered[bisect_left(ends, max(1, -(-total * i // STEPS)))] for i in range(STEPS + 1)]
    frequent = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:FREQUENT]
    return Values(
        total / count, len(counts), tuple((value, much / count) for value, much in frequent), tuple(quantiles)
    )


def _joined(sides: Sequence[tuple[Values, float]]) -> Values:
    """Values of one kind from several sides, each with its weight."""
    share = sum(values.share * weight for values, weight in sides)
    pool = sorted(
        (value, values.share * weight / len(values.quantiles)) for values, weight in sides for value in values.quantiles
    )
    if not pool:
        return Values(share)
    heights = list(accumulate(much for _, much in pool))
    last = len(pool) - 1
    quantiles = [pool[min(last, bisect_left(heights, heights[-1] * i / STEPS))][0] for i in range(STEPS)]
    known = dict.fromkeys(value for values, _ in sides for value, _ in values.frequent)
    shares = {value: sum(values.share_at(value) * weight for values, weight in sides) for value in known}
    frequent = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:FREQUENT]
    distinct = max(len(known), *(values.distinct for values, _ in sides))
    return Values(share, distinct, tuple(frequent), (*quantiles, pool[-1][0]))


class _Curve:
    """The share of notifications below each place within one kind: steps at the frequent values, slopes between quantiles."""

    __slots__ = ("_heights", "_knots", "_point", "_rest", "_steps", "_stops")

    def __init__(self, values: Values) -> None:
        frequent = sorted(values.frequent)
        self._stops = [value for value, _ in frequent]
        self._steps = [0.0, *accumulate(share for _, share in frequent)]
        self._rest = max(0.0, values.share - self._steps[-1])
        #: The share of one value that is not frequent.
        self._point = self._rest / max(1, values.distinct - len(frequent))
        self._knots: list[Any] = []
        self._heights: list[float] = []
        last = len(values.quantiles) - 1
        for i, value in enumerate(values.quantiles):
            # Where the quantile lies within a step, the last one there is right: `_add` keeps that.
            self._add(value, self._rest if i == last else values.share * i / last - self._stepped(value, 1))

    def _add(self, value: Any, height: float) -> None:
        height = min(self._rest, max(height, self._heights[-1] if self._heights else 0.0))
        if self._knots and self._knots[-1] == value:
            self._heights[-1] = height
        else:
            self._knots.append(value)
            self._heights.append(height)

    def below(self, value: Any, side: int) -> float:
        """The share below a value (side 0), or up to and with it (side 1)."""
        return self._stepped(value, side) + self._sloped(value, side)

    def _stepped(self, value: Any, side: int) -> float:
        return self._steps[(bisect_right if side else bisect_left)(self._stops, value)]

    def _sloped(self, value: Any, side: int) -> float:
        knots, heights = self._knots, self._heights
        if not knots or value < knots[0]:
            return 0.0
        if value > knots[-1]:
            return self._rest
        at = bisect_left(knots, value)
        height = heights[at]
        if knots[at] != value:
            left = heights[at - 1]
            height = left + (height - left) * _fraction(value, knots[at - 1], knots[at])
        if self._is_frequent(value):
            return height
        height = max(height, self._point)
        return height if side else height - self._point

    def _is_frequent(self, value: Any) -> bool:
        at = bisect_left(self._stops, value)
        return at < len(self._stops) and bool(self._stops[at] == value)


def _fraction(value: Any, low: Any, high: Any) -> float:
    """How far a value lies on the way from `low` to `high`."""
    if isinstance(value, str | bytes):
        common = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
        low, value, high = (_digits(one[common:]) for one in (low, value, high))
    elif isinstance(value, datetime):
        low, value, high = low.timestamp(), value.timestamp(), high.timestamp()
    # Halves, because the distance of two floats may be more than a float can hold.
    try:
        way, whole = float(value / 2 - low / 2), float(high / 2 - low / 2)
    except OverflowError:
        return 0.5
    return min(1.0, max(0.0, way / whole)) if 0 < whole < float("inf") else 0.5


def _digits(text: str | bytes) -> float:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(data[:6].ljust(6, b"\0"), "big") / 2.0**48


# Values and kinds in JSON


def _text(found: object) -> str:
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def _to_json(values: Values) -> dict[str, Any]:
    if not values.quantiles:
        return {"share": values.share}
    return {
        "share": values.share,
        "distinct": values.distinct,
        "frequent": [[_plain(value), share] for value, share in values.frequent],
        "quantiles": [_plain(value) for value in values.quantiles],
    }


def _plain(value: Scalar) -> bool | int | float | str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def _scalar(kind: Kind, found: Any) -> Scalar:
    """The value of a kind that JSON says; raises ValueError, TypeError or AttributeError if there is none."""
    value: Any = found
    if kind == Kind.BYTES:
        value = bytes.fromhex(found)
    elif kind == Kind.TIMESTAMP:
        value = to_utc(datetime.fromisoformat(found))
    elif kind == Kind.NUMBER and found in ("inf", "-inf"):
        value = float(found)
    if kind_of(value) != kind:
        raise ValueError
    return value  # type: ignore[no-any-return]


def _object(place: str, found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise StatisticsError(f"{place} should be an object: make the file anew with sluice statistics")
    return found


def _kind(place: str, name: str) -> Kind:
    try:
        kind = Kind[name.upper()]
    except KeyError:
        kind = Kind.NULL
    if kind == Kind.NULL or name != name.lower():
        known = ", ".join(kind.name.lower() for kind in Kind if kind != Kind.NULL)
        raise StatisticsError(f"{place} has values of the kind {name!r}: there are {known}")
    return kind


def _values(attribute: str, kind_name: str, found: object) -> Values:
    place = f"{attribute}, {kind_name}"
    kind = _kind(attribute, kind_name)
    inside = _object(place, found)
    unknown = sorted(set(inside) - {"share", "distinct", "frequent", "quantiles"})
    if unknown:
        raise StatisticsError(f"{place}: nothing is called {unknown[0]}")
    share = _share(f"{place}: share", inside.get("share"))
    if not is_ordered(kind):
        return Values(share)
    distinct = inside.get("distinct")
    if type(distinct) is not int or distinct < 1:
        raise StatisticsError(f"{place}: distinct is {distinct!r}: it is a number of values, at least 1")
    try:
        frequent = tuple((_scalar(kind, value), much) for value, much in inside["frequent"])
        quantiles = tuple(_scalar(kind, value) for value in inside["quantiles"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StatisticsError(
            f"{place}: frequent are pairs of a {kind_name} and a share, quantiles each a {kind_name}"
        ) from None
    for value, much in frequent:
        _share(f"{place}: the share of {value!r}", much)
    if len({value for value, _ in frequent}) < len(frequent):
        raise StatisticsError(f"{place}: a frequent value stands there twice")
    if sum(much for _, much in frequent) > share + _SLACK:
        raise StatisticsError(f"{place}: the frequent values have a larger share than all values together")
    if len(quantiles) < 2 or list(quantiles) != sorted(quantiles):
        raise StatisticsError(f"{place}: quantiles are at least two values, from the least to the greatest")
    return Values(share, distinct, frequent, quantiles)


_NONE = Values(0.0)
#: What rounding may add to a sum of shares, and sketches to their counts.
_SLACK = 0.01


def _share(place: str, found: Any) -> float:
    if type(found) not in (int, float) or not 0 <= found <= 1:
        raise StatisticsError(f"{place} is {found!r}: a share is a number from 0 to 1")
    return float(found)
