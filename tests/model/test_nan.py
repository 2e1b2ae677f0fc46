"""`isnan` is the one word for NaN: in filters, in the algebra, and in the index."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.errors import ParseError
from sluice.match.filterset import FilterSet
from sluice.model.notification import Notifications, attributes
from sluice.model.parse import parse

NAN = float("nan")
RECORDS = [{"p": value} for value in (NAN, 130, 5.0, -5.0, float("inf"), "x", [NAN], True, {"q": NAN})] + [{}]
CASES = {
    "isnan(p)": [0],
    "NOT isnan(p)": [1, 2, 3, 4],
    "p > 100 OR isnan(p)": [0, 1, 4],
    "NOT (p > 100 OR isnan(p))": [2, 3],
    "isnan(p) OR p IS NULL": [0, 9],
    "isnan(p.q)": [8],
    "isnan(p) AND p > 5": [],
    "isnan(p) OR NOT isnan(p)": [0, 1, 2, 3, 4],
    "isnan(p) OR NOT isnan(p) OR q = 1": [0, 1, 2, 3, 4],
    "NOT isnan(p) AND q IS NULL OR isnan(p) AND q IS NULL": [0, 1, 2, 3, 4],
    "NOT (isnan(p) OR NOT isnan(p))": [],
    "isnan(p) OR p >= 0 OR p < 0": [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize("text", CASES)
def test_everybody_selects_the_same(text: str) -> None:
    where = parse(text)
    assert [row for row, record in enumerate(RECORDS) if where.matches(record)] == CASES[text]
    assert parse(where.to_sql()) == where
    filters: FilterSet[None] = FilterSet()
    filters.add(None, where)
    found = filters.matching_each(Notifications(map(attributes, RECORDS)))
    assert [row for row, keys in enumerate(found) if keys] == CASES[text]


def test_in_columns() -> None:
    filters: FilterSet[None] = FilterSet()
    filters.add(None, parse("p > 100 OR isnan(p)"))
    found = filters.matching_each(pa.RecordBatch.from_pydict({"p": [NAN, 130.0, None, -5.0]}))
    assert [bool(keys) for keys in found] == [True, True, False, False]


def test_the_algebra() -> None:
    test, number = parse("isnan(p)"), parse("p > 5")
    assert test.covers(parse("isnan(p) AND q = 1")) and not test.covers(number) and not number.covers(test)
    assert parse("p IS NOT NULL").covers(test)
    assert test.overlaps(test) and not test.overlaps(number)


def test_the_numbers_and_nan_stay_two_tests() -> None:
    """The language has no words for both together, so their union is not one box."""
    either = parse("isnan(p)") | parse("NOT isnan(p)")
    assert either.to_sql() == "(NOT isnan(p) OR isnan(p))"
    assert parse(either.to_sql()) == either and len(either.filters) == 2


def test_it_takes_one_attribute() -> None:
    with pytest.raises(ParseError, match="isnan"):
        parse("isnan(p, 5)")
