"""GeoPackage's geometry header, around the WKB of whole columns.

Read: StandardGeoPackageBinary with any envelope and header byte order. Written:
what Kart writes and compares byte for byte. Always little-endian, srs_id 0, no
envelope for points and empties, an XYZ envelope for what has Z, else XY, and the
empty flag where there is not a single vertex.
"""

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import (
    Bools,
    ByteColumn,
    Floats,
    Ints,
    binary_column,
    byte_column,
    overlapping,
    pack,
    ranges,
    row_error,
)
from havasu_vc.geo.extent import extents
from havasu_vc.geo.layout import scan
from havasu_vc.geo.points import gpkg_points, plain_points

__all__ = ["format_gpkg", "gpkg_bodies"]

_MAGIC = 0x5047
_EXTENDED, _EMPTY = 0x20, 0x10
_ENVELOPE_SIZES = np.array([0, 32, 48, 48, 64])
_XY, _XYZ = 1, 2


def gpkg_bodies(column: ByteColumn) -> ByteColumn:
    """Return the WKB behind the header of every value, without copying it."""
    _check(column, column.lengths < 8, "its GeoPackage header is truncated")
    words = overlapping(column.data, "<u2")
    _check(column, words[column.starts] != _MAGIC, "it is not GeoPackage binary")
    _check(column, column.data[column.starts + 2] != 0, "its GeoPackage version is not known")
    flags = column.data[column.starts + 3].astype(np.int64)
    _check(column, (flags & _EXTENDED) != 0, "extended GeoPackage geometry is not supported")
    envelope = flags >> 1 & 7
    _check(column, envelope >= _ENVELOPE_SIZES.size, "its GeoPackage envelope code is not known")
    header = 8 + _ENVELOPE_SIZES[envelope]
    _check(column, header > column.lengths, "its GeoPackage header is truncated")
    return ByteColumn(
        column.data, column.starts + header, column.lengths - header, column.rows, column.size
    )


def format_gpkg(wkb: "pa.Array") -> "pa.Array":
    """Put Kart's header before every value of a canonical WKB column."""
    column = byte_column(wkb)
    if not len(column.starts):
        return pa.nulls(len(wkb), pa.binary())
    points = plain_points(column)
    if points is not None:
        empty = np.isnan(points["x"]) & np.isnan(points["y"])
        headers = _MAGIC + (np.where(empty, 1 | _EMPTY, 1) << 24)
        return gpkg_points(column, points, headers)
    column = pack(column)
    flags, envelopes = _headers(column)
    sizes = _ENVELOPE_SIZES[flags >> 1 & 7]
    lengths = 8 + sizes + column.lengths
    starts = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()), np.uint8)
    room = np.ones(data.size, np.bool_)
    room[ranges(starts, 8 + sizes, 1)] = False
    data[room] = column.data
    overlapping(data, "<u8")[starts] = (_MAGIC + (flags << 24)).astype(np.uint64)
    numbers = overlapping(data, "<f8")
    for axis in range(6):
        has = sizes > 8 * axis
        if has.any():
            numbers[starts[has] + 8 + 8 * axis] = envelopes[has, axis]
    return binary_column(data, lengths, column.rows, column.size)


def _headers(column: ByteColumn) -> tuple[Ints, Floats]:
    """Return each value's flags and envelope (minx, maxx, miny, maxy, minz, maxz)."""
    layout = scan(column)
    extent = extents(layout)
    top = layout.is_top
    point = layout.kind[top] == 1
    has_z = (layout.dimensions[top] & 1) == 1
    envelope = np.where(extent.empty | point, 0, np.where(has_z, _XYZ, _XY))
    return 1 | np.where(extent.empty, _EMPTY, 0) | (envelope << 1), extent.envelopes


def _check(column: ByteColumn, unsound: Bools, reason: str) -> None:
    if unsound.any():
        raise row_error(int(column.rows[np.argmax(unsound)]), reason)
