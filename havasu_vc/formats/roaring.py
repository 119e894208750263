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

import base64
import binascii
import string
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.records import dataclass

__all__ = [
    "MOST_POSITIONS",
    "DeletionVector",
    "parse_deleted",
    "parse_deletion_vector",
    "parse_framed_deletion_vector",
    "parse_roaring_bitmap",
    "vector_of",
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


# Deletion vectors of Delta tables: which rows of a data file are deleted, and where that stands.
#
# An `add` of the log names one by how it is stored: inside of the log (`i`), in a file of
# the table whose name is a UUID (`u`), or in a file anywhere (`p`). Text of bytes is Z85.

_Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
_B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
_UUID_TEXT = 20
_FRAME_BYTES = 8
"""The frame of a vector in a file: its length and a checksum."""
_LARGEST = 256 << 20
_MOST_DELETED = 1 << 25
"""Deleted rows of one file; its footer may claim any number of rows."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the deleted rows of a data file are listed."""

    storage: str
    """`i`, `u` or `p`."""
    place: str
    """The vector itself, or the path of its file, relative to the table for `u`."""
    offset: int
    """Where in the file its frame begins."""
    size: int
    """Bytes of the vector."""
    rows: int
    """How many rows are deleted."""
    identity: str
    """The id that tells it apart from others of the same data file."""

    @property
    def is_inline(self) -> bool:
        """Whether the log has it."""
        return self.storage == "i"

    @property
    def stored_size(self) -> int:
        """Bytes to read from the file."""
        return self.size + _FRAME_BYTES


def vector_of(value: Mapping[str, Any], where: str) -> DeletionVector:
    """Return the vector that an action of the log describes."""
    storage = expect(value.get("storageType"), str, "storageType", where)
    text = expect(value.get("pathOrInlineDv"), str, "pathOrInlineDv", where)
    size = expect(value.get("sizeInBytes"), int, "sizeInBytes", where)
    rows = expect(value.get("cardinality"), int, "cardinality", where)
    offset = value.get("offset")
    start = 0 if offset is None else expect(offset, int, "offset", where)
    if not 0 <= size <= _LARGEST or rows < 0 or not 0 <= start < 1 << 62:
        raise CorruptDatasetError(where, "a deletion vector has a size that is not possible")
    identity = f"{storage}{text}" + ("" if offset is None else f"@{start}")
    match storage:
        case "i" | "p":
            place = text
        case "u":
            place = _file_name(text, where)
        case _:
            raise CorruptDatasetError(where, f"a deletion vector is stored as {storage!r}")
    return DeletionVector(storage, place, start, size, rows, identity)


def _file_name(text: str, where: str) -> str:
    """Return the path of a file whose prefix and UUID stand in a text."""
    prefix, encoded = text[:-_UUID_TEXT], text[-_UUID_TEXT:]
    data = _bytes_of(encoded, where)
    if len(data) != 16:
        raise CorruptDatasetError(where, "a deletion vector names no file")
    if "/" in prefix or prefix in (".", ".."):
        raise CorruptDatasetError(where, "a deletion vector names a folder that is not one")
    name = f"deletion_vector_{uuid.UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name


def _bytes_of(text: str, where: str) -> bytes:
    try:
        data: bytes = base64.b85decode(text.translate(_TO_B85) if set(text) <= set(_Z85) else "\n")
    except (ValueError, binascii.Error, struct.error) as error:
        raise CorruptDatasetError(where, "a deletion vector is not in Z85") from error
    return data


def parse_deleted(
    vector: DeletionVector, data: bytes | None, rows: int, where: str
) -> npt.NDArray[np.int64]:
    """Return the positions that a vector deletes from a file of so many rows.

    `data` is what stands in its file, None for a vector that the log has.
    """
    try:
        if data is None:
            inline = _bytes_of(vector.place, where)[: vector.size]
            positions = parse_deletion_vector(inline, most=min(rows, _MOST_DELETED))
        else:
            positions = parse_framed_deletion_vector(data, most=min(rows, _MOST_DELETED))
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error
    if len(positions) != vector.rows:
        raise CorruptDatasetError(
            where, f"a deletion vector has {len(positions)} rows, its log says {vector.rows}"
        )
    if len(positions) and int(positions[-1]) >= rows:
        raise CorruptDatasetError(where, f"a deletion vector goes beyond the {rows} rows of a file")
    return positions
