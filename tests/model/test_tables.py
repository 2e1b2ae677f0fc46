"""The tables 4.1 to 4.8 of the dissertation, each row with many constants on both sides of its condition.

Rows marked as wrong in the fixture must be wrong: for some constants the row contradicts plain membership of values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sluice.model.constraint import Constraint
from sluice.model.elements import contains, disjoint, not_contains, overlapping, subset, superset
from sluice.model.ordered import (
    at_least,
    at_most,
    between,
    differs,
    equals,
    greater_than,
    less_than,
    none_of,
    of_kind,
    one_of,
    outside,
    prefix,
)
from sluice.model.pattern import substring, suffix
from sluice.model.types import declare, instanceof, is_subtype
from sluice.model.values import Kind

FIXTURE = Path(__file__).parent / "fixtures" / "tables.txt"


@dataclass(frozen=True, slots=True)
class Interval:
    low: int
    high: int

    def __le__(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high

    def __ge__(self, other: Interval) -> bool:
        return other <= self


@dataclass(frozen=True, slots=True)
class Row:
    table: str
    wrong: bool
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}{'!' if self.wrong else ''}: {' | '.join(self.columns)}"


def read_rows() -> Iterator[Row]:
    table = ""
    for line in FIXTURE.read_text().splitlines():
        if re.match(r"4\.\d ", line):
            table = line[:3]
        elif line and not line.startswith("#"):
            yield Row(table, line.startswith("!"), tuple(re.split(r"\s{1,}\| (?=\S)", line.lstrip("! "), maxsplit=3)))


ROWS = list(read_rows())

declare("Top")
declare("Middle", "Top")
declare("Side")
declare("Bottom", "Middle", "Side")

#: What the letters stand for.
SETS = [frozenset(members) for members in ((1,), (2,), (1, 2), (2, 3), (1, 2, 3), (4,))]
CONSTANTS: dict[str, list[Any]] = {
    "c": [1, 2, 3],
    "a": [1, 2, 3],
    "T": ["Top", "Middle", "Side", "Bottom"],
    "I": [Interval(low, high) for low in range(4) for high in range(low, 4)],
    "S": ["", "a", "b", "ab", "ba", "aba", "abb"],
    "M": SETS,
}

#: A1 and A2 as they are written, without their numbers.
CONSTRAINTS: dict[str, Callable[[Any], Constraint]] = {
    "n instanceof T": instanceof,
    "x = c": equals,
    "x != c": differs,
    "x < c": less_than,
    "x <= c": at_most,
    "x > c": greater_than,
    "x >= c": at_least,
    "x = a": equals,
    "x != a": differs,
    "x < a": less_than,
    "x <= a": at_most,
    "x > a": greater_than,
    "x >= a": at_least,
    "x in I": lambda i: between(i.low, i.high),
    "x not in I": lambda i: outside(i.low, i.high),
    "s prefix S": prefix,
    "s postfix S": suffix,
    "s substring S": substring,
    "x in M": one_of,
    "x not in M": none_of,
    "X subset M": subset,
    "X superset M": superset,
    "X contains a": contains,
    "X notContains a": not_contains,
    "X disjunct M": disjoint,
    "X overlaps M": overlapping,
    "exists x": lambda _: of_kind(Kind.NUMBER),
    "exists X": lambda _: of_kind(Kind.MULTI),
}

#: Values to try membership with.
VALUES: list[Any] = [
    *(None, True, "Top", "Middle", "Side", "Bottom"),
    *(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4),
    *("".join(letters) for length in range(5) for letters in product("ab", repeat=length)),
    *(multi for length in range(4) for multi in product((1, 2, 3, 4, 5), repeat=length)),
]


def members(constraint: Constraint) -> set[int]:
    return {i for i, value in enumerate(VALUES) if constraint.matches(value)}


def instances(row: Row) -> Iterator[tuple[Constraint, Constraint, dict[str, Any]]]:
    """A1 and A2 with every pair of constants, and the names that conditions and mergers use."""
    first, second = row.columns[0], row.columns[1]
    assert first[-1] == "1" and second[-1] == "2"
    for one, two in product(CONSTANTS[first[-2]], CONSTANTS[second[-2]]):
        names = {first[-2:]: one, second[-2:]: two, "below": lambda a, b: a != b and is_subtype(a, b)}
        yield CONSTRAINTS[first[:-1]](one), CONSTRAINTS[second[:-1]](two), names


def holds(expression: str, names: dict[str, Any]) -> Any:
    return eval(expression, {"__builtins__": {}}, names)


COVERING = [row for row in ROWS if row.table < "4.8"]
MERGING = [row for row in ROWS if row.table == "4.8"]


def test_every_table_is_there() -> None:
    assert {row.table for row in ROWS} == {f"4.{i}" for i in range(1, 9)}
    assert all(len(row.columns) == 3 for row in COVERING) and all(len(row.columns) == 4 for row in MERGING)


@pytest.mark.parametrize("row", [row for row in COVERING if not row.wrong], ids=str)
def test_covering(row: Row) -> None:
    seen = set()
    for a1, a2, names in instances(row):
        expected = bool(holds(row.columns[2], names))
        assert a1.covers(a2) == expected, names
        assert (members(a1) >= members(a2)) == expected, f"{names}: the table itself is wrong"
        seen.add(expected)
    assert seen == {True, False}, "the constants lie on both sides of the condition"


@pytest.mark.parametrize("row", [row for row in COVERING if row.wrong], ids=str)
def test_misprints_of_covering(row: Row) -> None:
    wrong = [names for a1, a2, names in instances(row) if holds(row.columns[2], names) != (members(a1) >= members(a2))]
    assert wrong
    right = [other for other in COVERING if other.columns[:2] == row.columns[:2] and not other.wrong]
    assert len(right) == 1


def merger_of(text: str, names: dict[str, Any]) -> Constraint:
    found = re.fullmatch(r"(\w+ (?:not in|in|overlaps|disjunct)) (M1 [&|] M2)|(exists \w)", text)
    assert found is not None
    if found[3]:
        return CONSTRAINTS[found[3]](None)
    return CONSTRAINTS[f"{found[1]} M"](holds(found[2], names))


@pytest.mark.parametrize("row", [row for row in MERGING if not row.wrong], ids=str)
def test_merging(row: Row) -> None:
    seen = 0
    for a1, a2, names in instances(row):
        if holds(row.columns[2], names):
            merger = merger_of(row.columns[3], names)
            assert a1.union(a2) == merger, names
            assert members(merger) == members(a1) | members(a2)
            seen += 1
    assert seen


@pytest.mark.parametrize("row", [row for row in MERGING if row.wrong], ids=str)
def test_merging_rules_that_are_not_perfect(row: Row) -> None:
    lost = []
    for a1, a2, names in instances(row):
        if holds(row.columns[2], names):
            merger = merger_of(row.columns[3], names)
            assert members(merger) >= members(a1) | members(a2)
            if members(merger) != members(a1) | members(a2):
                lost.append(names)
                assert a1.union(a2) is None
    assert lost
