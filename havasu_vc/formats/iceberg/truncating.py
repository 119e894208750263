"""The transforms `truncate`, `year`, `month`, `day` and `hour`, of one value and of arrays."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.formats.iceberg.single_values import from_plain, to_plain
from havasu_vc.model import kernels as pc
from havasu_vc.model.types import Decimal, Primitive, Type

__all__ = ["since_epoch", "since_epoch_array", "truncate", "truncate_array"]

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR


def truncate(value: Any, source: Type, width: int) -> Any:
    """Return a number rounded down to a multiple, or the first so many characters or bytes."""
    match source:
        case Primitive.INT | Primitive.LONG:
            return value - value % width
        case Decimal():
            unscaled = to_plain(value, source)
            number: Number = from_plain(unscaled - unscaled % width, source)
            return number
        case _:
            return value[:width]


def truncate_array(values: pa.Array, source: Type, width: int) -> pa.Array:
    """Return `truncate` of each value."""
    match source:
        case Primitive.INT | Primitive.LONG:
            filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
            kept = filled - filled % filled.dtype.type(width)
            return pa.array(
                kept, values.type, mask=pc.is_null(values).to_numpy(zero_copy_only=False)
            )
        case Primitive.STRING:
            return pc.utf8_slice_codeunits(values, 0, width)
        case Primitive.BINARY:
            return pc.binary_slice(values, 0, width)
        case _:
            unique = pc.dictionary_encode(values)
            cut = [
                None if value is None else truncate(value, source, width)
                for value in unique.dictionary.to_pylist()
            ]
            return pc.take(pa.array(cut, values.type), unique.indices)


def since_epoch(value: Any, source: Type, unit: str, result: Type) -> Any:
    """Return the years, months, days or hours from 1970 on to a date or an instant."""
    plain = to_plain(value, source)
    if unit == "hour":
        return plain // _HOUR
    days = plain if source is Primitive.DATE else plain // _DAY
    if unit == "day":
        return from_plain(days, result)
    then = date(1970, 1, 1) + timedelta(days=days)
    years = then.year - 1970
    return years if unit == "year" else years * 12 + then.month - 1


def since_epoch_array(values: pa.Array, unit: str, result: Type) -> pa.Array:
    """Return `since_epoch` of each value."""
    if pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp(values.type.unit))
    times = values.to_numpy(zero_copy_only=False)
    counts = times.astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    plain = pa.array(np.where(missing, 0, counts).astype(np.int32), pa.int32(), mask=missing)
    return pc.cast(plain, pa.date32()) if result is Primitive.DATE else plain
