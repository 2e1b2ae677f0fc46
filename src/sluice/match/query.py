"""Filters as questions to the index: the keys with which the kernels find what covers a box and what a box covers.

A row of tests covers a box if each test holds for both ends of the box on its field, which is matching with `upper` and
`lower` set to those ends. Answers are always complete. For a *plain* box, one interval per side with ends that keys can say
exactly, they are also exact; for any other the matcher asks the algebra about each. Overlap is asked for interval by interval,
with what the keys leave open marked for the kernel (`sluice.match.kernels.cover`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from sluice.match.encode import Rows, Words, string_bit
from sluice.match.fields import ALL_BITS, FALSE_CODE, KIND_CODES, TRUE_CODE, Axis, Fields, NameFields
from sluice.match.kernels.cover import BLURRED, CHOSEN, GIVEN, IMPLIED, VAGUE
from sluice.match.kernels.layout import LARGEST, MISSING
from sluice.match.keys import EXACT, ends
from sluice.model.constraint import Constraint
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered
from sluice.model.values import Kind, Scalar

_KINDS = {Axis.NUMBER: Kind.NUMBER, Axis.STRING: Kind.STRING, Axis.BYTES: Kind.BYTES, Axis.TIME: Kind.TIMESTAMP}
#: Boxes of one interval per side that a box may be asked in the form of; beyond that what meets its hull is confirmed.
MAX_PIECES = 1_024
#: The ends of a range that no test meets.
_NOWHERE = (LARGEST, MISSING)


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


Reach = tuple[Words, Words, Words]


def overlap_reaches(box: Filter, fields: Fields) -> Iterator[Reach]:
    """A box as the keys that rows must meet to overlap it, and what these leave open (see `cover.overlapping`).

    It takes several such reaches where a side has several intervals; each is written over the one before. Only what the
    algebra compares counts: attributes that both filters constrain.
    """
    # What no row tests, no row is apart on.
    sides = {name: _pieces(side) for name, side in box.constraints.items() if name in fields.by_name}
    if prod(len(pieces) for pieces in sides.values()) > MAX_PIECES:
        sides = {name: [box.constraints[name]] for name in sides}
    low, high, how = (np.zeros(len(fields), np.int64) for _ in range(3))
    how[0] = GIVEN  # the constant 0, which rows that test nothing are filed under
    written: dict[str, Constraint] = {}
    chosen: dict[str, npt.NDArray[np.uint8]] = {}  # alive as long as the kernel has their addresses
    for choice in product(*sides.values()):
        for name, side in zip(sides, choice, strict=True):
            if written.get(name) is not side:
                written[name] = side
                chosen[name] = _write_reach(name, side, fields, low, high, how)
        yield low, high, how


def _pieces(side: Constraint) -> list[Constraint]:
    """A side in parts that are each one interval, where keys have an order, or one string."""
    if not isinstance(side, Ordered) or len(side.cuts) == 2:
        return [side]
    pieces: list[Constraint] = []
    rest = Ordered.NOTHING
    for kind, part in _by_kind(side).items():
        if kind in (Kind.NUMBER, Kind.TIMESTAMP) or (kind == Kind.STRING and part.points() is not None):
            pieces += [Ordered(cuts) for cuts in part.intervals()]
        else:
            rest = Ordered(rest.cuts + part.cuts)
    return pieces if rest.is_empty else [*pieces, rest]


_WHOLE = {kind: Ordered(((int(kind),), (int(kind) + 1,))) for kind in Kind}


def _by_kind(side: Ordered) -> dict[Kind, Ordered]:
    """The parts of a side that are not empty, in the order of the axis."""
    if side.cuts:
        kind, end = side.cuts[0][0], side.cuts[-1]
        if end[0] == kind or end == (kind + 1,):
            return {Kind(kind): side}
    parts = {kind: side.intersection(whole) for kind, whole in _WHOLE.items()}
    return {kind: part for kind, part in parts.items() if part.cuts}


def _write_reach(
    name: str, side: Constraint, fields: Fields, low: Words, high: Words, how: Words
) -> npt.NDArray[np.uint8]:
    """Writes what a side means for each field of its attribute; returns a byte per symbol that says whether it is meant."""
    parts = _by_kind(side.hull())
    strings = parts.get(Kind.STRING, Ordered.NOTHING)
    points = strings.points()
    entry = fields.by_name[name]
    chosen = np.zeros(0, np.uint8)
    always = GIVEN | (IMPLIED if name in fields.implied else 0)
    for axis, field in enumerate(entry.fields):
        if field == 0:
            continue
        how[field] = always if isinstance(side, Ordered) else always | VAGUE
        match Axis(axis):
            case Axis.KIND:
                codes = _kind_codes(parts)
                low[field], high[field] = codes[0], codes[-1]
                if codes[-1] - codes[0] >= len(codes):
                    how[field] |= VAGUE
            case Axis.SYMBOL:
                if strings == _WHOLE[Kind.STRING] and isinstance(side, Ordered):
                    how[field] = 0
                    continue
                how[field] = always  # which of these strings are meant is known, whatever the side is
                symbols = _symbols(side, points, fields)
                low[field], high[field] = (symbols[0], symbols[0]) if len(symbols) == 1 else _NOWHERE
                if len(symbols) > 1:
                    chosen = np.zeros(max(fields.symbols.values()) + 1, np.uint8)
                    chosen[symbols] = 1
                    low[field] = chosen.__array_interface__["data"][0]
                    how[field] |= CHOSEN
            case Axis.MASK:
                high[field] = _mask(points, entry, fields)
                if points is None and strings != _WHOLE[Kind.STRING]:
                    how[field] |= VAGUE
            case other:
                low[field], high[field] = _NOWHERE
                kind = _KINDS[other]
                part = parts.get(kind)
                if part is not None:
                    low[field], high[field], _ = ends(kind, part.cuts[0], part.cuts[-1])
                    how[field] |= BLURRED if kind in (Kind.NUMBER, Kind.TIMESTAMP) else 0
                    how[field] |= 0 if _is_sharp(kind, part) else VAGUE
    return chosen


def _is_sharp(kind: Kind, part: Ordered) -> bool:
    """Whether the ends of a part's keys say exactly what it is; other texts may share the keys of those at the ends."""
    if kind in (Kind.NUMBER, Kind.TIMESTAMP):
        return len(part.cuts) == 2
    return part == _WHOLE[kind] or (kind == Kind.STRING and len(part.points() or ()) == 1)


def _symbols(side: Constraint, points: tuple[Scalar, ...] | None, fields: Fields) -> list[int]:
    """The numbers of the mentioned strings that a side holds or may come to hold."""
    if points is None:
        return [number for text, number in fields.symbols.items() if side.matches_ever(text)]
    known = (point for point in points if point in fields.symbols)
    return [fields.symbols[point] for point in known if side.matches_ever(point)]  # type: ignore[index]


def _mask(points: tuple[Scalar, ...] | None, entry: NameFields, fields: Fields) -> int:
    """The bits of the strings that a side may hold."""
    if points is None:
        return ALL_BITS
    mask = 0
    for point in points:
        mask |= string_bit(entry, fields.symbols.get(point))  # type: ignore[arg-type]
    return mask


def _kind_codes(parts: dict[Kind, Ordered]) -> list[int]:
    """The codes of the kinds that a side holds some of, in rising order."""
    codes = [KIND_CODES[kind] for kind in parts if kind != Kind.BOOL]
    if Kind.BOOL in parts:
        codes += [FALSE_CODE + value for value in (False, True) if parts[Kind.BOOL].contains_point(Kind.BOOL, value)]
    return sorted(codes)
