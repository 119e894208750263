"""Arrow binary and string columns as plain numpy arrays, and back; columns of 2D points.

A `ByteColumn` is the bytes of a column's values where they lie in its Arrow
buffer: a start and a length for each value that is not null. Offsets, slices,
32- and 64-bit offsets and null slots that own bytes are dealt with here and
nowhere else. Nothing is copied on the way in.

Reading numbers at any byte position uses overlapping views (stride one), so
that fields of values of different lengths are gathered by one indexing step.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass

__all__ = [
    "ARC_KINDS",
    "BAD_COUNT",
    "BAD_PART",
    "BASE_MASK",
    "KINDS",
    "LINE",
    "MAX_DEPTH",
    "MIN_PART",
    "NO_ORDER",
    "NO_TYPE",
    "PARTS",
    "PART_KINDS",
    "RINGS",
    "SHAPES",
    "SRID_FLAG",
    "TOO_DEEP",
    "TOO_LONG",
    "TRUNCATED",
    "UNKNOWN",
    "VERTEX",
    "Bools",
    "ByteColumn",
    "Bytes",
    "Column",
    "Floats",
    "Ints",
    "Records",
    "binary_column",
    "byte_column",
    "gpkg_points",
    "merge_rows",
    "overlapping",
    "pack",
    "plain_points",
    "point_bytes",
    "point_records",
    "ranges",
    "row_error",
    "simple_column",
    "srid_points",
    "with_srids",
    "without_srids",
]


Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_MAX_BINARY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ByteColumn:
    """The values of a column that are not null, where their bytes lie."""

    data: Bytes
    """The whole data buffer."""
    starts: Ints
    """Where each value begins in `data`."""
    lengths: Ints
    """How many bytes each value has."""
    rows: Ints
    """Which row of the column each value is."""
    size: int
    """How many rows the column has, nulls included."""

    @property
    def ends(self) -> Ints:
        """Where each value ends in `data`."""
        return self.starts + self.lengths


def simple_column(column: Column) -> pa.Array[Any]:
    """Return the column as one array of binary or string type (or their large forms)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind) or pa.types.is_fixed_size_binary(kind):
        return pc.cast(column, pa.binary())
    if kind == pa.binary_view():
        return pc.cast(column, pa.binary())
    if kind == pa.string_view():
        return pc.cast(column, pa.string())
    if not (_is_large(kind) or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise TypeError(f"a geometry column is binary or string, not {kind}")
    return column


def byte_column(column: pa.Array[Any]) -> ByteColumn:
    """View a binary or string array without copying its bytes.

    >>> byte_column(pa.array([b"ab", None, b"c"])).lengths.tolist()
    [2, 1]
    """
    size = len(column)
    _, offset_buffer, data_buffer = column.buffers()
    if offset_buffer is None or size == 0:
        nothing = np.empty(0, np.int64)
        return ByteColumn(np.empty(0, np.uint8), nothing, nothing, nothing, size)
    width = np.int64 if _is_large(column.type) else np.int32
    raw = np.frombuffer(offset_buffer, width)[column.offset : column.offset + size + 1]
    offsets: Ints = raw.astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    if column.null_count == 0:
        return ByteColumn(data, starts, lengths, np.arange(size), size)
    rows = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    return ByteColumn(data, starts[rows], lengths[rows], rows, size)


def binary_column(data: Bytes, lengths: Ints, rows: Ints, size: int) -> pa.Array[Any]:
    """Make a binary array of `size` rows from the packed bytes of those in `rows`.

    The others are null. It is large_binary when the bytes need it.
    """
    all_lengths = np.zeros(size, np.int64)
    all_lengths[rows] = lengths
    large = data.size > _MAX_BINARY
    offsets = np.zeros(size + 1, np.int64 if large else np.int32)
    np.cumsum(all_lengths, out=offsets[1:])
    validity = None
    if len(rows) < size:
        valid = np.zeros(size, np.bool_)
        valid[rows] = True
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_binary() if large else pa.binary(),
        size,
        [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))],
        size - len(rows),
    )


def pack(column: ByteColumn) -> ByteColumn:
    """Return the column with nothing before, between and after its values' bytes."""
    if not len(column.starts):
        return ByteColumn(column.data[:0], column.starts, column.lengths, column.rows, column.size)
    base, last = int(column.starts[0]), int(column.ends[-1])
    data = column.data[base:last]
    total = int(column.lengths.sum())
    if total < data.size:
        filled = column.lengths > 0
        edges = np.zeros(data.size + 1, np.int8)
        edges[column.starts[filled] - base] += 1
        edges[column.ends[filled] - base] -= 1
        data = data[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]
    starts = np.cumsum(column.lengths) - column.lengths
    return ByteColumn(data, starts, column.lengths, column.rows, column.size)


