"""A rectangle on the globe, as an example of a constraint of one's own: all it takes is this file and one `register`.

`geo_within(location, south, west, north, east)` is TRUE for a record `{"lat": ..., "lon": ...}` inside the rectangle,
borders included. A rectangle may cross the 180th meridian: then its west is greater than its east.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import degrees, radians, sin
from typing import Any, cast

from sluice.model.constraint import Atom, Constraint
from sluice.model.ordered import Ordered, between, greater_than, less_than, of_kind
from sluice.model.values import Kind, Value, kind_of, literal_sql, name_sql


@dataclass(frozen=True, slots=True)
class GeoRectangle(Atom):
    """The places between two parallels and two meridians.

    >>> alps = GeoRectangle(44, 5, 48, 16)
    >>> alps.matches({"lat": 46.5, "lon": 8.0})
    True
    >>> alps.covers(GeoRectangle(46, 6, 47, 10))
    True
    """

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
        if not -90 <= self.south <= self.north <= 90:
            raise ValueError(
                "latitudes go from -90 to 90, the southern one first: geo_within(place, south, west, north, east)"
            )
        if not (-180 <= self.west <= 180 and -180 <= self.east <= 180):
            raise ValueError("longitudes go from -180 to 180: geo_within(place, south, west, north, east)")

    def domain(self) -> Ordered:
        return of_kind(Kind.RECORD)

    def applies(self, value: Value) -> bool:
        return type(value) is dict and all(kind_of(value.get(name)) == Kind.NUMBER for name in ("lat", "lon"))

    def matches(self, value: Value) -> bool:
        return (
            self.applies(value) and self.latitudes().matches(value["lat"]) and self.longitudes().matches(value["lon"])
        )

    def implied(self, name: str) -> Mapping[str, Ordered]:
        # The fields of a record are attributes too, so the index can find the rectangle by them.
        return {name: self.domain(), f"{name}.lat": self.latitudes(), f"{name}.lon": self.longitudes()}

    def covers_same(self, other: GeoRectangle) -> bool:
        return self.latitudes().covers_set(other.latitudes()) and self.longitudes().covers_set(other.longitudes())

    def overlaps_same(self, other: GeoRectangle) -> bool:
        return self.latitudes().overlaps_set(other.latitudes()) and self.longitudes().overlaps_set(other.longitudes())

    def union_same(self, other: GeoRectangle) -> Constraint | None:
        wider = self._around(other)
        if self.latitudes() == other.latitudes():
            return wider if wider.longitudes() == self.longitudes().union(other.longitudes()) else None
        if self.longitudes() == other.longitudes():
            return wider if wider.latitudes() == self.latitudes().union(other.latitudes()) else None
        return None

    def widen_same(self, other: GeoRectangle) -> tuple[Constraint, float]:
        wider = self._around(other)
        height = _height(max(self.south, other.south), min(self.north, other.north))
        shared = height * _width(self.longitudes().intersection(other.longitudes()))
        wanted = self.area() + other.area() - shared
        return wider, max(0.0, 1.0 - wanted / wider.area()) if wider.area() > 0 else 0.0

    def to_sql(self, name: str) -> str:
        sides = ", ".join(literal_sql(side) for side in (self.south, self.west, self.north, self.east))
        return f"geo_within({name_sql(name)}, {sides})"

    def latitudes(self) -> Ordered:
        """The range of latitudes."""
        return between(self.south, self.north)

    def longitudes(self) -> Ordered:
        """The range of longitudes; two of them when the rectangle crosses the 180th meridian."""
        if self.west <= self.east:
            return between(self.west, self.east)
        return between(-180.0, 180.0).difference(_strictly_between(self.east, self.west))

    def area(self) -> float:
        """The area, in square degrees at the equator."""
        return _height(self.south, self.north) * _width(self.longitudes())

    def _around(self, other: GeoRectangle) -> GeoRectangle:
        """The smallest rectangle around both: going round the globe, it leaves out the widest gap."""
        spans = _spans(cast(Ordered, self.longitudes().union(other.longitudes())))
        gaps = [(spans[0][0] + 360.0 - spans[-1][1], spans[0][0], spans[-1][1])]
        gaps += [(after[0] - before[1], after[0], before[1]) for before, after in pairwise(spans)]
        _, west, east = max(gaps, key=lambda gap: gap[0])
        return GeoRectangle(min(self.south, other.south), west, max(self.north, other.north), east)


def geo_within(south: Any, west: Any, north: Any, east: Any) -> GeoRectangle:
    """The test that `geo_within(location, south, west, north, east)` is."""
    sides = (south, west, north, east)
    if any(isinstance(side, bool) or not isinstance(side, int | float | Decimal) for side in sides):
        raise ValueError("the sides are numbers: geo_within(place, south, west, north, east)")
    return GeoRectangle(*map(float, sides))


def _strictly_between(low: float, high: float) -> Ordered:
    return greater_than(low).intersection(less_than(high))


def _spans(longitudes: Ordered) -> list[tuple[float, float]]:
    return [(low[1], high[1]) for low, high in longitudes.intervals()]


def _width(longitudes: Ordered) -> float:
    return sum(high - low for low, high in _spans(longitudes))


def _height(south: float, north: float) -> float:
    """The height of a strip, shrunk as the meridians come together towards the poles."""
    return max(0.0, degrees(sin(radians(north)) - sin(radians(south))))
