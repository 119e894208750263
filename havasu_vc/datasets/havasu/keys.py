"""The key cache: for one data file, where each key is and what its row hashes to.

    <gitdir>/havasu/keys/<sha256 of the data file>-<hash of the ids of key columns and columns>

    8 bytes   "havasuk1"
    8 bytes   number of rows n, little endian
    n × 8     hashes of keys, ascending
    n × 8     hashes of the rows
    n × 4     positions in the file
    ⌈n/512⌉ × 4, three times   crc32 of each block of 512 numbers of the arrays above

The file is mapped, not read: a look-up touches the pages it needs, and checks the crc
of the blocks that its answer rests on. It is derived, never pushed, rebuilt when it is
missing or damaged. Key hashes are those of `model.hashing`, which do not change when a
key column is widened; a hit may rarely be another key of equal hash, so whoever would
refuse something because of a hit reads the row first.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from havasu_vc.model.arrays import among, distinct
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, descendants
from havasu_vc.records import dataclass

__all__ = [
    "DECLARED",
    "DamagedKeyCache",
    "Found",
    "KeyCache",
    "LastLookUp",
    "build_key_cache",
    "key_cache_path",
    "open_key_cache",
    "write_key_cache",
]

DECLARED = "havasu-vc.declared"
"""The field property of a column that was declared as geometries, or as none, after rows came."""

_MAGIC = b"havasuk1"
_BLOCK = 512
_HEADER = 16
_SMALL = 64 * 1024
"""Bytes up to which a cache is read rather than mapped."""
_MOST_REMEMBERED = 1 << 16
"""Keys of one look-up that are remembered."""


@dataclass(frozen=True, slots=True)
class Found:
    """Answers to a look-up: one line per hit, ordered by position in the file."""

    needles: npt.NDArray[np.int64]
    """Which of the keys looked up."""
    positions: npt.NDArray[np.int64]
    """Where in the file."""
    rows: Hashes
    """Hash of the row there."""


@dataclass(frozen=True, slots=True)
class KeyCache:
    """The key cache of one data file."""

    keys: Hashes
    """Hashes of keys, ascending."""
    rows: Hashes
    """Hash of each row, in the order of `keys`."""
    positions: npt.NDArray[np.uint32]
    """Position of each row, in the order of `keys`."""
    checks: tuple[npt.NDArray[np.uint32], ...] | None = None
    """crc32 of each block of the three arrays; None when they were just computed."""

    def find(self, needles: Hashes) -> Found:
        """Return where keys are; a key that is not in the file gives no line."""
        starts = np.searchsorted(self.keys, needles, "left")
        ends = np.searchsorted(self.keys, needles, "right")
        if self.checks is not None:
            # The neighbours on both sides prove that the search went right.
            touched = np.concatenate([starts - 1, starts, ends])
            self._check(distinct(np.clip(touched, 0, max(len(self.keys) - 1, 0)) // _BLOCK))
        counts = ends - starts
        index = np.repeat(starts, counts)
        if len(index) and int(counts.max()) > 1:
            index = index + (np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts))
        which = np.repeat(np.arange(len(needles)), counts)
        positions = self.positions[index].astype(np.int64)
        order = np.argsort(positions, kind="stable")
        return Found(which[order], positions[order], self.rows[index[order]])

    def least(self, limit: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
        """Return the hashes below a limit and the positions of their keys: a fair sample."""
        count = int(np.searchsorted(self.keys, np.uint64(limit), "left"))
        self._check(np.arange(-(-min(count + 1, len(self.keys)) // _BLOCK)))
        return np.array(self.keys[:count]), self.positions[:count].astype(np.int64)

    def check_all(self) -> None:
        """Raise `DamagedKeyCache` unless every number is what was written."""
        self._check(np.arange(-(-len(self.keys) // _BLOCK)))

    def _check(self, blocks: npt.NDArray[np.int64]) -> None:
        if self.checks is None or not len(self.keys):
            return
        arrays: tuple[npt.NDArray[np.generic], ...] = (self.keys, self.rows, self.positions)
        for array, checks in zip(arrays, self.checks, strict=True):
            data, size = array.data.cast("B"), _BLOCK * array.itemsize
            wanted = zip((blocks * size).tolist(), checks[blocks].tolist(), strict=True)
            if any(zlib.crc32(data[start : start + size]) != check for start, check in wanted):
                raise DamagedKeyCache


class LastLookUp:
    """The keys that were looked up last, and what was found of them in each file.

    Whoever writes rows asks twice for the same keys: to read the rows that are there, and to take
    them away. What a file has never changes, so what was found holds.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        # One value that is replaced as a whole: others may look up at the same time.
        self._last: tuple[Hashes, dict[str, KeyCache]] = (np.empty(0, np.uint64), {})

    def find(self, cache: str, needles: Hashes, look: Callable[[Hashes], Found]) -> Found:
        """Return where keys are in the file of a cache, given by its name; else `look` there."""
        asked, found = self._last
        known = found.get(cache)
        if known is not None and bool(among(needles, distinct(asked)).all()):
            return known.find(needles)
        answer = look(needles)
        if len(needles) <= _MOST_REMEMBERED:
            self.keep(cache, needles, answer)
        return answer

    def knows(self, cache: str, needles: Hashes) -> bool:
        """Whether it is known where keys are in the file of a cache, given by its name."""
        asked, found = self._last
        return cache in found and bool(among(needles, distinct(asked)).all())

    def keep(self, cache: str, needles: Hashes, answer: Found) -> None:
        """Remember where keys are in the file of a cache, given by its name."""
        last = self._last
        if needles is not last[0]:
            last = self._last = (needles, {})
        # A key that was asked for twice has two lines for each of its rows, which stand together.
        once = np.ones(len(answer.positions), bool)
        np.not_equal(answer.positions[1:], answer.positions[:-1], out=once[1:])
        keys = needles[answer.needles[once]]
        order = np.argsort(keys, kind="stable")
        last[1][cache] = KeyCache(
            keys[order],
            answer.rows[once][order],
            answer.positions[once][order].astype(np.uint32),
        )


