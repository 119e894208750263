"""The geometries of GeoParquet files (1.0 and 1.1): the `geo` document, and columns of boxes.

    {"version": "1.1.0", "primary_column": "geom",
     "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"], "crs": {…},
                          "edges": "planar", "bbox": […], "covering": {"bbox": {…}}}}}

A missing `crs` means OGC:CRS84 and a null one that nothing is known. The document is
read leniently, since files with `-dev` versions are common, and written strictly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.exchange.geoarrow import NATIVE_ENCODINGS
from havasu_vc.exchange.source import Box
from havasu_vc.geo.bounds import meets_on_globe, reach_of_rows
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = [
    "BOX",
    "VERSIONS",
    "GeoColumn",
    "WrittenColumn",
    "boxes_of",
    "covering_columns",
    "format_geo",
    "group_boxes",
    "may_meet",
    "parse_geo",
    "shape_of",
    "sound_box",
]


DEFAULT_CRS = "OGC:CRS84"
VERSIONS = ("1.0", "1.1")
"""The versions that are written; the last is what is written when none is asked for."""
ORIENTATION = "counterclockwise"
"""The one winding of rings that a document can promise."""
COVERING = "covering"
"""The property of a geometry column whose boxes came in a column of their own, and its name."""
COVERING_AXES = ("xmin", "ymin", "xmax", "ymax")
"""The columns of a bounding box, in order."""


@dataclass(frozen=True, slots=True)
class GeoColumn:
    """One geometry column as the document has it."""

    encoding: str = "WKB"
    """`WKB` or the name of a native encoding, in lower case."""
    crs: str | None = DEFAULT_CRS
    """PROJJSON as text, or the default; None when unknown."""
    geometry_types: tuple[str, ...] = ()
    """Types that occur, such as `Point Z`; none means not known."""
    edges: str | None = None
    """`spherical`, else None."""
    covering: str | None = None
    """The top-level column that holds the bounding box of each row."""
    epoch: float | None = None
    """When coordinates were measured, in years, for systems that move."""
    orientation: str | None = None
    """`counterclockwise` where outer rings are promised to run so."""

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the column beside system, type and edges, as text."""
        said = {
            "epoch": None if self.epoch is None else repr(self.epoch),
            "orientation": self.orientation,
            COVERING: self.covering,
        }
        return {name: value for name, value in said.items() if value is not None}


def parse_geo(text: bytes) -> dict[str, GeoColumn]:
    """Return the geometry columns by name; the primary one first.

    Raises `ValueError` with the cause for a document that cannot be understood.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its geo metadata is not JSON: {error}") from error
    columns = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, dict):
        raise ValueError("its geo metadata names no columns")
    primary = document.get("primary_column")
    names = sorted(columns, key=lambda name: name != primary)
    return {name: _parse_column(name, columns[name]) for name in names}


def _parse_column(name: str, column: Any) -> GeoColumn:
    if not isinstance(column, dict):
        raise ValueError(f"its geo metadata for column {name!r} is not an object")
    encoding = column.get("encoding", "WKB")
    known = isinstance(encoding, str) and (encoding == "WKB" or encoding in NATIVE_ENCODINGS)
    if not known:
        raise ValueError(f"column {name!r} has the unknown geometry encoding {encoding!r}")
    crs = column.get("crs", DEFAULT_CRS)
    # `geometry_type` is what drafts before 1.0 said.
    types = column.get("geometry_types", column.get("geometry_type", []))
    types = [types] if isinstance(types, str) else types
    if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
        raise ValueError(f"its geometry_types for column {name!r} are not a list of names")
    return GeoColumn(
        encoding,
        crs if crs is None or isinstance(crs, str) else json.dumps(crs),
        tuple(each for each in types if each != "Unknown"),
        "spherical" if column.get("edges") == "spherical" else None,
        _covering_column(column.get("covering")),
        _epoch(column.get("epoch")),
        ORIENTATION if column.get("orientation") == ORIENTATION else None,
    )


def _epoch(said: Any) -> float | None:
    """Return a year; anything else is passed over, as it changes no coordinate."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    return float(said) if abs(said) < 1e6 and math.isfinite(said) else None


def _covering_column(covering: Any) -> str | None:
    """Return the column that all four edges of a declared bounding box lie in."""
    box = covering.get("bbox") if isinstance(covering, dict) else None
    if not isinstance(box, dict) or not {"xmin", "ymin", "xmax", "ymax"} <= set(box):
        return None
    paths = [path for path in box.values() if isinstance(path, list) and len(path) == 2]
    roots = {str(path[0]) for path in paths}
    return roots.pop() if len(roots) == 1 and len(paths) == len(box) else None


def shape_of(geometry_types: tuple[str, ...]) -> str | None:
    """Return the one geometry type of a list, in capitals; None for several or none.

    >>> shape_of(("Point Z",)), shape_of(("Polygon", "MultiPolygon"))
    ('POINT Z', None)
    """
    return geometry_types[0].upper() if len(geometry_types) == 1 else None


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """One geometry column as a writer met it."""

    geometry_types: tuple[str, ...]
    """Types that occur."""
    crs: Mapping[str, Any] | None
    """PROJJSON; None when unknown."""
    bbox: tuple[float, ...] | None = None
    """Four numbers, or six with Z; None without a vertex."""
    edges: str | None = None
    """`spherical`, else None."""
    covering: str | None = None
    """The column that holds the bounding box of each row; version 1.1 alone knows it."""
    epoch: float | None = None
    """When coordinates were measured, in years."""
    orientation: str | None = None
    """`counterclockwise`, else None."""
    encoding: str = "WKB"
    """`WKB`, or the name of a native encoding."""


