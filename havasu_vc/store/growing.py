"""The pack that commits add their objects to.

A pack for each commit would soon be very many, and each would hold whole trees, of which a
commit changes little. So a commit makes the pack of the one before anew with its own objects
at the end, trees as what they differ in from those that stood there; then the old one goes. When
copying it is no more worth it a new one is begun, and `gc` packs them all for good.

    <common git directory>/havasu/growing    the name of the pack

The note is derived: without it a new pack is begun. A pack is replaced only while nobody said
anything about it: git marks what it is to keep by files beside it, and may name it in an index of
several packs. What was being read of it stays readable, and git looks for new packs where it
misses an object, as it does while `git gc` is at work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import StorageError
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file
from havasu_vc.store.system import open_binary, read_at

__all__ = ["Grown", "find_grown", "remember_grown"]

SMALL = 1 << 20
"""A pack up to so many bytes is copied whatever is added."""
WORTH = 12_000
"""Beyond, up to so many bytes are copied for each object that is added."""
MOST = 1 << 23
"""A larger one is left: of a commit of 1,000 of Kart's rows, copying twice as much is a tenth."""

_NAME = re.compile(r"pack-[0-9a-f]{40}")
_HEAD, _FAN, _SUM = 12, 8 + 1024, 20
_LARGE = 1 << 31
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Grown:
    """A pack to which objects are added, and where they are in it."""

    path: Path
    """Its file."""
    file: BinaryIO
    """It, opened: git may remove it meanwhile. It is read in blocks, as it may have 8 MB."""
    size: int
    """Its bytes but for the sum at its end, of which nothing is copied."""
    ids: npt.NDArray[np.bytes_]
    """Sorted."""
    offsets: npt.NDArray[np.uint64]
    """By id."""
    checks: npt.NDArray[np.uint32]
    """The CRC of each, by id."""

    def copied(self) -> Iterator[bytes]:
        """Yield its objects, block by block, and close it."""
        with self.file as file:
            yield from _blocks(file, _HEAD, self.size)


def find_grown(objects: Path, coming: int) -> Grown | None:
    """Return the pack to which so many objects are added; None where one is to be begun."""
    try:
        name = _note(objects).read_text("ascii").strip()
        path = objects / "pack" / f"{name}.pack"
        most = max(SMALL, min(WORTH * coming, MOST))
        if _NAME.fullmatch(name) is None or path.stat().st_size > most:
            return None
        beside = {found.suffix for found in path.parent.glob(f"{name}.*")}
        if beside != {".pack", ".idx"} or _is_named(path):
            return None
        return _read(path)
    except (OSError, ValueError):
        return None  # it is gone, or was damaged, which is not to be carried on


def _read(path: Path) -> Grown:
    index = path.with_suffix(".idx").read_bytes()
    file = os.fdopen(open_binary(path, follow=True), "rb", buffering=0)
    try:
        return _opened(path, file, index)
    except BaseException:
        file.close()
        raise


def _opened(path: Path, file: BinaryIO, index: bytes) -> Grown:
    size = os.fstat(file.fileno()).st_size - _SUM
    head = read_at(file.fileno(), _HEAD, 0)
    digest = hashlib.sha1()
    for block in _blocks(file, 0, size):
        digest.update(block)
    sum_ = read_at(file.fileno(), _SUM, max(size, 0))
    if digest.digest() != sum_ or index[-2 * _SUM : -_SUM] != sum_:
        raise ValueError(f"{path} is damaged")
    count = int.from_bytes(head[8:])
    if len(index) != _FAN + 28 * count + 2 * _SUM or head[:8] != b"PACK\0\0\0\2":
        raise ValueError(f"{path} is none of ours")
    ids = np.frombuffer(index, "S20", count, _FAN)
    checks = np.frombuffer(index, ">u4", count, _FAN + 20 * count)
    offsets = np.frombuffer(index, ">u4", count, _FAN + 24 * count)
    return Grown(path, file, size, ids, offsets.astype(np.uint64), checks.astype(np.uint32))


def _blocks(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    """Yield what stands between two places of a file."""
    while start < stop and (block := read_at(file.fileno(), min(_BLOCK, stop - start), start)):
        yield block
        start += len(block)


def _is_named(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path.stem.encode() in (path.parent / "multi-pack-index").read_bytes()
    return False


def remember_grown(objects: Path, pack: Path, before: Grown | None) -> None:
    """Note the pack that the next commit adds to; what it was made of goes.

    The pack must be durable. It only spares room, so what cannot be done is left.
    """
    with contextlib.suppress(OSError, StorageError):
        replace_file(_note(objects), f"{pack.stem}\n".encode())
    if before is not None and before.path != pack:
        with contextlib.suppress(OSError):
            # In this order: git removes an index whose pack is not there.
            before.path.unlink()
            before.path.with_suffix(".idx").unlink()


def _note(objects: Path) -> Path:
    return objects.parent / "havasu" / "growing"
