"""Schemas as Arrow: the types rows have in memory and in Parquet files.

Every Iceberg type has one Arrow type, the *stored* type; a raster is the whole struct of
`model.rasters`. A column that came as something Iceberg lacks (unsigned and small
integers, float16, dictionaries, times of other units) is stored as the next type that
holds every value of it, and `Field.source_type` remembers the original, which
`model.source_types` gives back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.model import compute as pc
from havasu_vc.model.rasters import RASTER_TYPE, is_raster_type, raster_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    TYPES,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)

__all__ = [
    "FIELD_ID",
    "INT96",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "schema_from_arrow",
    "to_stored",
]

INT96: Mapping[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""How old moments of Parquet are read: as nanoseconds, years before 1678 would be others."""
FIELD_ID = b"PARQUET:field_id"
"""The key under which pyarrow keeps Parquet field ids."""


def _arrow(text: str) -> pa.DataType:
    """Return the Arrow type that Arrow prints so."""
    match text:
        case "date32[day]":
            return pa.date32()
        case "timestamp[us, tz=UTC]":
            return pa.timestamp("us", tz="UTC")
        case "fixed_size_binary[16]":
            return pa.binary(16)
        case _:
            return pa.type_for_alias(text)


_PRIMITIVES: dict[Primitive, pa.DataType] = {
    primitive: _arrow(row.arrow) for primitive, row in TYPES.items()
}
_FROM_ARROW: dict[pa.DataType, Primitive] = {
    type_: primitive for primitive, type_ in _PRIMITIVES.items() if primitive is not Primitive.UUID
}
_WIDENED: dict[pa.DataType, Type] = {
    pa.int8(): Primitive.INT,
    pa.int16(): Primitive.INT,
    pa.uint8(): Primitive.INT,
    pa.uint16(): Primitive.INT,
    pa.uint32(): Primitive.LONG,
    pa.uint64(): Decimal(20, 0),
    pa.float16(): Primitive.FLOAT,
    pa.large_string(): Primitive.STRING,
    pa.string_view(): Primitive.STRING,
    pa.large_binary(): Primitive.BINARY,
    pa.binary_view(): Primitive.BINARY,
    pa.date64(): Primitive.DATE,
    pa.time32("s"): Primitive.TIME,
    pa.time32("ms"): Primitive.TIME,
    pa.time64("ns"): Primitive.TIME,
    pa.null(): Primitive.STRING,
}
_SOURCES: dict[str, pa.DataType] = {str(type_): type_ for type_ in _WIDENED}
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DURATION = re.compile(r"duration\[(s|ms|us|ns)\]")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(u?int(?:8|16|32|64))>")
_DECIMAL = re.compile(r"decimal(32|64|256)\((\d+), (\d+)\)")
_FIXED_LIST = re.compile(r"fixed_size_list\[(\d+)\]")


