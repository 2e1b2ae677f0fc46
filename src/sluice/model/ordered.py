"""Sets of values as sorted unions of disjoint intervals: equality, comparison, IN, BETWEEN, prefix, IS NULL, exists.

All kinds lie on one axis (see `sluice.model.values`). A *cut* is a place between two points: `(kind,)` is where a kind
begins, `(kind, value, 0)` is just below a value and `(kind, value, 1)` just above it. A set is an even, strictly rising
tuple of cuts: inside between the first and the second, outside until the third, and so on. In this form union,
intersection, complement, covering and overlap are one merge each, exact and closed (tables 4.2 to 4.4, 4.6 and 4.8 of
section 4.3 follow as special cases).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from sluice.errors import SluiceError
from sluice.limits import MAX_INTERVALS
from sluice.model.constraint import Constraint
from sluice.model.values import KINDS, Kind, Scalar, Value, is_ordered, kind_of, literal_sql, name_sql, point_of

_INFINITY = float("inf")

#: `(kind,)`, `(kind, value, 0)` or `(kind, value, 1)`; plain tuples compare in the order of the axis.
Cut = tuple[Any, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Ordered(Constraint):
    """A union of intervals of the axis.

    >>> price = between(10, 20).union(at_least(100))
    >>> price.matches(15), price.matches(50), price.matches("15")
    (True, False, False)
    >>> print(price.to_sql("price"))
    (price BETWEEN 10 AND 20 OR price >= 100)
    >>> at_least(5).covers(between(7, 9))
    True
    """

    cuts: tuple[Cut, ...]

    EVERYTHING: ClassVar[Ordered]
    NOTHING: ClassVar[Ordered]

    def __repr__(self) -> str:
        return f"Ordered({self.to_sql('x')})"

    def matches(self, value: Value) -> bool:
        return bisect_left(self.cuts, point_of(value)) & 1 == 1

    def contains_point(self, kind: int, value: Any) -> bool:
        """Whether the point `(kind, value)` lies inside."""
        return bisect_left(self.cuts, (kind, value, 0.5)) & 1 == 1

    @property
    def is_empty(self) -> bool:
        return not self.cuts

    def hull(self) -> Ordered:
        return self

    def covers_set(self, other: Ordered) -> bool:
        """Whether every value of `other` is in here."""
        mine, theirs = self.cuts, other.cuts
        if len(mine) == 2 and len(theirs) == 2:
            return bool(mine[0] <= theirs[0] and theirs[1] <= mine[1])
        return _combine(self.cuts, other.cuts, lambda a, b: b and not a) == ()

    def overlaps_set(self, other: Ordered) -> bool:
        """Whether some value is in both."""
        mine, theirs = self.cuts, other.cuts
        if len(mine) == 2 and len(theirs) == 2:
            return bool(mine[0] < theirs[1] and theirs[0] < mine[1])
        return _combine(self.cuts, other.cuts, lambda a, b: a and b) != ()

    def intersection(self, other: Ordered) -> Ordered:
        """The values in both."""
        if len(self.cuts) == 2 and len(other.cuts) == 2:
            low, high = max(self.cuts[0], other.cuts[0]), min(self.cuts[1], other.cuts[1])
            return Ordered((low, high)) if low < high else Ordered.NOTHING
        return Ordered(_combine(self.cuts, other.cuts, lambda a, b: a and b))

    def union(self, other: Constraint) -> Constraint | None:
        if isinstance(other, Ordered):
            return Ordered(_combine(self.cuts, other.cuts, lambda a, b: a or b))
        return Constraint.union(self, other)

    def complement(self) -> Ordered:
        """Everything else, NULL and other kinds included."""
        return Ordered(_combine(self.cuts, Ordered.EVERYTHING.cuts, lambda a, b: b and not a))

    def difference(self, other: Ordered) -> Ordered:
        """The values in here that are not in `other`."""
        return Ordered(_combine(self.cuts, other.cuts, lambda a, b: a and not b))

    def intervals(self) -> Iterator[tuple[Cut, Cut]]:
        """The disjoint intervals in order, as pairs of cuts."""
        cuts = self.cuts
        for i in range(0, len(cuts), 2):
            yield cuts[i], cuts[i + 1]

    def points(self) -> tuple[Scalar, ...] | None:
        """All values in here when each is an interval of its own, else None; neighbours (false and true) are one interval."""
        found = []
        for low, high in self.intervals():
            value = _only_value(low, high)
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    def widen(self, other: Constraint) -> tuple[Constraint, float]:
        if not isinstance(other, Ordered):
            return Constraint.widen(self, other)
        exact = cast(Ordered, self.union(other))
        return exact.bounded(MAX_INTERVALS)

    def bounded(self, limit: int) -> tuple[Ordered, float]:
        """A superset of at most `limit` intervals, and the estimated share of it that was added.

        The smallest gaps are closed first; gaps between kinds are closed last.

        >>> points = one_of([1, 2, 50])
        >>> wide, waste = points.bounded(2)
        >>> print(wide.to_sql("x"), waste)
        (x BETWEEN 1 AND 2 OR x = 50) 1.0
        """
        pieces = list(self.intervals())
        if len(pieces) <= limit:
            return self, 0.0
        scale = _Scale(self.cuts)
        gaps = sorted(range(1, len(pieces)), key=lambda i: (scale.gap(pieces[i - 1][1], pieces[i][0]), i))
        closed = set(gaps[: len(pieces) - limit])
        cuts: list[Cut] = [pieces[0][0]]
        for i in range(1, len(pieces)):
            if i not in closed:
                cuts += [pieces[i - 1][1], pieces[i][0]]
        cuts.append(pieces[-1][1])
        added = sum(scale.gap(pieces[i - 1][1], pieces[i][0]) for i in closed)
        total = added + sum(scale.gap(low, high) for low, high in pieces if high[0] == low[0] or high == (low[0] + 1,))
        return Ordered(tuple(cuts)), min(1.0, added / total) if total > 0 else 0.0

    def to_sql(self, name: str) -> str:
        return _SqlWriter(name_sql(name)).write(self)


def union_of(sets: Iterable[Ordered]) -> Ordered:
    """The union of many sets in one sweep.

    >>> print(union_of([between(1, 3), equals(9), between(2, 5)]).to_sql("x"))
    (x BETWEEN 1 AND 5 OR x = 9)
    """
    cuts: list[Cut] = []
    for low, high in sorted(interval for each in sets for interval in each.intervals()):
        if cuts and low <= cuts[-1]:
            cuts[-1] = max(cuts[-1], high)
        else:
            cuts += (low, high)
    return Ordered(tuple(cuts))


def _combine(a: tuple[Cut, ...], b: tuple[Cut, ...], keep: Callable[[bool, bool], bool]) -> tuple[Cut, ...]:
    """One sweep over both sets: the cuts at which `keep(in a, in b)` changes."""
    out: list[Cut] = []
    i = j = 0
    inside = False
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] < b[j]):
            cut = a[i]
            i += 1
        elif i == len(a) or b[j] < a[i]:
            cut = b[j]
            j += 1
        else:
            cut = a[i]
            i += 1
            j += 1
        now = keep(i & 1 == 1, j & 1 == 1)
        if now != inside:
            out.append(cut)
            inside = now
    return tuple(out)


def _only_value(low: Cut, high: Cut) -> Scalar | None:
    """The value between two cuts if there is just one; the canonical cuts of some values are those of their neighbours."""
    kind = low[0]
    if len(low) == 3 and len(high) == 3 and low[1] == high[1] and kind == high[0]:
        return cast(Scalar, low[1])
    value = _next_value(low)
    return value if value is not None and _cut(kind, value, 1) == high else None


def _all_values(low: Cut, high: Cut) -> list[Scalar] | None:
    """All values between two cuts, in order, or None if they are not finitely many scalars: one, or neighbours in a row.

    Neighbours may be of two kinds: the end of one kind is the beginning of the next, as from true to minus infinity.
    """
    found: list[Scalar] = []
    while low < high:
        value = _next_value(low)
        if value is None:
            return None
        # The strings after s that are its neighbours go on for ever, and reach the end only if they are its beginnings.
        if isinstance(value, str | bytes) and not (low[0] == high[0] and high[1:] and high[1].startswith(value)):
            return None
        found.append(value)
        low = _cut(low[0], value, 1)
    return found


def _next_value(cut: Cut) -> Scalar | None:
    """The least value above a cut, where there is one."""
    kind = cut[0]
    if len(cut) == 1:
        return _LEAST.get(kind)
    if cut[2] == 0:
        return cast(Scalar, cut[1])
    return cast(Scalar, cut[1] + _LEAST_LETTER[kind]) if kind in _LEAST_LETTER else None


_LEAST: dict[int, Scalar] = {Kind.BOOL: False, Kind.NUMBER: -_INFINITY, Kind.STRING: "", Kind.BYTES: b""}
_LEAST_LETTER: dict[int, str | bytes] = {Kind.STRING: "\0", Kind.BYTES: b"\0"}


class _Scale:
    """Lengths of stretches of the axis, for estimating waste. An unbounded end counts as one more span of the bounds seen."""

    def __init__(self, cuts: Iterable[Cut]) -> None:
        self.low: dict[int, float] = {}
        self.high: dict[int, float] = {}
        for cut in cuts:
            if len(cut) > 1:
                place = _place(cut[1])
                self.low[cut[0]] = min(place, self.low.get(cut[0], place))
                self.high[cut[0]] = max(place, self.high.get(cut[0], place))

    def gap(self, left: Cut, right: Cut) -> float:
        """The distance between two cuts; crossing into another kind is far."""
        kind = left[0]
        if right[0] != kind and right != (kind + 1,):
            return 1e300
        low, high = self.low.get(kind, 0.0), self.high.get(kind, 0.0)
        span = (high - low) or 1.0
        start = _place(left[1]) if len(left) > 1 else low - span
        end = _place(right[1]) if len(right) > 1 else high + span
        return max(0.0, min(end - start, 1e300))


def _place(value: Scalar) -> float:
    """A number that grows with the value, good enough to compare distances."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return int.from_bytes(value[:6].ljust(6, b"\0"), "big") / 2.0**48
    if isinstance(value, datetime):
        return value.timestamp()
    return float(max(-1e150, min(1e150, value)))


