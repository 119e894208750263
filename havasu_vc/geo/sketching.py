"""Geometries for people to look at: few words, few coordinates, and whether they are sound.

For the handful of rows that are shown; whole columns go through the modules beside this.

How much ground shapes cover, and how far apart places are.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.buffers import KINDS, Bools, Column, Floats, Ints, byte_column, simple_column
from havasu_vc.geo.crs import Crs, projection
from havasu_vc.geo.extent import vertex_numbers, vertex_positions
from havasu_vc.geo.layout import GeometryLayout, scan
from havasu_vc.geo.wkt import beyond_geos
from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from shapely import Geometry

__all__ = [
    "LINE_PATH",
    "POINT_PATH",
    "RING_PATH",
    "UNREADABLE",
    "Measure",
    "Outlines",
    "geometry_labels",
    "geometry_words",
    "invalid_rows",
    "measure_of",
    "outlines",
    "simplified",
    "sketch",
    "total_area",
]

_POINTS = (1, 4)


def geometry_words(wkb: bytes) -> str:
    """Return a geometry in few words: a point's coordinates; of others their size and place.

    >>> geometry_words(bytes.fromhex("0101000000000000000000f03f0000000000000040"))
    'POINT (1 2)'
    """
    import shapely

    shape = _parsed(wkb)
    if shape is None:
        found: str = geometry_labels(pa.array([wkb], pa.binary()))[0].as_py()
        return found
    if shape.is_empty:
        return f"{shape.geom_type.upper()} EMPTY"
    if shape.geom_type == "Point":
        return str(shapely.to_wkt(shape, rounding_precision=7, trim=True))
    count = int(shapely.get_num_coordinates(shape))
    west, south, east, north = shape.bounds
    words = f"{shape.geom_type.upper()} of {count:,} vertices"
    if math.isfinite(west + east + south + north):
        words += f" around {(west + east) / 2:.8g} {(south + north) / 2:.8g}"
    if shape.has_z:
        heights = shapely.get_coordinates(shape, include_z=True)[:, 2]
        heights = heights[np.isfinite(heights)]
        if len(heights):
            low, high = float(heights.min()), float(heights.max())
            words += f", height {low:.7g}" + (f" to {high:.7g}" if high != low else "")
    return words


def sketch(wkb: bytes, *, tolerance: float = 0.0, digits: int = 6) -> dict[str, Any] | None:
    """Return longitudes and latitudes as a GeoJSON geometry, simplified and rounded.

    None for what is empty, unreadable, or not on the globe.
    """
    import shapely

    parsed = _parsed(wkb)
    if parsed is None or parsed.is_empty:
        return None
    shape = shapely.force_2d(parsed)
    xmin, ymin, xmax, ymax = shape.bounds
    if not (-180 <= xmin <= xmax <= 180 and -90 <= ymin <= ymax <= 90):
        return None
    if tolerance:
        simple = shape.simplify(tolerance, preserve_topology=False)
        shape = shape if simple.is_empty else simple
    # Rounded as text: snapping to a grid could make a shape vanish.
    found: dict[str, Any] = _rounded(json.loads(shapely.to_geojson(shape)), digits)
    return found


def invalid_rows(wkb: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which geometries of canonical WKB are against the rules of their type.

    Arcs and surfaces, of which nobody here knows whether they are, never are.
    """
    import shapely

    values = wkb.to_numpy(zero_copy_only=False)
    # A point cannot be wrong, and most tables are of points.
    wanted = np.array([value is not None and value[1] not in _POINTS for value in values], np.bool_)
    wanted &= ~beyond_geos(wkb)
    flags = np.zeros(len(values), np.bool_)
    if wanted.any():
        shapes = shapely.from_wkb(values[wanted], on_invalid="ignore")
        flags[wanted] = ~shapely.is_valid(shapes)
    return flags


def invalidity(wkb: bytes) -> tuple[str, bool]:
    """Return why a geometry is against the rules of its type, and whether a ring is open."""
    import shapely

    try:
        shape = shapely.from_wkb(wkb)
    except shapely.errors.ShapelyError as error:
        # GEOS makes no ring that is open, and no line of one point.
        cause = str(error).rpartition("Exception: ")[2]
        return cause[:1].lower() + cause[1:], "closed" in cause
    cause = shapely.is_valid_reason(shape)
    return cause[:1].lower() + cause[1:], False


def _parsed(wkb: bytes) -> Geometry | None:
    """Return a shape, None for one that cannot be read or is beyond GEOS."""
    import shapely

    try:
        if beyond_geos(pa.array([wkb], pa.binary()))[0]:
            return None
    except GeometryError:
        return None
    return shapely.from_wkb(wkb, on_invalid="ignore")


