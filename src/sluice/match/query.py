"""Filters as questions to the index: the keys with which the kernels find what covers a box and what a box covers.

A row of tests covers a box if each test holds for both ends of the box on its field, which is matching with `upper` and
`lower` set to those ends. Answers are always complete. For a *plain* box, one interval per side with ends that keys can say
exactly, they are also exact; for any other the matcher asks the algebra about each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluice.match.encode import Rows, Words, string_bit
from sluice.match.fields import ALL_BITS, FALSE_CODE, KIND_CODES, TRUE_CODE, Axis, Fields
from sluice.match.keys import EXACT, ends
from sluice.match.layout import MISSING
from sluice.model.constraint import Constraint
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered
from sluice.model.values import Kind

_KINDS = {Axis.NUMBER: Kind.NUMBER, Axis.STRING: Kind.STRING, Axis.BYTES: Kind.BYTES, Axis.TIME: Kind.TIMESTAMP}


def covering_rows(box: Filter, fields: Fields) -> Rows:
    """A box as a row of keys: rows that match it may cover it, all others do not."""
    upper, lower = fields.defaults.copy(), fields.defaults.copy()
    sides = {name: _first_piece(side) for name, side in _sides(box).items()}
    for field, (name, axis) in enumerate(fields.list):
        if field:
            upper[field], lower[field] = _extent(name, sides.get(name, Ordered.EVERYTHING), axis, fields)
    return Rows(upper.reshape(1, -1), lower.reshape(1, -1), frozenset(), lambda row: {})


def is_plain(box: Filter) -> bool:
    """Whether keys say exactly what the box is: one interval of one kind per side, without numbers beyond 2**53."""
    return not box.residuals and all(_is_plain(side) for side in box.constraints.values())


def _is_plain(side: Constraint) -> bool:
    if not isinstance(side, Ordered) or len(side.cuts) != 2:
        return False
    low, high = side.cuts
    kind = low[0]
    if side.cuts == ((kind,), (kind + 1,)):
        return False  # whole kinds are not intervals of keys
    if kind == Kind.NUMBER and (high[0] == kind or high == (kind + 1,)):
        return all(len(cut) == 1 or abs(cut[1]) < EXACT for cut in side.cuts)
    return kind == Kind.STRING and len(side.points() or ()) == 1


def _first_piece(side: Ordered) -> Ordered:
    """The first interval of a side, within one kind: what covers the side covers that, and is one clause there."""
    if side.is_empty or side == Ordered.EVERYTHING:
        return side
    low, high = next(side.intervals())
    return Ordered((low, min(high, (low[0] + 1,))))


def _extent(name: str, side: Ordered, axis: Axis, fields: Fields) -> tuple[int, int]:
    """The first and the last key of a side on one axis; a side that leaves the axis is covered by no test on it."""
    if axis == Axis.KIND:
        codes = _codes(side)
        return codes[0], codes[-1]
    if axis == Axis.SYMBOL:
        points = side.points()
        number = fields.symbols.get(points[0], MISSING) if points and len(points) == 1 else MISSING  # type: ignore[arg-type]
        return number, number
    if axis == Axis.MASK:
        points = side.points()
        if points and len(points) == 1 and isinstance(points[0], str):
            bit = string_bit(fields.by_name[name], fields.symbols.get(points[0]))
            return bit, bit
        strings = all(cut[0] == Kind.STRING or cut == (Kind.STRING + 1,) for cut in side.cuts)
        return (ALL_BITS, ALL_BITS) if strings else (0, 0)
    kind = _KINDS[axis]
    if side.is_empty or not Ordered(((int(kind),), (int(kind) + 1,))).covers_set(side):
        return MISSING, MISSING
    low, high, _ = ends(kind, side.cuts[0], side.cuts[-1])
    return low, high


def _codes(side: Ordered) -> list[int]:
    codes = [code for code, value in ((FALSE_CODE, False), (TRUE_CODE, True)) if side.contains_point(Kind.BOOL, value)]
    for kind in Kind:
        if kind != Kind.BOOL and side.overlaps_set(Ordered(((int(kind),), (int(kind) + 1,)))):
            codes.append(KIND_CODES[kind])
    return sorted(codes) or [MISSING]


def covered_box(box: Filter, fields: Fields) -> tuple[Words, Words, npt.NDArray[np.bool_]]:
    """A box as the keys that a covered row must lie between, on the fields where that is necessary."""
    low, high = np.zeros(len(fields), np.int64), np.zeros(len(fields), np.int64)
    given = np.zeros(len(fields), np.bool_)
    for name, side in _sides(box).items():
        axis = _necessary_axis(side)
        if axis is None:
            continue
        entry = fields.by_name.get(name)
        field = entry.fields[axis] if entry is not None else 0
        given[field] = True
        if field == 0:  # no row has a test there, so none is covered: field 0 is 0 everywhere, and 1..0 is empty
            low[0], high[0] = 1, 0
        else:
            low[field], high[field] = _extent(name, side, axis, fields)
            if low[field] == MISSING:
                low[field], high[field] = 1, 0
            elif axis == Axis.NUMBER and not is_plain(box):
                low[field] -= 1  # a clause may begin one key below what it means, so as not to be an equality
    return low, high, given


def _necessary_axis(side: Ordered) -> Axis | None:
    """The axis on which everything within this side has a test, if there is one."""
    if side.is_empty:
        return None
    kind = side.cuts[0][0]
    whole = Ordered(((kind,), (kind + 1,)))
    if side == whole or not whole.covers_set(side):
        return None
    if kind == Kind.NUMBER:
        return Axis.NUMBER
    if kind == Kind.TIMESTAMP:
        return Axis.TIME
    if kind == Kind.STRING and len(side.points() or ()) == 1:
        return Axis.SYMBOL
    return None


def _sides(box: Filter) -> dict[str, Ordered]:
    """What a box implies for each attribute, as intervals."""
    sides: dict[str, Ordered] = {}
    for name, constraint in box.constraints.items():
        for implied, side in constraint.implied(name).items():
            sides[implied] = sides[implied].intersection(side) if implied in sides else side
    return sides
