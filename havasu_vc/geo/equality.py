"""Whether geometries are the same: type, coordinates and SRID, not bytes.

Byte order, EWKB or ISO, the GeoPackage header and the encoding of the column do
not matter. Bytes are compared first, and only rows that differ are parsed.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import Column, simple_column
from havasu_vc.geo.wkb import AnyEncoding, Srids, to_canonical
from havasu_vc.model import kernels as pc

__all__ = ["equal"]

_SAME_READING: Final = ({"wkb", "ewkb"}, {"gpkg"}, {"wkt"}, {"geojson"})


def equal(
    left: Column, right: Column, left_encoding: AnyEncoding, right_encoding: AnyEncoding
) -> "pa.BooleanArray":
    """Return for every row whether both geometries are the same.

    Null is the same as null and nothing else, so the result has no nulls.
    """
    if len(left) != len(right):
        raise ValueError(f"columns of {len(left)} and {len(right)} rows cannot be compared")
    first, second = _as_large(simple_column(left)), _as_large(simple_column(right))
    absent = pc.and_(pc.is_null(first), pc.is_null(second))
    same = absent
    if any({left_encoding, right_encoding} <= family for family in _SAME_READING):
        same = pc.or_(absent, pc.fill_null(pc.equal(first, second), False))
    present = pc.and_(pc.is_valid(first), pc.is_valid(second))
    rows = np.flatnonzero(pc.and_not(present, same).to_numpy(zero_copy_only=False))
    if not rows.size:
        return same
    chosen = pa.array(rows)
    first_wkb, first_srids = _canonical(pc.take(first, chosen), left_encoding)
    second_wkb, second_srids = _canonical(pc.take(second, chosen), right_encoding)
    found = pc.equal(_as_large(first_wkb), _as_large(second_wkb)).to_numpy(zero_copy_only=False)
    found = found & (_or_zero(first_srids, rows.size) == _or_zero(second_srids, rows.size))
    result = same.to_numpy(zero_copy_only=False).copy()
    result[rows] = found
    return pa.array(result)


def _canonical(
    column: "pa.Array[Any]", encoding: AnyEncoding
) -> "tuple[pa.Array[Any], Srids | None]":
    if encoding in ("wkt", "geojson"):
        column = pc.cast(column, pa.large_string())
    return to_canonical(column, encoding)


def _as_large(column: "pa.Array[Any]") -> "pa.Array[Any]":
    return pc.cast(column, pa.large_binary())


def _or_zero(srids: Srids | None, count: int) -> Srids:
    return np.zeros(count, np.int32) if srids is None else srids
