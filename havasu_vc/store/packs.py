"""A git pack and its index, written as objects come.

Layout (gitformat-pack): `PACK`, version 2, the number of objects; per object a
header of type and size and its zlib stream; the sha1 of all that. Beside it stands its
index (`pack_index`).

The pack grows under a temporary name that git's own housekeeping recognises
(`tmp_pack_…`). `finish` makes it durable and visible in the one safe order: fsync,
rename `.pack`, fsync and rename `.idx`, fsync the folder. A git that looks in between
sees no pack or all of it. An object that was added twice is stored once. What is kept
in memory is about 32 bytes per object. A pack may begin with all of another one (`growing`).
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import StorageError
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.store.system import read_at, set_mode

if TYPE_CHECKING:
    from havasu_vc.store.growing import Grown

__all__ = ["ObjectPlaces", "PackWriter"]


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
_TREE, _DELTA = 2, 6

_HEADER = struct.Struct(">4sLL")
_BLOCK = struct.Struct("<HH")


class PackWriter:
    """One pack in the making."""

    def __init__(self, folder: Path, upon: Grown | None = None) -> None:
        """Begin a pack that will stand in `folder`, with what another one has."""
        self._folder = folder
        self._before = b"" if upon is None else upon.data
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
            self._file.write(self._before[_HEADER.size :])
            self._position = len(self._before)
            self._places.take(upon.ids, upon.offsets, upon.checks)

    def __len__(self) -> int:
        return len(self._places)

    def holds(self, identity: bytes) -> bool:
        """Whether an object is in it."""
        return self._places.find(identity) is not None

    def may_base(self, base: bytes, identity: bytes) -> bool:
        """Whether an object can be stored as what it differs in from another one here."""
        offset = self._places.find(base)
        if offset is None or offset >= len(self._before):
            return False
        depth = 1
        while (offset := self._base_of(offset)) is not None:
            depth += 1
        return depth <= DEEPEST + identity[0] % DEEPER

    def _base_of(self, offset: int) -> int | None:
        """Return where the base of a delta begins; None for what is stored whole."""
        number, _, at = _parse_object_header(self._before[offset : offset + 32])
        if number != _DELTA:
            return None
        at += offset
        distance = self._before[at] & 127
        while self._before[at] & 128:
            at += 1
            distance = (distance + 1) << 7 | self._before[at] & 127
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
        while block := self._file.read(1 << 20):
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


# Where the objects of a pack in the making are, and the index that says so to git.
#
# Ids come one by one and are asked for as often. They gather in a dict, move to sorted
# arrays in runs, and few runs are merged to larger ones, so that a million ids are 32 bytes
# each. A bitmap of the first bits of ids answers for nearly all that are not there.
#
# The index is of version 2: a fan-out of 256 counts, sorted ids, CRCs, offsets, two sha1s.

RECENT = 1 << 15
"""Ids that the dict holds before they move to arrays."""
FEW = 1 << 16
"""Ids that are looked for in arrays alone: clearing the bitmap takes longer."""
TOGETHER = (4, 16)
"""So many runs become one: fresh ones, and larger ones, of which merging takes more room."""

_LARGE = 1 << 31
_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_BITS = 25
_SHIFT = 32 - _BITS

_Run = tuple[npt.NDArray[np.bytes_], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
"""Sorted ids, the offset of each, its CRC."""


class ObjectPlaces:
    """Offsets and CRCs by object id."""

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._checks = array("I")
        self._runs: list[_Run] = []
        self._settled = 0
        self._seen: bytearray | None = None

    def __len__(self) -> int:
        return self._settled + len(self._recent)

    def add(self, identity: bytes, offset: int, check: int) -> None:
        """Take in the place of an object that is not known yet."""
        self._recent[identity] = offset
        self._checks.append(check)
        if len(self._recent) >= RECENT:
            self._settle()

    def add_all(
        self, identities: Sequence[bytes], offsets: Sequence[int], checks: Iterable[int]
    ) -> None:
        """Take in the places of many objects that are not known yet."""
        self._recent.update(zip(identities, offsets, strict=True))
        self._checks.extend(checks)
        if len(self._recent) >= RECENT:
            self._settle()

    def fresh(self, identities: Sequence[bytes]) -> dict[bytes, int]:
        """Return which objects are not known, in their order: each one's first position."""
        found: dict[bytes, int] = {}
        recent = self._recent
        for at, identity in enumerate(identities):
            if identity not in recent:
                found.setdefault(identity, at)
        if not found or not self._settled:
            return found
        perhaps = list(found)
        if self._seen is not None:
            bits = _bits(np.array(perhaps, "S20"))
            marked = np.frombuffer(self._seen, np.uint8)[bits >> 3] >> (bits & 7) & 1
            perhaps = [perhaps[place] for place in np.flatnonzero(marked).tolist()]
        for identity in perhaps:
            if self.find(identity) is not None:
                del found[identity]
        return found

    def take(
        self,
        ids: npt.NDArray[np.bytes_],
        offsets: npt.NDArray[np.uint64],
        checks: npt.NDArray[np.uint32],
    ) -> None:
        """Take in the places of objects of which none is known yet, sorted by id."""
        self._mark(ids)
        self._runs.append((ids, offsets, checks))
        self._settled += len(ids)

    def find(self, identity: bytes) -> int | None:
        """Return the offset of an object, None where it is not known."""
        if (recent := self._recent.get(identity)) is not None:
            return recent
        if self._seen is not None:
            bit = int.from_bytes(identity[:4]) >> _SHIFT
            if not self._seen[bit >> 3] >> (bit & 7) & 1:
                return None
        if not self._runs:
            return None
        # An array of fixed-width bytes ignores trailing zeros on both sides alike.
        wanted = np.array(identity, "S20")
        for ids, offsets, _ in self._runs:
            place = int(np.searchsorted(ids, wanted))
            if place < len(ids) and ids[place] == wanted:
                return int(offsets[place])
        return None

    def index(self, checksum: bytes) -> Iterator[bytes]:
        """Yield, piece by piece, the index of the pack with this checksum; this ends the work."""
        self._settle()
        digest = hashlib.sha1()
        for part in self._parts(checksum):
            digest.update(part)
            yield part
        yield digest.digest()

    def _parts(self, checksum: bytes) -> Iterator[bytes]:
        """Yield the index but for its own sha1; ids are merged one first byte after the other."""
        yield _MAGIC
        yield sum(map(_ends, self._runs), np.zeros(256, np.int64)).astype(">u4").tobytes()
        places = np.zeros(self._settled, np.uint64)
        checks: list[bytes] = []
        done = 0
        if self._settled <= RECENT and self._runs:
            pieces: Iterable[_Run] = [_together(self._runs)]
        else:
            pieces = _by_first_byte(self._runs)
        for ids, offsets, sums in pieces:
            yield ids.tobytes()
            places[done : done + len(ids)] = offsets
            checks.append(sums.astype(">u4").tobytes())
            done += len(ids)
        self._runs.clear()
        yield from checks
        checks.clear()
        large = places >= _LARGE
        short = places.astype(np.uint32)
        short[large] = _LARGE + np.arange(np.count_nonzero(large), dtype=np.uint32)
        yield short.astype(">u4").tobytes()
        yield places[large].astype(">u8").tobytes()
        yield checksum

    def _settle(self) -> None:
        """Move the recent objects to a run, and merge runs where there are several of a size."""
        if not self._recent:
            return
        ids = np.array(list(self._recent), "S20")
        offsets = np.array(list(self._recent.values()), np.uint64)
        self._mark(ids)
        self._runs.append(_sorted((ids, offsets, np.array(self._checks, np.uint32))))
        self._settled += len(ids)
        self._recent, self._checks = {}, array("I")
        while count := self._alike():
            self._runs[-count:] = [_merged(self._runs[-count:])]

    def _alike(self) -> int:
        """Return how many of the last runs are to become one; they stand by size, large first."""
        for count in TOGETHER:
            last = [len(ids) for ids, _, _ in self._runs[-count:]]
            fresh = last[-1] <= RECENT
            if len(last) == count and last[0] < 2 * last[-1] and fresh == (count == TOGETHER[0]):
                return count
        return 0

    def _mark(self, ids: npt.NDArray[np.bytes_]) -> None:
        if self._seen is None:
            if self._settled + len(ids) <= FEW:
                return
            self._seen = bytearray(1 << _BITS - 3)
            for run in self._runs:
                self._mark(run[0])
        bits = _bits(ids)
        seen = np.frombuffer(self._seen, np.uint8)
        np.bitwise_or.at(seen, bits >> 3, (1 << (bits & 7)).astype(np.uint8))


