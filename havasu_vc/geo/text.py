"""Geometries as text for people and for Kart's JSON, from the bytes alone."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import KINDS, Column, byte_column, pack, simple_column
from havasu_vc.geo.extent import extents
from havasu_vc.geo.layout import GeometryLayout, scan
from havasu_vc.geo.wkb import AnyEncoding, layout_column
from havasu_vc.model import compute as pc

__all__ = ["geometry_types", "hex_wkb", "short_text", "type_name"]

_DIMENSIONS: Final = ("", " Z", " M", " ZM")
_HEX: Final = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.dtype("<u2"))


def hex_wkb(wkb: Column) -> "pa.Array[Any]":
    """Return canonical WKB as upper-case hexadecimal text.

    >>> hex_wkb(pa.array([bytes([1, 171]), None])).to_pylist()
    ['01AB', None]
    """
    array = simple_column(wkb)
    column = byte_column(array)
    large = pa.types.is_large_binary(array.type) or 2 * int(column.lengths.sum()) >= 2**31
    offsets = np.zeros(len(array) + 1, np.int64 if large else np.int32)
    lengths = np.zeros(len(array), np.int64)
    lengths[column.rows] = 2 * column.lengths
    np.cumsum(lengths, out=offsets[1:])
    digits = _HEX[pack(column).data]
    validity = None
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_string() if large else pa.string(),
        len(array),
        [validity, pa.py_buffer(offsets), pa.py_buffer(digits)],
        array.null_count,
    )


def short_text(column: Column, encoding: AnyEncoding = "wkb") -> "pa.Array[Any]":
    """Return what kind of geometry each row is: `POINT(...)`, `MULTIPOLYGON Z EMPTY`."""
    view = layout_column(column, encoding)
    layout = scan(view)
    codes = _top_codes(layout)
    empty = extents(layout).empty
    found, places = np.unique(codes * 2 + empty, return_inverse=True)
    words = [type_name(code // 2) + (" EMPTY" if code & 1 else "(...)") for code in found.tolist()]
    chosen = np.full(view.size, -1)
    chosen[view.rows] = places
    return pc.take(pa.array(words, pa.string()), pa.array(chosen, mask=chosen < 0))


def geometry_types(wkb: "pa.Array[Any]") -> set[int]:
    """Return the ISO type codes that occur in a column of canonical WKB.

    >>> geometry_types(pa.array([bytes([1, 7, 0, 0, 0, 0, 0, 0, 0]), None]))
    {7}
    """
    wkb = pc.drop_null(wkb)
    if not len(wkb):
        return set()
    _, offsets_buffer, data_buffer = wkb.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(wkb) + 1, wkb.offset * 4)
    data = np.frombuffer(data_buffer, np.uint8)
    words = data[offsets[:-1, None].astype(np.int64) + np.arange(1, 5)]
    return set(np.unique(np.ascontiguousarray(words).view("<u4")).tolist())


def type_name(code: int) -> str:
    """Return the name of an ISO type code.

    >>> type_name(1003)
    'POLYGON Z'
    """
    dimensions, kind = divmod(code, 1000)
    return KINDS[kind] + _DIMENSIONS[dimensions]


def _top_codes(layout: GeometryLayout) -> "np.ndarray[Any, np.dtype[np.int64]]":
    top = layout.is_top
    codes: np.ndarray[Any, np.dtype[np.int64]] = (layout.kind + 1000 * layout.dimensions)[top]
    return codes
