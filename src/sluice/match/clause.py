"""From a box to the rows of the index: each constraint becomes tests on fields, and what tests cannot say is confirmed later.

A clause is a conjunction of tests. Mostly a box is one clause; a side that spans several kinds, or a short list of values
that is the only good access key of its box, makes several that exclude each other. No box is left out: a constraint that the
fields cannot express contributes what it implies, and its matches are candidates that Python confirms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from math import prod

from sluice.match.fields import ALL_BITS, FALSE_CODE, KIND_CODES, OTHER_BIT, TRUE_CODE, Axis, Fields
from sluice.match.kernels.layout import MASK, RANGE
from sluice.match.keys import ends
from sluice.model.expression import names
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
    """A conjunction of tests; `confirm` says that a match is only a candidate. It is put together side by side."""

    tests: list[Test] = field(default_factory=list)
    lists: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    confirm: bool = False
    #: A short list of values as one equality each, and the test that they can stand for.
    keys: list[Test] = field(default_factory=list)
    replaced: Test | None = None

    def offer(self, keys: list[Test], replaced: Test | None) -> None:
        """Takes a list of values to be found by, if there is no shorter one."""
        if keys and (not self.keys or len(keys) < len(self.keys)):
            self.keys, self.replaced = keys, replaced


def check(mine: Iterable[Clause], fields: Fields) -> None:
    """Refuses clauses from a file with fields or strings that are not there: kernels would not notice."""
    for clause in mine:
        used = [word >> 2 for word, _, _ in clause.tests] + [field for field, _ in clause.lists]
        if not all(0 <= field < len(fields) for field in used) or not fields.symbols.keys() >= set(clause.symbols):
            raise ValueError("its types are tested on fields that it does not have")


def clauses(box: Filter, fields: Fields) -> list[Clause]:
    """The clauses of a box: together they match exactly what it matches, or more and then `confirm` is set."""
    sides: dict[str, Ordered] = {}
    confirm = bool(box.residuals)
    for name, constraint in box.constraints.items():
        if type(constraint) is Ordered:
            sides[name] = sides[name].intersection(constraint) if name in sides else constraint
        else:
            confirm = True
            fields.mention(name)
            for implied, side in constraint.implied(name).items():
                if implied != name or side != constraint.hull():
                    fields.implied[implied] = None
                sides[implied] = sides[implied].intersection(side) if implied in sides else side
    for residual in box.residuals:
        for name in names(residual.predicate):
            fields.mention(name)
    whole = Clause(confirm=confirm)
    parts: list[list[Clause]] = []
    for name, side in sides.items():
        kind = _only_kind(side)
        if kind is None:
            parts.append(_alternatives(name, side, fields))
        else:
            _add_side(whole, name, kind, side, fields)
    if not parts:
        return _by_keys(whole, fields)
    if prod(map(len, parts)) > MAX_CLAUSES:
        whole.confirm = True
        parts = [alternatives for alternatives in parts if len(alternatives) == 1]
    return [clause for choice in product(*parts) for clause in _by_keys(_join((whole, *choice)), fields)]


def _join(parts: tuple[Clause, ...]) -> Clause:
    joined = Clause()
    for part in parts:
        joined.tests += part.tests
        joined.lists += part.lists
        joined.symbols += part.symbols
        joined.confirm = joined.confirm or part.confirm
        joined.offer(part.keys, part.replaced)
    return joined


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


def _only_kind(side: Ordered) -> Kind | None:
    """The kind of all values of a side, if it holds a part of one kind."""
    cuts = side.cuts
    kind = cuts[0][0] if cuts else Kind.NULL
    if kind in _AXES and (cuts[-1][0] == kind or (cuts[-1] == (kind + 1,) and cuts != ((kind,), (kind + 1,)))):
        return kind
    return None


def _alternatives(name: str, side: Ordered, fields: Fields) -> list[Clause]:
    """The alternatives of one side: one per kind that it holds a part of, and one for all kinds it holds whole."""
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
            result.append(Clause())
            _add_side(result[-1], name, kind, part, fields)
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


def _add_side(clause: Clause, name: str, kind: Kind, part: Ordered, fields: Fields) -> None:
    """Adds the tests for a part of one kind that is neither empty nor whole."""
    if kind == Kind.STRING:
        points = part.points()
        if points is not None:
            _add_strings(clause, name, points, fields)  # type: ignore[arg-type]
            return
        gone = Ordered(((3,), (4,))).difference(part).points()
        if gone is not None:
            _add_other_strings(clause, name, gone, fields)  # type: ignore[arg-type]
            return
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
    clause.tests.append(hull)
    clause.confirm = clause.confirm or not exact
    if len(intervals) > 1:
        clause.lists.append((number, intervals))
        if (
            kind != Kind.BYTES
            and len(intervals) <= MAX_KEYS
            and all(first == last for first, last in intervals)
            and exact
        ):
            clause.offer([(word, first, last) for first, last in intervals], hull)


def _add_strings(clause: Clause, name: str, texts: tuple[str, ...], fields: Fields) -> None:
    clause.symbols += texts
    if len(texts) == 1:
        number = fields.symbol(texts[0])
        clause.tests.append((fields.number(name, Axis.SYMBOL) * 4 + RANGE, number, number))
        return
    word = fields.number(name, Axis.MASK) * 4 + MASK
    mask, exact = fields.mask(name, texts)
    clause.tests.append((word, mask, 0))
    if not exact or len(texts) <= MAX_KEYS:
        number = fields.number(name, Axis.SYMBOL)
        if not exact:
            numbers = sorted(fields.symbol(text) for text in texts)
            clause.lists.append((number, [(n, n) for n in numbers]))
        if len(texts) <= MAX_KEYS:
            keys = [(number * 4 + RANGE, fields.symbol(text), fields.symbol(text)) for text in texts]
            clause.offer(keys, (word, mask, 0))


def _add_other_strings(clause: Clause, name: str, texts: tuple[str, ...], fields: Fields) -> None:
    word = fields.number(name, Axis.MASK) * 4 + MASK
    mask, exact = fields.mask(name, texts)
    # A string without a bit of its own shares one with others, which must not be excluded with it.
    clause.tests.append((word, ALL_BITS & (~mask | OTHER_BIT), 0))
    clause.symbols += texts
    clause.confirm = clause.confirm or not exact
