"""A git pack and its index, written as objects come.

Layout (gitformat-pack): `PACK`, version 2, the number of objects; per object a
header of type and size and its zlib stream; the sha1 of all that. The index is
version 2: a fan-out of 256 counts, sorted ids, CRCs, offsets, two sha1s.

The pack grows under a temporary name that git's own housekeeping recognises
(`tmp_pack_…`). `finish` makes it durable and visible in the one safe order: fsync,
rename `.pack`, fsync and rename `.idx`, fsync the folder. A git that looks in between
sees no pack or all of it. An object that was added twice is stored once. What is kept
in memory is about 40 bytes per object.
"""

import hashlib
import os
import struct
import tempfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import StorageError
from havasu_vc.store.durability import fsync_folder, reporting_storage_errors

__all__ = ["PackWriter"]

COMPRESSION = 1
"""zlib level; `git gc` compresses again, and most objects here are small."""

SMALL = 1024
"""Objects up to so many bytes are only compressed while that makes them smaller."""
SAMPLE = 32
"""Of those one in so many is compressed all the same, to see whether it does."""
WORTH = 0.93
"""Compressed to more of its size than this on average, an object is better left as it is."""

SEGMENT = 1 << 17
"""Objects that a Python dict holds before they move to arrays."""

_HEADER = struct.Struct(">4sLL")
_LARGE = 1 << 31
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"


