"""Where everything lies in a column of WKB: the one parser of geometry bytes.

`scan` walks all values of a column side by side, one header of each per step,
and records an `Item` per geometry and per polygon ring. It reads ISO WKB and
EWKB of either byte order, mixed as they come, in all the types that ISO numbers
(curves and surfaces too), and is what makes bytes from strangers safe: every
count is checked against the bytes that are there before anything is allocated,
nesting stops at `MAX_DEPTH`, and a value that is truncated, too long or not WKB
is a `GeometryError` that names its row.

Codecs, bounds and reprojection work on the layout alone, so they never change
what they do not mean to: unclosed rings, single-point lines, NaN and the
dimensions of empty parts survive.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from havasu_vc.geo.buffers import (
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
    UNKNOWN,
    VERTEX,
    Bools,
    ByteColumn,
    Ints,
    overlapping,
    ranges,
    row_error,
)
from havasu_vc.records import dataclass

__all__ = ["Cursor", "GeometryLayout", "scan"]


_NARROW: Final = 64  # below so many values, walking them one by one is faster

_SHAPE: Final = np.array(SHAPES)
_PART: Final = np.array(PART_KINDS)


@dataclass(frozen=True, slots=True)
class GeometryLayout:
    """Every geometry and every ring in a column, in the order of their bytes.

    All arrays have one element per item. A ring is an item of kind 0.
    """

    column: ByteColumn
    """The column that was scanned."""
    value: Ints
    """Which value of the column the item is in."""
    position: Ints
    """Where the item begins: its byte order mark, or a ring's count."""
    kind: Ints
    """The ISO type without dimensions; 0 for a ring."""
    dimensions: Ints
    """0 for XY, 1 for XYZ, 2 for XYM, 3 for XYZM."""
    has_srid: Bools
    """Whether an SRID stands behind the type."""
    big: Bools
    """Whether the item is big-endian."""
    iso: Bools
    """Whether the type word is ISO's: no EWKB flags."""
    start: Ints
    """Where the item's own vertices begin."""
    count: Ints
    """How many vertices the item has itself."""

    @property
    def ordinates(self) -> Ints:
        """How many numbers each vertex has."""
        return 2 + (self.dimensions & 1) + (self.dimensions >> 1)

    @property
    def is_top(self) -> Bools:
        """Which items are a value's outermost geometry."""
        return np.asarray(self.position == self.column.starts[self.value])

    @property
    def canonical(self) -> Bools:
        """Which items are little-endian ISO WKB without an SRID."""
        return np.asarray(self.iso & ~self.big & ~self.has_srid)

    def srids(self) -> npt.NDArray[np.int32]:
        """Return the outermost SRID of every value, 0 where there is none."""
        found = np.zeros(len(self.column.starts), np.int32)
        items = np.flatnonzero(self.has_srid & self.is_top)
        if items.size:
            raw = overlapping(self.column.data, "<i4")[self.position[items] + 5]
            found[self.value[items]] = np.where(self.big[items], raw.byteswap(), raw)
        return found


def scan(column: ByteColumn, *, narrow: int = _NARROW) -> GeometryLayout:
    """Find every geometry and ring of a column, or refuse what is not sound WKB."""
    walk = _Walk(column)
    walk.run(narrow)
    if walk.fault is not None:
        value, reason = walk.fault
        raise row_error(int(column.rows[value]), reason)
    items = np.concatenate(walk.items) if walk.items else np.empty((0, 9), np.int64)
    if np.any(items[1:, 1] < items[:-1, 1]):
        # Values never overlap, so positions order the items of all of them.
        items = items[np.argsort(items[:, 1], kind="stable")]
    value, position, kind, dimensions, has_srid, big, iso, start, count = items.T
    return GeometryLayout(
        column,
        value,
        position,
        kind,
        dimensions,
        has_srid != 0,
        big != 0,
        iso != 0,
        start,
        count,
    )


