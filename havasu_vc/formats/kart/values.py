"""Columns of Python values, as msgpack has them, to and from columns of Arrow.

Text stands for dates, times, intervals and decimal numbers: the shortest that is exact,
without a zone. Geometries are GeoPackage binary. A value that its column cannot hold is
`ValueError`; whoever knows the rows looks for the one to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Field, Primitive

__all__ = ["GeometryBytes", "column_of", "values_of"]


class GeometryBytes(bytes):
    """A geometry as GeoPackage binary, told apart from other bytes."""

    __slots__ = ()


def column_of(values: Sequence[Any], field: Field) -> pa.Array:
    """Return values as a column of a field's stored type; None is null."""
    type_ = arrow_type(field.type)
    if field.geometry is not None:
        wkb, _ = to_canonical(pa.array(_only(values, GeometryBytes), pa.binary()), "gpkg")
        return pc.cast(from_canonical(wkb, None, "ewkb"), type_)
    match field.type:
        case Primitive.INT | Primitive.LONG:
            return pa.array(_not_bools(values), type_)
        case Primitive.DOUBLE:
            return _doubles(values)
        case Primitive.BOOLEAN:
            return pa.array(_bools(values), type_)
        case Primitive.STRING:
            return pa.array(_only(values, str), type_)
        case Primitive.BINARY:
            return pa.array(_only(values, bytes), type_)
        case Primitive.DATE:
            return pc.cast(pa.array(_only(values, str), pa.string()), type_)
        case Primitive.TIME:
            text = pc.utf8_rtrim(pa.array(_only(values, str), pa.string()), "Z")
            whole = pc.binary_join_element_wise("1970-01-01T", text, "")
            return pc.cast(pc.cast(whole, pa.timestamp("us")), type_)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            text = pc.utf8_rtrim(pa.array(_only(values, str), pa.string()), "Z")
            return pc.cast(pc.cast(text, pa.timestamp("us")), type_)
        case Decimal():
            digits = [value if value is None else str(value) for value in values]
            return pc.cast(pa.array(digits, pa.string()), type_)
        case _:
            raise TypeError(f"{field.type} is in no dataset of Kart")


def values_of(column: pa.Array, field: Field, *, marked: bool = False) -> list[Any]:
    """Return a column of a Kart schema as the values that msgpack takes.

    Geometries are plain bytes, or told apart from others if they are to be `marked`.
    """
    if field.geometry is not None:
        wkb, srids = to_canonical(column, field.geometry.encoding)
        packed = _objects(from_canonical(wkb, srids, "gpkg", drop_srids=True))
        return [value and GeometryBytes(value) for value in packed] if marked else packed
    match field.type:
        case Primitive.INT | Primitive.LONG | Primitive.DOUBLE | Primitive.BOOLEAN:
            return _numbers(column)
        case Primitive.DATE:
            return _objects(pc.cast(column, pa.string()))
        case Primitive.TIME:
            return _objects(_trimmed(pc.cast(column, pa.string())))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            text = _trimmed(pc.cast(pc.cast(column, pa.timestamp("us")), pa.string()))
            return _objects(pc.replace_substring(text, " ", "T", max_replacements=1))
        case Decimal(_, scale):
            return _objects(_digits(column, scale))
        case _:
            return _objects(column)


def _only(values: Sequence[Any], kind: type) -> Sequence[Any]:
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError("a value has another type")
    return values


def _not_bools(values: Sequence[Any]) -> Sequence[Any]:
    kinds = {type(value) for value in values}
    if kinds <= {int, type(None)}:
        return values
    if kinds <= {int, float, type(None)} and all(v is None or v == int(v) for v in values):
        return [None if value is None else int(value) for value in values]
    raise TypeError("a value is no whole number")


def _doubles(values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values}
    if not kinds <= {int, float, type(None)}:
        raise TypeError("a value is no number")
    if int in kinds:
        exact = [float(value) if type(value) is int else value for value in values]
        if any(type(v) is int and v != f for v, f in zip(values, exact, strict=True)):
            raise ValueError("a whole number that no float holds")
        values = exact
    return pa.array(values, pa.float64())


def _bools(values: Sequence[Any]) -> Sequence[Any]:
    kinds = {type(value) for value in values}
    if kinds <= {bool, type(None)}:
        return values
    if kinds <= {bool, int, type(None)} and all(v in (None, 0, 1) for v in values):
        return [None if value is None else bool(value) for value in values]
    raise TypeError("a value is neither true nor false")


def _numbers(column: pa.Array) -> list[Any]:
    if not column.null_count:
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    filler = False if pa.types.is_boolean(column.type) else 0
    values = pc.fill_null(column, filler).to_numpy(zero_copy_only=False).astype(object)
    values[~valid] = None
    listed: list[Any] = values.tolist()
    return listed


def _objects(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _trimmed(text: pa.StringArray) -> pa.StringArray:
    # Arrow writes all six digits of the fraction.
    return pc.replace_substring_regex(text, r"\.?0*$", "")


def _digits(column: pa.Array, scale: int) -> pa.StringArray:
    text = pc.cast(column, pa.string())
    small = pc.fill_null(pc.match_substring(text, "E"), False)
    if small.true_count:
        plain = [format(value, "f") for value in pc.filter(column, small).to_pylist()]
        text = pc.replace_with_mask(text, small, pa.array(plain, pa.string()))
    return _trimmed(text) if scale else text