class PackWriter:
    """One pack in the making."""

    def __init__(self, folder: Path) -> None:
        """Begin a pack that will stand in `folder`."""
        self._folder = folder
        with reporting_storage_errors(folder):
            folder.mkdir(exist_ok=True)
            number, name = tempfile.mkstemp(prefix="tmp_pack_havasu_", dir=folder)
        self._temporary = Path(name)
        self._file: BinaryIO = os.fdopen(number, "w+b", buffering=1 << 18)
        self._position = _HEADER.size
        self._file.write(_HEADER.pack(b"PACK", 2, 0))
        self._small = 0
        self._ratio = 0.0
        self._recent: dict[bytes, tuple[int, int]] = {}
        self._ids: npt.NDArray[np.bytes_] = np.empty(0, "S20")
        self._offsets: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._checks: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        # By the first three bytes of an id: most that are asked for are not in the arrays.
        self._seen: npt.NDArray[np.bool_] = np.zeros(1 << 24, np.bool_)

    def add(self, identity: bytes, number: int, data: bytes) -> None:
        """Append an object of git's type `number` unless the pack holds it."""
        if self._find(identity) is not None:
            return
        head = _object_header(number, len(data))
        stored = head + self._compressed(data)
        try:
            self._file.write(stored)
        except OSError:
            with reporting_storage_errors(self._folder):
                raise
        self._recent[identity] = (self._position, zlib.crc32(stored))
        self._position += len(stored)
        if len(self._recent) >= SEGMENT:
            self._settle()

    def _compressed(self, data: bytes) -> bytes:
        """Return the zlib stream of an object, by what was seen of others before it."""
        if not 0 < len(data) <= SMALL:
            return zlib.compress(data, COMPRESSION)
        # Most of the time that a pack of very many rows takes is spent here.
        self._small += 1
        if self._ratio > WORTH and self._small % SAMPLE:
            return zlib.compress(data, 0)
        stream = zlib.compress(data, COMPRESSION)
        self._ratio += (len(stream) / len(data) - self._ratio) / 16
        return stream

    def read(self, identity: bytes) -> tuple[int, bytes] | None:
        """Return type number and bytes of an object that was added, or None."""
        offset = self._find(identity)
        if offset is None:
            return None
        with reporting_storage_errors(self._folder):
            self._file.flush()
            number = self._file.fileno()
            block = os.pread(number, 4096, offset)
            kind, size, start = _parse_object_header(block)
            expander = zlib.decompressobj()
            parts = [expander.decompress(block[start:])]
            position = offset + len(block)
            while not expander.eof and (block := os.pread(number, size + 1024, position)):
                parts.append(expander.decompress(block))
                position += len(block)
        return kind, b"".join(parts)

    def finish(self) -> Path:
        """Make the pack durable and visible, and return its path."""
        self._settle()
        try:
            with reporting_storage_errors(self._folder):
                checksum = self._seal()
                name = f"pack-{checksum.hex()}"
                pack, index = self._folder / f"{name}.pack", self._folder / f"{name}.idx"
                temporary_index = self._write_index(checksum)
                os.rename(self._temporary, pack)
                os.rename(temporary_index, index)
                fsync_folder(self._folder)
        except BaseException:
            self.discard()
            raise
        return pack

    def discard(self) -> None:
        """Remove what was written, if it is not visible yet."""
        try:
            self._file.close()
        except OSError:
            pass  # the rest of a buffer that no longer fits on a full disk
        for path in (self._temporary, self._temporary_index):
            path.unlink(missing_ok=True)

    @property
    def _temporary_index(self) -> Path:
        return self._temporary.with_name(self._temporary.name.replace("tmp_pack_", "tmp_idx_"))

    def _find(self, identity: bytes) -> int | None:
        if (recent := self._recent.get(identity)) is not None:
            return recent[0]
        if not self._seen[int.from_bytes(identity[:3])]:
            return None
        # An array of fixed-width bytes ignores trailing zeros on both sides alike.
        wanted = np.array(identity, "S20")
        place = int(np.searchsorted(self._ids, wanted))
        if place < len(self._ids) and self._ids[place] == wanted:
            return int(self._offsets[place])
        return None

    def _settle(self) -> None:
        """Move the recent objects to the sorted arrays."""
        if not self._recent:
            return
        places = np.array(list(self._recent.values()), np.uint64).reshape(-1, 2)
        ids = np.concatenate([self._ids, np.array(list(self._recent), "S20")])
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        first = np.array(list(self._recent), "S3").tobytes()
        digits = np.frombuffer(first, np.uint8).reshape(-1, 3).astype(np.uint32)
        self._seen[digits[:, 0] << 16 | digits[:, 1] << 8 | digits[:, 2]] = True
        self._offsets = np.concatenate([self._offsets, places[:, 0]])[order]
        self._checks = np.concatenate([self._checks, places[:, 1].astype(np.uint32)])[order]
        self._recent = {}

    def _seal(self) -> bytes:
        """Write the count into the header and the sha1 at the end."""
        if len(self._ids) >= 1 << 32:
            raise StorageError("one git pack cannot hold more than 4 billion objects")
        self._file.seek(0)
        self._file.write(_HEADER.pack(b"PACK", 2, len(self._ids)))
        self._file.flush()
        self._file.seek(0)
        digest = hashlib.sha1()
        while block := self._file.read(1 << 20):
            digest.update(block)
        self._file.seek(0, os.SEEK_END)
        self._file.write(digest.digest())
        self._file.flush()
        os.fchmod(self._file.fileno(), 0o444)
        os.fsync(self._file.fileno())
        self._file.close()
        return digest.digest()

    def _write_index(self, checksum: bytes) -> Path:
        first = self._ids.view(np.uint8).reshape(-1, 20)[:, 0]
        fan_out = np.cumsum(np.bincount(first, minlength=256))
        large = self._offsets >= _LARGE
        offsets = self._offsets.astype(np.uint32)
        offsets[large] = _LARGE + np.arange(np.count_nonzero(large), dtype=np.uint32)
        parts = (
            _INDEX_MAGIC,
            fan_out.astype(">u4").tobytes(),
            self._ids.tobytes(),
            self._checks.astype(">u4").tobytes(),
            offsets.astype(">u4").tobytes(),
            self._offsets[large].astype(">u8").tobytes(),
            checksum,
        )
        digest = hashlib.sha1()
        path = self._temporary_index
        with open(path, "xb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
        return path


def _object_header(number: int, size: int) -> bytes:
    byte = number << 4 | size & 15
    size >>= 4
    head = bytearray()
    while size:
        head.append(byte | 128)
        byte = size & 127
        size >>= 7
    head.append(byte)
    return bytes(head)


def _parse_object_header(block: bytes) -> tuple[int, int, int]:
    number, size = block[0] >> 4 & 7, block[0] & 15
    place, shift = 1, 4
    while block[place - 1] & 128:
        size |= (block[place] & 127) << shift
        shift += 7
        place += 1
    return number, size, place