Ordered.EVERYTHING = Ordered(((0,), (KINDS,)))
Ordered.NOTHING = Ordered(())


def of_kind(kind: Kind) -> Ordered:
    """All values of one kind."""
    return _OF_KIND[kind]


_OF_KIND = {kind: Ordered(((int(kind),), (int(kind) + 1,))) for kind in Kind}

#: The attribute is there, with whatever value.
EXISTS = Ordered(((1,), (KINDS,)))
#: Whatever is not among the unordered kinds, or missing.
ORDERED = Ordered(((0,), (int(Kind.NAN),)))
#: The attribute is missing.
ABSENT = Ordered(((0,), (1,)))


def _cut(kind: int, value: Any, side: int) -> Cut:
    """The canonical cut just below (side 0) or just above (side 1) a value: one place has one spelling."""
    if kind == Kind.NUMBER:
        if value == (_INFINITY if side else -_INFINITY):
            return (kind + side,)
    elif kind == Kind.STRING or kind == Kind.BYTES:
        if side == 0 and not value:
            return (kind,)
        if side == 0 and value[-1] in ("\0", 0):
            return (kind, value[:-1], 1)  # nothing lies between s and s + NUL
    elif kind == Kind.BOOL:
        if value == bool(side):
            return (kind + side,)
        return (kind, True, 0)
    return (kind, value, side)


