"""Groups that are matched leaf by leaf for a whole batch give the same answers as record by record, and as arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from sluice import Matcher
from sluice.match import index
from sluice.match.kernels.layout import LEAF_ROWS

COUNT = 16 * LEAF_ROWS + 500


@pytest.fixture(scope="module")
def bounds() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 1000, (COUNT, 3))


@pytest.fixture(scope="module")
def matcher(bounds: np.ndarray) -> Matcher:
    """Half of the subscriptions have one column behind their key and half have two; a few more need to be confirmed."""
    matcher = Matcher()
    texts = (
        f"kind = 'x' AND a BETWEEN {low} AND {low + wide}" + (f" AND b > {floor}" if i % 2 else "")
        for i, (low, wide, floor) in enumerate(bounds.tolist())
    )
    matcher.load(enumerate(texts))
    matcher.add("kind = 'x' AND a + b > 100", id=COUNT)
    matcher.add("a < 500 OR b < 500", id=COUNT + 1)
    return matcher


def expected(bounds: np.ndarray, record: dict[str, object]) -> list[int]:
    a, b = record.get("a"), record.get("b")
    found: list[int] = []
    if record.get("kind") == "x" and isinstance(a, int):
        inside = (bounds[:, 0] <= a) & (a <= bounds[:, 0] + bounds[:, 1])
        if isinstance(b, int):
            inside &= (np.arange(COUNT) % 2 == 0) | (b > bounds[:, 2])
        else:
            inside &= np.arange(COUNT) % 2 == 0
        found = np.flatnonzero(inside).tolist()
        if isinstance(b, int) and a + b > 100:
            found.append(COUNT)
    if (isinstance(a, int) and a < 500) or (isinstance(b, int) and b < 500):
        found.append(COUNT + 1)
    return found


def records() -> list[dict[str, object]]:
    rng = np.random.default_rng(6)
    made: list[dict[str, object]] = [
        {"kind": "x", "a": int(a), "b": int(b)} for a, b in rng.integers(-5, 2005, (150, 2)).tolist()
    ]
    return [*made, {"kind": "x", "a": 500}, {"kind": "x", "b": 3}, {"kind": "y", "a": 500, "b": 1}, {}, made[0]]


def test_a_batch_is_right(matcher: Matcher, bounds: np.ndarray) -> None:
    given = records()
    offsets, ids = matcher.match_batch(given)
    for i, record in enumerate(given):
        assert sorted(ids[offsets[i] : offsets[i + 1]].tolist()) == expected(bounds, record), record
    assert offsets[-1] > 500_000


def test_one_record_is_right(matcher: Matcher, bounds: np.ndarray) -> None:
    for record in records()[-8:]:
        assert sorted(matcher.match(record).tolist()) == expected(bounds, record), record


def test_a_batch_is_right_with_little_room(
    matcher: Matcher, bounds: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several goes."""
    monkeypatch.setattr(index, "_TILE_ROWS", 30_000)
    test_a_batch_is_right(matcher, bounds)


def test_large_groups_shrink_again(bounds: np.ndarray) -> None:
    matcher = Matcher()
    matcher.load((i, f"kind = 'x' AND a > {low}") for i, low in enumerate(bounds[:, 0].tolist()))
    left = [i for i in range(COUNT) if i % 7 == 0]
    for i in sorted(set(range(COUNT)) - set(left)):
        matcher.remove(i)
    offsets, ids = matcher.match_batch([{"kind": "x", "a": a} for a in (-1, 300, 5000)])
    for k, a in enumerate((-1, 300, 5000)):
        wanted = [i for i in left if a > bounds[i, 0]]
        assert sorted(ids[offsets[k] : offsets[k + 1]].tolist()) == wanted