def merge_rows(column: pa.Array[Any], rows: Ints, replacement: pa.Array[Any]) -> pa.Array[Any]:
    """Return `column` with the values of `rows` replaced, in that order."""
    choice = np.arange(len(column))
    choice[rows] = len(column) + np.arange(len(rows))
    if replacement.type != column.type:
        large = _is_large(column.type) or _is_large(replacement.type)
        kind = pa.large_binary() if large else pa.binary()
        column, replacement = pc.cast(column, kind), pc.cast(replacement, kind)
    return pc.take(pa.chunked_array([column, replacement]), pa.array(choice)).combine_chunks()


def overlapping(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """View `data` as one number of dtype `kind` beginning at every byte.

    >>> int(overlapping(np.arange(6, dtype=np.uint8), "<u2")[3])
    1027
    """
    count = data.size - np.dtype(kind).itemsize + 1
    return np.ndarray((max(count, 0),), kind, data, strides=(1,))


def ranges(starts: Ints, counts: Ints, step: int | Ints) -> Ints:
    """Return start, start + step, … (`count` of them) for every start, one after another.

    >>> ranges(np.array([0, 100]), np.array([2, 3]), 8).tolist()
    [0, 8, 100, 108, 116]
    """
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    inside = np.arange(total) - np.repeat(before, counts)
    strides = step if isinstance(step, int) else np.repeat(step, counts)
    return np.repeat(starts, counts) + inside * strides


def row_error(row: int, reason: str) -> GeometryError:
    """Return the error that says what is wrong with the geometry of one row."""
    return GeometryError.of_value(row, reason)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))


# Columns of nothing but 2D points, the commonest there are, as numpy records.
#
# Their bytes are all alike, so that one look proves them sound and one assignment
# turns them from one encoding into another.

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
) -> tuple[pa.Array[Any], npt.NDArray[np.int32] | None]:
    """Return points that all have an SRID as canonical WKB."""
    data, lengths = point_bytes(points["x"], points["y"])
    srids = np.zeros(column.size, np.int32)
    srids[column.rows] = points["srid"]
    array = binary_column(data, lengths, column.rows, column.size)
    return array, srids if srids.any() else None


def with_srids(column: ByteColumn, points: Records, srids: npt.NDArray[np.int32]) -> pa.Array[Any]:
    """Return canonical points that all have an SRID as EWKB."""
    extended = np.empty(len(points), _SRID_POINT)
    extended["order"], extended["type"], extended["srid"] = 1, 1 | SRID_FLAG, srids
    extended["x"], extended["y"] = points["x"], points["y"]
    lengths = np.full(len(points), _SRID_POINT.itemsize)
    return binary_column(extended.view(np.uint8), lengths, column.rows, column.size)


def gpkg_points(column: ByteColumn, points: Records, headers: npt.NDArray[Any]) -> pa.Array[Any]:
    """Return canonical points with a GeoPackage header of eight bytes before each."""
    whole = np.empty(len(points), _GPKG_POINT)
    whole["header"], whole["wkb"] = headers, points
    lengths = np.full(len(points), _GPKG_POINT.itemsize)
    return binary_column(whole.view(np.uint8), lengths, column.rows, column.size)


def _points(column: ByteColumn, kind: np.dtype[np.void], word: int) -> Records | None:
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


# The geometry types of WKB, how their bytes are built, and what can be wrong with them.

MAX_DEPTH: Final = 32
"""How deep collections may nest."""
KINDS: Final = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
    8: "CIRCULARSTRING",
    9: "COMPOUNDCURVE",
    10: "CURVEPOLYGON",
    11: "MULTICURVE",
    12: "MULTISURFACE",
    15: "POLYHEDRALSURFACE",
    16: "TIN",
    17: "TRIANGLE",
}
"""The ISO names of the geometry types by number."""
ARC_KINDS: Final = (8, 9, 10, 11, 12)
"""Types that may hold arcs, whose extent is not that of their vertices."""

SRID_FLAG: Final = 0x20000000
BASE_MASK: Final = 0x1FFFFFFF

# The shape of each kind: what follows its header.
UNKNOWN, VERTEX, LINE, RINGS, PARTS = range(5)
_LISTS: Final = (PARTS,) * 4
SHAPES: Final = (
    UNKNOWN,
    VERTEX,
    LINE,
    RINGS,
    *_LISTS,
    LINE,
    *_LISTS,
    UNKNOWN,
    UNKNOWN,
    *_LISTS[:2],
    RINGS,
)
# What the parts of a collection must be; 0 where several kinds may stand.
PART_KINDS: Final = (0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3, 17, 0)
MIN_PART: Final = 9  # bytes of the smallest geometry, an empty line

TRUNCATED: Final = "its WKB is truncated"
TOO_LONG: Final = "bytes follow the end of its WKB"
NO_ORDER: Final = "its WKB begins with neither byte order mark 0 nor 1"
NO_TYPE: Final = "its WKB holds a geometry type that is not known"
BAD_COUNT: Final = "its WKB counts more parts or vertices than there are bytes"
BAD_PART: Final = "its WKB holds a part of a type that does not belong there"
TOO_DEEP: Final = f"its collections nest deeper than {MAX_DEPTH}"
