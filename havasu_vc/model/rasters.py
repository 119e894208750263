"""Raster columns: the parts that a value of encoding `v1` has, their ids and Arrow types.

    optional group {
      required int32 width, height, num_bands;  optional string crs_wkt;
      required group geo_reference { required double scale_x, scale_y, skew_x, skew_y,
                                     upperleft_x, upperleft_y }
      optional group band_1, band_2, band_3, band_4 { band };
      optional list bands { band } }                      the fifth and later ones
    band = required int32 pixel_type;  optional binary no_data, data;
           optional int32 out_db_band_no;  optional string out_db_url

The Havasu specification declares a raster as an empty struct; its 42 parts stand only in
Parquet files. Readers find parts by field id, so they need ids that no other column ever
has: each raster column owns a block of 42 ids, drawn when it is added. In the model the
type of a raster column is the whole struct, parts numbered as Iceberg numbers a new one
(all fields of a struct before what is inside them); it is empty only while no block is
known, in documents of others. Ids of parts never tell one raster value from another.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model import compute as pc
from havasu_vc.model.types import Field, List, Map, Primitive, Struct, Type, children

__all__ = [
    "BAND_TYPE",
    "RASTER_IDS",
    "RASTER_PARTS",
    "RASTER_TYPE",
    "collapsed",
    "has_required_parts",
    "holds_rasters",
    "is_raster_type",
    "raster_field",
    "raster_fields",
    "raster_ids",
    "raster_type",
    "whole",
    "with_blocks",
    "without_gaps",
]


RASTER_IDS: Final = "havasu-vc.raster-ids"
"""The field property that remembers a raster's block in documents."""

_GEOREFERENCE: Final = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
_NAMED: Final = ("band_1", "band_2", "band_3", "band_4")

BAND_TYPE: Final = pa.struct(
    [
        pa.field("pixel_type", pa.int32(), nullable=False),
        pa.field("no_data", pa.binary()),
        pa.field("data", pa.binary()),
        pa.field("out_db_band_no", pa.int32()),
        pa.field("out_db_url", pa.string()),
    ]
)
"""The Arrow type of a band."""
RASTER_TYPE: Final = pa.struct(
    [
        *(pa.field(name, pa.int32(), nullable=False) for name in ("width", "height", "num_bands")),
        pa.field("crs_wkt", pa.string()),
        pa.field(
            "geo_reference",
            pa.struct([pa.field(name, pa.float64(), nullable=False) for name in _GEOREFERENCE]),
            nullable=False,
        ),
        *(pa.field(name, BAND_TYPE) for name in _NAMED),
        pa.field("bands", pa.list_(pa.field("element", BAND_TYPE))),
    ]
)
"""The Arrow type of a raster column."""

_Shape = tuple[tuple[str, Primitive, bool], ...]
_REFERENCE_SHAPE: _Shape = tuple((name, Primitive.DOUBLE, True) for name in _GEOREFERENCE)
_BAND_SHAPE: _Shape = (
    ("pixel_type", Primitive.INT, True),
    ("no_data", Primitive.BINARY, False),
    ("data", Primitive.BINARY, False),
    ("out_db_band_no", Primitive.INT, False),
    ("out_db_url", Primitive.STRING, False),
)
RASTER_PARTS: Final = 10 + len(_REFERENCE_SHAPE) + 5 * len(_BAND_SHAPE) + 1
"""How many fields a raster has inside: 42."""


def raster_fields(ids: tuple[int, ...]) -> tuple[Field, ...]:
    """Return the fields of raster v1 with the given ids, in the order of Iceberg's numbering."""
    if len(ids) != RASTER_PARTS:
        raise ValueError(f"a raster has {RASTER_PARTS} parts, not {len(ids)}")
    numbers = iter(ids)
    width, height, num_bands, crs, reference, *bands, rest = (next(numbers) for _ in range(10))
    georeference = _struct(_REFERENCE_SHAPE, numbers)
    inner = [_struct(_BAND_SHAPE, numbers) for _ in _NAMED]
    element = next(numbers)
    return (
        Field(width, "width", Primitive.INT, required=True),
        Field(height, "height", Primitive.INT, required=True),
        Field(num_bands, "num_bands", Primitive.INT, required=True),
        Field(crs, "crs_wkt", Primitive.STRING),
        Field(reference, "geo_reference", georeference, required=True),
        *(Field(*each) for each in zip(bands, _NAMED, inner, strict=True)),
        Field(rest, "bands", List(Field(element, "element", _struct(_BAND_SHAPE, numbers)))),
    )


