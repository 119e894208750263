"""Writing scanned WKB anew: other headers, other byte order, same coordinates.

`rewrite` turns whatever `scan` understood into canonical WKB or into EWKB, for
all values of a column in a fixed number of numpy steps.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from havasu_vc.geo.buffers import Bools, ByteColumn, Bytes, Ints, overlapping, ranges
from havasu_vc.geo.kinds import SRID_FLAG
from havasu_vc.geo.layout import Layout

__all__ = ["rewrite", "shallow"]

_Z_FLAG: Final = 0x80000000
_M_FLAG: Final = 0x40000000


def shallow(column: ByteColumn) -> Layout:
    """Return the layout of the outermost headers alone, of a column known to be canonical."""
    word = overlapping(column.data, "<u4")[column.starts + 1].astype(np.int64)
    dimensions, kind = np.divmod(word, 1000)
    nothing = np.zeros(len(word), np.int64)
    return Layout(
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
    layout: Layout, *, extended: bool = False, srids: npt.NDArray[np.int32] | None = None
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


def _type_words(layout: Layout, insert: Bools, extended: bool) -> Ints:
    if not extended:
        return layout.kind + 1000 * layout.dimensions
    flags = np.where(layout.dimensions & 1, _Z_FLAG, 0)
    flags |= np.where(layout.dimensions & 2, _M_FLAG, 0)
    return layout.kind | flags | np.where(insert, SRID_FLAG, 0)


def _turn_big(layout: Layout, headers: Bools, after: Ints, data: Bytes) -> None:
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
