"""From a box to the rows of the index: each constraint becomes tests on fields, and what tests cannot say is confirmed later.

A clause is a conjunction of tests. Mostly a box is one clause; a side that spans several kinds, or a short list of values
that is the only good access key of its box, makes several that exclude each other. No box is left out: a constraint that the
fields cannot express contributes what it implies, and its matches are candidates that Python confirms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from sluice.match.fields import ALL_BITS, FALSE_CODE, KIND_CODES, OTHER_BIT, TRUE_CODE, Axis, Fields
from sluice.match.kernels.layout import MASK, RANGE
from sluice.match.keys import ends
from sluice.model.filter import Filter
from sluice.model.ordered import Ordered
from sluice.model.values import Kind

#: Test word (field * 4 + how), low, high.
Test = tuple[int, int, int]

#: Values of a list that become keys of their own when a box has no equality.
MAX_KEYS = 16
#: Clauses that the kinds of one box may multiply to; beyond that its mixed sides are confirmed in Python.
MAX_CLAUSES = 16

_AXES = {Kind.NUMBER: Axis.NUMBER, Kind.STRING: Axis.STRING, Kind.BYTES: Axis.BYTES, Kind.TIMESTAMP: Axis.TIME}


@dataclass(slots=True)
class Clause:
    """A conjunction of tests; `confirm` says that a match is only a candidate."""

    tests: list[Test] = field(default_factory=list)
    lists: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    confirm: bool = False
    #: A short list of values as one equality each, and the test that they can stand for.
    keys: list[Test] = field(default_factory=list)
    replaced: Test | None = None


def clauses(box: Filter, fields: Fields) -> list[Clause]:
    """The clauses of a box: together they match exactly what it matches, or more and then `confirm` is set."""
    sides: dict[str, Ordered] = {}
    confirm = bool(box.residuals)
    for name, constraint in box.constraints.items():
        if type(constraint) is Ordered:
            sides[name] = sides[name].intersection(constraint) if name in sides else constraint
        else:
            confirm = True
            for implied, side in constraint.implied(name).items():
                if implied != name or side != constraint.hull():
                    fields.implied[implied] = None
                sides[implied] = sides[implied].intersection(side) if implied in sides else side
    parts = [_side(name, side, fields) for name, side in sides.items()]
    count = 1
    for alternatives in parts:
        count *= len(alternatives)
    if count > MAX_CLAUSES:
        confirm = True
        parts = [alternatives if len(alternatives) == 1 else [Clause()] for alternatives in parts]
    result: list[Clause] = []
    for choice in product(*parts):
        clause = choice[0] if len(choice) == 1 else _join(choice)
        clause.confirm = clause.confirm or confirm
        result += _by_keys(clause, fields)
    return result


def _join(parts: tuple[Clause, ...]) -> Clause:
    whole = Clause()
    for part in parts:
        whole.tests += part.tests
        whole.lists += part.lists
        whole.symbols += part.symbols
        whole.confirm = whole.confirm or part.confirm
        if part.keys and (not whole.keys or len(part.keys) < len(whole.keys)):
            whole.keys, whole.replaced = part.keys, part.replaced
    return whole


def _by_keys(clause: Clause, fields: Fields) -> list[Clause]:
    """One clause per value of a short list where the clause has no other equality to be found by."""
    if not clause.keys or any(_is_key(test, fields) for test in clause.tests):
        return [clause]
    others = [test for test in clause.tests if test != clause.replaced]
    lists = [entry for entry in clause.lists if entry[0] != clause.keys[0][0] >> 2]
    return [Clause([*others, key], lists, clause.symbols, clause.confirm) for key in clause.keys]


def _is_key(test: Test, fields: Fields) -> bool:
    """Whether a test is an equality by which the index can find its clause."""
    word, low, high = test
    return low == high and word & 3 == RANGE and fields.list[word >> 2][1] != Axis.KIND


def _side(name: str, side: Ordered, fields: Fields) -> list[Clause]:
    """The alternatives of one side: one per kind that it holds a part of, and one for all kinds it holds whole."""
    cuts = side.cuts
    kind = cuts[0][0] if cuts else Kind.NULL
    if kind in _AXES and (cuts[-1][0] == kind or (cuts[-1] == (kind + 1,) and cuts != ((kind,), (kind + 1,)))):
        return [_of_kind(name, kind, side, fields)]
    codes: list[int] = []
    result: list[Clause] = []
    for kind in Kind:
        part = side.intersection(Ordered(((int(kind),), (int(kind) + 1,))))
        if part.is_empty:
            continue
        if kind == Kind.BOOL:
            codes += [
                code for code, value in ((FALSE_CODE, False), (TRUE_CODE, True)) if part.contains_point(kind, value)
            ]
        elif part.cuts == ((int(kind),), (int(kind) + 1,)):
            codes.append(KIND_CODES[kind])
        else:
            result.append(_of_kind(name, kind, part, fields))
    if codes:
        runs = _runs(codes)
        number = fields.number(name, Axis.KIND)
        clause = Clause([(number * 4 + RANGE, runs[0][0], runs[-1][1])])
        if len(runs) > 1:
            clause.lists.append((number, runs))
        result.append(clause)
    return result


def _runs(codes: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return runs


def _of_kind(name: str, kind: Kind, part: Ordered, fields: Fields) -> Clause:
    """The tests for a part of one kind that is neither empty nor whole."""
    if kind == Kind.STRING:
        points = part.points()
        if points is not None:
            return _strings(name, points, fields)  # type: ignore[arg-type]
        gone = Ordered(((3,), (4,))).difference(part).points()
        if gone is not None:
            return _other_strings(name, gone, fields)  # type: ignore[arg-type]
    number = fields.number(name, _AXES[kind])
    intervals: list[tuple[int, int]] = []
    exact = True
    for low, high in part.intervals():
        first, last, sure = ends(kind, low, high)
        intervals.append((first, last))
        exact = exact and sure
    word = number * 4 + RANGE
    low_end, high_end = intervals[0][0], intervals[-1][1]
    if low_end == high_end and len(part.points() or ()) != 1:
        # One double, but more numbers: not an equality, which a number between two doubles would not be looked up by.
        low_end -= 1
        exact = exact and len(intervals) > 1
    hull = (word, low_end, high_end)
    clause = Clause([hull], confirm=not exact)
    if len(intervals) > 1:
        clause.lists.append((number, intervals))
        if (
            kind != Kind.BYTES
            and len(intervals) <= MAX_KEYS
            and all(first == last for first, last in intervals)
            and exact
        ):
            clause.keys = [(word, first, last) for first, last in intervals]
            clause.replaced = hull
    return clause


def _strings(name: str, texts: tuple[str, ...], fields: Fields) -> Clause:
    if len(texts) == 1:
        number = fields.symbol(texts[0])
        return Clause([(fields.number(name, Axis.SYMBOL) * 4 + RANGE, number, number)], symbols=[texts[0]])
    word = fields.number(name, Axis.MASK) * 4 + MASK
    mask, exact = fields.mask(name, texts)
    clause = Clause([(word, mask, 0)], symbols=list(texts))
    if not exact or len(texts) <= MAX_KEYS:
        number = fields.number(name, Axis.SYMBOL)
        if not exact:
            numbers = sorted(fields.symbol(text) for text in texts)
            clause.lists.append((number, [(n, n) for n in numbers]))
        if len(texts) <= MAX_KEYS:
            clause.keys = [(number * 4 + RANGE, fields.symbol(text), fields.symbol(text)) for text in texts]
            clause.replaced = (word, mask, 0)
    return clause


def _other_strings(name: str, texts: tuple[str, ...], fields: Fields) -> Clause:
    word = fields.number(name, Axis.MASK) * 4 + MASK
    mask, exact = fields.mask(name, texts)
    # A string without a bit of its own shares one with others, which must not be excluded with it.
    return Clause([(word, ALL_BITS & (~mask | OTHER_BIT), 0)], symbols=list(texts), confirm=not exact)