def _interval(kind: int, low: Any, low_side: int, high: Any, high_side: int) -> Ordered:
    first, last = _cut(kind, low, low_side), _cut(kind, high, high_side)
    return Ordered((first, last)) if first < last else Ordered.NOTHING


def equals(value: Scalar) -> Ordered:
    """Exactly this value. NaN equals nothing.

    >>> equals(5).matches(5.0), equals(5).matches("5"), equals(float("nan")).is_empty
    (True, False, True)
    """
    kind = kind_of(value)
    if not is_ordered(kind):
        return Ordered.NOTHING
    return _interval(int(kind), value, 0, value, 1)


def differs(value: Scalar) -> Ordered:
    """Any other value of the same kind."""
    kind = kind_of(value)
    return of_kind(kind).difference(equals(value)) if is_ordered(kind) else Ordered.NOTHING


def less_than(value: Scalar) -> Ordered:
    """Every smaller value of the same kind."""
    return _below(value, 0)


def at_most(value: Scalar) -> Ordered:
    """This value and every smaller one of its kind."""
    return _below(value, 1)


def greater_than(value: Scalar) -> Ordered:
    """Every larger value of the same kind."""
    return _above(value, 1)


def at_least(value: Scalar) -> Ordered:
    """This value and every larger one of its kind."""
    return _above(value, 0)


