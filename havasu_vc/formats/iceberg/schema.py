"""Iceberg's schema JSON per flavour, and the mirror of what other writers drop of it.

The JSON is that of `formats.havasu.schema`; flavours differ in rasters alone (see
`rasters`). Reading takes both forms, any case of type names, and Havasu's extras or none.

Spark and PyIceberg drop field properties when they commit, so format_metadata mirrors
them in the table property `havasu-vc.fields`, which they keep, by field id:

    {"2": {"havasu.geometry-encoding": "ewkb", "havasu-vc.crs": "EPSG:2193"},
     "0:2": {…}}

A key with a schema id goes before one without, for columns that an older schema
described otherwise. `restored` puts back what is missing and changes nothing that is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from havasu_vc.errors import CorruptDatasetError, UnsupportedError
from havasu_vc.formats.havasu import schema as havasu
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.iceberg.native_geometry import collapsed, declared, inner_types, mapped
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.rasters import whole
from havasu_vc.model.schema import Schema, can_identify
from havasu_vc.model.types import (
    Encoding,
    Field,
    Geometry,
    Primitive,
    Struct,
    children,
    descendants,
)
from havasu_vc.records import dataclass

__all__ = [
    "MIRROR",
    "NAME_MAPPING",
    "MappedField",
    "NameMapping",
    "format_name_mapping",
    "mapping_of",
    "mirrored_properties",
    "parse_name_mapping",
    "restored",
    "schema_from_json",
    "schema_to_json",
]


MIRROR = "havasu-vc.fields"
"""The table property that mirrors field properties."""

_OWN = (
    havasu.GEOMETRY_ENCODING,
    havasu.RASTER_ENCODING,
    havasu.CRS,
    havasu.SHAPE,
    havasu.SOURCE_TYPE,
    havasu.PHYSICAL_NAME,
)
_KNOWN = frozenset((*_OWN, "id", "name", "required", "type", "doc"))
_DEFAULTS = ("initial-default", "write-default")
_DEEPEST = 64


def schema_to_json(
    schema: Schema, *, schema_id: int = 0, flavour: Flavour = Flavour.HAVASU
) -> dict[str, Any]:
    """Return a schema as JSON values.

    But for flavour `havasu` its rasters must have their ids (`rasters.with_raster_ids`).
    """
    if flavour is not Flavour.HAVASU:
        fields = tuple(declared(field) for field in schema.fields)
        schema = Schema(fields, schema.identifier_ids)
    return havasu.schema_to_json(schema, schema_id, whole_rasters=flavour is not Flavour.HAVASU)


def schema_from_json(value: Any, where: str) -> Schema:
    """Return the schema that JSON values describe."""
    expect(value, dict, "the schema", where)
    try:
        fields = [_cleaned(field, where, 0) for field in _fields(value, where)]
    except RecursionError:
        raise CorruptDatasetError(where, "its types are nested too deeply") from None
    identifiers = expect(value.get("identifier-field-ids", []), list, "identifier-field-ids", where)
    bare = havasu.schema_from_json({"type": "struct", "fields": fields}, where)
    inner = bare.ids - set(bare.by_id)
    if any(isinstance(number, int) and number in inner for number in identifiers):
        raise UnsupportedError(
            f"{where}: a column within a struct identifies rows",
            hints=("set identifier fields that are columns of the table",),
        )
    for number in identifiers:
        field = bare.by_id.get(expect(number, int, "a field id", where))
        if field is None or not can_identify(field):
            raise CorruptDatasetError(where, f"field {number} cannot identify rows")
    marked = _with_rasters(bare, value, where)
    return _checked(marked, tuple(identifiers), where)


def _checked(fields: tuple[Field, ...], identifiers: tuple[int, ...], where: str) -> Schema:
    try:
        return Schema(fields, identifiers)
    except ValueError as error:
        raise CorruptDatasetError(
            where, f"a raster has parts with the ids of other fields: {error}"
        ) from error


def _fields(value: Any, where: str) -> list[Any]:
    fields: list[Any] = expect(value.get("fields"), list, "fields", where)
    return fields


def _cleaned(value: Any, where: str, depth: int) -> Any:
    """Return the JSON of a field as the Havasu parser takes it: rasters aside, no defaults."""
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    expect(value, dict, "a field", where)
    for name in _DEFAULTS:
        if value.get(name) is not None:
            raise UnsupportedError(
                f"{where}: column {value.get('name')!r} has a default value",
                hints=("default values are of Iceberg 3, which cannot be kept",),
            )
    # Other properties are kept as text; what is not text has no place in the model.
    kept = {name: item for name, item in value.items() if name in _KNOWN or isinstance(item, str)}
    kept.pop(havasu.RASTER_ENCODING, None)
    kept["type"] = _cleaned_type(
        value.get("type"), f"{where}: column {value.get('name')!r}", depth + 1
    )
    return kept


def _cleaned_type(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, str):
        _refuse_later(value, where)
        return value
    if not isinstance(value, dict):
        return value
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    made = dict(value)
    if value.get("type") == "struct":
        made["fields"] = [_cleaned(field, where, depth) for field in _fields(value, where)]
    for part in ("element", "key", "value"):
        if part in value:
            made[part] = _cleaned_type(value[part], where, depth + 1)
    return made


def _refuse_later(name: str, where: str) -> None:
    """Refuse the types of Iceberg 3."""
    base = name.lower().partition("(")[0].strip()
    if base in ("timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"):
        raise UnsupportedError(
            f"{where} is of type {name!r}, which is of Iceberg 3 and cannot be kept",
            hints=(_INSTEAD.get(base, _OTHERWISE),),
        )


VARIANT_AS_TEXT = (
    "values of variant are kept as text of JSON: have Spark 4 make a table of that, "
    "`CREATE TABLE copy AS SELECT * EXCEPT (COLUMN), to_json(COLUMN) AS COLUMN FROM table`"
)
"""The way on from a column of variants, whatever table has it."""
_SHAPES = "a Havasu geometry is a column of binary or string with an encoding"
_INSTEAD = {"variant": VARIANT_AS_TEXT, "geometry": _SHAPES, "geography": _SHAPES}
_OTHERWISE = "make a table without it, or with the column in another type, and take that"


def _with_rasters(schema: Schema, value: Any, where: str) -> tuple[Field, ...]:
    """Return the fields with those that the JSON calls rasters made so."""
    encodings: dict[int, Any] = {}
    _find_rasters(value, encodings)
    if not encodings:
        return schema.fields

    def mark(field: Field) -> Field:
        encoding = encodings.get(field.id)
        if encoding is None:
            return mapped(field, inner_types(field.type, mark))
        return _raster(field, encoding, where)

    return tuple(mark(field) for field in schema.fields)


def _raster(field: Field, encoding: Any, where: str) -> Field:
    if encoding != "v1":
        raise CorruptDatasetError(
            where, f"raster encoding {encoding!r} of {field.name!r} is not v1"
        )
    try:
        return whole(replace(collapsed(field), raster="v1"))
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error


def _find_rasters(value: Any, found: dict[int, Any]) -> None:
    if isinstance(value, dict):
        encoding = value.get(havasu.RASTER_ENCODING)
        if encoding is not None and isinstance(value.get("id"), int):
            found[value["id"]] = encoding
        for name in ("fields", "type", "element", "key", "value"):
            _find_rasters(value.get(name), found)
    elif isinstance(value, list):
        for item in value:
            _find_rasters(item, found)


def mirrored_properties(schemas: Mapping[int, Schema], current_id: int) -> dict[str, str]:
    """Return the table property that mirrors the field properties of schemas."""
    general: dict[int, dict[str, str]] = {}
    special: dict[tuple[int, int], dict[str, str]] = {}
    order = [current_id, *sorted((i for i in schemas if i != current_id), reverse=True)]
    for schema_id in order:
        for column in descendants(schemas[schema_id].fields):
            properties = _properties(column)
            known = general.setdefault(column.id, properties)
            if known != properties:
                special[schema_id, column.id] = properties
    mirror = {str(number): general[number] for number in sorted(general) if general[number]}
    mirror |= {f"{schema}:{number}": special[schema, number] for schema, number in sorted(special)}
    if not mirror:
        return {}
    return {MIRROR: json.dumps(mirror, ensure_ascii=False, separators=(",", ":"))}


def _properties(field: Field) -> dict[str, str]:
    if field.raster is not None:
        field = collapsed(field)
    geometry = field.geometry
    found = {
        havasu.GEOMETRY_ENCODING: geometry.encoding.value if geometry else None,
        havasu.RASTER_ENCODING: field.raster,
        havasu.CRS: geometry.crs if geometry else None,
        havasu.SHAPE: geometry.shape if geometry else None,
        havasu.SOURCE_TYPE: field.source_type,
        havasu.PHYSICAL_NAME: field.physical_name,
    }
    return {name: item for name, item in found.items() if item is not None} | dict(field.extra)


def restored(
    schemas: Mapping[int, Schema], properties: Mapping[str, str], where: str
) -> dict[int, Schema]:
    """Return schemas with the field properties that the mirror knows and they lack."""
    text = properties.get(MIRROR)
    if text is None:
        return dict(schemas)
    mirror = _parse_mirror(text, where)
    return {
        number: _restored_schema(schema, number, mirror, where)
        for number, schema in schemas.items()
    }


def _parse_mirror(text: str, where: str) -> dict[str, dict[str, str]]:
    place = f"{where} ({MIRROR})"
    value: dict[str, dict[str, str]] = expect(
        parse_json(text.encode(), place), dict, "the mirror", place
    )
    for item in value.values():
        for name, found in expect(item, dict, "a field", place).items():
            expect(found, str, name, place)
    return value


def _restored_schema(
    schema: Schema, schema_id: int, mirror: Mapping[str, Mapping[str, str]], where: str
) -> Schema:
    def restore(field: Field) -> Field:
        known = mirror.get(f"{schema_id}:{field.id}", mirror.get(str(field.id)))
        if known is not None:
            field = _restored_field(field, known, where)
        if field.raster is not None:
            return field
        return mapped(field, inner_types(field.type, restore))

    fields = tuple(restore(field) for field in schema.fields)
    identifiers = {field.id for field in fields if can_identify(field)}
    kept = tuple(i for i in schema.identifier_ids if i in identifiers)
    return _checked(fields, kept, where)


def _restored_field(field: Field, known: Mapping[str, str], where: str) -> Field:
    """Return a field with what is known of it; what no longer fits its type is left out."""
    if known.get(havasu.RASTER_ENCODING) == "v1" and isinstance(field.type, Struct):
        try:
            field = replace(collapsed(field), raster="v1")
        except ValueError:
            return field
    encoding = known.get(havasu.GEOMETRY_ENCODING)
    if field.geometry is None and encoding in list(Encoding):
        coded = Encoding(encoding)
        if field.type == (Primitive.BINARY if coded.is_binary else Primitive.STRING):
            shape = Geometry(coded, known.get(havasu.CRS), known.get(havasu.SHAPE))
            field = replace(field, geometry=shape)
    have = {name for name, _ in field.extra}
    extra = tuple(
        (name, item) for name, item in known.items() if name not in _KNOWN and name not in have
    )
    found = replace(
        field,
        source_type=field.source_type or known.get(havasu.SOURCE_TYPE),
        physical_name=field.physical_name or known.get(havasu.PHYSICAL_NAME),
        extra=(*field.extra, *extra),
    )
    return found if found.raster is None else _whole(found, where)


def _whole(field: Field, where: str) -> Field:
    try:
        return whole(field)
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error


# `schema.name-mapping.default`: which column is which in data files without field ids.
#
#     [{"field-id": 1, "names": ["id", "record_id"]},
#      {"field-id": 2, "names": ["data"], "fields": [{"field-id": 3, "names": ["a.b"]}]}]
#
# A name is literal: `a.b` is a column of that name, not `b` inside `a`. A list's element is
# mapped under `element`, a map's parts under `key` and `value`.

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds a mapping."""


