"""The geometry types of Iceberg 3 and of Delta, `geometry(C)` and `geography(C, A)`, as text.

C says a coordinate reference system and A how edges run on the globe; both have
defaults. In a schema of ours such a column is one of plain WKB that remembers its
system, and its edges in the property `edges`, as columns of Parquet's types do. Iceberg's
times with nanoseconds become times that came as such (their source type).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from havasu_vc.formats.havasu import schema as havasu
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.model.rasters import (
    RASTER_IDS,
    RASTER_PARTS,
    collapsed,
    raster_fields,
    raster_ids,
    whole,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct, Type, descendants
from havasu_vc.records import dataclass

__all__ = [
    "CRS_WKT",
    "DEFAULT_CRS",
    "EDGES",
    "NO_CRS",
    "RASTER_IDS",
    "RASTER_PARTS",
    "NativeGeometry",
    "NativeTypes",
    "collapsed",
    "declared",
    "native_type_text",
    "raster_fields",
    "raster_ids",
    "with_native_types",
    "with_raster_ids",
    "with_type_texts",
]


EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""The ways of edges on the globe that Parquet, Iceberg and Delta know."""
NO_CRS = "srid:0"
"""The system of a type where none is known: no system at all would mean `OGC:CRS84`."""
NativeTypes = Mapping[int, str]
"""The native types of columns that our schema calls something else, as text by field id."""
CRS_WKT = "havasu-vc.crs-wkt."
"""The prefix of the table property that defines a system by its name, as WKT."""
DEFAULT_CRS = "OGC:CRS84"
"""Longitudes and latitudes in WGS 84."""
_NANOSECONDS = {
    "timestamp_ns": ("timestamp", "timestamp[ns]"),
    "timestamptz_ns": ("timestamptz", "timestamp[ns, tz=UTC]"),
}
_TYPE = re.compile(
    r"(geometry|geography)\s*(?:\(\s*([^,()]*?)\s*(?:,\s*([^,()]*?)\s*)?\))?", re.IGNORECASE
)
_LONGEST = 300
"""Characters of a type; no name of a system or property is as long."""


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
        match = _TYPE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
        if match is None:
            text = text[:_LONGEST]
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


def native_type_text(type_: NativeGeometry) -> str:
    """Return a type as a schema says it; defaults are left out, as some readers need it.

    >>> native_type_text(NativeGeometry()), native_type_text(NativeGeometry("EPSG:2193"))
    ('geometry', 'geometry(EPSG:2193)')
    """
    if type_ == NativeGeometry():
        return "geometry"
    return "geography" if type_ == NativeGeometry(edges="spherical") else str(type_)


def with_type_texts(value: Any, types: NativeTypes) -> Any:
    """Return the JSON of a schema with native types in the place of ours."""
    if isinstance(value, list):
        return [with_type_texts(item, types) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_type_texts(item, types) for name, item in value.items()}
    number = value.get("id")
    if isinstance(number, int) and number in types:
        made["type"] = types[number]
    return made


def with_native_types(schema: Any) -> Any:
    """Return the JSON of a schema of Iceberg 3 with its geometries and times as columns of ours.

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
        return {**field, "type": with_native_types(type_)}
    if isinstance(type_, str) and (time := _NANOSECONDS.get(type_.strip().lower())):
        return {**field, "type": time[0], havasu.SOURCE_TYPE: time[1]}
    found = NativeGeometry.parse(type_) if isinstance(type_, str) else None
    if found is None:
        return field
    said = {havasu.GEOMETRY_ENCODING: "wkb", havasu.CRS: found.crs}
    if found.edges is not None:
        said["edges"] = found.edges
    return {**field, "type": "binary", **said}


# The struct of a raster column, as flavours `spark` and `iceberg` declare it.
#
# The Havasu specification declares a raster as an empty struct; its 42 parts stand only in
# Parquet files. Iceberg's readers find parts by field id, so they need ids that no other
# column of the table ever has. Each raster column therefore owns a block of 42 ids:
#
# - it is drawn when the column is added, and the table's last column id lies above it, so
#   that whatever adds a column later (we, Spark) counts on from there;
# - it is remembered in the field property `havasu-vc.raster-ids`, which stands in the
#   schema in git and in the mirror of table properties: the first id of the block, or, for
#   a raster that another writer declared with ids of its own, all 42;
# - within the block parts are numbered as Iceberg numbers a new struct (all fields of a
#   struct before what is inside them), so a column that Spark added is mostly one block.
#
# Data files carry these ids whatever the flavour; only the declaration differs.


def mapped(field: Field, inside: Type) -> Field:
    """Return a field with another type."""
    return field if inside is field.type else replace(field, type=inside)


def declared(field: Field) -> Field:
    """Return a field whose rasters, at any depth, are declared whole."""
    if field.raster is None:
        return mapped(field, inner_types(field.type, declared))
    found = whole(field)
    if found.type == Struct(()):
        raise ValueError(f"no ids are reserved for the parts of {field.name!r}")
    return found


def inner_types(type_: Type, change: object) -> Type:
    """Return a type with each of its parts changed."""
    assert callable(change)
    match type_:
        case Struct(fields):
            return Struct(tuple(change(field) for field in fields))
        case List(element):
            return List(change(element))
        case Map(key, value):
            return Map(change(key), change(value))
        case _:
            return type_


def with_raster_ids(metadata: TableMetadata) -> TableMetadata:
    """Return metadata in which each raster column has its block; one that has keeps it."""
    blocks: dict[int, tuple[int, ...]] = {}
    last = metadata.last_column_id
    for schema in metadata.schemas.values():
        last = max(last, schema.last_id)
        for field in descendants(schema.fields):
            if field.raster is not None and (ids := raster_ids(field)) is not None:
                blocks.setdefault(field.id, ids)
                last = max(last, *ids)
    for schema in metadata.schemas.values():
        for field in descendants(schema.fields):
            if field.raster is not None and field.id not in blocks:
                blocks[field.id] = tuple(range(last + 1, last + 1 + RASTER_PARTS))
                last += RASTER_PARTS
    if not blocks:
        return metadata
    schemas = {number: _given(schema, blocks) for number, schema in metadata.schemas.items()}
    return replace(metadata, schemas=schemas, last_column_id=last)


def _given(schema: Schema, blocks: Mapping[int, tuple[int, ...]]) -> Schema:
    def give(field: Field) -> Field:
        if field.raster is None:
            return mapped(field, inner_types(field.type, give))
        others = tuple(pair for pair in field.extra if pair[0] != RASTER_IDS)
        return replace(field, type=Struct(raster_fields(blocks[field.id])), extra=others)

    return Schema(tuple(give(field) for field in schema.fields), schema.identifier_ids)
