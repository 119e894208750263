"""Parts that every value of a struct must have, where the struct itself is null.

Arrow does not care what stands inside a null; Parquet's writer refuses a null in a part that
is required even there. `without_gaps` puts something into such places. A value that is there
and lacks a required part is refused.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model import kernels as pc

__all__ = ["has_required_parts", "without_gaps"]

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