def _rounded(value: Any, digits: int) -> Any:
    match value:
        case float():
            return round(value, digits)
        case list():
            return [_rounded(part, digits) for part in value]
        case dict():
            return {name: _rounded(part, digits) for name, part in value.items()}
        case _:
            return value


# Geometries as plain paths and short labels: what a map draws and a table says.
#
# `outlines` gives the points, lines and rings of a whole column as flat arrays; vertices
# without a place (NaN, infinity) are left out, and so is what is empty. `geometry_labels`
# says of each row what it is, a point by its coordinates. Both work on the layout of the
# bytes, so that curves and what GEOS refuses are shown as well.

POINT_PATH, LINE_PATH, RING_PATH = 0, 1, 2
"""The kind of a path."""
UNREADABLE = "unreadable geometry"
"""The label of what is not sound WKB."""


@dataclass(frozen=True, slots=True)
class Outlines:
    """The paths of a column of geometries, in the order of their rows."""

    rows: Ints
    """Which row each path belongs to."""
    kinds: npt.NDArray[np.uint8]
    """The kind of each path."""
    counts: Ints
    """How many vertices each path has, never 0."""
    x: Floats
    """Of all vertices, one path after another."""
    y: Floats
    """Of all vertices, one path after another."""

    def within(self, kept: Bools) -> Outlines:
        """Return the paths with only the vertices that are kept."""
        owner = np.repeat(np.arange(len(self.counts)), self.counts)[kept]
        counts = np.bincount(owner, minlength=len(self.counts))
        full = counts > 0
        return Outlines(self.rows[full], self.kinds[full], counts[full], self.x[kept], self.y[kept])


def outlines(wkb: pa.Array[Any]) -> Outlines:
    """Return the paths of a column of WKB; rows that cannot be read have none."""
    layout = _scanned(wkb)
    items = np.flatnonzero(layout.count)
    positions = vertex_positions(layout, items)
    counts = layout.count[items]
    big = np.repeat(layout.big[items], counts) if layout.big.any() else None
    x, y = (vertex_numbers(layout, positions + offset, big) for offset in (0, 8))
    kind = layout.kind[items]
    kinds = np.select([kind == 1, kind == 0], [POINT_PATH, RING_PATH], LINE_PATH)
    rows = layout.column.rows[layout.value[items]]
    found = Outlines(rows, kinds.astype(np.uint8), counts, x, y)
    there: Bools = np.isfinite(x) & np.isfinite(y)
    return found if there.all() else found.within(there)


def simplified(wkb: pa.Array[Any], rows: Ints, vertices: int) -> pa.Array[Any]:
    """Return a column of WKB with the geometries `rows` cut down to about so many vertices.

    What GEOS cannot read stays as it is.
    """
    import shapely

    values = wkb.to_pylist()
    curved = beyond_geos(wkb)
    for row in rows.tolist():
        if curved[row]:
            continue
        shape = shapely.from_wkb(values[row], on_invalid="ignore")
        if shape is None:
            continue
        xmin, ymin, xmax, ymax = shape.bounds
        tolerance = max(xmax - xmin, ymax - ymin) / 8192
        while np.isfinite(tolerance) and shapely.get_num_coordinates(shape) > vertices:
            simple = shape.simplify(tolerance, preserve_topology=False)
            if simple.is_empty:
                break
            shape, tolerance = simple, tolerance * 2
            if tolerance * 8 > max(xmax - xmin, ymax - ymin):
                break
        values[row] = shapely.to_wkb(shape)
    return pa.array(values, pa.binary())


def geometry_labels(wkb: pa.Array[Any]) -> pa.Array[Any]:
    """Return each geometry in few words; null stays null.

    >>> point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    >>> geometry_labels(pa.array([point, None, b"?"])).to_pylist()
    ['POINT (1 2)', None, 'unreadable geometry']
    """
    layout = _scanned(wkb)
    labels = np.full(len(wkb), UNREADABLE, object)
    tops = np.flatnonzero(layout.is_top)
    totals = np.bincount(layout.value, layout.count, minlength=len(layout.column.starts))
    totals = totals.astype(np.int64)[layout.value[tops]]
    kinds, rows = layout.kind[tops], layout.column.rows[layout.value[tops]]
    heights = _heights(layout)
    for kind in np.unique(kinds).tolist():
        these = kinds == kind
        if kind == 1:
            labels[rows[these]] = _point_labels(layout, tops[these], heights)
            continue
        name = KINDS.get(kind, "GEOMETRY")
        values = layout.value[tops[these]].tolist()
        labels[rows[these]] = [
            f"{name} of {count:,} vertices{heights.get(value, '')}" if count else f"{name} EMPTY"
            for count, value in zip(totals[these].tolist(), values, strict=True)
        ]
    return pc.if_else(pc.is_valid(wkb), pa.array(labels, pa.string()), None)


