"""Rectangles on the globe against brute force on a coarse grid, the 180th meridian included."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.constraint import Negation
from sluice.model.geo import GeoRectangle, geo_within
from sluice.model.ordered import EXISTS
from sluice.model.parse import parse

LATITUDES = [-90.0, -30.0, 0.0, 30.0, 90.0]
LONGITUDES = [-180.0, -120.0, -60.0, 0.0, 60.0, 120.0, 180.0]


def grid(marks: list[float]) -> list[float]:
    """The marks and the middles between them."""
    return sorted({*marks, *((a + b) / 2 for a, b in pairwise(marks))})


PLACES = [{"lat": lat, "lon": lon} for lat, lon in product(grid(LATITUDES), grid(LONGITUDES))]


@st.composite
def rectangles(draw: st.DrawFn) -> GeoRectangle:
    south, north = sorted((draw(st.sampled_from(LATITUDES)), draw(st.sampled_from(LATITUDES))))
    return GeoRectangle(south, draw(st.sampled_from(LONGITUDES)), north, draw(st.sampled_from(LONGITUDES)))


def members(rectangle: Any) -> frozenset[int]:
    return frozenset(i for i, place in enumerate(PLACES) if rectangle.matches(place))


@settings(deadline=None)
@given(rectangles(), rectangles())
def test_the_algebra_agrees_with_matching(a: GeoRectangle, b: GeoRectangle) -> None:
    in_a, in_b = members(a), members(b)
    assert a.covers(b) == (in_a >= in_b)
    assert a.overlaps(b) == bool(in_a & in_b)
    union = a.union(b)
    if union is not None:
        assert members(union) == in_a | in_b
    wider, waste = a.widen(b)
    assert members(wider) >= in_a | in_b
    assert wider.covers(a) and wider.covers(b)
    assert 0.0 <= waste <= 1.0
    assert members(Negation(a)) == set(range(len(PLACES))) - in_a


@cache
def all_rectangles() -> frozenset[frozenset[int]]:
    return frozenset(
        members(GeoRectangle(south, west, north, east))
        for south, west, north, east in product(LATITUDES, LONGITUDES, LATITUDES, LONGITUDES)
        if south <= north
    )


@settings(deadline=None)
@given(rectangles(), rectangles())
def test_the_union_is_found_where_a_rectangle_is_one(a: GeoRectangle, b: GeoRectangle) -> None:
    assert (a.union(b) is not None) == (members(a) | members(b) in all_rectangles())


@settings(deadline=None)
@given(rectangles(), st.sampled_from(PLACES))
def test_what_a_match_implies_holds(rectangle: GeoRectangle, place: dict[str, float]) -> None:
    if rectangle.matches(place):
        flat = {"at": place, "at.lat": place["lat"], "at.lon": place["lon"]}
        assert all(side.matches(flat[name]) for name, side in rectangle.implied("at").items())


def test_across_the_180th_meridian() -> None:
    fiji = GeoRectangle(-20, 176, -15, -178)
    assert fiji.matches({"lat": -17, "lon": 179}) and fiji.matches({"lat": -17, "lon": -179})
    assert not fiji.matches({"lat": -17, "lon": 0})
    assert fiji.union(GeoRectangle(-20, -178, -15, -170)) == GeoRectangle(-20, 176, -15, -170)
    assert GeoRectangle(0, 170, 10, 175).widen(GeoRectangle(0, -175, 10, -170))[0] == GeoRectangle(0, 170, 10, -170)


def test_the_waste_is_a_share_of_the_area() -> None:
    wider, waste = GeoRectangle(0, 0, 10, 10).widen(GeoRectangle(0, 20, 10, 30))
    assert wider == GeoRectangle(0, 0, 10, 30)
    assert waste == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "value",
    [None, 5, "here", (46.5, 8.0), {}, {"lat": 46.5}, {"lat": "46.5", "lon": 8}, {"lat": float("nan"), "lon": 8}],
)
def test_what_is_no_place_is_null(value: object) -> None:
    alps = GeoRectangle(44, 5, 48, 16)
    assert not alps.matches(value)
    assert not Negation(alps).matches(value)


def test_the_text_and_its_arguments() -> None:
    alps = geo_within(44, 5.5, 48, 16)
    assert alps.to_sql("place") == "geo_within(place, 44.0, 5.5, 48.0, 16.0)"
    assert EXISTS.covers(alps)
    assert parse(alps.to_sql("place")).filters[0].constraints["place"] == alps
    for wrong in (
        (48, 5, 44, 16),
        (44, 5, 91, 16),
        (44, -181, 48, 16),
        (44, 5, 48, "x"),
        (44, 5, float("nan"), 16),
        (True, 5, 48, 16),
    ):
        with pytest.raises(ValueError, match="geo_within"):
            geo_within(*wrong)
