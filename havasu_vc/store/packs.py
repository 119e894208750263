"""A git pack and its index, written as objects come.

Layout (gitformat-pack): `PACK`, version 2, the number of objects; per object a
header of type and size and its zlib stream; the sha1 of all that. Beside it stands its
index (`pack_index`).

The pack grows under a temporary name that git's own housekeeping recognises
(`tmp_pack_…`). `finish` makes it durable and visible in the one safe order: fsync,
rename `.pack`, fsync and rename `.idx`, fsync the folder. A git that looks in between
sees no pack or all of it. An object that was added twice is stored once. Where its
objects are is kept on disk, but for the last ones. A pack may begin with all of another one
(`growing`).
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from havasu_vc.errors import StorageError
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.store.places import ObjectPlaces
from havasu_vc.store.system import read_at, set_mode

if TYPE_CHECKING:
    from havasu_vc.store.growing import Grown

__all__ = ["PackWriter"]

COMPRESSION = 1
"""zlib level; `git gc` compresses again, and most objects here are small."""

SMALL = 1024
"""Objects up to so many bytes are only compressed while that makes them smaller."""
SAMPLE = 128
"""Of those one in so many is compressed all the same, to see whether it does."""
WORTH = 0.93
"""Compressed to more of its size than this on average, an object is better left as it is."""
MOSTLY_IDS = 4096
"""Trees up to so many bytes are mostly ids, which nothing compresses: a third is not worth what
it takes where they come a few thousand at a time. What pushes them compresses them."""

DEEPEST = 12
"""Deltas upon deltas after which a tree is stored whole again, and up to `DEEPER` more.

