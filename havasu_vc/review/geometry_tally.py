"""Where the changed geometries of a dataset are, how far they moved, and which are odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.bounds import reach_of_rows, vertex_bounds
from havasu_vc.geo.sketching import Measure, invalid_rows, total_area
from havasu_vc.model import compute as pc
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.review.report import FlagKind
from havasu_vc.writers.values import canonical_wkb

__all__ = ["GeometryTally", "Oddities", "SizeTally", "readable_rows"]

BEYOND = 1000.0
"""No number of degrees is so large."""
FAR_MOVE = 0.1
"""A geometry moved far when it moved by this share of the dataset's diagonal."""

_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Oddities:
    """Oddities of one batch, by row, and how far each row moved."""

    rows: Mapping[FlagKind, _Bools]
    """For each kind, which rows have it."""
    distances: _Floats
    """How far a row moved; NaN where it did not, or where one side has no place."""


class GeometryTally:
    """Looks at one geometry column of a change stream."""

    def __init__(
        self, old: Field | None, new: Field | None, measure: Measure, before: Bounds | None
    ) -> None:
        self._old, self._new, self._measure, self._before = old, new, measure, before
        self._least = np.full(2, np.inf)
        self._most = np.full(2, -np.inf)
        self.moved = 0
        self.farthest = 0.0
        self._others: Counter[str] = Counter()
        self._sizes = SizeTally(measure)

    @property
    def unit(self) -> str:
        """The unit of distances."""
        return self._measure.unit

    @property
    def touched(self) -> Bounds | None:
        """The area of all changed geometries so far."""
        if not np.isfinite(self._least).all():
            return None
        return Bounds(*self._least.tolist(), *self._most.tolist())

    def add(self, batch: ChangeBatch, changed: _Bools) -> Oddities:
        """Look at the rows of a batch whose geometry came, went or changed."""
        count = len(batch)
        old, new = (
            self._bounds(side, field, changed)
            for side, field in ((batch.old, self._old), (batch.new, self._new))
        )
        for side, field, corners in ((batch.old, self._old, old), (batch.new, self._new, new)):
            if field is not None and field.edges is not None:
                corners = self._bounds(side, field, changed, edges=field.edges)
            there = corners[~np.isnan(corners[:, 0])]
            if len(there):
                self._least = np.minimum(self._least, there[:, :2].min(axis=0))
                self._most = np.maximum(self._most, there[:, 2:].max(axis=0))
        both = ~np.isnan(old[:, 0]) & ~np.isnan(new[:, 0])
        distances = np.full(count, np.nan)
        if both.any():
            centres = [(side[both, :2] + side[both, 2:]) / 2 for side in (old, new)]
            distances[both] = self._measure.distances(centres[0], centres[1])
            self.moved += int(both.sum())
            self.farthest = max(self.farthest, float(np.nanmax(distances)))
        here = np.isnan(new[:, 0]) & changed & _valid(batch.new)
        old_there, new_there = (_valid(side) for side in (batch.old, batch.new))
        self._sizes.add(batch.old, self._old, old_there & ~new_there, new=False)
        self._sizes.add(batch.new, self._new, new_there & ~old_there, new=True)
        other = self._other(old, new)
        return Oddities(
            {
                FlagKind.EMPTIED_GEOMETRY: here & ~np.isnan(old[:, 0]),
                FlagKind.INVALID_GEOMETRY: self._invalid(batch.new, changed),
                FlagKind.OTHER_COORDINATES: other,
                FlagKind.FAR_FROM_THE_REST: self._far(new) & ~other,
                FlagKind.MOVED_FAR: self._moved_far(distances) & ~other,
            },
            distances,
        )

    def _bounds(
        self,
        side: pa.StructArray,
        field: Field | None,
        wanted: _Bools,
        edges: str | None = None,
    ) -> _Floats:
        """Return the bounds of each row, NaN for those not wanted; of vertices without `edges`."""
        found = np.full((len(side), 4), np.nan)
        if field is None or field.geometry is None or side.null_count == len(side):
            return found
        column = side.flatten()[side.type.get_field_index(field.name)]
        rows = np.flatnonzero(wanted)
        if len(rows) < len(side):
            column = pc.take(column, pa.array(rows))
        encoding = field.geometry.encoding

        def read(part: pa.Array) -> _Floats:
            bounds = reach_of_rows(part, encoding, edges)
            curved = np.isinf(bounds).any(axis=1)
            if curved.any():
                # Arcs may be anywhere, and people look for them where their vertices are.
                bounds[curved] = vertex_bounds(part, encoding)[curved]
            return bounds

        # A row that cannot be read keeps NaN, and `_invalid` says so.
        for some, corners in readable_rows(column, read):
            if corners is not None:
                found[rows[some]] = corners
        return found

    def _invalid(self, side: pa.StructArray, changed: _Bools) -> _Bools:
        flags = np.zeros(len(side), np.bool_)
        field = self._new
        rows = np.flatnonzero(changed & _valid(side))
        if field is None or field.geometry is None or not len(rows):
            return flags
        column = pc.take(side.flatten()[side.type.get_field_index(field.name)], pa.array(rows))
        for some, wkb in readable_rows(column, lambda part: canonical_wkb(part, field)):
            flags[rows[some]] = True if wkb is None else invalid_rows(wkb)
        return flags

    @property
    def covered(self) -> tuple[float, float] | None:
        """Square metres that deleted and that inserted shapes cover; None where not known."""
        return self._sizes.sums

    @property
    def others(self) -> str:
        """The systems that coordinates of another system look like, in words."""
        return " or ".join(words for words, _ in self._others.most_common())

    def _other(self, old: _Floats, new: _Floats) -> _Bools:
        """Return which rows seem to have come with coordinates of another system.

        Those of one axis stand on the other, or degrees where there were none before, or
        none where there were.
        """
        bounds = self._before
        flags = np.zeros(len(new), np.bool_)
        if bounds is None or not bounds.finite:
            return flags
        corners = np.array([bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax])
        with np.errstate(invalid="ignore"):
            outside = (new[:, 2] < corners[0]) | (new[:, 0] > corners[2])
            outside |= (new[:, 3] < corners[1]) | (new[:, 1] > corners[3])
            away = np.abs(old - old[:, [1, 0, 3, 2]]).max(axis=1)
            swapped: _Bools = outside & (
                np.abs(new - old[:, [1, 0, 3, 2]]).max(axis=1) < away / 100
            )
            # Changes of geometries alone come with a place on the old side.
            found: dict[str, _Bools] = {"x and y swapped": swapped}
            if _degrees(corners[None])[0]:
                found["no longitude and latitude"] = np.asarray((np.abs(new) > BEYOND).any(axis=1))
            elif (np.abs(corners) > BEYOND).any():
                found["such as longitude and latitude"] = outside & _degrees(new)
            for words, rows in found.items():
                some = rows & ~flags
                self._others[words] += int(some.sum())
                flags |= some
        self._others += Counter()  # without those of no row
        return flags

    def _far(self, new: _Floats) -> _Bools:
        """Return which rows lie farther from the dataset than it is wide."""
        flags = np.zeros(len(new), np.bool_)
        bounds = self._before
        if bounds is None or not bounds.finite:
            return flags
        margin = max(bounds.xmax - bounds.xmin, bounds.ymax - bounds.ymin)
        if margin <= 0:
            return flags
        with np.errstate(invalid="ignore"):
            outside: _Bools = (
                (new[:, 0] > bounds.xmax + margin)
                | (new[:, 2] < bounds.xmin - margin)
                | (new[:, 1] > bounds.ymax + margin)
                | (new[:, 3] < bounds.ymin - margin)
            )
        return outside

    def _moved_far(self, distances: _Floats) -> _Bools:
        bounds = self._before
        if bounds is None or not bounds.finite:
            return np.zeros(len(distances), np.bool_)
        corners = np.array([[bounds.xmin, bounds.ymin], [bounds.xmax, bounds.ymax]])
        diagonal = float(self._measure.distances(corners[:1], corners[1:])[0])
        with np.errstate(invalid="ignore"):
            far: _Bools = distances > FAR_MOVE * diagonal
        return far if diagonal > 0 else np.zeros(len(distances), np.bool_)


