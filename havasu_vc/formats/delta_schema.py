"""The columns of a Delta table as Arrow types, and what they are called in its data files.

With column mapping a column has another name in files, or is found by its field id, so
that renaming and dropping columns rewrites nothing. Columns inside of structs have
names of their own in files too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.records import dataclass

__all__ = ["MAPPING_MODE", "DeltaColumn", "delta_columns", "partition_value"]

MAPPING_MODE = "delta.columnMapping.mode"
"""The table property that says how columns are found in files."""
_PHYSICAL, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DEEPEST = 64
_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column of a table, or of a struct, list or map in it."""

    name: str
    """What people call it."""
    physical: str
    """What files call it."""
    id: int | None
    """Its field id in files, where columns are found by it."""
    type: pa.DataType
    """Its values; geometries are bytes."""
    nullable: bool
    """Whether it may have nulls."""
    parts: tuple[DeltaColumn, ...] = ()
    """The fields of a struct, the element of a list, key and value of a map."""
    geometry: NativeGeometry | None = None
    """What it says of its geometries."""
    comment: str | None = None
    """What its author says of it."""


def delta_columns(
    fields: list[Any], mode: str, where: str, *, depth: int = 0
) -> tuple[DeltaColumn, ...]:
    """Return the columns of a schema; `mode` is `none`, `name` or `id`."""
    if mode not in ("none", "name", "id"):
        raise CorruptDatasetError(where, f"its columns are mapped by {mode!r}")
    return tuple(_column(each, mode, where, depth) for each in fields)


def _column(value: Any, mode: str, where: str, depth: int) -> DeltaColumn:
    expect(value, dict, "a column", where)
    name = expect(value.get("name"), str, "name", where)
    metadata = expect(value.get("metadata") or {}, dict, "metadata", where)
    physical, number = name, None
    if mode != "none":
        physical = expect(metadata.get(_PHYSICAL), str, f"{_PHYSICAL} of {name!r}", where)
    if mode == "id":
        number = expect(metadata.get(_ID), int, f"{_ID} of {name!r}", where)
    comment = metadata.get("comment")
    found = _typed(value.get("type"), name, mode, where, depth)
    return DeltaColumn(
        name,
        physical,
        number,
        found.type,
        value.get("nullable") is not False,
        found.parts,
        found.geometry,
        comment if isinstance(comment, str) else None,
    )


def _typed(type_: Any, name: str, mode: str, where: str, depth: int) -> DeltaColumn:
    """Return a column without its own properties: its type and its parts."""
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    parts: tuple[DeltaColumn, ...] = ()
    geometry = None
    if isinstance(type_, str):
        geometry = _geometry(type_, where)
        arrow = pa.binary() if geometry is not None else _simple(type_, name)
    else:
        kind = expect(type_, dict, f"the type of {name!r}", where).get("type")
        match kind:
            case "struct":
                fields = expect(type_.get("fields"), list, "fields", where)
                parts = delta_columns(fields, mode, where, depth=depth + 1)
                arrow = pa.struct([pa.field(p.name, p.type, p.nullable) for p in parts])
            case "array":
                parts = (_inner(type_, "element", mode, where, depth),)
                arrow = pa.list_(pa.field("element", parts[0].type))
            case "map":
                parts = (
                    _inner(type_, "key", mode, where, depth),
                    _inner(type_, "value", mode, where, depth),
                )
                arrow = pa.map_(parts[0].type, parts[1].type)
            case _:
                raise UnsupportedTypeError(name, f"its type {kind!r} of Delta is not known here")
    return DeltaColumn(name, name, None, arrow, True, parts, geometry)


def _inner(type_: dict[str, Any], what: str, mode: str, where: str, depth: int) -> DeltaColumn:
    return _typed(type_.get(f"{what}Type"), what, mode, where, depth + 1)


def _geometry(text: str, where: str) -> NativeGeometry | None:
    try:
        return NativeGeometry.parse(text)
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error


def _simple(text: str, name: str) -> pa.DataType:
    if (found := _TYPES.get(text)) is not None:
        return found
    if (match := _DECIMAL.fullmatch(text)) is not None:
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise UnsupportedTypeError(name, f"its type {text!r} of Delta is not known here")


def partition_value(text: str | None, type_: pa.DataType, where: str) -> pa.Scalar:
    """Return a value of a partition column, which stands in the log as text.

    >>> partition_value("7", pa.int16(), "t").as_py()
    7
    """
    if text is None or (text == "" and not pa.types.is_string(type_)):
        return pa.scalar(None, type_)
    try:
        if pa.types.is_binary(type_):
            return pa.scalar(text.encode("latin-1"), type_)
        if pa.types.is_timestamp(type_):
            # Some writers end moments in Z, others leave the zone out: both mean UTC.
            plain = pa.scalar(text.removesuffix("Z").replace("T", " "))
            return plain.cast(pa.timestamp("us")).cast(pa.int64()).cast(type_)
        return pa.scalar(text).cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError) as error:
        raise CorruptDatasetError(
            where, f"a file has the impossible partition value {text[:40]!r}"
        ) from error
