"""Geometry columns of any encoding to and from one canonical form.

Canonical is little-endian ISO WKB plus an SRID per row. It is what the rest of
havasu-vc computes with, hashes and compares, so it is unique: two columns hold
the same geometries exactly when their canonical forms are the same bytes.

What is checked when: a value whose header and length alone prove it canonical
(points, lines, polygons of one ring, empties; little-endian, no flags) passes
through untouched, and a column of such values is returned as it came. All other
values go through `layout.scan`, which checks every count and part; of those only
the ones that are not canonical are rewritten. Coordinates are never touched,
save that the NaNs of an empty point, which differ between makers, become one.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import (
    SRID_FLAG,
    Bools,
    ByteColumn,
    Bytes,
    Column,
    Floats,
    Ints,
    binary_column,
    byte_column,
    gpkg_points,
    merge_rows,
    overlapping,
    pack,
    plain_points,
    ranges,
    row_error,
    simple_column,
    srid_points,
    with_srids,
    without_srids,
)
from havasu_vc.geo.extent import extents
from havasu_vc.geo.geojson import format_geojson, parse_geojson
from havasu_vc.geo.layout import GeometryLayout, scan
from havasu_vc.geo.wkt import format_wkt, parse_wkt
from havasu_vc.model import compute as pc
from havasu_vc.model import types

__all__ = [
    "AnyEncoding",
    "Encoding",
    "Srids",
    "equal",
    "format_gpkg",
    "from_canonical",
    "gpkg_bodies",
    "layout_column",
    "rewrite",
    "shallow",
    "to_canonical",
]


Encoding: TypeAlias = Literal["ewkb", "wkb", "wkt", "geojson", "gpkg"]
AnyEncoding: TypeAlias = Encoding | types.Encoding
"""By its name, or as a schema has it."""
Srids: TypeAlias = npt.NDArray[np.int32]

_NAN: Final = np.uint64(0x7FF8000000000000)
_NO_SRID: Final = "drop the SRIDs, or keep them in a column of encoding ewkb"


def to_canonical(column: Column, encoding: AnyEncoding) -> tuple[pa.Array[Any], Srids | None]:
    """Return a column as canonical WKB, and its SRIDs unless all are 0.

    `wkb` and `ewkb` are read alike. GeoPackage's srs_id is not an SRID but a
    number of the file it comes from, and is left behind.
    """
    _check_encoding(encoding)
    array = simple_column(column)
    match encoding:
        case "wkb" | "ewkb":
            return _canonical(array)
        case "gpkg":
            bodies = pack(gpkg_bodies(byte_column(array)))
            return _canonical(_from_packed(bodies))[0], None
        case "wkt":
            return parse_wkt(_as_text(array)), None
        case _:
            return parse_geojson(_as_text(array)), None


def from_canonical(
    wkb: Column, srids: Srids | None, encoding: AnyEncoding, *, drop_srids: bool = False
) -> pa.Array[Any]:
    """Return canonical WKB in another encoding.

    Only `ewkb` holds SRIDs. In the others an SRID is an error, unless
    `drop_srids` says to leave it out or it is the 4326 that GeoJSON means anyway.
    """
    _check_encoding(encoding)
    array = simple_column(wkb)
    if srids is not None:
        srids = _signed(srids)
    if srids is not None and encoding != "ewkb" and not drop_srids:
        _refuse_srids(srids, encoding)
    match encoding:
        case "wkb":
            return array
        case "ewkb":
            return _extended(array, srids)
        case "gpkg":
            return format_gpkg(array)
        case "wkt":
            return format_wkt(array)
        case "geojson":
            return format_geojson(array)


def layout_column(column: Column, encoding: AnyEncoding) -> ByteColumn:
    """Return a view on the WKB of a column that `scan` can read, converting only text."""
    _check_encoding(encoding)
    array = simple_column(column)
    if encoding in ("wkb", "ewkb"):
        return byte_column(array)
    if encoding == "gpkg":
        return gpkg_bodies(byte_column(array))
    return byte_column(to_canonical(array, encoding)[0])


def _canonical(array: pa.Array[Any]) -> tuple[pa.Array[Any], Srids | None]:
    column = byte_column(array)
    points = srid_points(column)
    if points is not None and not np.isnan(points["x"]).any():
        return without_srids(column, points)
    open_values = _unproven(column)
    if not open_values.size:
        return _as_binary(array), None
    rows = column.rows[open_values]
    whole = open_values.size == len(array)
    part = array if whole else pc.take(array, pa.array(rows))
    view = pack(byte_column(part))
    layout = scan(ByteColumn(view.data, view.starts, view.lengths, rows, len(array)))
    odd = np.zeros(len(rows), np.bool_)
    odd[layout.value[~layout.canonical]] = True
    points = layout.is_top & (layout.kind == 1)
    odd[layout.value[points]] = True
    if not odd.any():
        return _as_binary(array), None
    found = layout.srids()
    data, lengths = rewrite(layout)
    data = _one_empty(data, lengths)
    rewritten = binary_column(data, lengths, np.arange(len(rows)), len(rows))
    srids = None
    if found.any():
        srids = np.zeros(len(array), np.int32)
        srids[rows] = found
    return (rewritten if whole else merge_rows(_as_binary(array), rows, rewritten)), srids


def _unproven(column: ByteColumn) -> Ints:
    """Return which values their header and length alone do not prove canonical."""
    if not len(column.starts):
        return np.empty(0, np.int64)
    points = plain_points(column)
    if points is not None:
        empty = np.flatnonzero(np.isnan(points["x"]) & np.isnan(points["y"]))
        return empty[_odd_nan(column.data, column.starts[empty] + 5, 2)]
    long_enough = column.lengths >= 13
    starts = np.where(long_enough, column.starts, 0)
    if column.data.size < 13:
        return np.arange(len(column.starts))
    words = overlapping(column.data, "<u4")
    word = words[starts + 1].astype(np.int64)
    count = words[starts + 5].astype(np.int64)
    dimensions, kind = np.divmod(word, 1000)
    known = (column.data[starts] == 1) & (dimensions < 4) & long_enough
    size = 8 * (2 + (dimensions & 1) + (dimensions >> 1 & 1))
    ring = words[starts + 9].astype(np.int64)
    proven = (kind == 1) & (column.lengths == 5 + size)
    proven |= (kind == 2) & (column.lengths == 9 + count * size)
    proven |= (kind == 3) & (count == 1) & (column.lengths == 13 + ring * size)
    proven &= known
    at_point = np.flatnonzero(proven & (kind == 1))
    if at_point.size:
        numbers = overlapping(column.data, "<f8")
        begin = column.starts[at_point] + 5
        empty = np.isnan(numbers[begin]) & np.isnan(numbers[begin + 8])
        proven[at_point[empty]] = False
    return np.flatnonzero(~proven)


def _odd_nan(data: Bytes, starts: Ints, ordinates: int) -> Ints:
    bits = overlapping(data, "<u8")
    odd = np.zeros(len(starts), np.bool_)
    for axis in range(ordinates):
        odd |= bits[starts + 8 * axis] != _NAN
    return np.flatnonzero(odd)


def _one_empty(data: Bytes, lengths: Ints) -> Bytes:
    """Give every empty point in packed canonical WKB the same NaN."""
    if not data.size:
        return data
    starts = np.cumsum(lengths) - lengths
    words = overlapping(data, "<u4")[starts + 1].astype(np.int64)
    dimensions, kind = np.divmod(words, 1000)
    at = np.flatnonzero(kind == 1)
    numbers, bits = overlapping(data, "<f8"), overlapping(data, "<u8")
    begin = starts[at] + 5
    empty = np.isnan(numbers[begin]) & np.isnan(numbers[begin + 8])
    begin, dimensions = begin[empty], dimensions[at[empty]]
    count = 2 + (dimensions & 1) + (dimensions >> 1)
    for axis in range(4):
        here = begin[count > axis] + 8 * axis
        bits[here[np.isnan(numbers[here])]] = _NAN
    return data


def _extended(array: pa.Array[Any], srids: Srids | None) -> pa.Array[Any]:
    """Return canonical WKB with PostGIS's flags for Z, M and SRID."""
    column = byte_column(array)
    if not len(column.starts):
        return _as_binary(array)
    words = overlapping(column.data, "<u4")[column.starts + 1].astype(np.int64)
    dimensions, kind = np.divmod(words, 1000)
    plain = ((dimensions == 0) & (kind != 7)).all()
    if plain and (srids is None or not srids.any()):
        return _as_binary(array)
    own = None if srids is None else srids[column.rows]
    points = plain_points(column)
    if points is not None and own is not None and own.all():
        return with_srids(column, points, own)
    column = pack(column)
    # Without Z and M in parts, only outermost headers change.
    outer = ((kind < 4) | ((dimensions == 0) & (kind != 7))).all()
    layout = shallow(column) if outer else scan(column)
    data, lengths = rewrite(layout, extended=True, srids=own)
    return binary_column(data, lengths, column.rows, column.size)