How many is told from its id: so of the trees of a commit a few are whole, and not all at once."""
DEEPER = 8
_HASHED = 1 << 16
"""Bytes of a pack that are hashed at once: two blocks of them are there while one is read."""
_TREE, _DELTA = 2, 6

_HEADER = struct.Struct(">4sLL")
_BLOCK = struct.Struct("<HH")


class PackWriter:
    """One pack in the making."""

    def __init__(self, folder: Path, upon: Grown | None = None) -> None:
        """Begin a pack that will stand in `folder`, with what another one has."""
        self._folder = folder
        self._before = 0 if upon is None else upon.size
        with reporting_storage_errors(folder):
            folder.mkdir(exist_ok=True)
            number, name = tempfile.mkstemp(prefix="tmp_pack_havasu_", dir=folder)
        self._temporary = Path(name)
        self._file: BinaryIO = os.fdopen(number, "w+b", buffering=1 << 18)
        self._position = _HEADER.size
        self._file.write(_HEADER.pack(b"PACK", 2, 0))
        self._small = 0
        self._ratio = 0.0
        self._places = ObjectPlaces()
        if upon is not None:
            self._write(upon.copied())
            self._file.flush()  # what was copied is looked at there
            self._position = upon.size
            self._places.take(upon.ids, upon.offsets, upon.checks)

    def __len__(self) -> int:
        return len(self._places)

    def holds(self, identity: bytes) -> bool:
        """Whether an object is in it."""
        return self._places.find(identity) is not None

    def may_base(self, base: bytes, identity: bytes) -> bool:
        """Whether an object can be stored as what it differs in from another one here."""
        offset = self._places.find(base)
        if offset is None or offset >= self._before:
            return False
        depth = 1
        while (offset := self._base_of(offset)) is not None:
            depth += 1
        return depth <= DEEPEST + identity[0] % DEEPER

    def _base_of(self, offset: int) -> int | None:
        """Return where the base of a delta begins; None for what is stored whole."""
        head = read_at(self._file.fileno(), 32, offset)
        number, _, at = _parse_object_header(head)
        if number != _DELTA:
            return None
        distance = head[at] & 127
        while head[at] & 128:
            at += 1
            distance = (distance + 1) << 7 | head[at] & 127
        return offset - distance

    def add_delta(self, identity: bytes, base: bytes, delta: bytes) -> None:
        """Append an object as what it differs in from one that is here."""
        offset = self._places.find(base)
        if offset is None:
            raise ValueError("the base of a delta is not in its pack")
        head = _object_header(_DELTA, len(delta)) + _distance(self._position - offset)
        self._append(identity, head + zlib.compress(delta, COMPRESSION))

    def add(self, identity: bytes, number: int, data: bytes) -> None:
        """Append an object of git's type `number` unless the pack holds it."""
        if self._places.find(identity) is None:
            self._append(identity, self._stored(number, data))

    def add_tree(self, identity: bytes, data: bytes) -> None:
        """Append a tree unless the pack holds it, as it is if it is small."""
        if self._places.find(identity) is None:
            plain = 0 < len(data) <= MOSTLY_IDS
            self._append(identity, _plain(_TREE, data) if plain else self._stored(_TREE, data))

    def add_all(self, number: int, identities: Sequence[bytes], objects: Sequence[bytes]) -> None:
        """Append those of many objects of git's type `number` that the pack does not hold."""
        fresh = self._places.fresh(identities)
        stored = [self._stored(number, objects[at]) for at in fresh.values()]
        self._write(stored)
        ends = [*accumulate(map(len, stored), initial=self._position)]
        self._places.add_all([*fresh], ends[:-1], map(zlib.crc32, stored))
        self._position = ends[-1]

    def _write(self, pieces: Iterable[bytes]) -> None:
        try:
            self._file.writelines(pieces)
        except OSError:
            with reporting_storage_errors(self._folder):
                raise

    def _append(self, identity: bytes, stored: bytes) -> None:
        self._write((stored,))
        self._places.add(identity, self._position, zlib.crc32(stored))
        self._position += len(stored)

    def _stored(self, number: int, data: bytes) -> bytes:
        """Return an object as it stands in a pack, compressed by what was seen of others."""
        size = len(data)
        if not 0 < size <= SMALL:
            return _object_header(number, size) + zlib.compress(data, COMPRESSION)
        # Most of the time that a pack of very many rows takes is spent here.
        self._small += 1
        if self._ratio > WORTH and self._small % SAMPLE:
            return _plain(number, data)
        stream = zlib.compress(data, COMPRESSION)
        self._ratio += (len(stream) / size - self._ratio) / 16
        return _object_header(number, size) + stream

    def read(self, identity: bytes) -> tuple[int, bytes] | None:
        """Return type number and bytes of an object that was added, or None."""
        offset = self._places.find(identity)
        if offset is None:
            return None
        with reporting_storage_errors(self._folder):
            self._file.flush()
            number = self._file.fileno()
            block = read_at(number, 4096, offset)
            kind, size, start = _parse_object_header(block)
            expander = zlib.decompressobj()
            parts = [expander.decompress(block[start:])]
            position = offset + len(block)
            while not expander.eof and (block := read_at(number, size + 1024, position)):
                parts.append(expander.decompress(block))
                position += len(block)
        return kind, b"".join(parts)

    def finish(self) -> Path:
        """Make the pack durable and visible, and return its path."""
        try:
            with reporting_storage_errors(self._folder):
                checksum = self._seal()
                name = f"pack-{checksum.hex()}"
                pack, index = self._folder / f"{name}.pack", self._folder / f"{name}.idx"
                temporary_index = self._write_index(checksum)
                os.replace(self._temporary, pack)
                os.replace(temporary_index, index)
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

    def _seal(self) -> bytes:
        """Write the count into the header and the sha1 at the end."""
        if len(self._places) >= 1 << 32:
            raise StorageError("one git pack cannot hold more than 4 billion objects")
        self._file.seek(0)
        self._file.write(_HEADER.pack(b"PACK", 2, len(self._places)))
        self._file.flush()
        self._file.seek(0)
        digest = hashlib.sha1()
        while block := self._file.read(_HASHED):
            digest.update(block)
        self._file.seek(0, os.SEEK_END)
        self._file.write(digest.digest())
        self._file.flush()
        set_mode(self._file.fileno(), self._temporary, 0o444)
        os.fsync(self._file.fileno())
        self._file.close()
        return digest.digest()

    def _write_index(self, checksum: bytes) -> Path:
        path = self._temporary_index
        with open(path, "xb") as file:
            file.writelines(self._places.index(checksum))
            file.flush()
            set_mode(file.fileno(), path, 0o444)
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


def _plain(number: int, data: bytes) -> bytes:
    """Return an object that is not compressed as it stands in a pack.

    To zlib that is one block, the last one, after which comes a checksum; making it here takes
    a tenth of what zlib does, which gets its tables ready first.
    """
    return _plain_head(number, len(data)) + data + zlib.adler32(data).to_bytes(4)


@cache
def _plain_head(number: int, size: int) -> bytes:
    return _object_header(number, size) + b"\x78\x01\x01" + _BLOCK.pack(size, size ^ 0xFFFF)


def _distance(number: int) -> bytes:
    found = [number & 127]
    while number := number >> 7:
        number -= 1
        found.append(number & 127 | 128)
    return bytes(reversed(found))


def _parse_object_header(block: bytes) -> tuple[int, int, int]:
    number, size = block[0] >> 4 & 7, block[0] & 15
    place, shift = 1, 4
    while block[place - 1] & 128:
        size |= (block[place] & 127) << shift
        shift += 7
        place += 1
    return number, size, place