def _struct(shape: _Shape, numbers: Iterator[int]) -> Struct:
    return Struct(
        tuple(Field(next(numbers), name, type_, required) for name, type_, required in shape)
    )


def raster_type(new_id: Callable[[], int]) -> Struct:
    """Return the type of a new raster column, its parts with new ids."""
    return Struct(raster_fields(tuple(new_id() for _ in range(RASTER_PARTS))))


def raster_field(number: int, name: str, first: int) -> Field:
    """Return a raster column whose block begins at an id.

    >>> raster_ids(raster_field(2, "rast", 3))[-1]
    44
    """
    ids = tuple(range(first, first + RASTER_PARTS))
    return Field(number, name, Struct(raster_fields(ids)), raster="v1")


def raster_ids(field: Field) -> tuple[int, ...] | None:
    """Return the ids of a raster's parts, None when no block is known.

    ValueError when a property names them and is no list of ids.
    """
    if field.type != Struct(()):
        return part_ids(field.type)
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


def part_ids(type_: Type) -> tuple[int, ...] | None:
    """Return the ids inside a type in the order of Iceberg's numbering, None if not 42."""
    ids: list[int] = []

    def walk(inside: Type) -> None:
        parts = children(inside)
        ids.extend(part.id for part in parts)
        for part in parts:
            walk(part.type)

    walk(type_)
    return tuple(ids) if len(ids) == RASTER_PARTS else None


def with_blocks(field: Field, new_id: Callable[[], int]) -> Field:
    """Return a field whose rasters, at any depth, are whole; new ids where no block is known."""
    if field.raster is None:
        match field.type:
            case Struct(fields):
                inside: Type = Struct(tuple(with_blocks(part, new_id) for part in fields))
            case List(element):
                inside = List(with_blocks(element, new_id))
            case Map(key, value):
                inside = Map(with_blocks(key, new_id), with_blocks(value, new_id))
            case _:
                return field
        return replace(field, type=inside)
    found = whole(field)
    return replace(found, type=raster_type(new_id)) if found.type == Struct(()) else found


def whole(field: Field) -> Field:
    """Return a raster column with the type that its block gives; as it is where none is known."""
    ids = raster_ids(field)
    if ids is None:
        return field
    others = tuple(pair for pair in field.extra if pair[0] != RASTER_IDS)
    return replace(field, type=Struct(raster_fields(ids)), extra=others)


def collapsed(field: Field) -> Field:
    """Return a raster column as documents declare it: an empty struct that remembers its block.

    ValueError when its type is neither empty nor the struct of raster v1.

    >>> collapsed(raster_field(2, "rast", 3)).extra
    (('havasu-vc.raster-ids', '3'),)
    """
    if field.type == Struct(()):
        return field
    ids = part_ids(field.type)
    if ids is None or _plain(Struct(raster_fields(ids))) != _plain(field.type):
        raise ValueError(f"raster column {field.name!r} is not the struct of raster v1")
    in_order = ids == tuple(range(ids[0], ids[0] + RASTER_PARTS))
    text = str(ids[0]) if in_order else ",".join(map(str, ids))
    others = tuple(pair for pair in field.extra if pair[0] != RASTER_IDS)
    return replace(field, type=Struct(()), extra=(*others, (RASTER_IDS, text)), raster="v1")


def _plain(type_: Type) -> object:
    """Return names and simple types alone: engines lose requiredness and comments."""
    return tuple((part.name, _plain(part.type) or str(part.type)) for part in children(type_))


def holds_rasters(field: Field) -> bool:
    """Whether a column is a raster, or has one inside."""
    return field.raster is not None or any(map(holds_rasters, children(field.type)))


