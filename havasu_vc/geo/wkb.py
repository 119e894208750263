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

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import (
    ByteColumn,
    Bytes,
    Column,
    Ints,
    binary_column,
    byte_column,
    merge_rows,
    overlapping,
    pack,
    simple_column,
)
from havasu_vc.geo.geojson import format_geojson, parse_geojson
from havasu_vc.geo.gpkg import format_gpkg, gpkg_bodies
from havasu_vc.geo.layout import scan
from havasu_vc.geo.points import plain_points, srid_points, with_srids, without_srids
from havasu_vc.geo.rewrite import rewrite, shallow
from havasu_vc.geo.wkt import format_wkt, parse_wkt
from havasu_vc.model import kernels as pc
from havasu_vc.model import types

__all__ = [
    "AnyEncoding",
    "Encoding",
    "Srids",
    "from_canonical",
    "layout_column",
    "to_canonical",
]

Encoding: TypeAlias = Literal["ewkb", "wkb", "wkt", "geojson", "gpkg"]
AnyEncoding: TypeAlias = Encoding | types.Encoding
"""By its name, or as a schema has it."""
Srids: TypeAlias = npt.NDArray[np.int32]

_NAN: Final = np.uint64(0x7FF8000000000000)
_NO_SRID: Final = "drop the SRIDs, or keep them in a column of encoding ewkb"


def to_canonical(column: Column, encoding: AnyEncoding) -> "tuple[pa.Array[Any], Srids | None]":
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
) -> "pa.Array[Any]":
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


def _canonical(array: "pa.Array[Any]") -> "tuple[pa.Array[Any], Srids | None]":
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


def _extended(array: "pa.Array[Any]", srids: Srids | None) -> "pa.Array[Any]":
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


def _from_packed(column: ByteColumn) -> "pa.Array[Any]":
    return binary_column(column.data, column.lengths, column.rows, column.size)


def _as_binary(array: "pa.Array[Any]") -> "pa.Array[Any]":
    if pa.types.is_string(array.type):
        return pc.cast(array, pa.binary())
    return pc.cast(array, pa.large_binary()) if pa.types.is_large_string(array.type) else array


def _as_text(array: "pa.Array[Any]") -> "pa.Array[Any]":
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
