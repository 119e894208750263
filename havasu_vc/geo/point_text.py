"""Columns of nothing but 2D points as text, read and written by Arrow's own kernels.

Points are the commonest geometries, and GEOS makes an object of each. Here a column
whose texts are all of one form goes from text to numbers and back in a few calls.
Whatever is not of that form (another spelling, an empty point) is left to the general
way by returning None, and so are rows with numbers that would need an exponent, so
what is read and written does not depend on which way was taken.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import Bools, Floats, binary_column, byte_column
from havasu_vc.geo.points import plain_points, point_bytes
from havasu_vc.model import kernels as pc
from havasu_vc.records import dataclass

__all__ = ["GEOJSON_FORMS", "WKT_FORMS", "PointForm", "format_points", "parse_points"]

_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SMALLEST: Final = 1e-4
_LARGEST: Final = 1e10
"""Between these all writers of numbers agree to use no exponent."""


@dataclass(frozen=True, slots=True)
class PointForm:
    """One way of spelling a point."""

    prefix: str
    """What stands before x."""
    separator: str
    """What stands between x and y."""
    suffix: str
    """What stands after y."""
    whole: str = ""
    """What follows a number that is whole."""
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


def parse_points(column: "pa.Array[Any]", forms: tuple[PointForm, ...]) -> "pa.Array[Any] | None":
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
    wkb: "pa.Array[Any]", form: PointForm, general: Callable[["pa.Array[Any]"], "pa.Array[Any]"]
) -> "pa.Array[Any] | None":
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


def _joined(axes: list[Floats], form: PointForm) -> "pa.Array[Any]":
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
