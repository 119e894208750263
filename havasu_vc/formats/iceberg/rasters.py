"""The struct of a raster column, as flavours `spark` and `iceberg` declare it.

The Havasu specification declares a raster as an empty struct; its 42 parts stand only in
Parquet files. Iceberg's readers find parts by field id, so they need ids that no other
column of the table ever has. Each raster column therefore owns a block of 42 ids:

- it is drawn when the column is added, and the table's last column id lies above it, so
  that whatever adds a column later (we, Spark) counts on from there;
- it is remembered in the field property `havasu-vc.raster-ids`, which stands in the
  schema in git and in the mirror of table properties: the first id of the block, or, for
  a raster that another writer declared with ids of its own, all 42;
- within the block parts are numbered as Iceberg numbers a new struct (all fields of a
  struct before what is inside them), so a column that Spark added is mostly one block.

Data files carry these ids whatever the flavour; only the declaration differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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

__all__ = [
    "RASTER_IDS",
    "RASTER_PARTS",
    "collapsed",
    "declared",
    "raster_fields",
    "raster_ids",
    "with_raster_ids",
]


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
