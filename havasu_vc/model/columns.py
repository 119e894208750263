"""A schema as Kart's list of columns: the form in which people and tools see it.

Diffs, patches and `meta get` print the schema of either kind of dataset as Kart
does: one object per column with `id`, `name`, `dataType` and what belongs to the
type. For a Havasu dataset the column id is the field id in decimal. Types that Kart
lacks (lists, structs, maps, rasters) appear under names of their own, and so does what
somebody said of a column, its `comment`.

>>> schema = Schema((Field(1, "fid", Primitive.LONG, required=True),), (1,))
>>> columns_of(schema)
[{'id': '1', 'name': 'fid', 'dataType': 'integer', 'primaryKeyIndex': 0, 'size': 64}]
>>> schema_of(columns_of(schema), schema) == schema
True
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.rasters import raster_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    TYPES,
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
    children,
    is_whole,
)

__all__ = ["Column", "columns_of", "moved", "schema_of", "type_of"]

Column = dict[str, Any]
"""One column in Kart's JSON."""

_INTEGER_SIZES = {"int8": 8, "int16": 16, "uint8": 16, "uint16": 32, "uint32": 64}
_KNOWN = frozenset(
    "id name dataType primaryKeyIndex geometryType geometryCRS size length precision scale "
    "timezone element key value fields required rasterEncoding geometryEncoding comment".split()
)


def columns_of(schema: Schema) -> list[Column]:
    """Return a schema as Kart prints it."""
    positions = {field.id: index for index, field in enumerate(schema.key.fields)}
    return [
        _column_of(field, positions.get(field.id)) | ({"comment": field.doc} if field.doc else {})
        for field in schema.fields
    ]


def _column_of(field: Field, key_position: int | None) -> Column:
    column: Column = {"id": str(field.id), "name": field.name, **type_of(field)}
    if key_position is not None:
        rest = {name: column.pop(name) for name in tuple(column)[3:]}
        column |= {"primaryKeyIndex": key_position, **rest}
    return column


def type_of(field: Field) -> Column:
    """Return the attributes of a column that follow from a field's type."""
    if field.geometry is not None:
        shape = {
            "geometryType": field.geometry.shape,
            "geometryCRS": field.geometry.crs,
        }
        given = {name: value for name, value in shape.items() if value is not None}
        return {"dataType": "geometry", **given}
    if field.raster is not None:
        return {"dataType": "raster", "rasterEncoding": field.raster}
    match field.type:
        case Primitive():
            return _primitive(field.type, field.source_type)
        case Decimal(precision, scale):
            return {"dataType": "numeric", "precision": precision, "scale": scale}
        case Fixed(length):
            return {"dataType": "blob", "length": length}
        case Struct(fields):
            return {
                "dataType": "struct",
                "fields": [_column_of(f, None) for f in fields],
            }
        case List(element):
            return {"dataType": "list", "element": _column_of(element, None)}
        case Map(key, value):
            return {
                "dataType": "map",
                "key": _column_of(key, None),
                "value": _column_of(value, None),
            }


def _primitive(type_: Primitive, source: str | None) -> Column:
    column = dict(TYPES[type_].column)
    if is_whole(type_) and source in _INTEGER_SIZES:
        column["size"] = _INTEGER_SIZES[source]
    return column