def arrow_type(type_: Type) -> pa.DataType:
    """Return the stored Arrow type."""
    match type_:
        case Primitive():
            return _PRIMITIVES[type_]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length):
            return pa.binary(length)
        case Struct(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case List(element):
            return pa.list_(arrow_field(element))
        case Map(key, value):
            return pa.map_(arrow_field(key), arrow_field(value))


def arrow_field(field: Field, *, physical: bool = False) -> pa.Field:
    """Return the stored Arrow field, which carries the field id.

    With `physical` it is called as in our files. Parts of a column need no names of their
    own there: nobody looks for them but by id.

    A raster is whole even where its column is declared as an empty struct; its parts carry
    ids where a block of them is known.
    """
    unknown = field.raster is not None and field.type == Struct(())
    return pa.field(
        field.stored_name if physical else field.name,
        RASTER_TYPE if unknown else arrow_type(field.type),
        nullable=not field.required,
        metadata={FIELD_ID: str(field.id).encode()},
    )


def arrow_schema(schema: Schema, *, physical: bool = False) -> pa.Schema:
    """Return the Arrow schema that rows have in memory, or in our files."""
    return pa.schema([arrow_field(field, physical=physical) for field in schema.fields])


def schema_from_arrow(source: pa.Schema, *, key: tuple[str, ...] = ()) -> Schema:
    """Return the schema that holds every value of an Arrow schema; ids count from 1.

    Geometry columns are plain binary or text here; whoever knows says so afterwards.
    Rasters are told by their type, which nothing else has.
    """
    names = source.names
    ids = iter(range(len(names) + 1, 1 << 30))
    fields = []
    for number, name in enumerate(names, 1):
        _require_name(name, name)
        field = source.field(name)
        if is_raster_type(field.type):
            fields.append(Field(number, name, raster_type(lambda: next(ids)), raster="v1"))
            continue
        type_, original = stored_type(field.type, name, lambda: next(ids))
        required = name in key
        fields.append(Field(number, name, type_, required=required, source_type=original))
    wanted = tuple(field.id for field in fields if field.name in key)
    return Schema(tuple(fields), wanted)


def stored_type(
    source: pa.DataType, column: str, next_id: Callable[[], int]
) -> tuple[Type, str | None]:
    """Return the type that stores an Arrow type, and the original's name if it differs."""
    if isinstance(source, pa.BaseExtensionType):
        inner, original = stored_type(source.storage_type, column, next_id)
        if source.extension_name == "arrow.uuid":
            return Primitive.UUID, None
        return inner, original
    if source in _FROM_ARROW:
        return _FROM_ARROW[source], None
    if source in _WIDENED:
        return _WIDENED[source], str(source)
    if pa.types.is_decimal(source):
        return _stored_decimal(source, column)
    if pa.types.is_timestamp(source):
        zoned = source.tz is not None
        return (Primitive.TIMESTAMPTZ if zoned else Primitive.TIMESTAMP), str(source)
    if pa.types.is_duration(source):
        return Primitive.LONG, str(source)
    if pa.types.is_fixed_size_binary(source):
        return Fixed(source.byte_width), None
    if pa.types.is_dictionary(source):
        inner, _ = stored_type(source.value_type, column, next_id)
        if not isinstance(inner, Primitive | Decimal | Fixed):
            raise UnsupportedTypeError(column, f"{source} has nested dictionary values")
        return (
            inner,
            f"dictionary<values={source.value_type}, indices={source.index_type}>",
        )
    return _stored_nested(source, column, next_id)


def _stored_decimal(source: pa.DataType, column: str) -> tuple[Type, str | None]:
    if source.precision > 38 or not 0 <= source.scale <= source.precision:
        raise UnsupportedTypeError(column, f"{source} has more than 38 digits or a negative scale")
    stored = Decimal(source.precision, source.scale)
    return stored, None if pa.types.is_decimal128(source) else str(source)


def _stored_nested(
    source: pa.DataType, column: str, next_id: Callable[[], int]
) -> tuple[Type, str | None]:
    def inside(field: pa.Field, name: str, *, required: bool) -> Field:
        number = next_id()
        type_, original = stored_type(field.type, f"{column}.{name}", next_id)
        return Field(number, name, type_, required=required, source_type=original)

    if pa.types.is_struct(source):
        if source.num_fields == 0:
            raise UnsupportedTypeError(column, "a struct without fields")
        parts = [source.field(index) for index in range(source.num_fields)]
        for part in parts:
            _require_name(part.name, column)
        if len({part.name for part in parts}) < len(parts):
            raise UnsupportedTypeError(column, "two parts of a struct have one name")
        return Struct(tuple(inside(part, part.name, required=False) for part in parts)), None
    if pa.types.is_map(source):
        key = inside(source.key_field, "key", required=True)
        return Map(key, inside(source.item_field, "value", required=False)), None
    if pa.types.is_list(source):
        return List(inside(source.value_field, "element", required=False)), None
    if pa.types.is_large_list(source):
        return List(inside(source.value_field, "element", required=False)), "large_list"
    if pa.types.is_fixed_size_list(source):
        name = f"fixed_size_list[{source.list_size}]"
        return List(inside(source.value_field, "element", required=False)), name
    raise UnsupportedTypeError(
        column,
        f"{source} has no counterpart",
        hints=("leave the column out with --columns",),
    )


def _require_name(name: str, column: str) -> None:
    """Refuse names that no other program could use."""
    if not name:
        raise UnsupportedTypeError(column, "it, or a part of it, has no name", hints=_NAME_HINTS)
    if "\x00" in name:
        raise UnsupportedTypeError(
            column, "its name, or that of a part, has a NUL character", hints=_NAME_HINTS
        )


_NAME_HINTS = ("give it a name in the source, or leave it out with --leave-out",)


def to_stored(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return a batch that came from elsewhere in the stored types of `schema`, by name.

    Raises `UnsupportedTypeError` for a value that the stored type cannot hold.
    """
    target = arrow_schema(schema)
    columns = []
    for field, wanted in zip(schema.fields, target, strict=True):
        column = batch.column(field.name)
        columns.append(_cast(column, wanted.type, field))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _cast(column: pa.Array, wanted: pa.DataType, field: Field) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type == wanted:
        return column
    try:
        return pc.cast(column, wanted)
    except pa.ArrowNotImplementedError:
        # A few pairs only cast in two steps.
        if pa.types.is_duration(column.type):
            return pc.cast(column, pa.int64())
        if pa.types.is_dictionary(column.type):
            return _cast(column.dictionary_decode(), wanted, field)
        raise UnsupportedTypeError(
            field.name, f"{column.type} cannot be read as {field.type}"
        ) from None
    except (pa.ArrowInvalid, OverflowError) as error:
        raise UnsupportedTypeError(
            field.name,
            f"a value does not fit {field.type}: {str(error).splitlines()[0]}",
            hints=("leave the column out with --columns, or change its type in the source",),
        ) from error


def source_type(field: Field) -> pa.DataType:
    """Return the Arrow type that a column first came as."""
    if field.raster is not None:
        return RASTER_TYPE
    stored = _source_nested(field)
    name = field.source_type
    if name is None:
        return stored
    if name in _SOURCES:
        return _SOURCES[name]
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], tz=match[2])
    if match := _DURATION.fullmatch(name):
        return pa.duration(match[1])
    if match := _DECIMAL.fullmatch(name):
        return _DECIMALS[match[1]](int(match[2]), int(match[3]))
    if match := _DICTIONARY.fullmatch(name):
        return pa.dictionary(_INDICES[match[2]], stored)
    if name == "large_list" and isinstance(field.type, List):
        return pa.large_list(stored.value_field)
    if (match := _FIXED_LIST.fullmatch(name)) and isinstance(field.type, List):
        return pa.list_(stored.value_field, int(match[1]))
    return stored  # a name from a later version: the stored type holds every value


def _source_nested(field: Field) -> pa.DataType:
    match field.type:
        case Struct(fields):
            return pa.struct([pa.field(f.name, source_type(f)) for f in fields])
        case List(element):
            return pa.list_(pa.field("element", source_type(element)))
        case Map(key, value):
            return pa.map_(
                pa.field("key", source_type(key), nullable=False),
                pa.field("value", source_type(value)),
            )
        case _:
            return arrow_type(field.type)


_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "256": pa.decimal256}
_INDICES = {
    str(type_): type_
    for type_ in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    )
}


def bounded(
    batches: Iterator[pa.RecordBatch], most_bytes: int, most_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches cut at a size in bytes and rows."""
    for batch in batches:
        size = batch.get_total_buffer_size() if batch.num_rows else 0
        pieces = max(-(-size // most_bytes), -(-batch.num_rows // most_rows), 1)
        step = max(-(-batch.num_rows // pieces), 1)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def gathered(
    batches: Iterable[pa.RecordBatch], most: int, size: Callable[[pa.RecordBatch], int]
) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches by as many as reach a size together; what is left comes last."""
    waiting: list[pa.RecordBatch] = []
    total = 0
    for batch in batches:
        waiting.append(batch)
        total += size(batch)
        if total >= most:
            yield waiting
            waiting, total = [], 0
    if waiting:
        yield waiting
