"""Roaring bitmaps of 64 bits in their portable form, as deletion vectors of tables have them.

    bitmap    count u64, then for each: high 32 bits u32, a bitmap of 32 bits
    vector    magic u32, bitmap                          (Delta, inline)
    framed    length u32 big-endian, vector, CRC-32 u32 big-endian
                                                         (Delta's files, Iceberg's Puffin blobs)
    older     magic - 1 u32, count u32, for each: its size u32, a bitmap of 32 bits
              (Delta's first form, which its protocol shows as an example; of either order)

A few bytes can stand for billions of positions, since a run is four bytes whatever its
length. So callers say how many there can be, and the sum of what the bitmap declares
is held against that before anything is allocated. What cannot be read is a
`ValueError` that says why.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

__all__ = [
    "MOST_POSITIONS",
    "parse_deletion_vector",
    "parse_framed_deletion_vector",
    "parse_roaring_bitmap",
]

MOST_POSITIONS = 1 << 24
"""Positions that a bitmap may have when its reader cannot tell how many there are."""

_MAGIC = 1681511377
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
_LONGEST_ARRAY = 4096
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4
"""Containers from which on a bitmap with runs has a table of offsets."""
_MOST_CONTAINERS = 1 << 16

Positions = npt.NDArray[np.int64]


def parse_framed_deletion_vector(data: bytes, *, most: int = MOST_POSITIONS) -> Positions:
    """Return the positions of a vector between its length and its checksum."""
    if len(data) < 12:
        raise ValueError("a deletion vector is cut short")
    (length,) = struct.unpack_from(">I", data)
    if length != len(data) - 8:
        raise ValueError(f"a deletion vector says {length} bytes and has {len(data) - 8}")
    (checksum,) = struct.unpack_from(">I", data, len(data) - 4)
    vector = data[4:-4]
    if zlib.crc32(vector) != checksum:
        raise ValueError("a deletion vector is damaged: its checksum differs")
    return parse_deletion_vector(vector, most=most)


def parse_deletion_vector(data: bytes, *, most: int = MOST_POSITIONS) -> Positions:
    """Return the positions of a vector, which come in order."""
    for order in "<>":
        if data[:4] == struct.pack(f"{order}I", _MAGIC - 1):
            return _parse_older(data[4:], order, most)
    if len(data) < 4 or struct.unpack_from("<I", data)[0] != _MAGIC:
        raise ValueError("a deletion vector begins with another number than it must")
    return parse_roaring_bitmap(data[4:], most=most)


def parse_roaring_bitmap(data: bytes, *, most: int = MOST_POSITIONS) -> Positions:
    """Return the positions of a 64-bit bitmap, in order; `most` is how many there may be."""
    reader = _Reader(data, most)
    count = reader.number("<Q", "its count of bitmaps")
    parts: list[Positions] = []
    last = -1
    for _ in range(count):
        high = reader.number("<I", "the high bits of a bitmap")
        if not last < high < 1 << 31:
            raise ValueError("the high bits of its bitmaps are not in order")
        last = high
        parts += reader.bitmap(high << 32)
    return _in_order(reader, parts)


def _in_order(reader: _Reader, parts: list[Positions]) -> Positions:
    if reader.left:
        raise ValueError(f"{reader.left} bytes follow a roaring bitmap")
    positions = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if len(positions) > 1 and not bool(np.all(positions[1:] > positions[:-1])):
        raise ValueError("the positions of a roaring bitmap are not in order")
    return positions


def _parse_older(data: bytes, order: str, most: int) -> Positions:
    """Return the positions of bitmaps whose high bits are their number."""
    reader = _Reader(data, most)
    parts: list[Positions] = []
    for high in range(reader.number(f"{order}I", "its count of bitmaps")):
        size = reader.number(f"{order}I", "the size of a bitmap")
        start = reader.place
        parts += reader.bitmap(high << 32)
        if reader.place - start != size:
            raise ValueError("a bitmap of a deletion vector has another size than it says")
    return _in_order(reader, parts)


class _Reader:
    """Reads bitmaps of 32 bits from one buffer, one after the other."""

    def __init__(self, data: bytes, most: int) -> None:
        self._data = data
        self._allowed = most
        self._most = most
        self.place = 0

    @property
    def left(self) -> int:
        """How many bytes come after what was read."""
        return len(self._data) - self.place

    def number(self, form: str, what: str) -> int:
        """Return the next number."""
        return int(struct.unpack(form, self._take(struct.calcsize(form), what))[0])

    def bitmap(self, base: int) -> list[Positions]:
        """Return the positions of the next bitmap, one array for each of its containers."""
        cookie = self.number("<I", "the head of a bitmap")
        runs = np.empty(0, np.bool_)
        if cookie & 0xFFFF == _WITH_RUNS:
            count = (cookie >> 16) + 1
            flags = np.frombuffer(self._take((count + 7) // 8, "its flags of runs"), np.uint8)
            runs = np.unpackbits(flags, bitorder="little")[:count].astype(np.bool_)
        elif cookie == _WITHOUT_RUNS:
            count = self.number("<I", "its count of containers")
            if count > _MOST_CONTAINERS:
                raise ValueError(f"a roaring bitmap says that it has {count} containers")
        else:
            raise ValueError(f"a roaring bitmap begins with the unknown number {cookie}")
        heads = np.frombuffer(self._take(4 * count, "the heads of containers"), "<u2")
        keys = heads[0::2].astype(np.int64)
        sizes = heads[1::2].astype(np.int64) + 1
        self._allow(int(sizes.sum()))
        if not len(runs) or count >= _OFFSETS_FROM:
            self._take(4 * count, "the offsets of containers")  # they follow each other anyway
        is_run = runs if len(runs) else np.zeros(count, np.bool_)
        return [
            self._container(base + (key << 16), size, run=run)
            for key, size, run in zip(keys.tolist(), sizes.tolist(), is_run.tolist(), strict=True)
        ]

    def _container(self, base: int, size: int, *, run: bool) -> Positions:
        if run:
            low = self._runs(size)
        elif size <= _LONGEST_ARRAY:
            low = np.frombuffer(self._take(2 * size, "a container"), "<u2").astype(np.int64)
        else:
            bits = np.frombuffer(self._take(_BITMAP_BYTES, "a container"), np.uint8)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
        if len(low) != size:
            raise ValueError(f"a container of a roaring bitmap says {size} and has {len(low)}")
        return low + base

    def _runs(self, size: int) -> Positions:
        count = self.number("<H", "a count of runs")
        pairs = np.frombuffer(self._take(4 * count, "a container of runs"), "<u2")
        starts = pairs[0::2].astype(np.int64)
        lengths = pairs[1::2].astype(np.int64) + 1
        if int(lengths.sum()) != size:
            raise ValueError(
                f"a container of a roaring bitmap says {size} and has {int(lengths.sum())}"
            )
        if count and int((starts + lengths).max()) > 1 << 16:
            raise ValueError("a run of a roaring bitmap goes beyond its container")
        before = np.cumsum(lengths) - lengths
        return np.repeat(starts - before, lengths) + np.arange(size, dtype=np.int64)

    def _allow(self, positions: int) -> None:
        self._allowed -= positions
        if self._allowed < 0:
            raise ValueError(f"a roaring bitmap has more than {self._most} positions")

    def _take(self, size: int, what: str) -> bytes:
        end = self.place + size
        if end > len(self._data):
            raise ValueError(f"a roaring bitmap ends in {what}")
        taken = self._data[self.place : end]
        self.place = end
        return taken
