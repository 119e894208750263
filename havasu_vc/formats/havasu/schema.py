"""Schemas as documents: Iceberg's schema JSON with Havasu's field properties.

    {"type": "struct",
     "schema-id": 0,
     "identifier-field-ids": [1],
     "fields": [
      {"id": 1, "name": "fid", "required": true, "type": "long"},
      {"id": 2, "name": "geom", "required": false, "type": "binary",
       "havasu.geometry-encoding": "ewkb", "havasu-vc.crs": "EPSG:2193"}]}

`havasu.*` properties are the Havasu specification's, `havasu-vc.*` ours. Others are kept.
A raster column is an empty struct here, whatever a checkout declares; the ids of its parts
are the block that `havasu-vc.raster-ids` names (`model.rasters`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect, format_json, pack, parse_json, unpack
from havasu_vc.model.rasters import collapsed, holds_rasters, raster_ids, with_blocks
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    descendants,
)

__all__ = [
    "FOLDER",
    "format_columns",
    "format_schema",
    "parse_columns",
    "parse_schema",
    "schema_from_json",
    "schema_to_json",
]


GEOMETRY_ENCODING = "havasu.geometry-encoding"
RASTER_ENCODING = "havasu.raster-encoding"
CRS = "havasu-vc.crs"
SHAPE = "havasu-vc.geometry-type"
SOURCE_TYPE = "havasu-vc.source-type"
PHYSICAL_NAME = "havasu-vc.physical-name"
_KNOWN = frozenset(
    (
        "id",
        "name",
        "required",
        "type",
        "doc",
        GEOMETRY_ENCODING,
        RASTER_ENCODING,
        CRS,
        SHAPE,
        SOURCE_TYPE,
        PHYSICAL_NAME,
    )
)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_DEEPEST = 64


def format_schema(schema: Schema) -> bytes:
    """Return the document of a schema."""
    return format_json(schema_to_json(schema))


def parse_schema(data: bytes, where: str) -> Schema:
    """Return the schema of a document."""
    return schema_from_json(parse_json(data, where), where)


def schema_to_json(
    schema: Schema, schema_id: int = 0, *, whole_rasters: bool = False
) -> dict[str, Any]:
    """Return a schema as JSON values; rasters as empty structs, or with all that is inside."""
    return {
        "type": "struct",
        "schema-id": schema_id,
        "identifier-field-ids": sorted(schema.identifier_ids),
        "fields": [_field_to_json(field, whole_rasters) for field in schema.fields],
    }


def _field_to_json(field: Field, whole: bool) -> dict[str, Any]:
    if field.raster is not None and not whole:
        field = collapsed(field)
    properties = {
        "doc": field.doc,
        GEOMETRY_ENCODING: field.geometry.encoding.value if field.geometry else None,
        RASTER_ENCODING: field.raster,
        CRS: field.geometry.crs if field.geometry else None,
        SHAPE: field.geometry.shape if field.geometry else None,
        **_own_properties(field),
    }
    return {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": _type_to_json(field.type, whole),
        **{name: value for name, value in properties.items() if value is not None},
        **dict(field.extra),
    }


def _own_properties(field: Field) -> dict[str, str | None]:
    return {SOURCE_TYPE: field.source_type, PHYSICAL_NAME: field.physical_name}


def _type_to_json(type_: Type, whole: bool) -> Any:
    match type_:
        case Struct(fields):
            return {"type": "struct", "fields": [_field_to_json(field, whole) for field in fields]}
        case List(element):
            return {
                "type": "list",
                "element-id": element.id,
                "element-required": element.required,
                "element": _type_to_json(element.type, whole),
                **_inner("element", element),
            }
        case Map(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": _type_to_json(key.type, whole),
                "value-id": value.id,
                "value-required": value.required,
                "value": _type_to_json(value.type, whole),
                **_inner("key", key),
                **_inner("value", value),
            }
        case _:
            return str(type_)


def _inner(part: str, field: Field) -> dict[str, str]:
    """Return the properties of a part of a list or map, which has no object of its own."""
    return {
        f"{part}-{name}": value
        for name, value in _own_properties(field).items()
        if value is not None
    }


def schema_from_json(value: Any, where: str) -> Schema:
    """Return the schema that JSON values describe."""
    expect(value, dict, "the schema", where)
    identifiers = expect(value.get("identifier-field-ids", []), list, "identifier-field-ids", where)
    try:
        fields = _fields(value.get("fields"), where, 0)
        if any(map(holds_rasters, fields)):
            fields = _with_blocks(fields)
        return Schema(fields, tuple(expect(i, int, "a field id", where) for i in identifiers))
    except ValueError as error:
        raise CorruptDatasetError(where, f"the schema is not possible: {error}") from error


def _with_blocks(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return fields with whole rasters; blocks that are not named lie above all ids that are."""
    every = list(descendants(fields))
    named = (number for field in every if field.raster for number in raster_ids(field) or ())
    last = max(max(field.id for field in every), max(named, default=0))
    counter = iter(range(last + 1, 1 << 31))
    return tuple(with_blocks(field, counter.__next__) for field in fields)