def between(low: Scalar, high: Scalar) -> Ordered:
    """The closed interval; empty when the ends are of different kinds or the wrong way round."""
    kind = kind_of(low)
    if kind_of(high) != kind or not is_ordered(kind) or not low <= high:  # type: ignore[operator]
        return Ordered.NOTHING
    return _interval(int(kind), low, 0, high, 1)


def outside(low: Scalar, high: Scalar) -> Ordered:
    """Every value of the kind that is not in the closed interval."""
    return of_kind(kind_of(low)).difference(between(low, high))


def one_of(values: Iterable[Scalar]) -> Ordered:
    """Any of these values.

    >>> print(one_of(["b", "a", 1]).to_sql("x"))
    (x = 1 OR x IN ('a', 'b'))
    """
    cuts: list[Cut] = []
    for kind, value, _ in sorted({point_of(value) for value in values}):
        if Kind.BOOL <= kind <= Kind.TIMESTAMP:
            low, high = _cut(kind, value, 0), _cut(kind, value, 1)
            # Neighbouring values without anything between them (false and true, s and s + NUL) share a cut: it is none.
            if cuts and cuts[-1] == low:
                cuts[-1] = high
            else:
                cuts += (low, high)
    return Ordered(tuple(cuts))


def none_of(values: Iterable[Scalar]) -> Ordered:
    """Any value of the same kind as these but not one of them; with values of several kinds, of any of those kinds."""
    given = list(values)
    kinds = Ordered.NOTHING
    for kind in sorted({kind_of(value) for value in given}):
        kinds = cast(Ordered, kinds.union(of_kind(kind)))
    return kinds.difference(one_of(given))


def prefix(text: str) -> Ordered:
    """Every string that begins with `text`: the interval up to the next string that does not.

    >>> prefix("ab").matches("abc"), prefix("ab").matches("b"), prefix("ab").covers(prefix("abc"))
    (True, False, True)
    """
    low = _cut(int(Kind.STRING), text, 0)
    stem = text.rstrip("\U0010ffff")
    high: Cut = (int(Kind.STRING) + 1,)
    if stem:
        high = (int(Kind.STRING), stem[:-1] + chr(ord(stem[-1]) + 1), 0)
    return Ordered((low, high))


def _below(value: Scalar, side: int) -> Ordered:
    kind = kind_of(value)
    if not is_ordered(kind):
        return Ordered.NOTHING
    start, end = (int(kind),), _cut(int(kind), value, side)
    return Ordered((start, end)) if start < end else Ordered.NOTHING


def _above(value: Scalar, side: int) -> Ordered:
    kind = kind_of(value)
    if not is_ordered(kind):
        return Ordered.NOTHING
    start, end = _cut(int(kind), value, side), (int(kind) + 1,)
    return Ordered((start, end)) if start < end else Ordered.NOTHING


#: A value of each kind, to spell "any value of this kind" as `x < start OR x >= start`.
_START: dict[Kind, Scalar] = {
    Kind.NUMBER: 0,
    Kind.STRING: "",
    Kind.BYTES: b"",
    Kind.TIMESTAMP: datetime(1970, 1, 1, tzinfo=UTC),
}


