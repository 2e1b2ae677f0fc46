"""Sixteen rows at a time give what one row at a time gives, at every number of rows and every pattern of hits."""

from __future__ import annotations

import numpy as np
import pytest

from sluice import Matcher
from sluice.match.kernels.layout import COLUMN_ROWS, MIXED_ROWS, STEP


@pytest.mark.parametrize("extra", range(2 * STEP + 2))
def test_any_number_of_rows(extra: int) -> None:
    """Rows of one group that end anywhere within a step, with one, two and three columns, intervals and masks."""
    count = COLUMN_ROWS + 2 * MIXED_ROWS + extra
    rng = np.random.default_rng(extra)
    bounds = rng.integers(0, 20, (count, 3)).tolist()
    matcher = Matcher()
    wanted = {}
    for id, (low, wide, floor) in enumerate(bounds):
        names = sorted({f"e{floor % 5}", f"e{low % 5}", f"e{wide % 3}", "e9"})
        text = f"k = 'x' AND a BETWEEN {low} AND {low + wide} AND e IN ({', '.join(map(repr, names))}) AND b > {floor}"
        matcher.add(text, id=id)
        wanted[id] = (low, low + wide, names, floor)
    for a, b, e in rng.integers(-1, 41, (12, 3)).tolist():
        record = {"k": "x", "a": a, "b": b, "e": f"e{e % 6}"}
        right = [
            id
            for id, (low, high, names, floor) in wanted.items()
            if low <= a <= high and record["e"] in names and b > floor
        ]
        assert sorted(matcher.match(record).tolist()) == right
        assert sorted(matcher.match_batch([record])[1].tolist()) == right