def _from_packed(column: ByteColumn) -> pa.Array[Any]:
    return binary_column(column.data, column.lengths, column.rows, column.size)


def _as_binary(array: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_string(array.type):
        return pc.cast(array, pa.binary())
    return pc.cast(array, pa.large_binary()) if pa.types.is_large_string(array.type) else array


def _as_text(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return bytes as the text that they claim to be; its readers check."""
    if pa.types.is_binary(array.type):
        return array.view(pa.string())
    return array.view(pa.large_string()) if pa.types.is_large_binary(array.type) else array


def _refuse_srids(srids: Srids, encoding: AnyEncoding) -> None:
    allowed = (0, 4326) if encoding == "geojson" else (0,)
    foreign = np.flatnonzero(~np.isin(srids, allowed))
    if foreign.size:
        row = int(foreign[0])
        raise GeometryError(
            f"the geometry in row {row} has SRID {int(srids[row])}, which {encoding} cannot hold",
            hints=(_NO_SRID,),
        )


def _signed(srids: npt.NDArray[np.integer[Any]]) -> Srids:
    """Return SRIDs as the 32-bit numbers that they must be."""
    signed = srids.astype(np.int32)
    if srids.dtype != np.int32 and (signed != srids).any():
        row = int(np.argmax(signed != srids))
        raise GeometryError(f"the SRID in row {row}, {int(srids[row])}, is not a 32-bit number")
    return signed


def _check_encoding(encoding: str) -> None:
    if encoding not in get_args(Encoding):
        raise ValueError(f"{encoding!r} is no geometry encoding")


# Writing scanned WKB anew: other headers, other byte order, same coordinates.
#
# `rewrite` turns whatever `scan` understood into canonical WKB or into EWKB, for
# all values of a column in a fixed number of numpy steps.

_Z_FLAG: Final = 0x80000000
_M_FLAG: Final = 0x40000000


def shallow(column: ByteColumn) -> GeometryLayout:
    """Return the layout of the outermost headers alone, of a column known to be canonical."""
    word = overlapping(column.data, "<u4")[column.starts + 1].astype(np.int64)
    dimensions, kind = np.divmod(word, 1000)
    nothing = np.zeros(len(word), np.int64)
    return GeometryLayout(
        column,
        np.arange(len(word)),
        column.starts,
        kind,
        dimensions,
        nothing != 0,
        nothing != 0,
        nothing == 0,
        nothing,
        nothing,
    )


def rewrite(
    layout: GeometryLayout, *, extended: bool = False, srids: npt.NDArray[np.int32] | None = None
) -> tuple[Bytes, Ints]:
    """Return the packed bytes and the lengths of all values, which must be packed.

    Canonical, or EWKB when `extended`, with `srids` (one per value) where not 0.
    """
    column = layout.column
    source = column.data
    insert = np.zeros(len(layout.value), np.bool_)
    if extended and srids is not None:
        insert = layout.is_top & (srids[layout.value] != 0)
    change = 4 * (insert.astype(np.int64) - layout.has_srid)
    after = np.cumsum(change)
    before = after - change
    headers = layout.kind > 0
    at = (layout.position + before)[headers]
    data = _resized(source, layout.position[layout.has_srid] + 5, (at + 5)[insert[headers]])
    words = overlapping(data, "<u4")
    data[at] = 1
    words[at + 1] = _type_words(layout, insert, extended)[headers]
    if srids is not None and insert.any():
        signed = overlapping(data, "<i4")
        signed[(layout.position + before)[insert] + 5] = srids[layout.value[insert]]
    if layout.big.any():
        _turn_big(layout, headers, after, data)
    lengths = column.lengths.copy()
    np.add.at(lengths, layout.value, change)
    return data, lengths


def _resized(source: Bytes, cut: Ints, insert: Ints) -> Bytes:
    """Copy without the four bytes at each of `cut`, with room for four at each of `insert`."""
    if not cut.size and not insert.size:
        return source.copy()
    data = np.empty(source.size + 4 * (insert.size - cut.size), np.uint8)
    kept, room = np.ones(source.size, np.bool_), np.ones(data.size, np.bool_)
    for offset in range(4):
        kept[cut + offset] = False
        room[insert + offset] = False
    data[room] = source[kept] if cut.size else source
    return data


def _type_words(layout: GeometryLayout, insert: Bools, extended: bool) -> Ints:
    if not extended:
        return layout.kind + 1000 * layout.dimensions
    flags = np.where(layout.dimensions & 1, _Z_FLAG, 0)
    flags |= np.where(layout.dimensions & 2, _M_FLAG, 0)
    return layout.kind | flags | np.where(insert, SRID_FLAG, 0)


def _turn_big(layout: GeometryLayout, headers: Bools, after: Ints, data: Bytes) -> None:
    """Turn counts and coordinates that were big-endian around."""
    source = layout.column.data
    counted = layout.big & (layout.kind != 1)
    where = np.where(headers, layout.position + 5 + 4 * layout.has_srid, layout.position)[counted]
    overlapping(data, "<u4")[where + after[counted]] = overlapping(source, ">u4")[where]
    runs = np.flatnonzero(layout.big & (layout.count > 0))
    numbers = layout.count[runs] * layout.ordinates[runs]
    where = ranges(layout.start[runs], numbers, 8)
    turned = overlapping(source, ">u8")[where]
    overlapping(data, "<u8")[where + np.repeat(after[runs], numbers)] = turned


# GeoPackage's geometry header, around the WKB of whole columns.
#
# Read: StandardGeoPackageBinary with any envelope and header byte order. Written:
# what Kart writes and compares byte for byte. Always little-endian, srs_id 0, no
# envelope for points and empties, an XYZ envelope for what has Z, else XY, and the
# empty flag where there is not a single vertex.

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


def format_gpkg(wkb: pa.Array) -> pa.Array:
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


# Whether geometries are the same: type, coordinates and SRID, not bytes.
#
# Byte order, EWKB or ISO, the GeoPackage header and the encoding of the column do
# not matter. Bytes are compared first, and only rows that differ are parsed.

_SAME_READING: Final = ({"wkb", "ewkb"}, {"gpkg"}, {"wkt"}, {"geojson"})


def equal(
    left: Column, right: Column, left_encoding: AnyEncoding, right_encoding: AnyEncoding
) -> pa.BooleanArray:
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
    first_wkb, first_srids = _canonical_of(pc.take(first, chosen), left_encoding)
    second_wkb, second_srids = _canonical_of(pc.take(second, chosen), right_encoding)
    found = pc.equal(_as_large(first_wkb), _as_large(second_wkb)).to_numpy(zero_copy_only=False)
    found = found & (_or_zero(first_srids, rows.size) == _or_zero(second_srids, rows.size))
    result = same.to_numpy(zero_copy_only=False).copy()
    result[rows] = found
    return pa.array(result)


def _canonical_of(
    column: pa.Array[Any], encoding: AnyEncoding
) -> tuple[pa.Array[Any], Srids | None]:
    if encoding in ("wkt", "geojson"):
        column = pc.cast(column, pa.large_string())
    return to_canonical(column, encoding)


def _as_large(column: pa.Array[Any]) -> pa.Array[Any]:
    return pc.cast(column, pa.large_binary())


def _or_zero(srids: Srids | None, count: int) -> Srids:
    return np.zeros(count, np.int32) if srids is None else srids
