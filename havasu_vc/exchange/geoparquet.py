"""The `geo` document in the footer of a GeoParquet file, versions 1.0 and 1.1.

    {"version": "1.1.0", "primary_column": "geom",
     "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"], "crs": {…},
                          "edges": "planar", "bbox": […], "covering": {"bbox": {…}}}}}

A missing `crs` means OGC:CRS84 and a null one that nothing is known. The document is
read leniently, since files with `-dev` versions are common, and written strictly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from havasu_vc.exchange.geoarrow import NATIVE_ENCODINGS
from havasu_vc.records import dataclass

__all__ = ["VERSIONS", "GeoColumn", "WrittenColumn", "format_geo", "parse_geo", "shape_of"]

DEFAULT_CRS = "OGC:CRS84"
VERSIONS = ("1.0", "1.1")
"""The versions that are written; the last is what is written when none is asked for."""
ORIENTATION = "counterclockwise"
"""The one winding of rings that a document can promise."""
COVERING = "covering"
"""The property of a geometry column whose boxes came in a column of their own, and its name."""
COVERING_AXES = ("xmin", "ymin", "xmax", "ymax")
"""What a column of bounding boxes holds, in order."""


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
        """What is kept of the column beside system, type and edges, as text."""
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
    """What a writer learned of one geometry column."""

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
