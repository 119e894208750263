"""GeoJSON geometry objects (RFC 7946) to and from canonical WKB.

`geometry_objects` is for writers that put geometries into JSON of their own: one
dict per row, with the doubles as they are. `parse_geojson` and `format_geojson`
turn whole columns of text over by GEOS. A Feature is no geometry and is refused;
so are M, NaN and infinity, which GeoJSON cannot hold.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import (
    MAX_DEPTH,
    Column,
    byte_column,
    overlapping,
    row_error,
    simple_column,
)
from havasu_vc.geo.extent import vertex_numbers, vertex_positions
from havasu_vc.geo.layout import GeometryLayout, scan
from havasu_vc.geo.wkt import (
    GEOJSON_FORMS,
    format_points,
    geos_geometries,
    objects,
    parse_points,
    read_by_geos,
    wkb_of_geometries,
)
from havasu_vc.model import compute as pc

__all__ = ["GeometryObject", "format_geojson", "geometry_objects", "parse_geojson"]

GeometryObject: TypeAlias = dict[str, Any]

_NAMES: Final = (
    "",
    "Point",
    "LineString",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
)


def parse_geojson(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return the canonical WKB of a column of GeoJSON geometry objects."""
    if (points := parse_points(column, GEOJSON_FORMS)) is not None:
        return points
    import shapely

    texts = objects(column)
    # GEOS reads Features as their geometry and recurses without limit.
    levels = pc.greater(pc.count_substring(column, "{"), MAX_DEPTH)
    features = pc.match_substring(column, "Feature")
    # Escapes could spell a type in another way.
    escaped = pc.match_substring(column, "\\u")
    suspects = pc.fill_null(pc.or_(pc.or_(levels, features), escaped), False)
    for row in np.flatnonzero(suspects.to_numpy(zero_copy_only=False)).tolist():
        _check_object(row, texts[row])
    return wkb_of_geometries(read_by_geos(shapely.from_geojson, texts, "a GeoJSON geometry"))


def format_geojson(wkb: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return canonical WKB as GeoJSON text."""
    points = format_points(wkb, GEOJSON_FORMS[0], _format_by_geos)
    return _format_by_geos(wkb) if points is None else points


def _format_by_geos(wkb: "pa.Array[Any]") -> "pa.Array[Any]":
    import shapely

    layout = scan(byte_column(wkb))
    _refuse(layout, (layout.dimensions & 2) != 0, "GeoJSON has no M")
    runs = np.flatnonzero(layout.count)
    positions = vertex_positions(layout, runs)
    owner = np.repeat(runs, layout.count[runs])
    x, y = (vertex_numbers(layout, positions + offset, None) for offset in (0, 8))
    lost = ~(np.isfinite(x) & np.isfinite(y))
    lost &= ~((layout.kind[owner] == 1) & np.isnan(x) & np.isnan(y))
    lost_items = np.zeros(len(layout.kind), np.bool_)
    lost_items[owner[lost]] = True
    upright = (layout.dimensions[owner] & 1) == 1
    z = vertex_numbers(layout, positions[upright] + 16, None)
    whole = np.isfinite(z) | ((layout.kind[owner[upright]] == 1) & np.isnan(x[upright]))
    lost_items[owner[upright][~whole]] = True
    _refuse(layout, lost_items, "GeoJSON has neither NaN nor infinity")
    return pa.array(shapely.to_geojson(geos_geometries(wkb)), pa.string())


def geometry_objects(wkb: Column) -> list[GeometryObject | None]:
    """Return a column of WKB as GeoJSON geometry dicts, M left out, None for null.

    >>> geometry_objects(pa.array([bytes.fromhex("0101000000" + "00" * 16)]))
    [{'type': 'Point', 'coordinates': [0.0, 0.0]}]
    """
    column = byte_column(simple_column(wkb))
    found: list[GeometryObject | None] = [None] * column.size
    layout = scan(column)
    _refuse(layout, layout.kind > 7, "GeoJSON has no curves and surfaces")
    items = _Items(layout)
    for row in column.rows.tolist():
        found[row] = items.geometry()
    return found


class _Items:
    """Reads the items of a layout one after another, in the order of the bytes."""

    def __init__(self, layout: GeometryLayout) -> None:
        runs = np.flatnonzero(layout.count)
        positions = vertex_positions(layout, runs)
        big = np.repeat(layout.big[runs], layout.count[runs])
        upright = np.repeat((layout.dimensions[runs] & 1) == 1, layout.count[runs])
        x, y = (vertex_numbers(layout, positions + offset, big) for offset in (0, 8))
        z = np.full(len(x), np.nan)
        z[upright] = vertex_numbers(layout, positions[upright] + 16, big[upright])
        self.flat: list[list[float]] = np.column_stack([x, y]).tolist()
        self.upright: list[list[float]] = (
            np.column_stack([x, y, z]).tolist() if upright.any() else []
        )
        parts = _part_counts(layout)
        self.items: Iterator[tuple[int, int, int, int]] = zip(
            layout.kind.tolist(),
            layout.dimensions.tolist(),
            layout.count.tolist(),
            parts,
            strict=True,
        )
        self.vertex = 0
        self.layout = layout

    def run(self, dimensions: int, count: int) -> list[list[float]]:
        source = self.upright if dimensions & 1 else self.flat
        self.vertex += count
        return source[self.vertex - count : self.vertex]

    def coordinates(self, kind: int, dimensions: int, count: int, parts: int) -> Any:
        if kind == 1:
            (point,) = self.run(dimensions, count)
            return [] if point[0] != point[0] and point[1] != point[1] else point
        if kind in (0, 2):
            return self.run(dimensions, count)
        return [self.coordinates(*next(self.items)) for _ in range(parts)]

    def geometry(self) -> GeometryObject:
        kind, dimensions, count, parts = next(self.items)
        name = _NAMES[kind]
        if kind == 7:
            return {"type": name, "geometries": [self.geometry() for _ in range(parts)]}
        return {"type": name, "coordinates": self.coordinates(kind, dimensions, count, parts)}


def _part_counts(layout: GeometryLayout) -> list[int]:
    """Return how many parts or rings each item counts; 0 for lines, points and rings."""
    holds = (layout.kind >= 3) & (layout.kind != 8)
    where = (layout.position + 5 + 4 * layout.has_srid)[holds]
    words = overlapping(layout.column.data, "<u4")[where]
    counts = np.zeros(len(layout.kind), np.int64)
    counts[holds] = np.where(layout.big[holds], words.byteswap(), words)
    listed: list[int] = counts.tolist()
    return listed


def _refuse(
    layout: GeometryLayout, items: "np.ndarray[Any, np.dtype[np.bool_]]", reason: str
) -> None:
    if items.any():
        raise row_error(int(layout.column.rows[layout.value[np.argmax(items)]]), reason)


def _check_object(row: int, text: str) -> None:
    """Refuse what GEOS would take without being asked to, or would not survive."""
    depth = deepest = 0
    for character in text:
        if character == "{":
            depth += 1
            deepest = max(deepest, depth)
        elif character == "}":
            depth -= 1
    if deepest > MAX_DEPTH + 1:
        raise row_error(row, f"its collections nest deeper than {MAX_DEPTH}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise row_error(row, "not a GeoJSON geometry: it is not JSON") from error
    if not isinstance(value, dict) or value.get("type") not in _NAMES[1:]:
        kind = value.get("type") if isinstance(value, dict) else None
        raise row_error(row, f"not a GeoJSON geometry but {kind or 'something else'!r}")