def _raw(ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
    return ids.view(np.uint8).reshape(-1, 20)


def _bits(ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
    """Return the place of each id in the bitmap."""
    heads = np.ascontiguousarray(_raw(ids)[:, :4]).view(">u4").ravel()
    found: npt.NDArray[np.int64] = (heads >> _SHIFT).astype(np.int64)
    return found


def _ends(run: _Run) -> npt.NDArray[np.int64]:
    """Return where the ids with each first byte end."""
    return np.cumsum(np.bincount(_raw(run[0])[:, 0], minlength=256))


def _by_first_byte(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield what several runs hold, sorted, all of one first byte at a time."""
    if not runs:
        return
    ends = [_ends(run) for run in runs]
    for byte in range(256):
        parts = [slice(end[byte - 1] if byte else 0, end[byte]) for end in ends]
        pieces = list(zip(runs, parts, strict=True))
        ids = np.concatenate([run[0][part] for run, part in pieces])
        offsets = np.concatenate([run[1][part] for run, part in pieces])
        checks = np.concatenate([run[2][part] for run, part in pieces])
        yield _sorted((ids, offsets, checks))


def _together(runs: Sequence[_Run]) -> _Run:
    """Return few ids of several runs as one."""
    ids, offsets, checks = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    return _sorted((ids, offsets, checks))


def _merged(runs: Sequence[_Run]) -> _Run:
    """Return several runs as one, without ever holding a third copy of all."""
    count = sum(len(run[0]) for run in runs)
    ids = np.empty(count, "S20")
    offsets = np.empty(count, np.uint64)
    checks = np.empty(count, np.uint32)
    done = 0
    for piece in _by_first_byte(runs):
        end = done + len(piece[0])
        ids[done:end], offsets[done:end], checks[done:end] = piece
        done = end
    return ids, offsets, checks


def _sorted(run: _Run) -> _Run:
    """Return a run in the order of its ids."""
    ids, offsets, checks = run
    # Numbers sort faster than bytes, and nearly always tell.
    heads = np.ascontiguousarray(_raw(ids)[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(heads, kind="stable")
    ranked = heads[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.argsort(ids, kind="stable")
    return ids[order], offsets[order], checks[order]
