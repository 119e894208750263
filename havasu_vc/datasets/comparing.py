"""Which cells and rows of two aligned batches are equal.

Equal means the same value: geometries by coordinates and SRID whatever their bytes,
floats by their bits except that every NaN equals every other, nested values part by
part. A null equals a null and nothing else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.wkb import equal as equal_geometries
from havasu_vc.model import kernels as pc
from havasu_vc.model.evolution import widens
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, List, Map, Primitive, Struct, Type

__all__ = ["Mask", "alike", "comparable", "equal_columns", "equal_rows"]

Mask = npt.NDArray[np.bool_]


def equal_rows(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> Mask:
    """Return which rows are equal: in all columns that both schemas have, and null in added ones.

    A column that only the old schema has counts for nothing, as dropping it changes no row.
    """
    same = np.ones(old.num_rows, bool)
    for index, field in enumerate(new_schema.fields):
        column = new.column(index)
        before = old_schema.by_id.get(field.id)
        if before is None:
            if column.null_count < len(column):
                same &= ~_valid(column)
            continue
        same &= equal_columns(old.column(before.name), column, before, field)
    return same


def equal_columns(old: pa.Array, new: pa.Array, before: Field, field: Field) -> Mask:
    """Return which values of two aligned columns are equal."""
    geometries = before.geometry is not None and field.geometry is not None
    if not (geometries or comparable(before.type, field.type)):
        return ~(_valid(old) | _valid(new))
    # Array.equals holds NaN to differ from itself, so only a yes can be trusted.
    if old.equals(new):
        return np.ones(len(old), bool)
    if before.raster is not None and field.raster is not None:
        before = field  # parts of both stand in one order, whatever their ids are
    if before.geometry is not None and field.geometry is not None:
        same = equal_geometries(old, new, before.geometry.encoding, field.geometry.encoding)
        return _both(same, old, new)
    if not pa.types.is_nested(new.type):
        old, new = alike(old, new)
    match field.type:
        case Struct(fields) if isinstance(before.type, Struct):
            return _equal_structs(old, new, before.type.fields, fields)
        case List(element) if isinstance(before.type, List):
            return _equal_lists(old, new, ((old.values, new.values, before.type.element, element),))
        case Map(key, value) if isinstance(before.type, Map):
            parts = (
                (old.keys, new.keys, before.type.key, key),
                (old.items, new.items, before.type.value, value),
            )
            return _equal_lists(old, new, parts)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return _both(_equal_floats(old, new), old, new)
        case _:
            return _both(pc.equal(old, new), old, new)


def comparable(one: Type, other: Type) -> bool:
    """Whether values of two types can be equal: one is the other, or is widened to it.

    Tables that were made apart may have one field id for columns of any types.
    """
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.scale == other.scale
    if isinstance(one, Struct | List | Map):
        return type(one) is type(other)
    return widens(one, other) or widens(other, one)


def alike(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return two columns of one field in one type, the wider of theirs: either may be older."""
    if old.type == new.type:
        return old, new
    first, second = old.type, new.type
    if pa.types.is_decimal(first) and pa.types.is_decimal(second):
        wider = first if first.precision > second.precision else second
    elif pa.types.is_primitive(first) and pa.types.is_primitive(second):
        wider = first if first.bit_width > second.bit_width else second
    else:
        wider = second
    return pc.cast(old, wider), pc.cast(new, wider)


def _valid(column: pa.Array) -> Mask:
    valid: Mask = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return valid


def _both(same: pa.BooleanArray, old: pa.Array, new: pa.Array) -> Mask:
    if not (old.null_count or new.null_count):
        result: Mask = same.to_numpy(zero_copy_only=False)
        return result
    equal: Mask = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    first, second = _valid(old), _valid(new)
    return (equal & first & second) | ~(first | second)


def _equal_floats(old: pa.Array, new: pa.Array) -> pa.BooleanArray:
    bits = pa.int32() if pa.types.is_float32(new.type) else pa.int64()
    nan = pc.and_(pc.is_nan(old), pc.is_nan(new))
    return pc.or_(pc.equal(old.view(bits), new.view(bits)), nan)


def _equal_structs(
    old: pa.StructArray, new: pa.StructArray, before: tuple[Field, ...], fields: tuple[Field, ...]
) -> Mask:
    known = {field.id: (field, child) for field, child in zip(before, old.flatten(), strict=True)}
    same = np.ones(len(new), bool)
    for field, child in zip(fields, new.flatten(), strict=True):
        if field.id in known:
            was, values = known[field.id]
            same &= equal_columns(values, child, was, field)
        else:
            same &= ~_valid(child)
    first, second = _valid(old), _valid(new)
    return (same & first & second) | ~(first | second)


def _equal_lists(
    old: pa.Array, new: pa.Array, parts: tuple[tuple[pa.Array, pa.Array, Field, Field], ...]
) -> Mask:
    first, second = _valid(old), _valid(new)
    starts = [side.offsets.to_numpy().astype(np.int64) for side in (old, new)]
    lengths = [np.diff(offsets) for offsets in starts]
    candidates = np.flatnonzero(first & second & (lengths[0] == lengths[1]))
    counts = lengths[0][candidates]
    same = ~(first | second)
    same[candidates] = True
    if not counts.sum():
        return same
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(candidates, counts)
    index = [pa.array(np.repeat(offsets[:-1][candidates], counts) + within) for offsets in starts]
    for left, right, before, field in parts:
        equal = equal_columns(pc.take(left, index[0]), pc.take(right, index[1]), before, field)
        same[rows[~equal]] = False
    return same