def _fields(values: Any, where: str, depth: int) -> tuple[Field, ...]:
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    return tuple(_field(value, where, depth) for value in expect(values, list, "fields", where))


def _field(value: Any, where: str, depth: int) -> Field:
    expect(value, dict, "a field", where)
    name = expect(value.get("name"), str, "a field's name", where)
    type_ = _type(value.get("type"), where, depth)
    extra = tuple(
        (key, expect(value[key], str, f"property {key!r} of {name!r}", where))
        for key in value
        if key not in _KNOWN
    )
    try:
        return Field(
            expect(value.get("id"), int, f"the id of {name!r}", where),
            name,
            type_,
            required=expect(value.get("required", False), bool, "required", where),
            doc=_text(value, "doc", where),
            geometry=_geometry(value, name, type_, where),
            raster=_raster(value, name, type_, where),
            source_type=_text(value, SOURCE_TYPE, where),
            physical_name=_text(value, PHYSICAL_NAME, where),
            extra=extra,
        )
    except ValueError as error:
        raise CorruptDatasetError(where, f"the schema is not possible: {error}") from error


def _text(value: dict[str, Any], name: str, where: str) -> str | None:
    found: str | None = expect(value.get(name), (str, type(None)), name, where)
    return found


def _geometry(value: dict[str, Any], name: str, type_: Type, where: str) -> Geometry | None:
    encoding = value.get(GEOMETRY_ENCODING)
    if encoding is None:
        return None
    if encoding not in list(Encoding):
        raise CorruptDatasetError(
            where,
            f"geometry encoding {encoding!r} of {name!r} is not one of ewkb, wkb, wkt, geojson",
        )
    found = Encoding(encoding)
    wanted = Primitive.BINARY if found.is_binary else Primitive.STRING
    if type_ != wanted:
        raise CorruptDatasetError(where, f"column {name!r} is {encoding} but has type {type_}")
    return Geometry(found, _text(value, CRS, where), _text(value, SHAPE, where))


def _raster(value: dict[str, Any], name: str, type_: Type, where: str) -> str | None:
    encoding = value.get(RASTER_ENCODING)
    if encoding is None:
        return None
    if encoding != "v1":
        raise CorruptDatasetError(where, f"raster encoding {encoding!r} of {name!r} is not v1")
    if type_ != Struct(()):
        raise CorruptDatasetError(where, f"raster column {name!r} is not an empty struct")
    return "v1"


def _type(value: Any, where: str, depth: int) -> Type:
    if isinstance(value, str):
        return _simple_type(value, where)
    expect(value, dict, "a type", where)
    kind = value.get("type")
    if kind == "struct":
        return Struct(_fields(value.get("fields"), where, depth + 1))
    if kind == "list":
        return List(_part(value, "element", where, depth))
    if kind == "map":
        return Map(_part(value, "key", where, depth), _part(value, "value", where, depth))
    raise CorruptDatasetError(where, f"there is no type {kind!r}")


def _part(value: dict[str, Any], part: str, where: str, depth: int) -> Field:
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    required = part == "key" or value.get(f"{part}-required", False)
    return Field(
        expect(value.get(f"{part}-id"), int, f"{part}-id", where),
        part,
        _type(value.get(part), where, depth + 1),
        required=expect(required, bool, f"{part}-required", where),
        source_type=_text(value, f"{part}-{SOURCE_TYPE}", where),
        physical_name=_text(value, f"{part}-{PHYSICAL_NAME}", where),
    )