@dataclass(frozen=True, slots=True)
class MappedField:
    """The names that a column may have in files."""

    names: tuple[str, ...] = ()
    """Any of them; none for a column that such files do not have."""
    field_id: int | None = None
    """The column; None for one of files alone, which is passed over."""
    fields: NameMapping = field(default_factory=lambda: NameMapping())
    """The names of its fields."""


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The columns of a table, or of a nested column.

    >>> mapping = NameMapping((MappedField(("id", "record_id"), 1),))
    >>> mapping.find("record_id").field_id, mapping.find("ID")
    (1, None)
    """

    fields: tuple[MappedField, ...] = ()
    """In order."""

    def __post_init__(self) -> None:
        names = [name for each in self.fields for name in each.names]
        if len(set(names)) != len(names):
            raise ValueError("a name is mapped twice")

    def find(self, name: str) -> MappedField | None:
        """Return what a name stands for; None when nothing is known of it."""
        return next((each for each in self.fields if name in each.names), None)


def mapping_of(schema: Schema) -> NameMapping:
    """Return the mapping under which each column has the name that it has now."""
    return _mapping(schema.fields)


def _mapping(fields: Iterable[Field]) -> NameMapping:
    return NameMapping(
        tuple(MappedField((each.name,), each.id, _mapping(children(each.type))) for each in fields)
    )


def format_name_mapping(mapping: NameMapping) -> str:
    """Return the value of the table property."""
    return json.dumps(_to_json(mapping), ensure_ascii=False, separators=(",", ":"))


def _to_json(mapping: NameMapping) -> list[dict[str, Any]]:
    made = []
    for each in mapping.fields:
        item: dict[str, Any] = {} if each.field_id is None else {"field-id": each.field_id}
        item["names"] = list(each.names)
        if each.fields.fields:
            item["fields"] = _to_json(each.fields)
        made.append(item)
    return made


def parse_name_mapping(text: str, where: str) -> NameMapping:
    """Return the mapping of the value of the table property."""
    place = f"{where} ({NAME_MAPPING})"
    try:
        return _from_json(parse_json(text.encode(), place), place, 0)
    except ValueError as error:
        raise CorruptDatasetError(place, str(error)) from error


def _from_json(value: Any, where: str, depth: int) -> NameMapping:
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "it is nested too deeply")
    return NameMapping(
        tuple(
            _field(item, where, depth)
            for item in expect(value, list, "a list of mapped fields", where)
        )
    )


def _field(value: Any, where: str, depth: int) -> MappedField:
    expect(value, dict, "a mapped field", where)
    names = expect(value.get("names"), list, "names", where)
    number = expect(value.get("field-id"), (int, type(None)), "field-id", where)
    inside = value.get("fields")
    return MappedField(
        tuple(expect(name, str, "a name", where) for name in names),
        number,
        NameMapping() if inside is None else _from_json(inside, where, depth + 1),
    )
