"""Well-known text to and from canonical WKB, whole columns at a time, by GEOS.

Numbers are written with as many digits as bring the same double back, save that
zero has no sign. What GEOS
does by itself and would harm is kept from it: collections that nest deeply crash
its parser, and an empty multi-part loses its Z and M. What it cannot hold at all
(open rings, lines of one point, arcs) is a `GeometryError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import (
    KINDS,
    MAX_DEPTH,
    Bools,
    Floats,
    binary_column,
    byte_column,
    merge_rows,
    overlapping,
    plain_points,
    point_bytes,
    row_error,
)
from havasu_vc.geo.layout import scan
from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import shapely

__all__ = [
    "GEOJSON_FORMS",
    "WKT_FORMS",
    "PointForm",
    "beyond_geos",
    "contained",
    "format_points",
    "format_wkt",
    "geos_geometries",
    "objects",
    "parse_points",
    "parse_wkt",
    "ragged",
    "read_by_geos",
    "wkb_of_geometries",
]


_EXACT: Final = 400  # decimal places: every double, whatever its size
_DIMENSIONS: Final = ("", "Z", "M", "ZM")
_EMPTY: Final = r"(?i)^\s*(MULTI[A-Z]+|GEOMETRYCOLLECTION)\s*(Z|M|ZM)\s+EMPTY\s*$"
_NUMBERS: Final = {name: number for number, name in KINDS.items()}


def parse_wkt(column: pa.Array[Any]) -> pa.Array[Any]:
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


def format_wkt(wkb: pa.Array[Any]) -> pa.Array[Any]:
    """Return canonical WKB as well-known text."""
    points = format_points(wkb, WKT_FORMS[0], _format_by_geos)
    return _format_by_geos(wkb) if points is None else points


def _format_by_geos(wkb: pa.Array[Any]) -> pa.Array[Any]:
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


def objects(column: pa.Array[Any]) -> npt.NDArray[np.object_]:
    """Return a column as Python objects, None for null."""
    try:
        values: npt.NDArray[np.object_] = column.to_numpy(zero_copy_only=False)
    except (UnicodeDecodeError, pa.ArrowException) as error:
        raise _not_text(column) from error
    return values.astype(object)


def _not_text(column: pa.Array[Any]) -> GeometryError:
    large = pa.types.is_large_string(column.type)
    for row, value in enumerate(column.view(pa.large_binary() if large else pa.binary())):
        try:
            (value.as_py() or b"").decode()
        except UnicodeDecodeError:
            return row_error(row, "its text is not UTF-8")
    return GeometryError("the geometry column holds text that cannot be read")


def geos_geometries(wkb: pa.Array[Any]) -> npt.NDArray[np.object_]:
    """Return canonical WKB as shapely's geometries, None for null."""
    import shapely

    scan(byte_column(wkb))  # GEOS's reader calls itself for every level of nesting
    curved = beyond_geos(wkb)
    if curved.any():
        raise row_error(int(curved.argmax()), "not geometry that GEOS holds: arcs or surfaces")
    return read_by_geos(shapely.from_wkb, objects(wkb), "geometry that GEOS holds")


def contained(
    shape: shapely.Geometry, geometries: npt.NDArray[np.object_] | shapely.Geometry
) -> npt.NDArray[np.bool_]:
    """Return which geometries a prepared shape contains.

    GEOS 3.14 ends the process where a prepared rectangle meets a collection with an empty part,
    so collections other than of areas meet a copy that is not prepared.
    """
    import shapely

    found = np.asarray(geometries, object)
    loose = np.isin(shapely.get_type_id(found), (4, 5, 7))
    if not loose.any():
        sure: npt.NDArray[np.bool_] = shapely.contains(shape, geometries)
        return sure
    related: npt.NDArray[np.bool_] = np.zeros(found.shape, np.bool_)
    related[~loose] = shapely.contains(shape, found[~loose])
    related[loose] = shapely.contains(shapely.from_wkb(shapely.to_wkb(shape)), found[loose])
    return related


def wkb_of_geometries(geometries: npt.NDArray[np.object_]) -> pa.Array[Any]:
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


# Columns of nothing but 2D points as text, read and written by Arrow's own functions.
#
# Points are the commonest geometries, and GEOS makes an object of each. Here a column
# whose texts are all of one form goes from text to numbers and back in a few calls.
# Whatever is not of that form (another spelling, an empty point) is left to the general
# way by returning None, and so are rows with numbers that would need an exponent, so
# what is read and written does not depend on which way was taken.

_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SMALLEST: Final = 1e-4
_LARGEST: Final = 1e10
"""Between these all writers of numbers agree to use no exponent."""


@dataclass(frozen=True, slots=True)
class PointForm:
    """One way of spelling a point."""

    prefix: str
    """The text before x."""
    separator: str
    """The text between x and y."""
    suffix: str
    """The text after y."""
    whole: str = ""
    """The text after a number that is whole."""
    signed_zero: bool = False
    """Whether zero keeps its sign."""

    @property
    def pattern(self) -> str:
        """The form as a regular expression."""
        prefix, separator, suffix = map(re.escape, (self.prefix, self.separator, self.suffix))
        return f"^{prefix}{_NUMBER}{separator}{_NUMBER}{suffix}$"


WKT_FORMS: Final = (PointForm("POINT (", " ", ")"), PointForm("POINT(", " ", ")"))
"""The first is the one that is written."""
_HEAD: Final = '{"type":"Point","coordinates":['
_SPACED: Final = '{"type": "Point", "coordinates": ['
GEOJSON_FORMS: Final = (
    PointForm(_HEAD, ",", "]}", ".0", signed_zero=True),
    PointForm(_SPACED, ", ", "]}", ".0", signed_zero=True),
)
"""The first is the one that is written."""


