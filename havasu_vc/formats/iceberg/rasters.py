"""The struct of a raster column, as flavours `spark` and `iceberg` declare it.

The Havasu specification declares a raster as an empty struct; its 42 parts stand only in
Parquet files. Iceberg's readers find parts by field id, so they need ids that no other
column of the table ever has. Each raster column therefore owns a block of 42 ids:

- it is drawn once, directly above the table's last column id, which it raises, so that
  whatever adds a column later (we, Spark) counts on from above it;
- it is remembered in the field property `havasu-vc.raster-ids`, which stands in the
  schema in git and in the mirror of table properties: the first id of the block, or, for
  a raster that another writer declared with ids of its own, all 42;
- within the block parts are numbered as Iceberg numbers a new struct (all fields of a
  struct before what is inside them), so a column that Spark added is mostly one block.

Data files carry these ids whatever the flavour; only the declaration differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, Struct, Type, children, descendants

__all__ = [
    "RASTER_IDS",
    "RASTER_PARTS",
    "collapsed",
    "declared",
    "raster_fields",
    "raster_ids",
    "with_raster_ids",
]

RASTER_IDS = "havasu-vc.raster-ids"
"""The field property that remembers a raster's block."""

_INT, _DOUBLE, _BINARY, _STRING = (
    Primitive.INT,
    Primitive.DOUBLE,
    Primitive.BINARY,
    Primitive.STRING,
)
_Shape = tuple[tuple[str, Primitive, bool], ...]
_REFERENCE: _Shape = tuple(
    (name, _DOUBLE, True)
    for name in ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
)
_BAND: _Shape = (
    ("pixel_type", _INT, True),
    ("no_data", _BINARY, False),
    ("data", _BINARY, False),
    ("out_db_band_no", _INT, False),
    ("out_db_url", _STRING, False),
)
_BANDS = ("band_1", "band_2", "band_3", "band_4")
RASTER_PARTS = 10 + len(_REFERENCE) + 5 * len(_BAND) + 1
"""How many fields a raster has inside: 42."""


def raster_fields(ids: tuple[int, ...]) -> tuple[Field, ...]:
    """Return the fields of raster v1 with the given ids, in the order of Iceberg's numbering."""
    if len(ids) != RASTER_PARTS:
        raise ValueError(f"a raster has {RASTER_PARTS} parts, not {len(ids)}")
    numbers = iter(ids)
    width, height, num_bands, crs, reference, *bands, rest = (next(numbers) for _ in range(10))
    georeference = _struct(_REFERENCE, numbers)
    inner = [_struct(_BAND, numbers) for _ in _BANDS]
    element = next(numbers)
    return (
        Field(width, "width", _INT, required=True),
        Field(height, "height", _INT, required=True),
        Field(num_bands, "num_bands", _INT, required=True),
        Field(crs, "crs_wkt", _STRING),
        Field(reference, "geo_reference", georeference, required=True),
        *(Field(*each) for each in zip(bands, _BANDS, inner, strict=True)),
        Field(rest, "bands", List(Field(element, "element", _struct(_BAND, numbers)))),
    )


def _struct(shape: _Shape, numbers: Iterator[int]) -> Struct:
    return Struct(
        tuple(Field(next(numbers), name, type_, required) for name, type_, required in shape)
    )


def raster_ids(field: Field) -> tuple[int, ...] | None:
    """Return the ids of a raster's parts, None when none are reserved."""
    text = dict(field.extra).get(RASTER_IDS)
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and len(part) < 11 for part in parts):
        raise ValueError(f"{RASTER_IDS} of {field.name!r} is not a list of ids")
    numbers = tuple(map(int, parts))
    if len(numbers) == 1:
        numbers = tuple(range(numbers[0], numbers[0] + RASTER_PARTS))
    if len(numbers) != RASTER_PARTS:
        raise ValueError(f"{RASTER_IDS} of {field.name!r} has {len(numbers)} ids")
    return numbers


def _remembered(ids: tuple[int, ...]) -> str:
    first = ids[0]
    in_order = ids == tuple(range(first, first + RASTER_PARTS))
    return str(first) if in_order else ",".join(map(str, ids))


def with_property(field: Field, name: str, value: str) -> Field:
    """Return a field with one more property that is not of the model."""
    others = tuple(pair for pair in field.extra if pair[0] != name)
    return replace(field, extra=(*others, (name, value)))


def mapped(field: Field, inside: Type) -> Field:
    """Return a field with another type."""
    return field if inside is field.type else replace(field, type=inside)


def declared(field: Field) -> Field:
    """Return a field whose rasters, at any depth, are declared whole."""
    if field.raster is not None:
        ids = raster_ids(field)
        if ids is None:
            raise ValueError(f"no ids are reserved for the parts of {field.name!r}")
        others = tuple(pair for pair in field.extra if pair[0] != RASTER_IDS)
        return replace(field, type=Struct(raster_fields(ids)), extra=others)
    return mapped(field, inner_types(field.type, declared))


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


def collapsed(field: Field) -> Field:
    """Return a raster field that was declared whole as the empty struct that it is.

    ValueError when its type is neither empty nor the struct of raster v1.
    """
    if field.type == Struct(()):
        return field
    ids = _ids_of(field.type)
    if ids is None or _plain(Struct(raster_fields(ids))) != _plain(field.type):
        raise ValueError(f"raster column {field.name!r} is not the struct of raster v1")
    return replace(with_property(field, RASTER_IDS, _remembered(ids)), type=Struct(()), raster="v1")


def _ids_of(type_: Type) -> tuple[int, ...] | None:
    """Return the ids inside a type in the order of Iceberg's numbering."""
    ids: list[int] = []

    def walk(inside: Type) -> None:
        parts = children(inside)
        ids.extend(part.id for part in parts)
        for part in parts:
            walk(part.type)

    walk(type_)
    return tuple(ids) if len(ids) == RASTER_PARTS else None


def _plain(type_: Type) -> object:
    """Return names and simple types alone: engines lose requiredness and comments."""
    return tuple((part.name, _plain(part.type) or str(part.type)) for part in children(type_))


def with_raster_ids(metadata: TableMetadata) -> TableMetadata:
    """Return metadata in which each raster column has its block; one that has keeps it."""
    blocks: dict[int, str] = {}
    last = metadata.last_column_id
    for schema in metadata.schemas.values():
        last = max(last, schema.last_id)
        for field in descendants(schema.fields):
            if field.raster is not None and (ids := raster_ids(field)) is not None:
                blocks.setdefault(field.id, _remembered(ids))
                last = max(last, *ids)
    for schema in metadata.schemas.values():
        for field in descendants(schema.fields):
            if field.raster is not None and field.id not in blocks:
                blocks[field.id] = str(last + 1)
                last += RASTER_PARTS
    if not blocks:
        return metadata
    schemas = {number: _given(schema, blocks) for number, schema in metadata.schemas.items()}
    return replace(metadata, schemas=schemas, last_column_id=last)


def _given(schema: Schema, blocks: Mapping[int, str]) -> Schema:
    def give(field: Field) -> Field:
        if field.raster is not None:
            return with_property(field, RASTER_IDS, blocks[field.id])
        return mapped(field, inner_types(field.type, give))

    return Schema(tuple(give(field) for field in schema.fields), schema.identifier_ids)
