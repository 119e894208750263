"""Times and numbers that GeoJSON has finer than GDAL keeps them.

GDAL cuts times to milliseconds, and makes one column of whole and other numbers a
floating-point one. Files that hold neither finer times nor long whole numbers, which
is most, are told by one look at their bytes and cost nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.exchange.gdal import open_stream
from havasu_vc.exchange.ogr_formats import VectorFile

__all__ = ["finer_than", "has_fine_times", "parse_times", "rounded_columns"]

_FINE_TIME = re.compile(rb":\d\d\.\d{3}\d*[1-9]")
_LONG_INTEGER = re.compile(rb"[:,\[\s]-?\d{16}\d*\s*[,}\]]")
_BLOCK, _OVERLAP = 1 << 22, 64
_FIRST_INEXACT = 2.0**53


def has_fine_times(file: VectorFile) -> bool:
    """Whether anything in a file looks like a time finer than a millisecond."""
    return _holds(file, _FINE_TIME)


def _holds(file: VectorFile, pattern: re.Pattern[bytes]) -> bool:
    before = b""
    with open(file.path, "rb") as source:
        while block := source.read(_BLOCK):
            if pattern.search(before + block):
                return True
            before = block[-_OVERLAP:]
    return False


def finer_than(column: pa.Array, digits: int) -> bool:
    """Whether a time in a column of text has more digits of a second than that.

    >>> finer_than(pa.array(["10:00:00.120000", None]), 3)
    False
    """
    pattern = rf"\.\d{{{digits}}}\d*[1-9]"
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def parse_times(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return dates or times that stand as text in a column, cut to microseconds.

    Raises `pyarrow.ArrowInvalid` for text that is none.

    >>> parse_times(pa.array(["10:00:00.123456"]), pa.time64("us"))[0].as_py()
    datetime.time(10, 0, 0, 123456)
    """
    text = pc.replace_substring(column, "/", "-")
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    if pa.types.is_time(wanted):
        moments = pc.binary_join_element_wise("1970-01-01T", text, "")
        return moments.cast(pa.timestamp("us")).cast(wanted)
    return text.cast(wanted)


def rounded_columns(
    file: VectorFile, layer: str, arrow: pa.Schema, fields: Sequence[str]
) -> list[str]:
    """Return the columns of floating-point numbers where whole numbers may be rounded."""
    doubles = [name for name in fields if pa.types.is_float64(arrow.field(name).type)]
    if file.driver not in ("GeoJSON", "GeoJSONSeq") or not doubles:
        return []
    if not _holds(file, _LONG_INTEGER):
        return []
    found = set()
    with open_stream(file.path, layer, columns=doubles, read_geometry=False) as reader:
        for batch in reader:
            for name in doubles:
                large = pc.greater(pc.abs(batch.column(name)), _FIRST_INEXACT - 1)
                if pc.any(large).as_py():
                    found.add(name)
    return [name for name in doubles if name in found]
