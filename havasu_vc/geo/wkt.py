"""Well-known text to and from canonical WKB, whole columns at a time, by GEOS.

Numbers are written with as many digits as bring the same double back, save that
zero has no sign. What GEOS
does by itself and would harm is kept from it: collections that nest deeply crash
its parser, and an empty multi-part loses its Z and M. What it cannot hold at all
(open rings, lines of one point, arcs) is a `GeometryError`.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.beyond_geos import beyond_geos
from havasu_vc.geo.buffers import byte_column, merge_rows, overlapping, row_error
from havasu_vc.geo.kinds import KINDS, MAX_DEPTH
from havasu_vc.geo.layout import scan
from havasu_vc.geo.point_text import WKT_FORMS, format_points, parse_points
from havasu_vc.model import kernels as pc

__all__ = [
    "format_wkt",
    "geos_geometries",
    "objects",
    "parse_wkt",
    "read_by_geos",
    "wkb_of_geometries",
]

_EXACT: Final = 400  # decimal places: every double, whatever its size
_DIMENSIONS: Final = ("", "Z", "M", "ZM")
_EMPTY: Final = r"(?i)^\s*(MULTI[A-Z]+|GEOMETRYCOLLECTION)\s*(Z|M|ZM)\s+EMPTY\s*$"
_NUMBERS: Final = {name: number for number, name in KINDS.items()}


def parse_wkt(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return the canonical WKB of a column of well-known text."""
    if (points := parse_points(column, WKT_FORMS)) is not None:
        return points
    import shapely

    texts = objects(column)
    suspects = pc.count_substring(column, "collection", ignore_case=True)
    deep = pc.fill_null(pc.greater(suspects, MAX_DEPTH), False)
    for row in np.flatnonzero(deep.to_numpy(zero_copy_only=False)).tolist():
        if _depth(texts[row]) > MAX_DEPTH:
            raise row_error(row, f"its collections nest deeper than {MAX_DEPTH}")
    wkb = wkb_of_geometries(read_by_geos(shapely.from_wkt, texts, "well-known text"))
    hollow = pc.fill_null(pc.match_substring_regex(column, _EMPTY), False)
    rows = np.flatnonzero(hollow.to_numpy(zero_copy_only=False))
    if rows.size:
        wkb = merge_rows(wkb, rows, pa.array([_empty_wkb(texts[row]) for row in rows], pa.binary()))
    return wkb


def format_wkt(wkb: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return canonical WKB as well-known text."""
    points = format_points(wkb, WKT_FORMS[0], _format_by_geos)
    return _format_by_geos(wkb) if points is None else points


def _format_by_geos(wkb: "pa.Array[Any]") -> "pa.Array[Any]":
    import shapely

    texts = shapely.to_wkt(geos_geometries(wkb), rounding_precision=_EXACT)
    column = byte_column(wkb)
    if len(column.starts):
        word = overlapping(column.data, "<u4")[column.starts + 1]
        count = np.where(column.lengths == 9, 0, 1)
        for index in np.flatnonzero((count == 0) & (word > 1003)).tolist():
            dimensions, kind = divmod(int(word[index]), 1000)
            texts[column.rows[index]] = f"{KINDS[kind]} {_DIMENSIONS[dimensions]} EMPTY"
    return pa.array(texts, pa.string())


def objects(column: "pa.Array[Any]") -> npt.NDArray[np.object_]:
    """Return a column as Python objects, None for null."""
    try:
        values: npt.NDArray[np.object_] = column.to_numpy(zero_copy_only=False)
    except (UnicodeDecodeError, pa.ArrowException) as error:
        raise _not_text(column) from error
    return values.astype(object)


def _not_text(column: "pa.Array[Any]") -> GeometryError:
    large = pa.types.is_large_string(column.type)
    for row, value in enumerate(column.view(pa.large_binary() if large else pa.binary())):
        try:
            (value.as_py() or b"").decode()
        except UnicodeDecodeError:
            return row_error(row, "its text is not UTF-8")
    return GeometryError("the geometry column holds text that cannot be read")


def geos_geometries(wkb: "pa.Array[Any]") -> npt.NDArray[np.object_]:
    """Return canonical WKB as shapely's geometries, None for null."""
    import shapely

    scan(byte_column(wkb))  # GEOS's reader calls itself for every level of nesting
    curved = beyond_geos(wkb)
    if curved.any():
        raise row_error(int(curved.argmax()), "not geometry that GEOS holds: arcs or surfaces")
    return read_by_geos(shapely.from_wkb, objects(wkb), "geometry that GEOS holds")


def wkb_of_geometries(geometries: npt.NDArray[np.object_]) -> "pa.Array[Any]":
    """Return shapely's geometries as canonical WKB."""
    import shapely

    return pa.array(shapely.to_wkb(geometries, byte_order=1, flavor="iso"), pa.binary())


def read_by_geos(
    read: Callable[..., npt.NDArray[np.object_]], values: npt.NDArray[np.object_], what: str
) -> npt.NDArray[np.object_]:
    """Read values by one of shapely's readers; name the first row that it refuses."""
    import shapely

    with np.errstate(all="ignore"):
        try:
            return read(values)
        except (shapely.errors.ShapelyError, NotImplementedError, TypeError, UnicodeError) as error:
            row, reason = _first_fault(read, values, error)
            raise row_error(row, f"not {what}: {reason}") from error


def _first_fault(
    read: Callable[..., npt.NDArray[np.object_]],
    values: npt.NDArray[np.object_],
    error: Exception,
) -> tuple[int, str]:
    import shapely

    low, high = 0, len(values)
    while high - low > 1:  # the fault is in low:high
        middle = (low + high) // 2
        try:
            read(values[low:middle])
        except (shapely.errors.ShapelyError, NotImplementedError, TypeError, UnicodeError) as found:
            high, error = middle, found
        else:
            low = middle
    # GEOS quotes the text in its message, cut anywhere; shapely cannot decode that.
    reason = "" if isinstance(error, UnicodeError) else str(error)
    reason = reason.removeprefix("ParseException: ")
    return low, re.sub(r"\s+", " ", reason).strip()[:120]


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif character == ")":
            depth -= 1
    return deepest


def _empty_wkb(text: str) -> bytes:
    match = re.match(_EMPTY, text)
    if match is None:
        raise AssertionError(f"{text!r} was found to be empty")
    number = _NUMBERS[match[1].upper()] + 1000 * _DIMENSIONS.index(match[2].upper())
    return b"\x01" + number.to_bytes(4, "little") + bytes(4)