def _degrees(corners: _Floats) -> _Bools:
    """Return which corners could be longitudes and latitudes."""
    return np.asarray((np.abs(corners) <= (180.0, 90.0, 180.0, 90.0)).all(axis=1))


def _valid(side: pa.StructArray) -> _Bools:
    found: _Bools = pc.is_valid(side).to_numpy(zero_copy_only=False)
    return found


# How much ground the shapes cover that go, and those that come.
#
# Where a parcel is split, what is deleted and what is inserted cover the same; where they do
# not, something is lost. Only polygons in metres are summed, and only a few thousand: of a
# change of more rows nobody asks for this.

MOST_ROWS = 20_000
"""Rows that are looked at; with more, nothing is said."""


class SizeTally:
    """Sums areas of one geometry column, of deleted and of inserted rows."""

    def __init__(self, measure: Measure) -> None:
        self._scale = measure.scale**2
        self._left = MOST_ROWS if measure.unit == "m" and not measure.on_sphere else -1
        self._sums = [0.0, 0.0]

    def add(
        self, side: pa.StructArray, field: Field | None, rows: npt.NDArray[np.bool_], *, new: bool
    ) -> None:
        """Look at rows of the old side that are deleted, or of the new one that are inserted."""
        chosen = np.flatnonzero(rows)
        self._left -= len(chosen)
        if self._left < 0 or field is None or not len(chosen):
            return
        column = pc.take(side.flatten()[side.type.get_field_index(field.name)], pa.array(chosen))
        for _, wkb in readable_rows(column, lambda part: canonical_wkb(part, field)):
            if wkb is not None:
                self._sums[new] += total_area(wkb) * self._scale

    @property
    def sums(self) -> tuple[float, float] | None:
        """Square metres that go and that come; None where there are not both."""
        gone, come = self._sums
        return (gone, come) if self._left >= 0 and gone and come else None


# Columns of geometries in which some values cannot be read: all that can be are.
#
# What reads a column reads all of it or raises. A column that it refuses is halved until
# what is left is one row, so that a few damaged values cost a few tries, and no row is
# taken for another's fault.


_T = TypeVar("_T")


def readable_rows(
    column: pa.Array, read: Callable[[pa.Array], _T]
) -> Iterator[tuple[slice, _T | None]]:
    """Yield which rows were read together and what came of it; None for a row that cannot be."""
    waiting = [slice(0, len(column))]
    while waiting:
        rows = waiting.pop()
        count = rows.stop - rows.start
        if not count:
            continue
        try:
            found = read(column.slice(rows.start, count))
        except GeometryError:
            if count == 1:
                yield rows, None
            else:
                middle = rows.start + count // 2
                waiting += [slice(middle, rows.stop), slice(rows.start, middle)]
        else:
            yield rows, found
