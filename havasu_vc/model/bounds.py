"""Bounds: the rectangle that a geometry, a file or a window covers in the plane.

A value without coordinates has no bounds (None), which is different from bounds
that are not known: `EVERYWHERE` covers all that could be there, survives every
union, and is what pruning must assume of arcs. Bounds of geometries never wrap.

The tests are the inclusive projections of spatial predicates: a file whose rows'
bounds unite to `b` can hold a row that intersects or lies within a window `q`
only if `b.intersects(q)`, and one that contains `q` only if `b.covers(q)`. No
test of bounds says anything about the negation of a predicate.
"""

import math
from collections.abc import Iterable
from typing import Final, Self

from havasu_vc.records import dataclass

__all__ = ["EVERYWHERE", "Bounds"]


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
