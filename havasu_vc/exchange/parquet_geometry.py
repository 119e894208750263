"""Which columns of a Parquet file hold geometries, by the three ways a file can say so.

First the `geo` document of GeoParquet, then Parquet's own GEOMETRY and GEOGRAPHY
logical types, then GeoArrow extension types. Where a file says it twice the earlier
one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.geoarrow import NATIVE_ENCODINGS
from havasu_vc.exchange.geoarrow_writer import NATIVE, native_dimensions
from havasu_vc.exchange.geoparquet import COVERING, DEFAULT_CRS, parse_geo, shape_of
from havasu_vc.exchange.logical_types import CRS_TEXT, NO_CRS
from havasu_vc.formats.iceberg.native_geometry import EDGES
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = ["FoundGeometry", "extension_geometry", "find_geometries"]

_SRID = re.compile(r"srid:[1-9]\d{0,8}")
_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"


@dataclass(frozen=True, slots=True)
class FoundGeometry:
    """A geometry column of a file."""

    encoding: str = "WKB"
    """`WKB`, `WKT` or the name of a native GeoArrow encoding."""
    crs: str | None = None
    """Its coordinate reference system as the file says it; None when unknown."""
    shape: str | None = None
    """The one geometry type of all values, in capitals; None for any."""
    edges: str | None = None
    """How edges run on the globe, one of `EDGES`; None for straight lines of a plane."""
    properties: tuple[tuple[str, str], ...] = ()
    """What else is said of it and kept: `epoch`, `orientation`, `covering`, `crs-text`."""

    @property
    def stored_encoding(self) -> Encoding:
        """How values stand once native ones are WKB."""
        return Encoding.WKT if self.encoding == "WKT" else Encoding.WKB


def find_geometries(
    file: pq.ParquetFile, path: str
) -> tuple[dict[str, FoundGeometry], frozenset[str]]:
    """Return geometry columns by name, and columns that only repeat their bounds.

    Raises `InvalidFileError` when the file's own description is wrong.
    """
    arrow = file.schema_arrow
    metadata: Mapping[bytes, bytes] = file.metadata.metadata or {}
    found: dict[str, FoundGeometry] = {}
    for field in arrow:
        if (geometry := extension_geometry(field)) is not None:
            found[field.name] = geometry
    found |= _logical_geometries(file, metadata, path)
    covering = set()
    if b"geo" in metadata:
        try:
            columns = parse_geo(metadata[b"geo"])
        except ValueError as error:
            raise InvalidFileError(path, str(error)) from error
        for name, column in columns.items():
            if name not in arrow.names:
                raise InvalidFileError(
                    path, f"its geo metadata names a column {name!r}, which is not there"
                )
            properties = column.properties
            if column.covering in arrow.names:
                covering.add(column.covering)
            else:
                properties.pop(COVERING, None)
            dimensions = native_dimensions(arrow.field(name).type)
            if column.encoding in NATIVE_ENCODINGS and dimensions is not None:
                properties[NATIVE] = f"{column.encoding} {dimensions}"
            found[name] = FoundGeometry(
                column.encoding,
                column.crs,
                shape_of(column.geometry_types),
                column.edges,
                tuple(properties.items()),
            )
    for name, geometry in found.items():
        if geometry.encoding == "WKB" and not _is_binary(arrow.field(name).type):
            raise InvalidFileError(
                path, f"geometry column {name!r} holds no bytes but {arrow.field(name).type}"
            )
    named = {name: found[name] for name in arrow.names if name in found}
    return named, frozenset(str(name) for name in covering if name not in named)


def _logical_geometries(
    file: pq.ParquetFile, metadata: Mapping[bytes, bytes], path: str
) -> dict[str, FoundGeometry]:
    found = {}
    for index in range(len(file.schema)):
        column = file.schema.column(index)
        kind = column.logical_type.type
        if kind not in ("GEOMETRY", "GEOGRAPHY") or "." in column.path:
            continue  # a geometry inside a struct stays bytes
        said = json.loads(column.logical_type.to_json())
        edges = logical_edges(said.get("algorithm"), path) if kind == "GEOGRAPHY" else None
        crs = said.get("crs")
        properties = ((CRS_TEXT, crs),) if _SRID.fullmatch(crs or "") and crs != NO_CRS else ()
        found[column.path] = FoundGeometry(
            "WKB", _logical_crs(crs, metadata), None, edges, properties
        )
    return found


def logical_edges(algorithm: str | None, path: str) -> str:
    """Return the way of edges of a GEOGRAPHY; raises `InvalidFileError` for an unknown one."""
    edges = (algorithm or EDGES[0]).lower()
    if edges not in EDGES:
        raise InvalidFileError(
            path,
            f"its edges run by {algorithm!r}, which is unknown",
            hints=(f"known are {', '.join(EDGES)}",),
        )
    return edges


def _logical_crs(said: str | None, metadata: Mapping[bytes, bytes]) -> str | None:
    """Return what a logical type's crs stands for; None for no system at all."""
    if not said:
        return DEFAULT_CRS
    if said == NO_CRS:
        return None
    kind, _, rest = said.partition(":")
    if kind == "projjson":
        return metadata.get(rest.encode(), said.encode()).decode(errors="replace")
    # A number is an EPSG code by the custom of every database that has them.
    return f"EPSG:{rest}" if kind == "srid" and rest.isdigit() else said


def extension_geometry(field: pa.Field) -> FoundGeometry | None:
    """Return what a GeoArrow extension type says of a column, None for any other."""
    if isinstance(field.type, pa.BaseExtensionType):
        name = field.type.extension_name
        raw = (
            field.type.__arrow_ext_serialize__()
            if hasattr(field.type, "__arrow_ext_serialize__")
            else b""
        )
    else:
        annotations = field.metadata or {}
        name = annotations.get(_NAME, b"").decode(errors="replace")
        raw = annotations.get(_METADATA, b"")
    family, _, kind = name.partition(".")
    if family not in ("geoarrow", "ogc"):
        return None
    if kind.lower() not in ("wkb", "wkt", *NATIVE_ENCODINGS):
        return None
    encoding = kind.upper() if kind.lower() in ("wkb", "wkt") else kind.lower()
    try:
        said = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        said = {}
    said = said if isinstance(said, dict) else {}
    crs = said.get("crs")
    text = crs if crs is None or isinstance(crs, str) else json.dumps(crs)
    if text and text.startswith("srid:"):
        text = None if text == NO_CRS else f"EPSG:{text[5:]}"
    if text and text.startswith("projjson:"):
        text = None
    edges = str(said.get("edges")).lower()
    return FoundGeometry(encoding, text, None, edges if edges in EDGES else None)


def _is_binary(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
    )