class DamagedKeyCache(Exception):
    """A key cache is not what was written; it is rebuilt, nobody hears of it."""


def build_key_cache(keys: Hashes, rows: Hashes) -> KeyCache:
    """Return the key cache of a file whose rows hash to these, in file order."""
    order = np.argsort(keys, kind="stable")
    return KeyCache(keys[order], rows[order], order.astype(np.uint32))


def key_cache_path(folder: Path, file: str, schema: Schema) -> Path:
    """Return where a data file's key cache is, for the columns that it shares with a schema."""
    return folder / f"{file}-{_columns_hash(schema)}"


@lru_cache(maxsize=64)
def _columns_hash(schema: Schema) -> str:
    # What is inside a column counts for its hash too.
    every = sorted(descendants(schema.fields), key=lambda field: field.id)
    ids = [str(number) for number in (*sorted(schema.identifier_ids), 0)]
    ids += [f"{field.id}{_kind(field)}" for field in every]
    return hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]


def _kind(field: Field) -> str:
    """Return how a column's values count, where that was not the same in all of its life."""
    if DECLARED not in dict(field.extra):
        return ""
    return "b" if field.geometry is None else "g"


def write_key_cache(path: Path, cache: KeyCache) -> None:
    """Write a key cache; a reader sees all of it or none.

    What a crash of the machine leaves of it is found out, as any damage is.
    """
    arrays = (cache.keys, cache.rows, cache.positions)
    path.parent.mkdir(parents=True, exist_ok=True)
    # With the rights of any file of the repository: who may read that may read this.
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as out:
            out.write(_MAGIC + len(cache.keys).to_bytes(8, "little"))
            for array in arrays:
                out.write(array.data)
            for array in arrays:
                out.write(_checks(array).data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _checks(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint32]:
    return np.array(
        [zlib.crc32(array[start : start + _BLOCK].data) for start in range(0, len(array), _BLOCK)],
        np.uint32,
    )


def open_key_cache(path: Path) -> KeyCache | None:
    """Open a key cache; None when there is none, or none that can be used."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > _SMALL:
                # A plain view of the map: memmap's own slices take long to make.
                mapped = np.asarray(np.memmap(file, np.uint8, "r"))
            else:
                mapped = np.frombuffer(file.read(), np.uint8)
    except (FileNotFoundError, PermissionError, ValueError):
        return None
    if len(mapped) < _HEADER or bytes(mapped[:8]) != _MAGIC:
        return None
    count = int.from_bytes(bytes(mapped[8:16]), "little")
    blocks = -(-count // _BLOCK)
    if len(mapped) != _HEADER + 20 * count + 12 * blocks:
        return None

    at = _HEADER

    def array(dtype: type[np.generic], length: int) -> npt.NDArray[np.generic]:
        nonlocal at
        size = np.dtype(dtype).itemsize * length
        view = mapped[at : at + size].view(dtype)
        at += size
        return view

    keys, rows, positions = (
        array(np.uint64, count),
        array(np.uint64, count),
        array(np.uint32, count),
    )
    checks = tuple(array(np.uint32, blocks) for _ in range(3))
    return KeyCache(keys, rows, positions, checks)  # type: ignore[arg-type]
