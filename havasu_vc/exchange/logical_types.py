"""Parquet's GEOMETRY and GEOGRAPHY types on their way out, and the systems that they name.

A type says its coordinate reference system as text: nothing for `OGC:CRS84`, `srid:0` for
none at all, a code such as `EPSG:2193`, `srid:<n>` where a file came with that, or
`projjson:<property>`, which names a property of the file or of its table.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from havasu_vc.exchange.export_geometry import OutgoingGeometry
from havasu_vc.formats.iceberg.native_geometry import DEFAULT_CRS
from havasu_vc.geo.crs import common_code, projection
from havasu_vc.model.crs import Crs

__all__ = [
    "CRS_TEXT",
    "NO_CRS",
    "arrow_schema_text",
    "file_crs",
    "logical_type",
    "projjson",
]

CRS_TEXT = "crs-text"
"""The property of a column with what a file called its system by number: `srid:5070`."""
NO_CRS = "srid:0"
"""What a type says when no system is known: saying nothing would mean `OGC:CRS84`."""


class _GeoArrowWkb(pa.ExtensionType):  # type: ignore[misc]
    """What Arrow writes as the GEOMETRY and GEOGRAPHY logical types."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, metadata: bytes) -> _GeoArrowWkb:
        return cls(metadata)


def logical_type(geometry: OutgoingGeometry, crs: str | Mapping[str, Any]) -> pa.DataType:
    """Return the type that Arrow writes as GEOMETRY or GEOGRAPHY, with a system as it is said."""
    said: dict[str, Any] = {} if crs in ("", DEFAULT_CRS) else {"crs": crs}
    if geometry.field.edges is not None:
        # Neither Arrow nor GeoParquet has words for the ways of edges on an ellipsoid.
        said["edges"] = "spherical"
    return _GeoArrowWkb(json.dumps(said).encode())


def file_crs(geometry: OutgoingGeometry) -> str | Mapping[str, Any]:
    """Return how a file of its own says the system of a column: by text, or described."""
    crs = geometry.target
    if crs is None:
        return NO_CRS
    said = dict(geometry.field.extra).get(CRS_TEXT)
    code = common_code(crs)
    if said is not None and crs.identifier == said.replace("srid:", "EPSG:") and code is not None:
        return said
    return DEFAULT_CRS if code == DEFAULT_CRS else projjson(crs) or ""


def arrow_schema_text(schema: pa.Schema, geometries: Iterable[OutgoingGeometry]) -> bytes:
    """Return a schema as Arrow keeps it in a file, systems as GeoArrow says them."""
    by_name = {geometry.field.name: geometry for geometry in geometries}
    fields = []
    for field in schema:
        if field.name in by_name and isinstance(field.type, _GeoArrowWkb):
            geometry = by_name[field.name]
            field = field.with_type(logical_type(geometry, projjson(geometry.target) or ""))
        fields.append(field)
    return base64.b64encode(pa.schema(fields).serialize().to_pybytes())


def projjson(crs: Crs | None) -> dict[str, Any] | None:
    """Return a coordinate reference system as PROJJSON."""
    if crs is None:
        return None
    described: dict[str, Any] = projection(crs).to_json_dict()
    return described