def is_raster_type(type_: pa.DataType) -> bool:
    """Whether an Arrow type is that of a raster column, nullability aside.

    >>> is_raster_type(RASTER_TYPE), is_raster_type(BAND_TYPE)
    (True, False)
    """
    return pa.types.is_struct(type_) and _alike(type_, RASTER_TYPE)


def _alike(type_: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(wanted):
        return (
            pa.types.is_struct(type_)
            and [part.name for part in type_] == [part.name for part in wanted]
            and all(_alike(mine.type, its.type) for mine, its in zip(type_, wanted, strict=True))
        )
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(type_) or pa.types.is_large_list(type_)
        return listed and _alike(type_.value_type, wanted.value_type)
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))
    return bool(type_ == wanted)


# Parts that every value of a struct must have, where the struct itself is null.
#
# Arrow does not care what stands inside a null; Parquet's writer refuses a null in a part that
# is required even there. `without_gaps` puts something into such places. A value that is there
# and lacks a required part is refused.

_Mask = npt.NDArray[np.bool_]


def has_required_parts(type_: pa.DataType) -> bool:
    """Whether there are required parts inside a type at any depth.

    >>> has_required_parts(pa.struct([pa.field("a", pa.int8(), nullable=False)]))
    True
    """
    if not pa.types.is_nested(type_) or pa.types.is_map(type_):
        return False
    parts = [type_.field(index) for index in range(type_.num_fields)]
    return any(not part.nullable or has_required_parts(part.type) for part in parts)


def without_gaps(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column with a value in each required part of what is null; else as it is."""
    if not has_required_parts(field.type):
        return column
    return _filled(column, field, np.ones(len(column), np.bool_), field.name)


def _filled(column: pa.Array, field: pa.Field, there: _Mask, name: str) -> pa.Array:
    """Return a column that lies in a value which is there where `there` says so."""
    if not field.nullable and column.null_count:
        missing = pc.is_null(column).to_numpy(zero_copy_only=False)
        if (missing & there).any():
            raise SchemaViolationError(f"a value of column {name!r} is not there, and must be")
    if pa.types.is_struct(field.type):
        return _filled_struct(column, field, there, name)
    if pa.types.is_list(field.type) and has_required_parts(field.type):
        return _filled_list(column, field, name)
    if field.nullable or not column.null_count:
        return column
    return pc.fill_null(column, _anything(column.type))


def _filled_struct(column: pa.Array, field: pa.Field, there: _Mask, name: str) -> pa.Array:
    if column.null_count:
        there = there & pc.is_valid(column).to_numpy(zero_copy_only=False)
    parts = [field.type.field(index) for index in range(field.type.num_fields)]
    arrays = [
        _filled(column.field(index), part, there, f"{name}.{part.name}")
        for index, part in enumerate(parts)
    ]
    mask = pc.is_null(column) if column.null_count and field.nullable else None
    return pa.StructArray.from_arrays(arrays, fields=parts, mask=mask)


def _filled_list(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    offsets = column.offsets.to_numpy()
    element = field.type.value_field
    values = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    there = np.ones(len(values), np.bool_)
    return pa.ListArray.from_arrays(
        pa.array(offsets - offsets[0]),
        _filled(values, element, there, f"{name}.{element.name}"),
        type=field.type,
        mask=pc.is_null(column) if column.null_count and field.nullable else None,
    )


def _anything(type_: pa.DataType) -> pa.Scalar[Any]:
    """Return some value of a type."""
    if pa.types.is_boolean(type_):
        return pa.scalar(False)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pa.scalar("", type_)
    if pa.types.is_fixed_size_binary(type_) and not pa.types.is_decimal(type_):
        return pa.scalar(bytes(type_.byte_width), type_)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pa.scalar(b"", type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(decimal.Decimal(0), type_)
    if pa.types.is_temporal(type_):
        width = pa.int64() if type_.bit_width == 64 else pa.int32()
        return pc.cast(pa.scalar(0, width), type_)
    return pc.cast(pa.scalar(0), type_)
