"""Geometries of native types: those of Parquet, and tables of Iceberg and Delta with them.

Such a table stands in a folder of its own, is made of Parquet files of some size, says the
reference systems of its geometries as text (what has no short name as PROJJSON in a property
of the table), and knows the boxes of its files where these are sound.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export_columns import Notes, OutgoingGeometry
from havasu_vc.formats.iceberg.native_geometry import DEFAULT_CRS, NO_CRS, NativeGeometry
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.crs import Crs, common_code, projection
from havasu_vc.geo.text import geometry_types
from havasu_vc.model.bounds import Bounds
from havasu_vc.records import dataclass
from havasu_vc.store.system import sync_file

__all__ = [
    "CRS_TEXT",
    "Boxes",
    "arrow_schema_text",
    "edges_of",
    "file_crs",
    "logical_type",
    "native_geometry",
    "projjson",
    "table_stands",
    "write_data_file",
]


_FILE_BYTES = 128 << 20
_POINTS = frozenset(kind + dimensions for kind in (1, 4) for dimensions in (0, 1000, 2000, 3000))


def table_stands(folder: Path, is_table: Callable[[Path], bool], *, overwrite: bool) -> bool:
    """Return whether a table that gets another version stands in a folder.

    Raises `InvalidArgumentError` when something else does, or nobody asked for a version.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is a file; a table needs a folder")
    if not folder.is_dir() or not os.listdir(folder):
        return False
    if not is_table(folder):
        raise InvalidArgumentError(
            f"something else is at {folder}", hints=("choose another folder",)
        )
    if not overwrite:
        raise InvalidArgumentError(
            f"there is a table at {folder} already",
            hints=("--overwrite makes another version of it",),
        )
    return True


def edges_of(geometry: OutgoingGeometry) -> str | None:
    """Return how the edges of a column run on the globe; None for straight ones."""
    return geometry.field.edges


def native_geometry(
    geometry: OutgoingGeometry, properties: dict[str, str], notes: Notes
) -> NativeGeometry:
    """Return the type of a column; a system that has no name in it goes to the properties."""
    crs, name = geometry.target, geometry.field.name
    if crs is None:
        notes.say(f"column {name!r} has no coordinate reference system: {NO_CRS}")
        return NativeGeometry(NO_CRS, edges_of(geometry))
    code = common_code(crs)
    if code is not None:
        if code != crs.identifier:
            notes.say(f"the system {crs.identifier} of column {name!r} is called {code}")
        return NativeGeometry(code, edges_of(geometry))
    key = f"havasu-vc.crs.{name}"
    properties[key] = json.dumps(projjson(crs))
    return NativeGeometry(f"projjson:{key}", edges_of(geometry))


@dataclass
class Boxes:
    """The bounds of the geometries of one file."""

    _found: dict[str, Bounds] = field(default_factory=dict)
    _curved: set[str] = field(default_factory=set)

    def add(self, geometry: OutgoingGeometry, wkb: pa.Array) -> None:
        """Take in geometries that are written to the file."""
        name = geometry.field.name
        if edges_of(geometry) and geometry_types(wkb) - _POINTS:
            # Edges on the globe leave the box of their ends, so only points have one there.
            self._curved.add(name)
        box = bounds_of(wkb, "wkb")
        if box is not None:
            known = self._found.get(name)
            self._found[name] = box if known is None else known.union(box)

    def sound(self) -> dict[str, Bounds]:
        """Return the boxes that readers may rely on, by column."""
        return {
            name: box
            for name, box in self._found.items()
            if name not in self._curved and box.finite
        }


def write_data_file(
    path: Path,
    columns: pa.Schema,
    properties: Mapping[str, str],
    group: list[pa.RecordBatch],
    following: Iterator[list[pa.RecordBatch]],
    converted: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> list[pa.RecordBatch]:
    """Write row groups until a file is large; return the first group of the next file.

    `properties` are what the types of columns name, which stand in the file too.
    """
    with pq.ParquetWriter(path, columns, compression="zstd", store_schema=False) as writer:
        while group and (not path.exists() or path.stat().st_size < _FILE_BYTES):
            parts = [converted(batch) for batch in group]
            writer.write_table(pa.Table.from_batches(parts, columns))
            group = next(following, [])
        if properties:
            writer.add_key_value_metadata(dict(properties))
    sync_file(path)
    return group


# Parquet's GEOMETRY and GEOGRAPHY types on their way out, and the systems that they name.
#
# A type says its coordinate reference system as text: nothing for `OGC:CRS84`, `srid:0` for
# none at all, a code such as `EPSG:2193`, `srid:<n>` where a file came with that, or
# `projjson:<property>`, which names a property of the file or of its table.

CRS_TEXT = "crs-text"
"""The property of a column with what a file called its system by number: `srid:5070`."""


class _GeoArrowWkb(pa.ExtensionType):  # type: ignore[misc]
    """The type that Arrow writes as the GEOMETRY and GEOGRAPHY logical types."""

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


def arrow_schema_text(
    schema: pa.Schema, geometries: Iterable[OutgoingGeometry], metadata: Mapping[str, bytes]
) -> bytes:
    """Return a schema as Arrow keeps it in a file, systems as GeoArrow says them."""
    by_name = {geometry.field.name: geometry for geometry in geometries}
    fields = []
    for column in schema:
        if column.name in by_name and isinstance(column.type, _GeoArrowWkb):
            geometry = by_name[column.name]
            column = column.with_type(logical_type(geometry, projjson(geometry.target) or ""))
        fields.append(column)
    return base64.b64encode(pa.schema(fields, metadata or None).serialize().to_pybytes())


def projjson(crs: Crs | None) -> dict[str, Any] | None:
    """Return a coordinate reference system as PROJJSON."""
    if crs is None:
        return None
    described: dict[str, Any] = projection(crs).to_json_dict()
    return described
