"""Shapes for the map of a page: where changed rows were and are.

Geometries are brought to longitude and latitude where their system is known; otherwise
the map shows the coordinates as they are, without the world behind them. Places are
kept on a grid of two centimetres, or of a billionth of the extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.buffers import ranges
from havasu_vc.geo.raster_v1_outlines import footprints
from havasu_vc.geo.sketching import LINE_PATH, Outlines, outlines, simplified
from havasu_vc.looking import reprojection
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.review.page.cells import sound_wkb
from havasu_vc.review.page.packing import Ints, Packer
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rows import side_of

__all__ = ["Laid", "RowShapes", "listed_shapes"]

MOST_VERTICES = 2000
"""Shapes of more vertices are simplified."""
STEP = 2e-7
"""Degrees between two places that are kept apart; a turn and more of them fits 32 bits."""
FARTHEST = 1e150
"""Coordinates beyond are no place."""
OLD, NEW, BOTH = 1, 2, 3
MOST_FOOTPRINTS = 2000
"""Rasters of a dataset that are on the map."""
MAP_CRS = "OGC:CRS84"

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Laid:
    """Shapes one after another, on the grid of the page."""

    kind: str
    crs: str | None
    simplified: int
    rows: Ints
    sides: npt.NDArray[np.uint8]
    paths: Ints
    """How many paths each shape has."""
    kinds: npt.NDArray[np.uint8]
    sizes: Ints
    """How many vertices each path has."""
    places: Sequence[_Floats]
    """Numbers on the grid of all vertices, across and up."""
    origin: Sequence[float]
    step: Sequence[float]

    def before(self) -> Ints:
        """Return the vertex that each is told from: its old one where a shape has as many.

        Of others it is the last one.
        """
        first_path, first_vertex = (np.cumsum(each) - each for each in (self.paths, self.sizes))
        found = np.arange(int(self.sizes.sum())) - 1
        new, old = np.flatnonzero(self.sides == NEW), np.flatnonzero(self.sides == OLD)
        shape = np.full(int(self.rows.max(initial=-1)) + 1, -1, np.int64)
        shape[self.rows[old]] = old
        old = shape[self.rows[new]]
        alike = (old >= 0) & (self.paths[old] == self.paths[new])
        new, old = new[alike], old[alike]
        counts = self.paths[new]
        paths, olds = (ranges(first_path[each], counts, 1) for each in (new, old))
        owner = np.repeat(np.arange(len(new)), counts)
        other = np.bincount(owner[self.sizes[paths] != self.sizes[olds]], minlength=len(new))
        paths, olds = (each[(other == 0)[owner]] for each in (paths, olds))
        sizes = self.sizes[paths]
        found[ranges(first_vertex[paths], sizes, 1)] = ranges(first_vertex[olds], sizes, 1)
        return found

    def on_map(self, rows: Ints, new: bool) -> _Floats:
        """Return where the first vertex of rows is on the map; 0, 0 for those without a shape."""
        first_path = np.cumsum(self.paths) - self.paths
        first_vertex = np.cumsum(self.sizes) - self.sizes
        there = (self.sides & (NEW if new else OLD)) > 0
        owners = self.rows[there]
        vertex = np.full(max(rows.max(initial=0), owners.max(initial=0)) + 1, -1, np.int64)
        vertex[owners] = first_vertex[first_path[there]]
        at = vertex[rows]
        found = np.zeros((len(rows), 2))
        for axis, (values, origin, step) in enumerate(
            zip(self.places, self.origin, self.step, strict=True)
        ):
            found[at >= 0, axis] = origin + values[at[at >= 0]] * step
        return found

    def pack(self, packer: Packer) -> dict[str, Any]:
        """Lay out everything and say where it is."""
        before = self.before()
        return {
            "kind": self.kind,
            "crs": self.crs,
            "simplified": self.simplified,
            "rows": packer.differences(self.rows),
            "sides": packer.raw(self.sides.astype(np.uint8).tobytes()),
            "paths": packer.numbers(self.paths),
            "kinds": packer.raw(self.kinds.astype(np.uint8).tobytes()),
            "counts": packer.numbers(self.sizes),
            "places": [packer.differences(values, before) for values in self.places],
            "origin": self.origin,
            "step": self.step,
        }


class RowShapes:
    """The shapes of one dataset's rows, by its first geometry column."""

    def __init__(self, diff: DatasetDiff, reproject: Reproject | None) -> None:
        self._headers = (side_of(diff, new=False), side_of(diff, new=True))
        self.fields = tuple(next(iter(header.schema.geometries), None) for header in self._headers)
        """The column before and after; of a dataset without geometries its first raster."""
        self.of_rasters = self.fields == (None, None)
        """Whether shapes are footprints."""
        if self.of_rasters:
            self.fields = tuple(map(_first_raster, self._headers))
        self._footprints_left = MOST_FOOTPRINTS
        self._reproject = reproject if self._is_known(reproject) else None
        self._shapes: list[tuple[Ints, npt.NDArray[np.uint8], Ints]] = []
        self._paths: list[Outlines] = []
        self.simplified = 0
        """How many shapes are simplified."""

    @property
    def kind(self) -> str:
        """The kind of coordinates: `globe` for degrees, `own`, or `none`."""
        if self.fields == (None, None):
            return "none"
        return "globe" if self.of_rasters or self._reproject else "own"

    @property
    def crs(self) -> str | None:
        """The system of the dataset's own coordinates."""
        field = self.fields[1] or self.fields[0]
        return None if field is None or field.geometry is None else field.geometry.crs

    @property
    def one_place(self) -> bool:
        """Whether equal coordinates before and after mean the same place."""
        old, new = self.fields
        if old is None or new is None or old.geometry is None or new.geometry is None:
            return False
        names = old.geometry.crs, new.geometry.crs
        wkts = [
            header.crs.get(name or "") for header, name in zip(self._headers, names, strict=True)
        ]
        return old.id == new.id and names[0] == names[1] and wkts[0] == wkts[1]

    def _is_known(self, reproject: Reproject | None) -> bool:
        if reproject is None or self.of_rasters:
            return False
        for field, header in zip(self.fields, self._headers, strict=True):
            if field is None:
                continue
            kind = arrow_schema(header.schema).field(field.name).type
            try:
                reproject(pa.array([], kind), field, header)
            except (CrsError, GeometryError):
                return False
        return True

    def add(self, first: int, column: pa.Array, rows: Ints, side: int) -> int:
        """Add shapes of the rows `rows` of a column, numbered from `first`; return their bytes."""
        new = side != OLD
        field, header = self.fields[new], self._headers[new]
        if field is None or not len(rows):
            return 0
        if self.of_rasters:
            found = self._footprints(pc.take(column, pa.array(rows)))
        else:
            found = self._outlines(pc.take(column, pa.array(rows)), field, header)
        if not len(found.rows):
            return 0
        owners, counts = np.unique(found.rows, return_counts=True)
        sides = np.full(len(owners), side, np.uint8)
        self._shapes.append((first + rows[owners], sides, counts))
        self._paths.append(found)
        return 16 * len(found.x) + 9 * len(owners)

    def same_footprints(self, old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
        """Return in which rows a raster covers what it covered, of as many as are looked at."""
        most = self._footprints_left
        sides = (footprints(column.slice(0, most)) for column in (old, new))
        same = np.zeros(len(old), np.bool_)
        same[:most] = [a is not None and a == b for a, b in zip(*sides, strict=True)]
        return same

    def _footprints(self, column: pa.Array) -> Outlines:
        """Return outlines of what rasters cover, of the first ones: each takes a while."""
        wanted = column.slice(0, self._footprints_left)
        self._footprints_left -= len(wanted)
        owners, rings = [], []
        for row, shape in enumerate(footprints(wanted)):
            parts = [] if shape is None else shape["coordinates"]
            for part in parts if shape and shape["type"] == "MultiPolygon" else [parts]:
                owners += [row] * len(part)
                rings += [np.array(ring, np.float64) for ring in part]
        places = np.concatenate([*rings, np.zeros((0, 2))])
        return Outlines(
            np.array(owners, np.int64),
            np.full(len(rings), LINE_PATH, np.uint8),
            np.array([len(ring) for ring in rings], np.int64),
            places[:, 0],
            places[:, 1],
        )

    def _outlines(self, column: pa.Array, field: Field, header: DatasetHeader) -> Outlines:
        wkb = self._wkb(column, field, header)
        found = outlines(wkb)
        sizes = np.bincount(found.rows, found.counts, minlength=len(wkb))
        if (large := np.flatnonzero(sizes > MOST_VERTICES)).size:
            self.simplified += len(large)
            found = outlines(simplified(wkb, large, MOST_VERTICES))
        limits = (400.0, 90.0001) if self.kind == "globe" else (FARTHEST, FARTHEST)
        there = (np.abs(found.x) <= limits[0]) & (np.abs(found.y) <= limits[1])
        return found if there.all() else found.within(there)

    def _wkb(self, column: pa.Array, field: Field, header: DatasetHeader) -> pa.Array:
        if self._reproject is None:
            return sound_wkb(column, field)
        reproject = self._reproject
        return sound_wkb(column, field, lambda part: reproject(part, field, header))

    def listed(self, count: int) -> list[list[list[Any]]]:
        """Return the shapes of each row: its paths as kind, x and y."""
        rows: list[list[list[Any]]] = [[] for _ in range(count)]
        for (owners, _, counts), paths in zip(self._shapes, self._paths, strict=True):
            of_path = np.repeat(owners, counts).tolist()
            digits = 7 if self.kind == "globe" else 4
            ends = np.cumsum(paths.counts).tolist()
            x, y = (np.round(values, digits).tolist() for values in (paths.x, paths.y))
            start = 0
            for row, kind, end in zip(of_path, paths.kinds.tolist(), ends, strict=True):
                rows[row].append([kind, x[start:end], y[start:end]])
                start = end
        return rows

    def laid(self) -> Laid:
        """Lay out all shapes."""
        rows, sides, counts = (
            np.concatenate([shape[part] for shape in self._shapes] or [np.zeros(0, np.int64)])
            for part in range(3)
        )
        kinds, sizes, x, y = (
            np.concatenate(
                [getattr(paths, name) for paths in self._paths] or [np.zeros(0, np.int64)]
            )
            for name in ("kinds", "counts", "x", "y")
        )
        grids = [self._grid(values) for values in (x, y)]
        places = [
            np.rint((values - origin) / step)
            for values, (origin, step) in zip((x, y), grids, strict=True)
        ]
        origins, steps = zip(*grids, strict=True)
        return Laid(
            self.kind,
            self.crs,
            self.simplified,
            rows,
            sides,
            counts,
            kinds,
            sizes,
            places,
            origins,
            steps,
        )

    def _grid(self, values: _Floats) -> tuple[float, float]:
        if self.kind == "globe":
            return 0.0, STEP
        if not len(values):
            return 0.0, 1.0
        least, most = float(values.min()), float(values.max())
        return least, (most - least) / 2**30 or 1.0


def _first_raster(header: DatasetHeader) -> Field | None:
    return next((each for each in header.schema.fields if each.raster is not None), None)


def listed_shapes(header: DatasetHeader, rows: pa.RecordBatch) -> dict[str, Any] | None:
    """Return the shapes of rows of one version of a dataset; None without a geometry column.

    `kind` is `globe` where they are in longitude and latitude, `own` where the system is unknown.
    """
    if not header.schema.geometries:
        return None
    found = RowShapes(DatasetDiff(header.path, header, header, (), iter(())), to_map())
    field = header.schema.geometries[0]
    found.add(0, rows.column(field.name), np.arange(len(rows)), NEW)
    return {"kind": found.kind, "crs": found.crs, "rows": found.listed(len(rows))}


def to_map() -> Reproject:
    """Return what brings geometries to longitude and latitude."""
    return reprojection(MAP_CRS)[1]
