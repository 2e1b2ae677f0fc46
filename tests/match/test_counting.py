"""Counting is matching without the pairs: the same numbers, whatever the filters, the records and the size of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sluice
from sluice.match.counting import Counting
from tests.generate import batch_of, filters, records, typed_records
from tests.match.test_agreement import loaded

Counts = dict[int, int]


def by_matching(matcher: sluice.Matcher, batch: Any) -> Counts:
    found = matcher.match_batch(batch)[1]
    return dict(zip(*(each.tolist() for each in np.unique(found, return_counts=True)), strict=True))


def by_counting(matcher: sluice.Matcher, *batches: Any) -> Counts:
    counting = Counting(matcher)
    for batch in batches:
        counting.add(batch)
    ids, counts = counting.result()
    assert (np.diff(ids) > 0).all() and (counts > 0).all()
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


@given(st.lists(filters, min_size=1, max_size=8), st.lists(records, min_size=1, max_size=8))
def test_records(texts: list[str], found: list[dict[str, Any]]) -> None:
    matcher, _ = loaded(texts)
    assert by_counting(matcher, found) == by_matching(matcher, found)


@given(st.lists(filters, min_size=1, max_size=8), st.lists(typed_records, min_size=1, max_size=8))
def test_arrow(texts: list[str], found: list[dict[str, Any]]) -> None:
    matcher, _ = loaded(texts)
    assert by_counting(matcher, batch_of(found)) == by_matching(matcher, batch_of(found))


@pytest.fixture(scope="module")
def ranges() -> sluice.Matcher:
    """Groups of several leaves, with one column and with two, and a few subscriptions that need to be confirmed."""
    matcher = sluice.Matcher()
    bounds = np.random.default_rng(5).integers(0, 1000, (3000, 3)).tolist()
    matcher.load(
        (i, f"kind = 'x' AND a BETWEEN {low} AND {low + wide}" + (f" AND b > {floor}" if i % 2 else ""))
        for i, (low, wide, floor) in enumerate(bounds)
    )
    matcher.add("kind = 'x' AND a + b > 100")
    matcher.add("a < 500 OR b < 500")
    return matcher


def quotes(count: int, seed: int) -> pa.RecordBatch:
    """Records for these groups, with values at the ends of intervals, and some that lack something."""
    rng = np.random.default_rng(seed)
    kind = pa.array(np.where(rng.random(count) < 0.9, "x", "y"))
    a, b = (pa.array(rng.integers(-5, 2005, count), mask=rng.random(count) < 0.1) for _ in range(2))
    return pa.RecordBatch.from_arrays([kind, a, b], ["kind", "a", "b"])


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_large_groups(ranges: sluice.Matcher, count: int) -> None:
    batch = quotes(count, count)
    assert by_counting(ranges, batch) == by_matching(ranges, batch)


def test_batches_add_up(ranges: sluice.Matcher) -> None:
    batch = quotes(300, 3)
    assert by_counting(ranges, batch.slice(0, 100), batch.slice(100)) == by_counting(ranges, batch)


def test_every_form_of_a_test() -> None:
    """Ranges, masks, lists and equalities, in groups by column and in mixed ones; open ends and the largest doubles too."""
    rng = np.random.default_rng(8)
    texts = []
    for i in range(2500):
        low, high = sorted(rng.integers(0, 40, 2).tolist())
        text = f"kind = 'k{i % 3}'"
        text += (f" AND a BETWEEN {low} AND {high}", f" AND a > {low}", f" AND a <= {high}", "")[i % 4]
        text += ("", " AND c IN ('c1', 'c2')", f" AND b IN ({low}, {high}, 55)", f" AND b < {high} AND c != 'c3'")[
            i % 5 % 4
        ]
        texts.append(text + (" AND d <= 1.7976931348623157e308D" if i % 7 == 0 else ""))
    matcher = sluice.Matcher()
    matcher.load(enumerate(texts))
    count = 2000
    batch = pa.RecordBatch.from_pydict(
        {
            "kind": [f"k{i}" for i in rng.integers(0, 4, count)],
            "a": pa.array(rng.integers(-1, 41, count), mask=rng.random(count) < 0.1),
            "b": pa.array(rng.integers(-1, 60, count), mask=rng.random(count) < 0.1),
            "c": pa.array([f"c{i}" for i in rng.integers(0, 5, count)]).dictionary_encode(),
            "d": rng.choice([0.0, float("inf"), float("nan"), 1.7976931348623157e308], count),
        }
    )
    assert by_counting(matcher, batch) == by_matching(matcher, batch) != {}


def test_ids_of_ones_own_and_removed_ones() -> None:
    matcher = sluice.Matcher()
    matcher.load([(10**9, "a > 1"), (5, "a > 2"), (7, "a > 3")])
    matcher.remove(5)
    assert by_counting(matcher, [{"a": 4}, {"a": 2}]) == {7: 1, 10**9: 2}


def test_a_number_between_two_doubles() -> None:
    matcher = sluice.Matcher()
    matcher.load([(0, f"a > {2**53}"), (1, f"a = {2**53 + 1}"), (2, f"a < {2**53 + 1}")])
    assert by_counting(matcher, [{"a": 2**53}, {"a": 2**53 + 1}, {"a": 2**53 + 2}]) == {0: 2, 1: 1, 2: 1}