def _simple_type(text: str, where: str) -> Type:
    name = text.lower()
    if name in list(Primitive):
        return Primitive(name)
    try:
        if match := _DECIMAL.fullmatch(name):
            return Decimal(int(match[1]), int(match[2]))
        if match := _FIXED.fullmatch(name):
            return Fixed(int(match[1]))
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error
    raise CorruptDatasetError(where, f"there is no type {text!r}")


# `columns/<field id>.json` and `columns/names/<16 hex>`: the columns, each a file of its own.
#
# So git merges two sides that added, renamed or dropped different columns. A column's file
# is packed JSON: its field as `schema` has it, with `place` (columns stand in that order, then
# in that of their ids) and `key` (whether it is of the key). The claim of a name is NUL, the
# name, NUL and the field id, at a hash of the name; so two columns of one name meet in one
# path.

FOLDER = "columns"
MOST_COLUMNS = 100_000


def _claim(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"names/{digest[:16]}"


def format_columns(schema: Schema, places: Mapping[int, int] | None = None) -> dict[str, bytes]:
    """Return the documents of columns, by path below `columns`.

    `places` are those that columns had before, by field id; they stay where they can.
    """
    found: dict[str, bytes] = {}
    value = schema_to_json(schema)
    keys = set(value["identifier-field-ids"])
    fields = value["fields"]
    chosen = _places([field["id"] for field in fields], places or {})
    for field, place in zip(fields, chosen, strict=True):
        number, name = field["id"], field["name"]
        document = {"place": place, "key": number in keys, "field": field}
        found[f"{number}.json"] = pack(document)
        found |= _claimed(name, number)
    return found


def _claimed(name: str, number: int) -> dict[str, bytes]:
    """Return the document by which a column claims its name, by path."""
    return {_claim(name): f"\0{name}\0{number}".encode("utf-8", "surrogatepass")}


def _places(numbers: list[int], before: Mapping[int, int]) -> list[int]:
    """Return the place of each column: as before where these are in the order that is wanted."""
    known = [(before[n], n) for n in numbers if n in before]
    first_new = next((i for i, n in enumerate(numbers) if n not in before), len(numbers))
    at_end = all(n not in before for n in numbers[first_new:])
    if known != sorted(known) or not at_end:
        return list(range(len(numbers)))
    start = max((place for place, _ in known), default=-1) + 1
    return [before[n] if n in before else start + i - first_new for i, n in enumerate(numbers)]


def parse_columns(
    documents: Iterable[tuple[str, bytes]], where: str
) -> tuple[Schema, dict[int, int]]:
    """Return the schema of documents below `columns`, and the place of each column."""
    found: list[tuple[int, int, dict[str, Any], bool]] = []
    claims: dict[str, bytes] = {}
    for name, data in documents:
        if len(claims) + len(found) > 2 * MOST_COLUMNS:
            raise CorruptDatasetError(where, f"it has over {MOST_COLUMNS:,} columns")
        if name.startswith("names/"):
            claims[name] = data
            continue
        number = name.removesuffix(".json")
        value = expect(unpack(data, f"{where}/{name}"), dict, "the column", where)
        field = expect(value.get("field"), dict, "field", where)
        if str(field.get("id")) != number:
            raise CorruptDatasetError(f"{where}/{name}", "its name is not its field id")
        place = expect(value.get("place"), int, "place", where)
        found.append((place, int(number), field, expect(value.get("key"), bool, "key", where)))
    found.sort(key=lambda each: each[:2])
    schema = schema_from_json(
        {
            "type": "struct",
            "fields": [field for _, _, field, _ in found],
            "identifier-field-ids": sorted(number for _, number, _, key in found if key),
        },
        where,
    )
    wanted: dict[str, bytes] = {}
    for column in schema.fields:
        wanted |= _claimed(column.name, column.id)
    if claims != wanted:
        raise CorruptDatasetError(where, "the names that columns claim are not those they have")
    return schema, {number: place for place, number, _, _ in found}
