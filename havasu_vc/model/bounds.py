"""Bounds: the rectangle that a geometry, a file or a window covers in the plane.

A value without coordinates has no bounds (None), which is different from bounds
that are not known: `EVERYWHERE` covers all that could be there, survives every
union, and is what pruning must assume of arcs. Bounds of geometries never wrap.

The tests are the inclusive projections of spatial predicates: a file whose rows'
bounds unite to `b` can hold a row that intersects or lies within a window `q`
only if `b.intersects(q)`, and one that contains `q` only if `b.covers(q)`. No
test of bounds says anything about the negation of a predicate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Self

from havasu_vc.records import dataclass

__all__ = ["EVERYWHERE", "Bounds", "GeographicBounds"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed rectangle; a point or a line where its sides fall together.

    >>> Bounds(1, 1, 1, 1).union(Bounds(5, -2, 5, -2))
    Bounds(xmin=1, ymin=-2, xmax=5, ymax=1)
    >>> Bounds(0, 0, 10, 10).covers(Bounds(2, 2, 10, 3))
    True
    """

    xmin: float
    """Least x."""
    ymin: float
    """Least y."""
    xmax: float
    """Greatest x."""
    ymax: float
    """Greatest y."""

    def __post_init__(self) -> None:
        if not (self.xmin <= self.xmax and self.ymin <= self.ymax):
            raise ValueError(f"not bounds: {self.xmin} {self.ymin} {self.xmax} {self.ymax}")

    @classmethod
    def of(cls, bounds: Iterable[Self | None]) -> Self | None:
        """Return the union of all; None if there is none."""
        union: Self | None = None
        for each in bounds:
            if each is not None:
                union = each if union is None else union.union(each)
        return union

    @property
    def finite(self) -> bool:
        """Whether every side is a finite number, so that the bounds can be written down."""
        return all(map(math.isfinite, (self.xmin, self.ymin, self.xmax, self.ymax)))

    def union(self, other: Self) -> Self:
        """Return the least bounds that cover both."""
        return type(self)(
            min(self.xmin, other.xmin),
            min(self.ymin, other.ymin),
            max(self.xmax, other.xmax),
            max(self.ymax, other.ymax),
        )

    def intersects(self, other: Self) -> bool:
        """Whether the two share a point, be it on an edge."""
        return (
            self.xmin <= other.xmax
            and other.xmin <= self.xmax
            and self.ymin <= other.ymax
            and other.ymin <= self.ymax
        )

    def covers(self, other: Self) -> bool:
        """Whether no point of the other lies outside; touching the edge is inside."""
        return (
            self.xmin <= other.xmin
            and other.xmax <= self.xmax
            and self.ymin <= other.ymin
            and other.ymax <= self.ymax
        )


EVERYWHERE: Final = Bounds(-math.inf, -math.inf, math.inf, math.inf)
"""The bounds of what may reach anywhere."""


# Bounds of rasters: a rectangle of longitude and latitude that may cross the antimeridian.
#
# Unlike the bounds of geometries these lie on a circle: where `west` is greater than
# `east`, the area is from `west` to 180 together with -180 to `east`. What goes all
# around, as around a pole, is -180 to 180. Unions are the narrowest that hold all
# parts, so they may cross where no part does.


@dataclass(frozen=True, slots=True)
class GeographicBounds:
    """A closed rectangle of degrees in WGS 84.

    >>> GeographicBounds(170, 10, -170, 20).crosses
    True
    >>> GeographicBounds(170, 0, -170, 1).union(GeographicBounds(-175, 0, -160, 2))
    GeographicBounds(west=170, south=0, east=-160, north=2)
    """

    west: float
    """Longitude of the western edge, -180 to 180."""
    south: float
    """Latitude of the southern edge."""
    east: float
    """Longitude of the eastern edge; less than `west` where the antimeridian is crossed."""
    north: float
    """Latitude of the northern edge."""

    def __post_init__(self) -> None:
        sound = all(-180 <= longitude <= 180 for longitude in (self.west, self.east))
        if not (sound and -90 <= self.south <= self.north <= 90):
            raise ValueError(
                f"not geographic bounds: {self.west} {self.south} {self.east} {self.north}"
            )

    @classmethod
    def around(cls, west: float, south: float, east: float, north: float) -> Self:
        """Return bounds from longitudes of any turn, `west` first: 170 to 190 crosses.

        >>> GeographicBounds.around(170, 0, 190, 91)
        GeographicBounds(west=170, south=0, east=-170, north=90.0)
        """
        south, north = max(-90.0, south), min(90.0, north)
        if not west <= east:
            raise ValueError(f"{west} is not west of {east}")
        if east - west >= 360:
            return cls(-180.0, south, 180.0, north)
        return cls(_turned(west, 180), south, _turned(east, math.nextafter(180, 181)), north)

    @classmethod
    def of(cls, bounds: Iterable[Self]) -> Self | None:
        """Return the narrowest bounds that hold all; None if there are none."""
        listed = list(bounds)
        if not listed:
            return None
        west, east = _shortest_arc(listed)
        return cls(west, min(one.south for one in listed), east, max(one.north for one in listed))

    @property
    def crosses(self) -> bool:
        """Whether the antimeridian lies inside."""
        return self.west > self.east

    @property
    def width(self) -> float:
        """Degrees from the western edge to the eastern one."""
        return self.east - self.west + (360 if self.crosses else 0)

    @property
    def parts(self) -> tuple[Bounds, ...]:
        """The one or two rectangles in the plane of longitude and latitude."""
        if not self.crosses:
            return (Bounds(self.west, self.south, self.east, self.north),)
        return (
            Bounds(self.west, self.south, 180.0, self.north),
            Bounds(-180.0, self.south, self.east, self.north),
        )

    def union(self, other: Self) -> Self:
        """Return the narrowest bounds that hold both."""
        union = type(self).of((self, other))
        if union is None:
            raise AssertionError("two bounds have a union")
        return union

    def contains(self, longitude: float, latitude: float) -> bool:
        """Whether a point lies inside or on the edge."""
        if not self.south <= latitude <= self.north:
            return False
        if self.crosses:
            return longitude >= self.west or longitude <= self.east
        return self.west <= longitude <= self.east


def _turned(longitude: float, end: float) -> float:
    """Return a longitude in the turn from -180 up to `end`, which it does not reach."""
    if -180 <= longitude < end:
        return longitude
    found = longitude - 360 * math.floor((longitude + 180) / 360)
    return 180.0 if found == -180 and end > 180 else found


def _shortest_arc(bounds: Sequence[GeographicBounds]) -> tuple[float, float]:
    """Return where the shortest arc that holds all begins and ends: it lacks the widest gap."""
    across = [one.east for one in bounds if one.crosses]
    last = max(across or [one.east for one in bounds])
    # What lies before the first arc is the gap that closes the circle.
    reach = last if across else last - 360
    found, widest = (-180.0, 180.0), 0.0
    for one in sorted(bounds, key=lambda each: each.west):
        if one.west - reach > widest:
            found, widest = (one.west, last), one.west - reach
        if one.crosses:
            reach = math.inf
        elif one.east >= reach:  # equal where -180 is the 180 at which the last one ends
            reach = last = one.east
    return found
