"""Whether a set of filters is asked one by one or through an index, the answers are the same, in the same order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sluice
from sluice.match import filterset
from sluice.match.filterset import FilterSet
from sluice.model.subscription import Subscription
from tests.generate import Generator


def some_filter(make: Generator) -> Subscription:
    """A filter of the generator's, or one of few intervals, so that filters cover each other."""
    if make.chance(0.6):
        low = make.random.randrange(6)
        text = f"n BETWEEN {low} AND {low + make.random.randrange(6)}"
        return sluice.parse(text + make.random.choice(("", "", " AND s = 'a'", " OR s = 'b'", " AND i > j")))
    while True:
        try:
            return sluice.parse(make.filter())
        except sluice.LimitError:
            continue


def check(filters: FilterSet[str], oracle: dict[str, Subscription], make: Generator) -> None:
    """All questions, against a look at each filter."""
    assert list(filters) == list(oracle) and len(filters) == len(oracle)
    records: list[Any] = [make.record(typed=False) for _ in range(3)]
    expected = [[key for key, each in oracle.items() if each.matches(record)] for record in records]
    assert [filters.matching(record) for record in records] == expected
    assert [*filters.matching_each(records)] == expected
    assert [*filters.matching_each(records[:1])] == expected[:1] and [*filters.matching_each([])] == []
    for where in [some_filter(make), *make.random.sample(list(oracle.values()), min(2, len(oracle)))]:
        assert filters.covering(where) == [key for key, each in oracle.items() if each.covers(where)]
        assert filters.covered(where) == [key for key, each in oracle.items() if where.covers(each)]
        overlapping = [key for key, each in oracle.items() if each.overlaps(where)]
        assert filters.overlapping(where) == overlapping
        assert filters.overlaps(where) == bool(overlapping)


@pytest.mark.parametrize("scan_up_to", [0, 3, 24, 10**9])
@settings(max_examples=12)
@given(st.integers(0, 2**32))
def test_answers_do_not_depend_on_the_size(scan_up_to: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
        make = Generator(random.Random(seed))
        filters: FilterSet[str] = FilterSet()
        oracle: dict[str, Subscription] = {}
        for step in range(36):
            if oracle and make.chance(0.3):
                key = make.random.choice(list(oracle))
                filters.remove(key)
                del oracle[key]
            key, where = f"key {step}", some_filter(make)
            filters.add(key, where)
            oracle[key] = where
            assert key in filters and filters[key] == where
            if step % 9 == 8:
                check(filters, oracle, make)
        for key in list(oracle):
            filters.remove(key)
            del oracle[key]
            assert key not in filters
        check(filters, oracle, make)


@pytest.mark.parametrize("scan_up_to", [0, 24])
def test_a_key_comes_back_at_the_end(scan_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
    filters: FilterSet[str] = FilterSet()
    for key in "abc":
        filters.add(key, sluice.parse("x > 1"))
    assert filters.matching({"x": 2}) == ["a", "b", "c"]
    filters.remove("a")
    filters.add("a", sluice.parse("x > 0"))
    assert filters.matching({"x": 2}) == ["b", "c", "a"] == list(filters)
    assert filters.covering(sluice.parse("x > 1")) == ["b", "c", "a"]
    assert filters.covered(sluice.parse("x > 1")) == ["b", "c"]
    with pytest.raises(KeyError):
        filters.remove("d")


@pytest.mark.parametrize("scan_up_to", [0, 24])
def test_records_of_any_kind_are_understood(scan_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filterset, "SCAN_UP_TO", scan_up_to)
    filters: FilterSet[int] = FilterSet()
    filters.add(1, sluice.parse("order.total > 5"))
    filters.add(2, sluice.parse("order.total > 50"))
    assert filters.matching({"order": {"total": 10}}) == [1]
    records = [{"order": {"total": 10}}, {}, {"order": {"total": 100}}]
    assert [*filters.matching_each(records)] == [[1], [], [1, 2]]
    table = pa.RecordBatch.from_pylist(records)
    assert [*filters.matching_each(table)] == [[1], [], [1, 2]] and [*filters.matching_each(table[:1])] == [[1]]