def _point_labels(layout: GeometryLayout, items: Ints, heights: dict[int, str]) -> list[str]:
    positions = vertex_positions(layout, items)
    big = layout.big[items] if layout.big.any() else None
    x, y = (vertex_numbers(layout, positions + offset, big) for offset in (0, 8))
    values = layout.value[items].tolist()
    return [
        "POINT EMPTY"
        if a != a and b != b
        else f"POINT ({_number(a)} {_number(b)}){heights.get(value, '')}"
        for a, b, value in zip(x.tolist(), y.tolist(), values, strict=True)
    ]


def _heights(layout: GeometryLayout) -> dict[int, str]:
    """Return in words between which heights a value lies, of those that have some."""
    items = np.flatnonzero((layout.dimensions & 1).astype(bool) & (layout.count > 0))
    if not len(items):
        return {}
    owners = np.repeat(layout.value[items], layout.count[items])
    big = np.repeat(layout.big[items], layout.count[items]) if layout.big.any() else None
    z = vertex_numbers(layout, vertex_positions(layout, items) + 16, big)
    least, most = np.full(owners.max() + 1, np.nan), np.full(owners.max() + 1, np.nan)
    np.fmin.at(least, owners, z)
    np.fmax.at(most, owners, z)
    return {
        value: f", height {low:.7g}" + (f" to {high:.7g}" if high != low else "")
        for value, low, high in zip(range(len(least)), least.tolist(), most.tolist(), strict=True)
        if low == low
    }


def _number(value: float) -> str:
    text = repr(value)
    return text.removesuffix(".0")


def _scanned(wkb: pa.Array[Any]) -> GeometryLayout:
    """Return the layout of a column, values that are not sound WKB left out."""
    column = simple_column(wkb)
    try:
        return scan(byte_column(column))
    except GeometryError:
        sound = [_is_sound(column.slice(row, 1)) for row in range(len(column))]
        return scan(byte_column(pc.if_else(pa.array(sound), column, None)))


def _is_sound(value: pa.Array[Any]) -> bool:
    try:
        scan(byte_column(value))
    except GeometryError:
        return False
    return True


def total_area(wkb: Column) -> float:
    """Return what the shapes of a column of WKB cover together; what is no shape covers nothing.

    Nor does what is bounded by arcs, whose area GEOS does not know.
    """
    import shapely

    values = np.where(beyond_geos(wkb), None, wkb.to_numpy(zero_copy_only=False))
    shapes = shapely.from_wkb(values, on_invalid="ignore")
    return float(np.nansum(shapely.area(shapes)))


# How far apart places are, in metres where the coordinate reference system tells.
#
# Longitudes and latitudes are measured along the sphere, projected coordinates in the
# plane. Good to about half a percent: enough to tell a person that a point moved 2 km.

_RADIUS = 6_371_008.8


@dataclass(frozen=True, slots=True)
class Measure:
    """How to measure in one coordinate reference system."""

    unit: str = "units"
    """The unit of a distance: `m`, or `units` where that is not known."""
    scale: float = 1.0
    """Units of the plane in metres."""
    on_sphere: bool = False
    """Whether coordinates are degrees of longitude and latitude."""

    def distances(self, start: Floats, end: Floats) -> Floats:
        """Return the distance between places, each a row of x and y."""
        if not self.on_sphere:
            return np.asarray(np.hypot(*(end - start).T) * self.scale, np.float64)
        (lon0, lat0), (lon1, lat1) = np.radians(start.T), np.radians(end.T)
        half = (
            np.sin((lat1 - lat0) / 2) ** 2
            + np.cos(lat0) * np.cos(lat1) * np.sin((lon1 - lon0) / 2) ** 2
        )
        return np.asarray(2 * _RADIUS * np.arcsin(np.sqrt(np.clip(half, 0, 1))), np.float64)


def measure_of(crs: Crs | None) -> Measure:
    """Return how to measure in a system; in its own units when it is not known."""
    if crs is None:
        return Measure()
    try:
        found = projection(crs)
    except CrsError:
        return Measure()
    if found.is_geographic:
        return Measure("m", 1.0, on_sphere=True)
    axes = found.axis_info
    return Measure("m", float(axes[0].unit_conversion_factor)) if axes else Measure()