def parse_points(column: pa.Array[Any], forms: tuple[PointForm, ...]) -> pa.Array[Any] | None:
    """Return the canonical WKB of a column of text, None unless all of it is of one form."""
    texts = pc.drop_null(column) if column.null_count else column
    if not len(texts):
        return None
    first = texts[0].as_buffer().to_pybytes()
    form = next((each for each in forms if first.startswith(each.prefix.encode())), None)
    if form is None or not pc.all(pc.match_substring_regex(texts, form.pattern)).as_py():
        return None
    large = pa.types.is_large_string(texts.type)
    inner = pc.binary_slice(
        texts.view(pa.large_binary() if large else pa.binary()),
        len(form.prefix),
        -len(form.suffix),
    )
    parts = pc.split_pattern(inner.view(texts.type), form.separator)
    numbers: Floats = pc.cast(parts.flatten(), pa.float64()).to_numpy()
    if not np.isfinite(numbers).all():
        return None
    data, lengths = point_bytes(numbers[0::2], numbers[1::2])
    return binary_column(data, lengths, byte_column(column).rows, len(column))


def format_points(
    wkb: pa.Array[Any], form: PointForm, general: Callable[[pa.Array[Any]], pa.Array[Any]]
) -> pa.Array[Any] | None:
    """Return canonical WKB as text, None unless all of it is points that can be printed.

    `general` writes the rows that have numbers with an exponent.
    """
    column = byte_column(wkb)
    points = plain_points(column)
    if points is None:
        return None
    axes = [np.ascontiguousarray(points[axis]) for axis in ("x", "y")]
    if not all(np.isfinite(numbers).all() for numbers in axes):
        return None
    plain = _is_plain(axes[0]) & _is_plain(axes[1])
    texts = _joined([numbers[plain] for numbers in axes], form)
    if len(texts) == len(wkb):
        return texts
    # Null rows choose nothing, plain ones the next text, the others what is written of them.
    choice = np.full(len(wkb), -1, np.int64)
    choice[column.rows[plain]] = np.arange(len(texts))
    odd = column.rows[~plain]
    choice[odd] = len(texts) + np.arange(len(odd))
    if len(odd):
        texts = pa.concat_arrays([texts, general(pc.take(wkb, pa.array(odd)))])
    return pc.take(texts, pa.array(choice, mask=choice < 0))


def _joined(axes: list[Floats], form: PointForm) -> pa.Array[Any]:
    parts: list[Any] = [form.prefix]
    for numbers, after in zip(axes, (form.separator, form.suffix), strict=True):
        # Adding zero takes the sign from a negative one.
        parts.append(pc.cast(pa.array(numbers if form.signed_zero else numbers + 0.0), pa.string()))
        whole = numbers == np.floor(numbers)
        if form.whole and whole.any():
            parts.append(pc.if_else(pa.array(whole), form.whole + after, after))
        else:
            parts.append(after)
    return pc.binary_join_element_wise(*parts, "")


def _is_plain(numbers: Floats) -> Bools:
    size = np.abs(numbers)
    return np.asarray((numbers == 0) | ((size >= _SMALLEST) & (size < _LARGEST)))


# Which geometries GEOS does not take through Shapely: arcs, surfaces, and what holds some.
#
# They are stored, compared and handed on as bytes like all others. What asks GEOS about
# shapes has to leave them out, for it raises at some and answers nothing at others.

_LAST, _COLLECTION = 6, 7


def beyond_geos(wkb: pa.Array) -> Bools:
    """Return which rows of canonical WKB hold a shape that GEOS does not take.

    >>> arc = bytes.fromhex("010800000000000000")
    >>> beyond_geos(pa.array([arc, None], pa.binary())).tolist()
    [True, False]
    """
    flags = np.zeros(len(wkb), np.bool_)
    column = byte_column(wkb)
    if not len(column.starts):
        return flags
    kinds = overlapping(column.data, "<u4")[column.starts + 1] % 1000
    flags[column.rows[kinds > _COLLECTION]] = True
    if (kinds == _COLLECTION).any():
        layout = scan(column)
        flags[column.rows[layout.value[layout.kind > _COLLECTION]]] = True
    return flags


# Geometries of one type as arrays of vertices and of where parts begin, as GeoArrow has them.

Offsets = tuple[npt.NDArray[Any], ...]
_TYPE_IDS = {
    "point": 0,
    "linestring": 1,
    "polygon": 3,
    "multipoint": 4,
    "multilinestring": 5,
    "multipolygon": 6,
}


def ragged(wkb: pa.Array, kind: str, dimensions: str) -> tuple[Floats, Offsets]:
    """Return the vertices of canonical WKB, and where the parts of each level begin.

    The innermost level comes first. All must be of one `kind`, such as `multipolygon`, and
    have vertices of `xy` or `xyz`; nulls are left out. Raises `GeometryError` otherwise.
    """
    import shapely

    shapes = geos_geometries(wkb.drop_null())
    if (shapely.get_type_id(shapes) != _TYPE_IDS[kind]).any():
        raise GeometryError(f"it is no {kind}")
    upright = dimensions == "xyz"
    solid = shapes[~shapely.is_empty(shapes)]
    if (shapely.has_z(solid) != upright).any() or shapely.has_m(shapes).any():
        raise GeometryError(f"its coordinates are not {dimensions}")
    _, vertices, offsets = shapely.to_ragged_array(shapes, include_z=upright)
    return np.asarray(vertices, np.float64), tuple(offsets)