def format_geo(
    columns: Mapping[str, WrittenColumn], primary: str, *, version: str = VERSIONS[-1]
) -> bytes:
    """Return the document in one of `VERSIONS`."""
    described: dict[str, Any] = {}
    for name, column in columns.items():
        entry: dict[str, Any] = {
            "encoding": column.encoding,
            "geometry_types": sorted(column.geometry_types),
            "crs": column.crs,
        }
        if column.edges:
            entry["edges"] = column.edges
        if column.orientation:
            entry["orientation"] = column.orientation
        if column.epoch is not None:
            entry["epoch"] = column.epoch
        if column.covering is not None and version != "1.0":
            paths = {axis: [column.covering, axis] for axis in COVERING_AXES}
            entry["covering"] = {"bbox": paths}
        if column.bbox is not None:
            entry["bbox"] = list(column.bbox)
        described[name] = entry
    document = {"version": f"{version}.0", "primary_column": primary, "columns": described}
    return json.dumps(document, separators=(",", ":")).encode()


# Columns of bounding boxes beside geometries, by which readers of GeoParquet 1.1 skip rows.
#
# Boxes have numbers of 32 bits, as the files of Overture and GDAL have them, rounded
# outwards so that each holds its geometry. A row without one has no box.

BOX = pa.struct([pa.field(axis, pa.float32()) for axis in COVERING_AXES])
"""The type of a column of boxes."""


def covering_columns(
    fields: Sequence[Field], names: Collection[str], wanted: bool | None
) -> Mapping[str, str]:
    """Return a name of a column of boxes for each geometry column that gets one.

    With None those get one that came with one. `names` are the columns that there are.
    """
    taken = set(names)
    found = {}
    for field in fields:
        known = dict(field.extra).get(COVERING)
        if wanted is False or (wanted is None and known is None):
            continue
        choices = [known, "bbox" if len(fields) == 1 else None, f"{field.name}_bbox"]
        choices += [f"{field.name}_bbox_{number}" for number in range(len(taken) + 1)]
        name = next(each for each in choices if each and each not in taken)
        taken.add(name)
        found[field.name] = name
    return found


def boxes_of(wkb: pa.Array, edges: str | None = None) -> pa.Array:
    """Return the box of each geometry, all around the globe for one across the antimeridian.

    Readers compare the sides of boxes as numbers.
    """
    bounds = reach_of_rows(wkb, "wkb", edges)
    missing = np.isnan(bounds).any(axis=1)
    with np.errstate(over="ignore"):
        low = bounds[:, :2].astype(np.float32)
        high = bounds[:, 2:].astype(np.float32)
    low = np.where(low > bounds[:, :2], np.nextafter(low, np.float32(-np.inf)), low)
    high = np.where(high < bounds[:, 2:], np.nextafter(high, np.float32(np.inf)), high)
    axes = [pa.array(np.ascontiguousarray(part[:, i])) for part in (low, high) for i in (0, 1)]
    return pa.StructArray.from_arrays(axes, fields=list(BOX), mask=pa.array(missing))


# Where the rows of each row group of a Parquet file lie, as far as the file says it.
#
# A file can say it by the statistics of a GEOMETRY or GEOGRAPHY column, or by those of a
# column of boxes beside the geometries (GeoParquet 1.1). What it says is used to leave
# row groups out, never to tell that a row is in a box: a group of which nothing, or
# nothing sensible, is said may hold anything, and Z and M are never looked at.


def may_meet(window: Box, box: Box | None, *, globe: bool = False) -> bool:
    """Return whether rows of a box may be in a window; True where no box is known.

    Either may have its west east of its east, which says that it crosses the anti-meridian.
    On the `globe` that line is like any other, and meridians meet at the poles.

    >>> may_meet((0, 0, 1, 1), (160.5, 0, -159.0, 1)), may_meet((-170, 0, -165, 1), None)
    (False, True)
    """
    if box is None:
        return True
    if globe:
        return bool(meets_on_globe(window, np.array([box]))[0])
    if box[1] > window[3] or box[3] < window[1]:
        return False
    return any(
        low <= right and high >= left
        for low, high in _spans(box[0], box[2])
        for left, right in _spans(window[0], window[2])
    )


def _spans(low: float, high: float) -> tuple[tuple[float, float], ...]:
    return ((low, high),) if low <= high else ((low, math.inf), (-math.inf, high))


def sound_box(*edges: float | None) -> Box | None:
    """Return a box of xmin, ymin, xmax, ymax; None for half a box, and for ymin above ymax."""
    if any(edge is None or math.isnan(edge) for edge in edges):
        return None
    xmin, ymin, xmax, ymax = (float(edge) for edge in edges if edge is not None)
    return (xmin, ymin, xmax, ymax) if ymin <= ymax else None


def group_boxes(metadata: pq.FileMetaData, column: str, covering: str | None) -> list[Box | None]:
    """Return the box of each row group; None for one of which nothing is said."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    own = paths.index(column) if column in paths else None
    edges = [f"{covering}.{axis}" for axis in COVERING_AXES]
    places = [paths.index(edge) for edge in edges] if set(edges) <= set(paths) else []
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        box = None if own is None else _box_of_statistics(group.column(own))
        if box is None and places:
            box = sound_box(*_covered(group, places))
        found.append(box)
    return found


def _box_of_statistics(chunk: Any) -> Box | None:
    said = chunk.geo_statistics
    return None if said is None else sound_box(said.xmin, said.ymin, said.xmax, said.ymax)


def _covered(group: Any, places: list[int]) -> Iterator[float | None]:
    """Yield the edges of the box around all boxes of a row group."""
    for number, place in enumerate(places):
        said = group.column(place).statistics
        value = None
        if said is not None and said.has_min_max:
            value = said.min if number < 2 else said.max
        yield value if isinstance(value, float) else None