def schema_of(
    columns: Sequence[Column],
    base: Schema | None = None,
    *,
    new_id: Callable[[], int] | None = None,
    kept_ids: range = range(0),
) -> Schema:
    """Return the schema that a list of columns describes.

    A column whose id is a field of `base` keeps what Kart's form does not say (its
    encoding, the type it came as). A column with an id of `kept_ids` keeps that. Any
    other gets one from `new_id`, which by default counts on from the highest in `base`.
    """
    known = base.by_id if base is not None else {}
    if new_id is None:
        counter = iter(range((base.last_id if base is not None else 0) + 1, 1 << 31))
        new_id = counter.__next__
    fields: list[Field] = []
    keys: list[tuple[int, int]] = []
    for column in columns:
        field = _field_of(column, known, new_id)
        given = str(column.get("id", ""))
        if field.id not in known and given.isdecimal() and int(given) in kept_ids:
            field = replace(field, id=int(given))
        position = column.get("primaryKeyIndex")
        if position is not None:
            if not isinstance(position, int):
                raise SchemaViolationError(f"primaryKeyIndex of {field.name!r} is not a number")
            field = replace(field, required=True)
            keys.append((position, field.id))
        elif field.id in (base.identifier_ids if base is not None else ()):
            field = replace(field, required=False)
        fields.append(field)
    if base is not None:
        _refuse_moves(columns, base)
    if sorted(position for position, _ in keys) != list(range(len(keys))):
        raise SchemaViolationError("primaryKeyIndex must count 0, 1, … over the key columns")
    try:
        return Schema(tuple(fields), tuple(identifier for _, identifier in sorted(keys)))
    except ValueError as error:
        raise SchemaViolationError(f"the schema is not possible: {error}") from error


def _field_of(column: Column, known: dict[int, Field], new_id: Callable[[], int]) -> Field:
    named = isinstance(column, dict) and isinstance(column.get("name"), str)
    if not named or not column["name"]:
        raise SchemaViolationError("each column of a schema is an object with a name")
    name = column["name"]
    unknown = sorted(set(column) - _KNOWN)
    if unknown:
        raise SchemaViolationError(f"column {name!r} has an unknown property {unknown[0]!r}")
    identifier = str(column.get("id", ""))
    old = known.get(int(identifier)) if identifier.isdecimal() else None
    try:
        _check_encodings(column, old)
        type_, geometry = _parse_type(column, old, new_id)
    except KeyError as error:
        raise SchemaViolationError(f"column {name!r} has no {error}") from error
    except (ValueError, TypeError) as error:
        raise SchemaViolationError(f"column {name!r}: {error}") from error
    comment = column.get("comment") or None
    if not isinstance(comment, str | None):
        raise SchemaViolationError(f"the comment of column {name!r} is not text")
    if old is None:
        raster = "v1" if column["dataType"] == "raster" else None
        return Field(new_id(), name, type_, doc=comment, geometry=geometry, raster=raster)
    physical = old.physical_name or (old.name if old.name != name else None)
    same = type_ == old.type
    return replace(
        old,
        name=name,
        type=type_,
        doc=comment,
        geometry=geometry,
        raster="v1" if column["dataType"] == "raster" else None,
        source_type=old.source_type if same else None,
        physical_name=None if physical == name != old.name else physical,
    )


def moved(name: str) -> SchemaViolationError:
    """Return the error of a column that would be inside of another one, or out of it."""
    return SchemaViolationError(
        f"column {name!r} cannot move into another column or out of one",
        hints=("add a column of the same type there, without an id, and fill it",),
    )


def _refuse_moves(columns: Sequence[Column], base: Schema) -> None:
    """Refuse a column that by its id is one of `base`, inside of another one or out of it.

    One that also stands where it was has been copied, and its copy is new.
    """
    before: dict[int, int | None] = {}
    given: list[tuple[int, int | None, str]] = []

    def note(parent: int | None, parts: Sequence[Field]) -> None:
        for part in parts:
            before[part.id] = parent
            note(part.id, children(part.type))

    def walk(parent: int | None, parts: Sequence[Column]) -> None:
        for part in parts:
            text = str(part.get("id", ""))
            number = int(text) if text.isdecimal() else None
            if number in before:
                given.append((number, parent, str(part["name"])))
            inner = part.get("fields") or [
                part[name] for name in ("element", "key", "value") if part.get(name)
            ]
            walk(-1 if number is None else number, inner)

    note(None, base.fields)
    walk(None, columns)
    stayed = {number for number, parent, _ in given if before[number] == parent}
    for number, _, name in given:
        if number not in stayed:
            raise moved(name)


