"""Features of one legend, read together: columns are found in the bytes of all of them at once.

    92 d9 28 <legend's name> 93 | cd 01 f4 | a2 68 69 | c7 1d 47 <geometry>
    one head for all            | values: a first byte that tells the kind and size, and the rest

Where each value begins and ends is reckoned a column at a time, so no value becomes one of
Python's; of very many features that takes a fraction of the time. Only what is plain is read
so. Anything else is None here, and whoever asked reads value by value, which finds what is
wrong and with which feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import repeat
from typing import Final

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.records import dataclass

__all__ = ["GEOMETRY", "Kind", "head_of", "legend_of_first", "packed_columns"]

GEOMETRY: Final = 71
"""The msgpack extension type of geometries, `G`."""
_AHEAD = 16
"""Bytes after the last feature that may be looked at."""
_MOST_BYTES = 1 << 30
_EXACT = 1 << 53
"""Whole numbers up to here are exact as floats."""

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Kind(Enum):
    """The kinds of values as msgpack knows them."""

    WHOLE = "whole"
    FLOAT = "float"
    TRUTH = "truth"
    TEXT = "text"
    BYTES = "bytes"
    GEOMETRY = "geometry"


@dataclass(frozen=True, slots=True)
class _Span:
    """The values of one column: where they stand."""

    codes: Bytes
    """The first byte of each."""
    starts: Places
    """Where its content begins."""
    ends: Places
    """Where it ends."""


def head_of(legend: str, width: int) -> bytes:
    """Return the bytes before the values of a feature with so many of them."""
    array: bytes = msgpack.Packer().pack_array_header(width)
    name: bytes = msgpack.packb(legend)
    return b"\x92" + name + array


def legend_of_first(blobs: Sequence[bytes]) -> str | None:
    """Return the name of the first feature's legend, if it is spelled as usual."""
    first = blobs[0][:45] if blobs else b""
    if first[:3] != b"\x92\xd9\x28" or len(first) < 45:
        return None
    name = first[3:43]
    return name.decode("ascii") if name.isascii() else None


def packed_columns(
    blobs: Sequence[bytes], head: bytes, width: int, wanted: Mapping[int, Kind]
) -> dict[int, pa.Array] | None:
    """Return the columns at some positions of features that all begin with `head`.

    Whole numbers come as int64, geometries as they are stored. None where a feature has
    another head, or a value that is not plainly of the kind that is wanted.
    """
    if not all(map(bytes.startswith, blobs, repeat(head))):
        return None
    sizes = np.fromiter(map(len, blobs), np.int64, len(blobs))
    stops = np.cumsum(sizes)
    if int(stops[-1]) > _MOST_BYTES:
        return None
    data = b"".join([*blobs, bytes(_AHEAD)])
    buffer = np.frombuffer(data, np.uint8)
    at = stops - sizes + len(head)
    found: dict[int, pa.Array] = {}
    for position in range(width):
        span = _span(buffer, at)
        if span is None or (span.ends > stops).any():
            return None
        kind = wanted.get(position)
        if kind is not None:
            column = _READERS[kind](buffer, span)
            if column is None:
                return None
            found[position] = column
        at = span.ends
    return found if (at == stops).all() else None


# How long a value is, by its first byte: bytes before the content, of these how many say
# its size (big-endian, at the second byte), and the size where the first byte says it.

_SAYING = np.zeros(256, np.int64)
_BEFORE = np.ones(256, np.int64)
_SIZE = np.full(256, -1, np.int64)


def _spell(first: int, last: int, before: int, saying: int, sizes: Sequence[int]) -> None:
    _BEFORE[first : last + 1], _SAYING[first : last + 1] = before, saying
    _SIZE[first : last + 1] = sizes


_spell(0x00, 0x7F, 0, 0, [1] * 128)  # the byte is the number
_spell(0xE0, 0xFF, 0, 0, [1] * 32)
_spell(0xA0, 0xBF, 1, 0, range(32))  # text
for _code in (0xC0, 0xC2, 0xC3):  # null, false, true
    _spell(_code, _code, 1, 0, [0])
for _step in range(3):
    _spell(0xC4 + _step, 0xC4 + _step, 1 + (1 << _step), 1 << _step, [0])  # bytes
    _spell(0xD9 + _step, 0xD9 + _step, 1 + (1 << _step), 1 << _step, [0])  # text
    _spell(0xC7 + _step, 0xC7 + _step, 2 + (1 << _step), 1 << _step, [0])  # an extension
_spell(0xCA, 0xCB, 1, 0, [4, 8])  # floats
_spell(0xCC, 0xCF, 1, 0, [1, 2, 4, 8])  # whole numbers
_spell(0xD0, 0xD3, 1, 0, [1, 2, 4, 8])
_spell(0xD4, 0xD8, 2, 0, [1, 2, 4, 8, 16])  # extensions of these sizes