class _SqlWriter:
    """Writes a set as the shortest WHERE that has it as its TRUE set."""

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, whole: Ordered) -> str:
        if whole.is_empty:
            return "false"
        if whole == Ordered.EVERYTHING:
            return "true"
        if not whole.contains_point(Kind.NAN, 0):
            return self._either(self._terms(whole))
        if not whole.covers_set(ORDERED.complement()):
            raise self._no_words(whole)
        # Only IS NULL, IS NOT NULL and <=> reach the unordered kinds, so what is missing here is NULL or single values.
        missing = whole.complement()
        terms = [f"{self.name} IS NOT NULL"] if missing.contains_point(Kind.NULL, 0) else []
        for low, high in missing.intersection(EXISTS).intervals():
            values = _all_values(low, high)
            if values is None:
                raise self._no_words(whole)
            terms += [f"NOT {self.name} <=> {literal_sql(value)}" for value in values]
        return terms[0] if len(terms) == 1 else f"({' AND '.join(terms)})"

    def _no_words(self, whole: Ordered) -> SluiceError:
        return SluiceError(f"the language has no words for {whole.cuts} of {self.name}: take EXISTS instead")

    def _either(self, terms: list[str]) -> str:
        return terms[0] if len(terms) == 1 else f"({' OR '.join(terms)})"

    def _terms(self, whole: Ordered) -> list[str]:
        """One term per kind where a kind has a compact spelling."""
        terms: list[str] = []
        for kind in Kind:
            part = whole.intersection(of_kind(kind))
            if not part.is_empty:
                terms += self._of_one_kind(kind, part)
        return terms

    def _of_one_kind(self, kind: Kind, part: Ordered) -> list[str]:
        name = self.name
        if kind == Kind.NULL:
            return [f"{name} IS NULL"]
        if part == of_kind(Kind.BOOL):
            return [f"{name} IN (false, true)"]
        if part == of_kind(Kind.MULTI):
            return [f"forall({name}, e -> true)"]
        if kind not in _START and kind != Kind.BOOL:
            raise SluiceError(f"the language has no words for any {kind.name.lower()} in {name}: take EXISTS instead")
        if part == of_kind(kind):
            start = _START[kind]
            whole = f"{name} >= {literal_sql(start)}"
            return [whole] if start in ("", b"") else [f"{name} < {literal_sql(start)}", whole]
        points = part.points()
        if points:
            return [self._points("=", "IN", points)]
        gone = of_kind(kind).difference(part).points()
        if gone:
            return [self._points("!=", "NOT IN", gone)]
        terms = []
        lonely: list[Scalar] = []
        for low, high in part.intervals():
            value = _only_value(low, high)
            if value is not None:
                lonely.append(value)
            else:
                terms.append(self._interval(low, high))
        if lonely:
            terms.append(self._points("=", "IN", tuple(lonely)))
        return terms

    def _points(self, single: str, several: str, points: tuple[Scalar, ...]) -> str:
        if len(points) == 1:
            return f"{self.name} {single} {literal_sql(points[0])}"
        return f"{self.name} {several} ({', '.join(map(literal_sql, points))})"

    def _interval(self, low: Cut, high: Cut) -> str:
        name = self.name
        if len(low) == 1:
            return f"{name} {'<=' if high[2] else '<'} {literal_sql(high[1])}"
        if len(high) == 1:
            return f"{name} {'>' if low[2] else '>='} {literal_sql(low[1])}"
        if low[0] == Kind.STRING and Ordered((low, high)) == prefix(low[1]):
            return f"startswith({name}, {literal_sql(low[1])})"
        if (low[2], high[2]) == (0, 1):
            return f"{name} BETWEEN {literal_sql(low[1])} AND {literal_sql(high[1])}"
        first = f"{name} {'>' if low[2] else '>='} {literal_sql(low[1])}"
        return f"({first} AND {name} {'<=' if high[2] else '<'} {literal_sql(high[1])})"