def _check_encodings(column: Column, old: Field | None) -> None:
    """Refuse an encoding that is none, or that the values of a column are not in."""
    raster = column.get("rasterEncoding")
    if raster is not None and column.get("dataType") != "raster":
        raise ValueError("rasterEncoding is said of rasters alone")
    if raster not in (None, "v1"):
        raise ValueError(f"there is no raster encoding {raster!r}, only 'v1'")
    given = column.get("geometryEncoding")
    if given is None:
        return
    if column.get("dataType") != "geometry":
        raise ValueError("geometryEncoding is said of geometries alone")
    if given not in list(Encoding):
        raise ValueError(f"there is no geometry encoding {given!r}, only {', '.join(Encoding)}")
    if old is not None and old.geometry is not None and old.geometry.encoding != given:
        raise ValueError(
            f"its values are {old.geometry.encoding}, which `havasu-vc convert --geometry "
            f"{shlex.quote(old.name)}={given}` changes"
        )


def _parse_type(
    column: Column, old: Field | None, new_id: Callable[[], int]
) -> tuple[Type, Geometry | None]:
    if old is not None and type_of(old) == {
        key: value
        for key, value in column.items()
        if key not in ("id", "name", "primaryKeyIndex", "comment") and value is not None
    }:
        return old.type, old.geometry
    kind = column.get("dataType")
    if kind == "geometry":
        encoding = Encoding(column.get("geometryEncoding") or Encoding.EWKB)
        if old is not None and old.geometry is not None:
            encoding = old.geometry.encoding
        crs, shape = column.get("geometryCRS"), column.get("geometryType")
        if crs is not None and not isinstance(crs, str):
            raise ValueError("geometryCRS must be text")
        if shape is not None and not isinstance(shape, str):
            raise ValueError("geometryType must be text")
        geometry = Geometry(encoding, crs, shape)
        return (Primitive.BINARY if encoding.is_binary else Primitive.STRING), geometry
    if kind == "raster":
        whole = old is not None and old.raster is not None
        return (old.type if whole and old is not None else raster_type(new_id)), None
    return _parse_plain(str(kind), column, None if old is None else old.type, new_id), None


def _parse_plain(kind: str, column: Column, old: Type | None, new_id: Callable[[], int]) -> Type:
    simple = {
        "boolean": Primitive.BOOLEAN,
        "date": Primitive.DATE,
        "time": Primitive.TIME,
        "text": Primitive.STRING,
        "interval": Primitive.STRING,
    }
    if kind in simple:
        return simple[kind]
    match kind:
        case "integer":
            return Primitive.LONG if column.get("size", 64) > 32 else Primitive.INT
        case "float":
            return Primitive.FLOAT if column.get("size", 64) == 32 else Primitive.DOUBLE
        case "numeric":
            return Decimal(column.get("precision") or 38, column.get("scale") or 0)
        case "blob":
            length = column.get("length")
            return Primitive.BINARY if length is None else Fixed(length)
        case "timestamp":
            zoned = column.get("timezone") is not None
            return Primitive.TIMESTAMPTZ if zoned else Primitive.TIMESTAMP
        case "struct":
            known = _known(old if isinstance(old, Struct) else None)
            return Struct(tuple(_field_of(part, known, new_id) for part in column["fields"]))
        case "list":
            known = _known(old if isinstance(old, List) else None)
            return List(_field_of(column["element"], known, new_id))
        case "map":
            known = _known(old if isinstance(old, Map) else None)
            key = replace(_field_of(column["key"], known, new_id), required=True)
            return Map(key, _field_of(column["value"], known, new_id))
        case _:
            raise ValueError(f"there is no data type {kind!r}")


def _known(old: Type | None) -> dict[int, Field]:
    """Return what is directly inside of a type by id: parts that go on being what they were."""
    return {} if old is None else {field.id: field for field in children(old)}
