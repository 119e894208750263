"""The walk of `layout.scan` over a single value, for the few that are long.

One value with a hundred thousand parts would take as many steps of numpy, each
for a handful of bytes; plain Python is faster there. It reads exactly what the
walk side by side reads, may take over from it anywhere, and finds the same items
and faults.
"""

import struct
from typing import Final

from havasu_vc.geo.kinds import (
    BAD_COUNT,
    BAD_PART,
    BASE_MASK,
    KINDS,
    LINE,
    MAX_DEPTH,
    MIN_PART,
    NO_ORDER,
    NO_TYPE,
    PART_KINDS,
    PARTS,
    RINGS,
    SHAPES,
    SRID_FLAG,
    TOO_DEEP,
    TOO_LONG,
    TRUNCATED,
    VERTEX,
)

__all__ = ["Cursor"]

_ORDINATES: Final = (2, 3, 3, 4)
_LITTLE_WORD: Final = struct.Struct("<I").unpack_from
_BIG_WORD: Final = struct.Struct(">I").unpack_from


class Cursor:
    """The same walk over a single value, for the few that are long."""

    def __init__(
        self, data: memoryview, value: int, position: int, stack: list[tuple[int, int]]
    ) -> None:
        self.data = data
        self.value = value
        self.position = position
        self.stack = stack
        self.items: list[tuple[int, ...]] = []
        self.rings = 0
        self.ring_big = False
        self.ring_dimensions = 0

    def walk(self) -> str | None:
        """Read to the end; return what is wrong, if anything."""
        end = len(self.data)
        while True:
            reason = self._read_rings(end) if self.rings else self._read_header(end)
            if reason is not None:
                return reason
            if self.rings:
                continue
            while self.stack and self.stack[-1][0] == 0:
                self.stack.pop()
            if not self.stack:
                return None if self.position == end else TOO_LONG
            left, part = self.stack[-1]
            self.stack[-1] = (left - 1, part)

    def _read_rings(self, end: int) -> str | None:
        dimensions, big = self.ring_dimensions, self.ring_big
        size = 8 * _ORDINATES[dimensions]
        read = _BIG_WORD if big else _LITTLE_WORD
        position = self.position
        for _ in range(self.rings):
            start = position + 4
            if start > end:
                return TRUNCATED
            (count,) = read(self.data, position)
            if start + count * size > end:
                return BAD_COUNT
            self.items.append((self.value, position, 0, dimensions, 0, big, 1, start, count))
            position = start + count * size
        self.position, self.rings = position, 0
        return None

    def _read_header(self, end: int) -> str | None:
        position = self.position
        if position + 5 > end:
            return TRUNCATED
        order = self.data[position]
        if order > 1:
            return NO_ORDER
        big = order == 0
        read = _BIG_WORD if big else _LITTLE_WORD
        (word,) = read(self.data, position + 1)
        dimensions, kind = divmod(word & BASE_MASK, 1000)
        if dimensions > 3 or kind not in KINDS:
            return NO_TYPE
        if self.stack and self.stack[-1][1] not in (0, kind):
            return BAD_PART
        dimensions |= (word >> 31) | (word >> 29 & 2)
        has_srid = bool(word & SRID_FLAG)
        start = position + 5 + 4 * has_srid
        shape, count = SHAPES[kind], 1
        if shape != VERTEX:
            start += 4
        if start > end:
            return TRUNCATED
        if shape != VERTEX:
            (count,) = read(self.data, start - 4)
        size = 8 * _ORDINATES[dimensions]
        leaf = shape <= LINE
        if start + count * (size if leaf else 4 if shape == RINGS else MIN_PART) > end:
            return BAD_COUNT
        own, plain = (count if leaf else 0), word <= BASE_MASK
        self.items.append(
            (self.value, position, kind, dimensions, has_srid, big, plain, start, own)
        )
        self.position = start + own * size
        if shape == RINGS:
            self.rings, self.ring_big, self.ring_dimensions = count, big, dimensions
        elif shape == PARTS and count:
            if len(self.stack) >= MAX_DEPTH:
                return TOO_DEEP
            self.stack.append((count, PART_KINDS[kind]))
        return None