def _codes(codes: Bytes) -> list[int]:
    """Return the first bytes that there are."""
    found: list[int] = np.flatnonzero(np.bincount(codes, minlength=256)).tolist()
    return found


def _span(buffer: Bytes, at: Places) -> _Span | None:
    """Return where the values stand that begin at these places; None if one is a list or so."""
    codes = buffer[at]
    sizes = _SIZE[codes]
    if (sizes < 0).any():
        return None
    for saying in set(_SAYING[_codes(codes)].tolist()) - {0}:
        rows = np.flatnonzero(_SAYING[codes] == saying)
        sizes[rows] = _big_endian(buffer, at[rows] + 1, saying)
    starts = at + _BEFORE[codes]
    return _Span(codes, starts, starts + sizes)


def _big_endian(buffer: Bytes, at: Places, width: int) -> Places:
    found = buffer[at].astype(np.int64)
    for step in range(1, width):
        found = found << 8 | buffer[at + step]
    return found


def _whole(buffer: Bytes, span: _Span) -> pa.Array | None:
    codes, starts = span.codes, span.starts
    values = codes.view(np.int8).astype(np.int64)  # right for those that are their byte
    for code in _codes(codes):
        if code < 0x80 or code >= 0xE0 or code == 0xC0:
            continue
        if not (0xCC <= code <= 0xCF or 0xD0 <= code <= 0xD3):
            return None
        width = 1 << (code & 3)
        rows = np.flatnonzero(codes == code)
        number = _big_endian(buffer, starts[rows], width)
        if code >= 0xD0 and width < 8:
            number = (number ^ (1 << (8 * width - 1))) - (1 << (8 * width - 1))
        elif code == 0xCF and (number < 0).any():
            return None
        values[rows] = number
    return arrow_array(values, absent=codes == 0xC0)


def _float(buffer: Bytes, span: _Span) -> pa.Array | None:
    codes, starts = span.codes, span.starts
    numbers = codes == 0xCB
    others = ~numbers & (codes != 0xC0)
    values = np.zeros(len(codes), np.float64)
    eight = np.arange(8)
    values[numbers] = buffer[starts[numbers][:, None] + eight].view(">f8").ravel()
    if others.any():
        rows = np.flatnonzero(others)
        whole = _whole(buffer, _Span(codes[rows], starts[rows], span.ends[rows]))
        if whole is None:
            return None
        exact = whole.to_numpy()
        if (np.abs(exact) > _EXACT).any():
            return None
        values[rows] = exact
    return arrow_array(values, absent=codes == 0xC0)


def _truth(buffer: Bytes, span: _Span) -> pa.Array | None:
    codes = span.codes
    if not set(_codes(codes)) <= {0xC0, 0xC2, 0xC3}:
        return None
    return arrow_array(codes == 0xC3, absent=codes == 0xC0)


def _text(buffer: Bytes, span: _Span) -> pa.Array | None:
    plain = all(0xA0 <= c <= 0xBF or 0xD9 <= c <= 0xDB or c == 0xC0 for c in _codes(span.codes))
    found = _cut(buffer, span, pa.string()) if plain else None
    try:
        if found is not None:
            found.validate(full=True)
    except pa.ArrowInvalid:  # it is no UTF-8
        return None
    return found


def _bytes(buffer: Bytes, span: _Span) -> pa.Array | None:
    plain = set(_codes(span.codes)) <= {0xC0, 0xC4, 0xC5, 0xC6}
    return _cut(buffer, span, pa.binary()) if plain else None


def _geometry(buffer: Bytes, span: _Span) -> pa.Array | None:
    if not set(_codes(span.codes)) <= {0xC0, *range(0xC7, 0xCA), *range(0xD4, 0xD9)}:
        return None
    there = span.codes != 0xC0
    if (buffer[span.starts[there] - 1] != GEOMETRY).any():
        return None
    return _cut(buffer, span, pa.binary())


def _cut(buffer: Bytes, span: _Span, type_: pa.DataType) -> pa.Array:
    """Return the contents as a column, null where there is no value.

    Seen as a column themselves, contents and what is between them take turns; every second
    is taken.
    """
    count = len(span.codes)
    offsets = np.empty(2 * count, np.int32)
    offsets[::2], offsets[1::2] = span.starts, span.ends
    turns = pa.Array.from_buffers(
        type_, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    chosen = arrow_array(np.arange(0, 2 * count, 2), absent=span.codes == 0xC0)
    return pc.take(turns, chosen)


_READERS = {
    Kind.WHOLE: _whole,
    Kind.FLOAT: _float,
    Kind.TRUTH: _truth,
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.GEOMETRY: _geometry,
}
