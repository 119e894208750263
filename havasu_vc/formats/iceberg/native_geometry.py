"""The geometry types of Iceberg 3 and of Delta, `geometry(C)` and `geography(C, A)`, as text.

C says a coordinate reference system and A how edges run on the globe; both have
defaults. In a schema of ours such a column is one of plain WKB that remembers its
system, and its edges in the property `edges`, as columns of Parquet's types do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from havasu_vc.formats.havasu import schema as havasu

__all__ = ["EDGES", "NativeGeometry", "with_native_geometries"]

EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""The ways of edges on the globe that Parquet, Iceberg and Delta know."""
DEFAULT_CRS = "OGC:CRS84"
"""Longitudes and latitudes in WGS 84."""
_TYPE = re.compile(
    r"(geometry|geography)\s*(?:\(\s*([^,()]*?)\s*(?:,\s*([^,()]*?)\s*)?\))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class NativeGeometry:
    """A type of geometries: on a plane, or on the globe.

    >>> print(NativeGeometry.parse("Geography(srid:4326,Karney)"))
    geography(srid:4326, karney)
    """

    crs: str = DEFAULT_CRS
    """Its coordinate reference system: `OGC:CRS84`, `srid:2193`, `projjson:<property>`."""
    edges: str | None = None
    """How edges run, one of `EDGES`; None for straight lines of a plane."""

    @classmethod
    def parse(cls, text: str) -> NativeGeometry | None:
        """Return the type that a text says, None when it says none; ValueError for a bad one."""
        match = _TYPE.fullmatch(text.strip())
        if match is None:
            if text.strip().lower().startswith(("geometry", "geography")):
                raise ValueError(f"type {text!r} cannot be understood")
            return None
        kind, crs, edges = match[1].lower(), (match[2] or "").strip("'\""), match[3]
        if kind == "geometry":
            if edges is not None:
                raise ValueError(f"type {text!r} says how edges run, which are straight")
            return cls(crs or DEFAULT_CRS)
        way = (edges or EDGES[0]).lower()
        if way not in EDGES:
            raise ValueError(
                f"type {text!r} says edges of an unknown way; known are {', '.join(EDGES)}"
            )
        return cls(crs or DEFAULT_CRS, way)

    def __str__(self) -> str:
        if self.edges is None:
            return f"geometry({self.crs})"
        return f"geography({self.crs}, {self.edges})"


def with_native_geometries(schema: Any) -> Any:
    """Return the JSON of a schema of Iceberg 3 with its geometries as columns of ours.

    Only columns of the table and of its structs are changed: within a list or a map a
    column has no place for what is said of it, so there the type stays.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return schema
    return {**schema, "fields": [_field(each) for each in schema["fields"]]}


def _field(field: Any) -> Any:
    if not isinstance(field, dict):
        return field
    type_ = field.get("type")
    if isinstance(type_, dict):
        return {**field, "type": with_native_geometries(type_)}
    found = NativeGeometry.parse(type_) if isinstance(type_, str) else None
    if found is None:
        return field
    said = {havasu.GEOMETRY_ENCODING: "wkb", havasu.CRS: found.crs}
    if found.edges is not None:
        said["edges"] = found.edges
    return {**field, "type": "binary", **said}
