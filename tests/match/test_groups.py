"""Rows of a bucket that test the same fields come together once there are enough of them, those that came before too."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import sluice
from sluice.match import naive
from sluice.match.kernels.layout import (
    COLUMN_ROWS,
    G_COLUMNS,
    G_NEXT,
    G_ROWS,
    G_WHOLE,
    KEY_SIGNATURE,
    KEY_SINGLE,
    MIXED_ROWS,
    PARTITIONS,
    S_COUNT,
    S_GROUP,
    S_TAG,
    SLOT,
    TABLE,
)

ALIKE = COLUMN_ROWS + MIXED_ROWS + 5


def slots(matcher: sluice.Matcher, kind: int) -> list[int]:
    """The slots of the hash table with a key of this kind that are in use."""
    heap = matcher._index.heap
    found = []
    for part in range(TABLE, TABLE + 3 * PARTITIONS, 3):
        places = range(int(heap[part]), int(heap[part]) + SLOT * int(heap[part + 1]), SLOT)
        found += [slot for slot in places if heap[slot + S_TAG] & 7 == kind and heap[slot + S_GROUP]]
    return found


def groups(matcher: sluice.Matcher) -> dict[tuple[bool, int], int]:
    """How many rows the groups of the only bucket have, by whether those are whole and by the number of columns."""
    heap, found = matcher._index.heap, {}
    (slot,) = slots(matcher, KEY_SINGLE)
    group = heap[slot + S_GROUP]
    while group:
        found[bool(heap[group + G_WHOLE]), int(heap[group + G_COLUMNS])] = int(heap[group + G_ROWS])
        group = heap[group + G_NEXT]
    return found


@pytest.mark.parametrize("others", [0, 40])
def test_those_that_came_before_come_along(others: int) -> None:
    source = random.Random(others)
    texts = [f"k = 'x' AND a > {source.randrange(50)} AND b < {source.random()}" for _ in range(ALIKE)]
    texts += [f"k = 'x' AND c{i % 5} > {i} AND b < 1" for i in range(others)]
    texts += [f"k = 'x' AND a > {i} AND b IN (0.1, 0.2, {i})" for i in range(others)]
    source.shuffle(texts)
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text) for text in texts}
    assert groups(matcher) == {(False, 2): ALIKE} | ({(True, 0): 2 * others} if others else {})
    (own,) = slots(matcher, KEY_SIGNATURE)
    assert matcher._index.heap[own + S_COUNT] == ALIKE
    records = [
        {"k": "x", "a": source.randrange(60), "b": source.choice([0.1, source.random()]), "c1": source.randrange(60)}
        for _ in range(30)
    ]
    for _ in range(2):
        for record in records:
            assert sorted(matcher.match(record).tolist()) == naive.match(record, subscriptions)
        offsets, ids = matcher.match_batch(records)
        found = [sorted(ids[start:end].tolist()) for start, end in pairwise(offsets)]
        assert found == naive.match_batch(records, subscriptions)
        for id in source.sample(sorted(subscriptions), len(texts) // 2):
            matcher.remove(id)
            del subscriptions[id]


def test_they_go_without_a_trace() -> None:
    """And come back as they came at first: what was counted of them is gone."""
    matcher, sizes = sluice.Matcher(), []
    for _ in range(4):
        for i in range(ALIKE):
            matcher.add(f"k = 'x' AND a > {i} AND b > {i}", id=i)
        assert groups(matcher) == {(False, 2): ALIKE}
        for i in range(ALIKE):
            matcher.remove(i)
        assert slots(matcher, KEY_SINGLE) == slots(matcher, KEY_SIGNATURE) == []
        sizes.append(matcher._index.used_words)
    assert len(set(sizes[1:])) == 1, "what was taken is given back, and serves the next ones"


def test_what_must_be_confirmed_stays_apart() -> None:
    """Rows that test the same fields, some of them not enough: those are candidates, and no others are."""
    source = random.Random(2)
    texts = [f"k = 'x' AND a > {source.randrange(50)} AND b < {source.randrange(50)}" for _ in range(2 * ALIKE)]
    texts[::2] = [f"{text} AND a * b > {source.randrange(2000)}" for text in texts[::2]]
    matcher = sluice.Matcher()
    subscriptions = {matcher.add(text): sluice.parse(text) for text in texts}
    for _ in range(30):
        record = {"k": "x", "a": source.randrange(60), "b": source.randrange(60)}
        assert sorted(matcher.match(record).tolist()) == naive.match(record, subscriptions)
