"""Columns of nothing but 2D points, the commonest there are, as numpy records.

Their bytes are all alike, so that one look proves them sound and one assignment
turns them from one encoding into another.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.buffers import ByteColumn, Bytes, Floats, Ints, binary_column
from havasu_vc.geo.kinds import SRID_FLAG

__all__ = [
    "Records",
    "gpkg_points",
    "plain_points",
    "point_bytes",
    "point_records",
    "srid_points",
    "with_srids",
    "without_srids",
]

Records: TypeAlias = npt.NDArray[np.void]

_POINT: Final = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
_SRID_POINT: Final = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("srid", "<i4"), ("x", "<f8"), ("y", "<f8")]
)
_GPKG_POINT: Final = np.dtype([("header", "<u8"), ("wkb", _POINT)])


def plain_points(column: ByteColumn) -> Records | None:
    """Return the values as records of x and y if all are little-endian 2D points."""
    return _points(column, _POINT, 1)


def point_records(column: ByteColumn) -> Records | None:
    """Return the values as records of x and y, as `plain_points` or with an SRID each."""
    points = plain_points(column)
    return srid_points(column) if points is None else points


def srid_points(column: ByteColumn) -> Records | None:
    """Return the values as records if all are little-endian 2D points with an SRID."""
    return _points(column, _SRID_POINT, 1 | SRID_FLAG)


def point_bytes(x: Floats, y: Floats) -> tuple[Bytes, Ints]:
    """Return points as the bytes of canonical WKB, and the length of each."""
    plain = np.ones(len(x), _POINT)
    plain["x"], plain["y"] = x, y
    return plain.view(np.uint8), np.full(len(x), _POINT.itemsize)


def without_srids(
    column: ByteColumn, points: Records
) -> "tuple[pa.Array[Any], npt.NDArray[np.int32] | None]":
    """Return points that all have an SRID as canonical WKB."""
    data, lengths = point_bytes(points["x"], points["y"])
    srids = np.zeros(column.size, np.int32)
    srids[column.rows] = points["srid"]
    array = binary_column(data, lengths, column.rows, column.size)
    return array, srids if srids.any() else None


def with_srids(
    column: ByteColumn, points: Records, srids: npt.NDArray[np.int32]
) -> "pa.Array[Any]":
    """Return canonical points that all have an SRID as EWKB."""
    extended = np.empty(len(points), _SRID_POINT)
    extended["order"], extended["type"], extended["srid"] = 1, 1 | SRID_FLAG, srids
    extended["x"], extended["y"] = points["x"], points["y"]
    lengths = np.full(len(points), _SRID_POINT.itemsize)
    return binary_column(extended.view(np.uint8), lengths, column.rows, column.size)


def gpkg_points(column: ByteColumn, points: Records, headers: npt.NDArray[Any]) -> "pa.Array[Any]":
    """Return canonical points with a GeoPackage header of eight bytes before each."""
    whole = np.empty(len(points), _GPKG_POINT)
    whole["header"], whole["wkb"] = headers, points
    lengths = np.full(len(points), _GPKG_POINT.itemsize)
    return binary_column(whole.view(np.uint8), lengths, column.rows, column.size)


def _points(column: ByteColumn, kind: "np.dtype[np.void]", word: int) -> Records | None:
    count, size = len(column.starts), kind.itemsize
    if not count or not (column.lengths == size).all():
        return None
    base = int(column.starts[0])
    if int(column.starts[-1]) - base != (count - 1) * size:
        return None
    points = np.frombuffer(column.data, kind, count, base)
    if (points["order"] == 1).all() and (points["type"] == word).all():
        return points
    return None
