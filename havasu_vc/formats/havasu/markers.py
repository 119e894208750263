"""`edits/`: what makes git see that two sides changed the same row, or all rows.

    edits/<n>                                a closed epoch: NUL and the id of the delta that
                                             closed it
    edits/<n>/<s>/<s>/<s>/<s>/<2 hex>/<6 hex>   the open epoch: the marker of a key, NUL and
                                             32 digits of the id of the delta that last
                                             changed its row
    edits/<n + 1> … edits/<n + 8>            epochs to come: NUL and `next <number>`

A marker's place is made from 32 bits of the hash of the key. The slots <s> are the first
four digits of a hash of the blob that closed the epoch before; epoch 0 has none. At each
of the four levels the fifteen other digits stand as files, so that nothing of another
epoch fits in beside them. No two of these files are alike, so git finds no renames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from havasu_vc.records import dataclass

__all__ = [
    "FOLDER",
    "Epoch",
    "blob_id",
    "counted",
    "format_closing",
    "format_marker",
    "marker_names",
    "marks_of",
    "open_epoch",
]

FOLDER = "edits"
AHEAD = 8
"""How many epochs to come have a placeholder."""
SLOTS = 4
_DIGITS = "0123456789abcdef"
_ALL = (1 << 128) - 1


def blob_id(data: bytes) -> str:
    """Return git's id of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True, slots=True)
class Epoch:
    """The epoch that is open."""

    number: int
    """Which."""
    opener: str
    """The blob that closed the one before; empty in the first."""

    @property
    def folder(self) -> str:
        """Where its markers are, below the dataset's folder."""
        return "/".join((FOLDER, str(self.number), *self._slots))

    @property
    def _slots(self) -> tuple[str, ...]:
        if not self.number:
            return ()
        return tuple(hashlib.sha256(self.opener.encode()).hexdigest()[:SLOTS])

    def place(self, key: int) -> str:
        """Return where the marker of a key is, by its hash."""
        return f"{self.folder}/{_name(key)}"

    def placeholders(self) -> dict[str, bytes]:
        """Return the files that stand beside the markers, by path."""
        return _placeholders(self)

    def after(self, closing: str) -> Epoch:
        """Return the next epoch, where this one was closed by a delta."""
        return Epoch(self.number + 1, blob_id(format_closing(closing)))


def marker_names(keys: Iterable[int]) -> list[str]:
    """Return where in an epoch's folder the markers of some keys are, each once, in order."""
    return sorted(set(map(_name, keys)))


def _name(key: int) -> str:
    digits = f"{key >> 32:08x}"
    return f"{digits[:2]}/{digits[2:]}"


@lru_cache(maxsize=64)
def _placeholders(epoch: Epoch) -> dict[str, bytes]:
    first = epoch.number + 1
    found = {f"{FOLDER}/{n}": b"\0next %d" % n for n in range(first, first + AHEAD)}
    parts = epoch.folder.split("/")
    for level in range(2, len(parts)):
        for digit in _DIGITS:
            if digit != parts[level]:
                path = "/".join((*parts[:level], digit))
                found[path] = b"\0closed " + path.encode()
    return found


def format_marker(delta: str) -> bytes:
    """Return the marker of the rows that a delta changed."""
    return b"\0" + delta[:32].encode()


def format_closing(delta: str) -> bytes:
    """Return what stands in the place of an epoch that a delta closed."""
    return b"\0" + delta.encode()


def open_epoch(top: Mapping[str, tuple[str, bool]]) -> Epoch:
    """Return the epoch that is open; `top` has what stands in `edits`: its id, and if a folder."""
    number, opener = 0, ""
    while True:
        found = top.get(str(number))
        if found is None or found[1] or found[0] == blob_id(b"\0next %d" % number):
            return Epoch(number, opener)
        number, opener = number + 1, found[0]


def marks_of(files: Iterable[tuple[str, str]]) -> int:
    """Return the sum over files in `edits`, given by path and blob."""
    total = 0
    for path, blob in files:
        text = f"{path}\0{blob}".encode("utf-8", "surrogateescape")
        total += int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
    return total & _ALL


def counted(epoch: Epoch, files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the files in `edits` that are no placeholders of an epoch, by path below the dataset.

    ValueError when one of these is missing.
    """
    wanted = {path: blob_id(data) for path, data in epoch.placeholders().items()}
    for name, blob in files:
        path = f"{FOLDER}/{name}"
        if wanted.get(path) == blob:
            del wanted[path]
        else:
            yield path, blob
    if wanted:
        raise ValueError(f"{min(wanted)} is not what an open epoch has there")
