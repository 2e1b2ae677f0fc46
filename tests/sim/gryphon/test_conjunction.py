"""Conjunctions are the sets of records that match them."""

from __future__ import annotations

import pytest

from sluice.errors import SluiceError
from sluice.sim.domain import POINTS, TEXTS, parsed
from sluice.sim.gryphon.conjunction import conjunctions_of, ordered, position_of, roots, union


def test_a_text_matches_what_its_subscription_matches() -> None:
    for text in TEXTS:
        matched = union(conjunctions_of(text))
        assert [bool(matched >> at & 1) for at in range(len(POINTS))] == [parsed(text).matches(one) for one in POINTS]


def test_covering_agrees_with_the_algebra() -> None:
    """The algebra may say no too often, never yes."""
    for text in TEXTS:
        for other in TEXTS[:40]:
            if parsed(text).covers(parsed(other)):
                assert union(conjunctions_of(other)) & ~union(conjunctions_of(text)) == 0


def test_roots_are_what_no_other_one_covers() -> None:
    wide, narrow, other = (conjunctions_of(text)[0] for text in ("price >= 2", "price = 3", "price < 3"))
    (same,) = conjunctions_of("NOT price < 2")
    assert same == wide
    assert roots([narrow, wide, other, same]) == ordered([wide, other])
    assert conjunctions_of("price > 3 AND price < 1") == ()


def test_only_records_of_the_domain_are_known() -> None:
    assert POINTS[position_of({"volume": 1, "price": 3, "symbol": "B"})] == {"symbol": "B", "price": 3, "volume": 1}
    with pytest.raises(SluiceError, match=r"publish one of sluice\.sim\.domain\.POINTS"):
        position_of({"price": 99})
