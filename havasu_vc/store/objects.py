"""Git objects: their ids, where they are read from, and how a commit's are written.

An `ObjectSource` gives an object's kind and bytes by id. `StoredObjects` is the
repository's own; an `ObjectWriter` is one too, which also sees what it was given and
has not yet written. Nothing is in the repository before `ObjectWriter.flush`, and
all of it is durable after: few objects as loose files, more in the pack that grows with
commits (`growing`), very many as a pack of their own. The same objects in the same order give the
same bytes. Memory is bounded: beyond a size, bytes go to a temporary pack that git ignores
and prunes if we die.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

import pygit2

from havasu_vc.errors import CorruptDatasetError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.store.loose import BROUGHT_ANEW, LooseObjects

if TYPE_CHECKING:
    from havasu_vc.store.packs import PackWriter

__all__ = [
    "EMPTY_TREE",
    "Before",
    "Draft",
    "KeptObjects",
    "ObjectId",
    "ObjectKind",
    "ObjectSource",
    "ObjectWriter",
    "Signature",
    "StoredObjects",
    "blob_ids",
    "format_objects",
    "object_id",
    "parse_objects",
    "parse_signature",
    "read_object",
    "tree_delta",
]

ObjectId: TypeAlias = str
"""The id of a git object: 40 hex digits."""

ObjectKind: TypeAlias = Literal["commit", "tree", "blob", "tag"]

Before: TypeAlias = tuple[ObjectId, bytes | None]
"""A tree in whose place another one stands, and its bytes where these are known."""

EMPTY_TREE: ObjectId = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without entries; it can be read whether it is stored or not."""

_KINDS: dict[int, ObjectKind] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_NUMBERS: dict[ObjectKind, int] = {kind: number for number, kind in _KINDS.items()}

LOOSE_LIMIT = 16
"""As many objects are written as loose files; more go to a pack."""
MOST_PENDING = 1 << 14
"""More objects make a pack of their own, which they go to as they come."""
MOST_TREES, LARGE_TREE = 512, 1 << 14
"""So many trees up to so many bytes are kept once read: what differs from them is stored."""
MEMORY_LIMIT = 16 * 2**20
"""As many bytes are kept in memory before they go to a temporary pack."""


class ObjectSource(Protocol):
    """Something that objects are read from."""

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object's kind and bytes; raise CorruptDatasetError if it is not there."""


def object_id(kind: ObjectKind, data: bytes) -> ObjectId:
    """Return the id that git gives an object.

    >>> object_id("tree", b"") == EMPTY_TREE
    True
    """
    return hashlib.sha1(b"%s %d\x00" % (kind.encode(), len(data)) + data).hexdigest()


def blob_ids(blobs: Sequence[bytes]) -> list[bytes]:
    """Return the ids of many blobs, as 20 bytes each."""
    sha1 = hashlib.sha1
    return [sha1(b"blob %d\x00%b" % (len(data), data)).digest() for data in blobs]


def _one_by_one(
    write: Callable[[ObjectKind, bytes], ObjectId], blobs: Sequence[bytes]
) -> list[bytes]:
    return [bytes.fromhex(write("blob", data)) for data in blobs]


def read_object(source: ObjectSource, object_id: ObjectId, kind: ObjectKind) -> bytes:
    """Return the bytes of an object that must be of `kind`."""
    found, data = source.read(object_id)
    if found != kind:
        raise CorruptDatasetError(f"git object {object_id}", f"it is a {found}, not a {kind}")
    return data


class StoredObjects:
    """The objects that a repository holds."""

    __slots__ = ("_fetch", "_handle", "folder", "loose")

    def __init__(
        self,
        handle: pygit2.Repository,
        folder: Path,
        fetch: Callable[[ObjectId], tuple[ObjectKind, bytes] | None],
    ) -> None:
        """Read from `handle`; `fetch` is asked for what is missing (a partial clone's)."""
        self._handle = handle
        self._fetch = fetch
        self.folder = folder
        self.loose = LooseObjects(folder)
        """The loose objects that libgit2 must not read."""

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object's kind and bytes; raise CorruptDatasetError if it is not there."""
        try:
            kind, data = self.loose.instead(object_id) or self._handle.odb.read(object_id)
        except KeyError:
            if object_id == EMPTY_TREE:
                return "tree", b""
            if fetched := self._fetch(object_id):
                return fetched
            raise CorruptDatasetError(
                f"git object {object_id}", "it is missing", hints=BROUGHT_ANEW
            ) from None
        except (pygit2.GitError, ValueError, OSError) as error:
            raise CorruptDatasetError(
                f"git object {object_id}", f"it cannot be read ({error})", hints=BROUGHT_ANEW
            ) from error
        return _KINDS[kind], data

    def has(self, object_id: ObjectId) -> bool:
        """Return whether an object is here."""
        return self._handle.odb.exists(object_id)

    def keep(self, object_id: ObjectId) -> bool:
        """Return whether an object is here, and keep git from pruning it soon if it is."""
        return self.renew(object_id) or self.has(object_id)

    def renew(self, object_id: ObjectId) -> bool:
        """Keep git from pruning a loose object soon; return whether it is one."""
        try:
            # What nothing reaches yet is pruned by age; git renews it when it is used again.
            os.utime(f"{self.folder}/{object_id[:2]}/{object_id[2:]}")
        except OSError:
            return False
        return True

    def write(self, kind: ObjectKind, data: bytes) -> ObjectId:
        """Write one object as a loose file, durably."""
        try:
            return str(self._handle.odb.write(_NUMBERS[kind], data))
        except (pygit2.GitError, OSError, ValueError) as error:
            raise StorageError(f"a git object cannot be written: {error}") from error