class _Walk:
    """The state of a scan: one cursor per value.

    A step checks before it changes anything. When it finds unsound values it
    drops them, and all behind the first of them, and starts anew.
    """

    def __init__(self, column: ByteColumn) -> None:
        self.column = column
        self.data = column.data
        self.words = overlapping(column.data, "<u4")
        self.items: list[Ints] = []
        self.fault: tuple[int, str] | None = None
        count = len(column.starts)
        self.position = column.starts.copy()
        self.end = column.ends
        self.over = np.zeros(count, np.bool_)
        self.depth = np.zeros(count, np.int64)
        # For each level of nesting, how many parts are still to come and of what kind.
        self.left = np.zeros((count, 1), np.int64)
        self.part = np.zeros((count, 1), np.int64)
        # In a polygon: rings still to come, byte order and dimensions of their vertices.
        self.rings = np.zeros(count, np.int64)
        self.ring_big = np.zeros(count, np.bool_)
        self.ring_dimensions = np.zeros(count, np.int64)

    def run(self, narrow: int) -> None:
        active = np.arange(len(self.position))
        first = True  # a long multipoint takes a single step
        while active.size >= max(narrow, 1) or (first and active.size):
            first = False
            in_ring = self.rings[active] > 0
            if not in_ring.any():
                self.step_headers(active)
            elif in_ring.all():
                self.step_rings(active)
            else:
                self.step_rings(active[in_ring])
                self.step_headers(active[~in_ring])
            if self.fault is not None:
                active = active[active < self.fault[0]]
            active = active[~self.over[active]]
        for value in active.tolist():
            if self.fault is None or value < self.fault[0]:
                self.walk_alone(value)

    def refuse(self, values: Ints, unsound: Bools, reason: str) -> Ints:
        """Note the first unsound value; return those before it."""
        first = int(values[unsound].min())
        if self.fault is None or first < self.fault[0]:
            self.fault = (first, reason)
        return values[values < first]

    def word(self, positions: Ints, big: Bools) -> Ints:
        read = self.words[positions]
        if big.any():
            read = np.where(big, read.byteswap(), read)
        return read.astype(np.int64)

    def emit(self, *fields: Ints | Bools | int) -> None:
        block = np.empty((np.size(fields[0]), 9), np.int64)
        for index, field in enumerate(fields):
            block[:, index] = field
        self.items.append(block)

    def step_rings(self, values: Ints) -> None:
        """Read one ring of every value, all of which stand before one."""
        position, end = self.position[values], self.end[values]
        unsound = position + 4 > end
        if unsound.any():
            return self.step_rings(self.refuse(values, unsound, TRUNCATED))
        big, dimensions = self.ring_big[values], self.ring_dimensions[values]
        count = self.word(position, big)
        start = position + 4
        after = start + count * _vertex_size(dimensions)
        unsound = after > end
        if unsound.any():
            return self.step_rings(self.refuse(values, unsound, BAD_COUNT))
        self.emit(values, position, 0, dimensions, 0, big, 1, start, count)
        self.position[values] = after
        self.rings[values] -= 1
        return self.finish(values[self.rings[values] == 0])

    def step_headers(self, values: Ints) -> None:
        """Read one geometry's header, and the vertices behind it, of every value."""
        position, end = self.position[values], self.end[values]
        unsound = position + 5 > end
        if unsound.any():
            return self.step_headers(self.refuse(values, unsound, TRUNCATED))
        order = self.data[position]
        unsound = order > 1
        if unsound.any():
            return self.step_headers(self.refuse(values, unsound, NO_ORDER))
        big = order == 0
        word = self.word(position + 1, big)
        number = word & BASE_MASK
        iso_dimensions = number // 1000
        kind = number - iso_dimensions * 1000
        unsound = (number >= 4000) | (kind >= _SHAPE.size)
        unsound |= _SHAPE[np.where(unsound, 0, kind)] == UNKNOWN
        if unsound.any():
            return self.step_headers(self.refuse(values, unsound, NO_TYPE))
        if self.left.shape[1] > 1 or self.depth[values].any():
            depth = self.depth[values]
            expected = np.where(depth > 0, self.part[values, np.maximum(depth - 1, 0)], 0)
            unsound = (expected != 0) & (expected != kind)
            if unsound.any():
                return self.step_headers(self.refuse(values, unsound, BAD_PART))
        dimensions = iso_dimensions | ((word >> 31) & 1) | ((word >> 29) & 2)
        return self.read_bodies(values, big, word, dimensions, kind)

    def read_bodies(
        self, values: Ints, big: Bools, word: Ints, dimensions: Ints, kind: Ints
    ) -> None:
        position, end = self.position[values], self.end[values]
        has_srid = (word & SRID_FLAG) != 0
        shape, size = _SHAPE[kind], _vertex_size(dimensions)
        counted = shape != VERTEX
        body = position + 5 + 4 * has_srid
        start = body + 4 * counted
        unsound = start > end
        if unsound.any():
            return self.step_headers(self.refuse(values, unsound, TRUNCATED))
        count = np.ones_like(body)
        if counted.all():
            count = self.word(body, big)
        elif counted.any():
            count[counted] = self.word(body[counted], big[counted])
        leaf = shape <= LINE
        least = np.where(leaf, size, np.where(shape == RINGS, 4, MIN_PART))
        unsound = start + count * least > end
        if unsound.any():
            return self.step_headers(self.refuse(values, unsound, BAD_COUNT))
        own = np.where(leaf, count, 0)
        plain = word <= BASE_MASK
        self.emit(values, position, kind, dimensions, has_srid, big, plain, start, own)
        self.position[values] = start + own * size
        done = leaf | (count == 0)
        rings = (shape == RINGS) & ~done
        if rings.any():
            polygons = values[rings]
            self.rings[polygons] = count[rings]
            self.ring_big[polygons] = big[rings]
            self.ring_dimensions[polygons] = dimensions[rings]
        points = (kind == 4) & ~done
        if points.any():
            done[points] = self.take_points(
                values[points], big[points], word[points], dimensions[points], count[points]
            )
        parts = (shape == PARTS) & ~done
        if parts.any():
            self.enter(values[parts], count[parts], _PART[kind[parts]])
        return self.finish(values[done])

    def take_points(
        self, values: Ints, big: Bools, word: Ints, dimensions: Ints, count: Ints
    ) -> Bools:
        """Read whole multipoints whose points are all alike; return which were read."""
        start = self.position[values]
        size = 5 + _vertex_size(dimensions)
        alike = start + count * size <= self.end[values]
        reach = np.where(alike, count, 0)
        points = ranges(start, reach, size)
        owner = np.repeat(np.arange(len(values)), reach)
        wanted = (word & ~np.int64(SRID_FLAG)) - 3
        same = self.data[points] == np.where(big, 0, 1)[owner]
        same &= self.word(points + 1, big[owner]) == wanted[owner]
        alike[owner[~same]] = False
        chosen = alike[owner]
        points, owner = points[chosen], owner[chosen]
        self.emit(
            values[owner],
            points,
            1,
            dimensions[owner],
            0,
            big[owner],
            (wanted <= BASE_MASK)[owner],
            points + 5,
            1,
        )
        self.position[values[alike]] = (start + count * size)[alike]
        return alike

    def enter(self, values: Ints, count: Ints, part: Ints) -> None:
        """Go down into collections that have parts."""
        depth = self.depth[values]
        unsound = depth >= MAX_DEPTH
        if unsound.any():
            self.refuse(values, unsound, TOO_DEEP)
            self.over[values[unsound]] = True
            values, count, part, depth = (field[~unsound] for field in (values, count, part, depth))
        if depth.size and int(depth.max()) >= self.left.shape[1]:
            grown = np.zeros((len(self.position), 1), np.int64)
            self.left = np.hstack([self.left, grown])
            self.part = np.hstack([self.part, grown])
        self.left[values, depth] = count
        self.part[values, depth] = part
        self.depth[values] = depth + 1

    def finish(self, values: Ints) -> None:
        """Go up from geometries that are complete."""
        while values.size:
            depth = self.depth[values]
            whole = depth == 0
            if whole.any():
                complete = values[whole]
                self.over[complete] = True
                unsound = self.position[complete] != self.end[complete]
                if unsound.any():
                    self.refuse(complete, unsound, TOO_LONG)
                values, depth = values[~whole], depth[~whole]
            self.left[values, depth - 1] -= 1
            values = values[self.left[values, depth - 1] == 0]
            self.depth[values] -= 1

    def walk_alone(self, value: int) -> None:
        """Walk the rest of one value without numpy."""
        data = self.data.data[: int(self.end[value])]
        depth = int(self.depth[value])
        # `left` counts the part that is being read, the cursor's stack does not.
        stack = list(
            zip(
                (self.left[value, :depth] - 1).tolist(),
                self.part[value, :depth].tolist(),
                strict=True,
            )
        )
        cursor = Cursor(data, value, int(self.position[value]), stack)
        cursor.rings = int(self.rings[value])
        cursor.ring_big = bool(self.ring_big[value])
        cursor.ring_dimensions = int(self.ring_dimensions[value])
        reason = cursor.walk()
        if reason is not None:
            self.fault = (value, reason)
        if cursor.items:
            self.items.append(np.array(cursor.items, np.int64))


def _vertex_size(dimensions: Ints) -> Ints:
    return 8 * (2 + (dimensions & 1) + (dimensions >> 1))


# The walk of `layout.scan` over a single value, for the few that are long.
#
# One value with a hundred thousand parts would take as many steps of numpy, each
# for a handful of bytes; plain Python is faster there. It reads exactly what the
# walk side by side reads, may take over from it anywhere, and finds the same items
# and faults.

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