class ObjectWriter:
    """The objects of one commit, seen at once and stored by `flush`.

    Used as a context it drops what was not flushed.
    """

    def __init__(
        self,
        stored: StoredObjects,
        *,
        memory_limit: int = MEMORY_LIMIT,
        scratch: Path | None = None,
    ) -> None:
        """Collect objects for the repository of `stored`.

        Those that will not be stored wait in a `scratch` folder where they are many.
        """
        self._stored = stored
        self._packs = stored.folder / "pack" if scratch is None else scratch
        self._memory_limit = memory_limit
        self._pending: dict[ObjectId, tuple[ObjectKind, bytes]] = {}
        self._pending_bytes = 0
        self._before: dict[ObjectId, Before] = {}
        self._trees: dict[ObjectId, bytes] = {}
        self._pack: PackWriter | None = None
        self._found = _FoundObjects(stored)

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in, unless it is there already, and return its id.

        `before` is the tree in whose place a tree stands, so that it need not be read again for
        what differs from it.
        """
        identity = object_id(kind, data)
        if self._pack is not None:
            raw = bytes.fromhex(identity)
            if not self._pack.holds(raw) and not self._found.keep(identity):
                self._pack.add(raw, _NUMBERS[kind], data)
            return identity
        # In a pack it may stand twice: nearly all that a commit writes is new, and asking for
        # what is not there is slow.
        if identity in self._pending or self._found.renew(identity):
            return identity
        self._pending[identity] = (kind, data)
        self._pending_bytes += len(data)
        if before is not None:
            self._before[identity] = before
        if len(self._pending) > MOST_PENDING or self._pending_bytes > self._memory_limit:
            self._start_pack()
        return identity

    def write_blobs(self, blobs: Sequence[bytes]) -> list[bytes]:
        """Take very many blobs in, unless they are there already, and return their raw ids."""
        if self._pack is None:
            return _one_by_one(self.write, blobs)
        ids = blob_ids(blobs)
        if there := self._found.keep_all(ids):
            new = [(each, data) for each, data in zip(ids, blobs, strict=True) if each not in there]
            self._pack.add_all(_NUMBERS["blob"], [each[0] for each in new], [e[1] for e in new])
        else:
            self._pack.add_all(_NUMBERS["blob"], ids, blobs)
        return ids

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in or that the repository holds."""
        if (pending := self._pending.get(object_id)) is not None:
            return pending
        if self._pack is not None:
            packed = self._pack.read(bytes.fromhex(object_id))
            if packed is not None:
                return _KINDS[packed[0]], packed[1]
        if (known := self._trees.get(object_id)) is not None:
            return "tree", known
        kind, data = self._stored.read(object_id)
        if kind == "tree" and len(self._trees) < MOST_TREES and len(data) <= LARGE_TREE:
            self._trees[object_id] = data
        return kind, data

    def flush(self) -> None:
        """Store everything durably, so that any reader of the repository finds it."""
        if self._pack is not None:
            self._pack.finish()
            self._pack = None
        if len(self._pending) > LOOSE_LIMIT:
            self._grow()
        else:
            for kind, data in self._pending.values():
                self._stored.write(kind, data)
        self._forget()

    def _grow(self) -> None:
        """Store what is pending in the pack that grows."""
        from havasu_vc.store.growing import find_grown, remember_grown
        from havasu_vc.store.packs import PackWriter

        objects = self._stored.folder
        grown = find_grown(objects, len(self._pending))
        pack = PackWriter(objects / "pack", grown)
        try:
            had = len(pack)
            for identity, (kind, data) in self._pending.items():
                self._add(pack, identity, kind, data)
            if len(pack) == had:
                pack.discard()
            else:
                remember_grown(objects, pack.finish(), grown)
        except BaseException:
            pack.discard()
            raise

    def _add(self, pack: PackWriter, identity: ObjectId, kind: ObjectKind, data: bytes) -> None:
        raw, before = bytes.fromhex(identity), self._before.get(identity)
        if before is not None and not pack.holds(raw):
            base = bytes.fromhex(before[0])
            if pack.may_base(base, raw):
                old = before[1] or read_object(self, before[0], "tree")
                delta = tree_delta(old, data, len(data) // 3)
                if delta is not None:
                    pack.add_delta(raw, base, delta)
                    return
        if kind == "tree":
            pack.add_tree(raw, data)
        else:
            pack.add(raw, _NUMBERS[kind], data)

    def discard(self) -> None:
        """Forget everything that was not flushed."""
        if self._pack is not None:
            self._pack.discard()
            self._pack = None
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def _start_pack(self) -> None:
        # Most runs write few objects or none, and numpy takes a while to load.
        from havasu_vc.store.packs import PackWriter

        self._pack = PackWriter(self._packs)
        self._found = _FoundObjects(self._stored)
        for identity, (kind, data) in self._pending.items():
            self._pack.add(bytes.fromhex(identity), _NUMBERS[kind], data)
        self._forget()

    def _forget(self) -> None:
        self._before, self._trees = {}, {}
        self._pending = {}
        self._pending_bytes = 0


class _FoundObjects:
    """The objects of a repository when this was made, for asking about very many objects.

    Asking libgit2 for what is not there costs a look at the disk every time. What others
    add meanwhile is not seen, and is then stored twice, which git allows.
    """

    def __init__(self, stored: StoredObjects) -> None:
        self._stored = stored
        self._loose: dict[str, frozenset[str]] = {}
        self._elsewhere: bool | None = None

    def keep(self, object_id: ObjectId) -> bool:
        if object_id[2:] in self._beginning(object_id[:2]):
            return self._stored.keep(object_id)
        return self._has_others() and self._stored.has(object_id)

    def renew(self, object_id: ObjectId) -> bool:
        """Keep git from pruning a loose object soon; return whether it is one."""
        return object_id[2:] in self._beginning(object_id[:2]) and self._stored.renew(object_id)

    def keep_all(self, ids: Sequence[bytes]) -> set[bytes]:
        """Return which of many objects are here, and keep them as `keep` does."""
        if not self._has_others():
            here = {byte for byte in range(256) if self._beginning(f"{byte:02x}")}
            ids = [each for each in ids if each[0] in here] if here else ()
        return {each for each in ids if self.keep(each.hex())}

    def _beginning(self, prefix: str) -> frozenset[str]:
        """Return the loose objects whose ids begin so."""
        if (names := self._loose.get(prefix)) is None:
            names = self._loose[prefix] = frozenset(_names(self._stored.folder / prefix))
        return names

    def _has_others(self) -> bool:
        """Whether there are objects that are not loose."""
        if self._elsewhere is None:
            folder = self._stored.folder
            packs = any(name.endswith(".idx") for name in _names(folder / "pack"))
            self._elsewhere = packs or (folder / "info" / "alternates").exists()
        return self._elsewhere


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


# What a tree differs in from the one before, as packs have it.
#
# A delta (gitformat-pack) begins with both sizes; then `1xxxxxxx` copies a piece of the
# base, its offset and size in the bytes that follow as far as they are not zero, and `0nnnnnnn`
# inserts the n bytes that follow. Two versions of a folder of many files have long pieces in
# common in one order, so it is enough to go along both.

_ANCHOR = 24
"""Bytes by which both sides are found to agree again: a name and half of an id."""
_PIECE = 1 << 10
"""Bytes that are compared at once."""
_NEAR = 1 << 12
"""How far ahead they are looked for."""
_SKIPS = (0, 20, 40, 80, 160, 320, 640, 1280)
_MOST_COPIED, _MOST_INSERTED = 0xFFFF, 127


def tree_delta(base: bytes, target: bytes, most: int) -> bytes | None:
    """Return the delta that makes `target` of `base`; None where it has over `most` bytes."""
    made = bytearray(_size(len(base)) + _size(len(target)))
    here = there = 0
    while there < len(target):
        same = _common(base, here, target, there)
        _copy(made, here, same)
        here, there = here + same, there + same
        if there == len(target):
            break
        here, after = _agreeing(base, here, target, there)
        _insert(made, target[there:after])
        there = after
        if len(made) > most:
            return None
    return bytes(made) if len(made) <= most else None


def _common(base: bytes, here: int, target: bytes, there: int) -> int:
    """Return how many bytes are the same from two places on."""
    most, low = min(len(base) - here, len(target) - there), 0
    while low < most:
        first = base[here + low : here + min(low + _PIECE, most)]
        second = target[there + low : there + min(low + _PIECE, most)]
        if first != second:
            # The highest bit that differs is in the first byte that does.
            differing = int.from_bytes(first) ^ int.from_bytes(second)
            return low + len(first) - (differing.bit_length() + 7) // 8
        low += _PIECE
    return most


def _agreeing(base: bytes, here: int, target: bytes, there: int) -> tuple[int, int]:
    """Return where both sides agree again, soon after they did not; else the end of the target."""
    for skip in _SKIPS:
        anchor = base[here + skip : here + skip + _ANCHOR]
        if len(anchor) < _ANCHOR:
            break
        found = target.find(anchor, there, there + _NEAR)
        if found >= 0:
            return here + skip, found
    return here, len(target)


def _copy(made: bytearray, offset: int, size: int) -> None:
    while size:
        piece = min(size, _MOST_COPIED)
        at, flags = len(made), 0x80
        made.append(0)
        for bit, byte in enumerate((*offset.to_bytes(4, "little"), *piece.to_bytes(3, "little"))):
            if byte:
                flags |= 1 << bit
                made.append(byte)
        made[at] = flags
        offset, size = offset + piece, size - piece


def _insert(made: bytearray, data: bytes) -> None:
    for start in range(0, len(data), _MOST_INSERTED):
        piece = data[start : start + _MOST_INSERTED]
        made.append(len(piece))
        made += piece


def _size(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


# Objects in memory, beside those that are stored: trees that no commit has yet.


class Draft:
    """Objects that are never stored, beside those that are."""

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in and return its id."""
        identity = object_id(kind, data)
        self._objects[identity] = (kind, data)
        return identity

    def write_blobs(self, blobs: Sequence[bytes]) -> list[bytes]:
        """Take many blobs in and return their raw ids."""
        return _one_by_one(self.write, blobs)

    def has(self, object_id: ObjectId) -> bool:
        """Whether an object was taken in here."""
        return object_id in self._objects

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in or that is stored."""
        return self._objects.get(object_id) or self._source.read(object_id)


# A tree of git objects in one file, for trees that no repository is to have.
#
#     {"format": 1, "tree": "<id>", "objects": [["<id>", "blob", 123], …]}
#     <the bytes of each object, in that order>
#
# Every object is checked against its id when the file is read, so what is read is what
# was written.


class KeptObjects:
    """Objects in memory, and nothing beside them."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}
        """By id."""

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in and return its id."""
        identity = object_id(kind, data)
        self.objects[identity] = (kind, data)
        return identity

    def write_blobs(self, blobs: Sequence[bytes]) -> list[bytes]:
        """Take many blobs in and return their raw ids."""
        return _one_by_one(self.write, blobs)

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in."""
        found = self.objects.get(object_id)
        if found is None:
            raise CorruptDatasetError(f"git object {object_id}", "it is missing")
        return found


def format_objects(tree: ObjectId, kept: KeptObjects) -> bytes:
    """Return the document of a tree and its objects."""
    found = sorted(kept.objects.items())
    listed = [[identity, kind, len(data)] for identity, (kind, data) in found]
    head = json.dumps({"format": 1, "tree": tree, "objects": listed})
    return head.encode() + b"\n" + b"".join(data for _, (_, data) in found)


def parse_objects(document: bytes, where: str) -> tuple[ObjectId, KeptObjects]:
    """Return the tree and the objects of a document."""
    head, _, body = document.partition(b"\n")
    kept = KeptObjects()
    try:
        value = json.loads(head)
        if value["format"] != 1:
            raise ValueError(f"it has the format {value['format']!r}")
        start = 0
        for identity, kind, size in value["objects"]:
            if kept.write(kind, body[start : start + size]) != identity:
                raise ValueError(f"object {identity} has other bytes")
            start += size
        tree = value["tree"]
        kept.read(tree)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptDatasetError(where, f"it is damaged ({error})") from error
    return tree, kept


@dataclass(frozen=True, slots=True)
class Signature:
    """Who did something, and when."""

    name: str
    """Their name."""
    email: str
    """Their e-mail address."""
    time: int
    """Seconds since 1970."""
    offset: int = 0
    """Minutes that their clock was ahead of UTC."""

    def __str__(self) -> str:
        sign, minutes = "-" if self.offset < 0 else "+", abs(self.offset)
        zone = f"{sign}{minutes // 60:02}{minutes % 60:02}"
        return f"{self.name} <{self.email}> {self.time} {zone}"


_SIGNATURE = re.compile(r"(.*?) ?<([^>]*)>(?: (-?\d+) ([+-])(\d\d+)(\d\d))?")


def parse_signature(text: str) -> Signature:
    """Return the signature in one line as git writes it.

    >>> parse_signature("Ann <ann@example.org> 1577790000 +1300").offset
    780
    """
    match = _SIGNATURE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a name, an address and a time")
    name, email, time, sign, hours, minutes = match.groups()
    offset = int(hours or 0) * 60 + int(minutes or 0)
    return Signature(name, email, int(time or 0), -offset if sign == "-" else offset)
