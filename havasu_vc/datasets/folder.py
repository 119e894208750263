"""The folder that a dataset reads its documents from, in git or in memory.

`TreeFolder` is a view of a git tree that costs nothing to make and reads objects when
asked. `MemoryFolder` holds documents that are in no tree yet. A dataset that is being
imported, or edited and not committed, is a view upon one: it can be scanned and compared
like any other before anything is written to git. Tree ids are made as git makes them,
so guards mean the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from havasu_vc.errors import CorruptDatasetError, UnfinishedMergeError
from havasu_vc.formats.havasu.snapshot import Guard, format_snapshot, parse_snapshot
from havasu_vc.records import dataclass
from havasu_vc.store.objects import (
    EMPTY_TREE,
    ObjectId,
    ObjectKind,
    ObjectSource,
    object_id,
    read_object,
)
from havasu_vc.store.trees import (
    blobs_below,
    find_entry,
    format_tree,
    read_blob,
    read_entries,
    tree_difference,
)

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import TreeEdit

__all__ = ["UNGUARDED", "Folder", "MemoryFolder", "TreeFolder", "check_guard", "edited", "guard_of"]

UNGUARDED = ("title", "description")
"""Meta items that git may merge as text."""


class Folder(Protocol):
    """A folder of a git tree: what a dataset reads its documents from."""

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a blob; None when there is none at the path."""

    def read_blob(self, blob_id: str) -> bytes:
        """Return the bytes of a blob by its id."""

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""

    def tree_id_without(self, path: str, names: tuple[str, ...]) -> str:
        """Return the id that the tree at a path would have without some names."""

    def blobs(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of every blob below a path."""

    def difference(self, new: Folder, path: str) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield path, old id and new id of every blob below a path that differs."""


@dataclass(frozen=True, slots=True)
class TreeFolder:
    """A folder in git."""

    source: ObjectSource
    """Where its objects are."""
    tree: ObjectId
    """Its own tree."""

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a blob; None when there is none at the path."""
        return read_blob(self.source, self.tree, path)

    def read_blob(self, blob_id: ObjectId) -> bytes:
        """Return the bytes of a blob by its id."""
        return read_object(self.source, blob_id, "blob")

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""
        found = find_entry(self.source, self.tree, path)
        return found.id if found is not None and found.is_tree else ""

    def tree_id_without(self, path: str, names: tuple[str, ...]) -> str:
        """Return the id that the tree at a path would have without some names.

        It is empty when nothing is left.
        """
        tree = self.tree_id(path)
        if not tree:
            return ""
        hidden = {name.encode() for name in names}
        items = {n: (m, i) for m, n, i in read_entries(self.source, tree) if n not in hidden}
        return object_id("tree", format_tree(items)) if items else ""

    def blobs(self, path: str) -> Iterator[tuple[str, ObjectId]]:
        """Yield path and id of every blob below a path, in git's order."""
        for entry in blobs_below(self.source, self.tree, path):
            yield entry.name, entry.id

    def difference(
        self, new: Folder, path: str
    ) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
        """Yield path, old id and new id of every blob below a path that differs.

        Between two folders in git only what differs is read.
        """
        if isinstance(new, TreeFolder):
            yield from self._tree_difference(new, path)
            return
        yield from _difference(self, new, path)

    def _tree_difference(
        self, new: TreeFolder, path: str
    ) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
        # What a commit in the making holds, only its own writer knows.
        source = self.source if new.source is self.source else _Either(self.source, new.source)
        old_tree, new_tree = self.tree_id(path), new.tree_id(path)
        for change in tree_difference(source, old_tree or EMPTY_TREE, new_tree or EMPTY_TREE):
            if change.old != change.new:
                yield change.path, change.old, change.new


@dataclass(frozen=True, slots=True)
class _Either:
    """Two sources as one."""

    first: ObjectSource
    second: ObjectSource

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        try:
            return self.first.read(object_id)
        except CorruptDatasetError:
            return self.second.read(object_id)


@dataclass
class MemoryFolder:
    """Blobs by path."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By path."""
    _by_id: dict[str, bytes] = field(default_factory=dict, repr=False)

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a blob; None when there is none at the path."""
        return self.files.get(path)

    def read_blob(self, blob_id: str) -> bytes:
        """Return the bytes of a blob by its id."""
        if blob_id not in self._by_id:
            self._by_id = {_blob_id(data): data for data in self.files.values()}
        return self._by_id[blob_id]

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""
        return self.tree_id_without(path, ())

    def tree_id_without(self, path: str, names: tuple[str, ...]) -> str:
        """Return the id that the tree at a path would have without some names."""
        inside = {
            name.removeprefix(path + "/"): data
            for name, data in self.files.items()
            if name.startswith(path + "/")
        }
        for name in names:
            inside.pop(name, None)
        return _tree_id(inside) if inside else ""

    def blobs(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of every blob below a path."""
        for name in sorted(self.files):
            if not path or name.startswith(path + "/"):
                yield name.removeprefix(path + "/" if path else ""), _blob_id(self.files[name])

    def difference(self, new: Folder, path: str) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield path, old id and new id of every blob below a path that differs."""
        yield from _difference(self, new, path)


def _difference(
    old: Folder, new: Folder, path: str
) -> Iterator[tuple[str, str | None, str | None]]:
    before, after = dict(old.blobs(path)), dict(new.blobs(path))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _tree_id(files: Mapping[str, bytes]) -> str:
    entries: dict[str, tuple[bytes, str]] = {}
    folders: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = data
        else:
            entries[name] = (b"100644", _blob_id(data))
    for name, inside in folders.items():
        entries[name + "/"] = (b"40000", _tree_id(inside))
    body = b"".join(
        mode + b" " + name.rstrip("/").encode() + b"\0" + bytes.fromhex(identifier)
        for name, (mode, identifier) in sorted(entries.items())
    )
    return hashlib.sha1(b"tree %d\0" % len(body) + body).hexdigest()


def edited(old: Folder | None, edit: TreeEdit) -> MemoryFolder:
    """Return a dataset's folder as it is after an edit."""
    folder = MemoryFolder()
    if old is not None and not edit.fresh:
        for name, blob in old.blobs(""):
            folder.files[name] = old.read_blob(blob)
    for path, data in edit.blobs.items():
        if data is None:
            folder.files.pop(path, None)
        elif isinstance(data, bytes):
            folder.files[path] = data
        else:
            raise TypeError(f"{path} is stored already, so it cannot stand in memory")
    if edit.snapshot is not None:
        folder.files["snapshot.json"] = format_snapshot(edit.snapshot, guard_of(folder, edit.path))
    return folder


def guard_of(folder: Folder, path: str) -> Guard:
    """Return the guard that a folder with these documents must have."""
    return Guard(
        path,
        folder.tree_id("files"),
        folder.tree_id("data"),
        folder.tree_id_without("meta", UNGUARDED),
    )


def check_guard(folder: Folder, path: str, revision: str) -> None:
    """Raise `UnfinishedMergeError` when a dataset's folder is not what its snapshot says.

    A merge that git made of two edited snapshots, whatever it was told, shows here.
    """
    where = f"{path}/snapshot.json at {revision}"
    data = folder.read("snapshot.json")
    if data is None:
        # What git leaves of a dataset that one side moved or removed and the other edited.
        raise UnfinishedMergeError(path, revision, "it has no snapshot.json")
    if b"\n<<<<<<< " in b"\n" + data:
        raise UnfinishedMergeError(path, revision, "snapshot.json has conflict marks")
    try:
        _, guard = parse_snapshot(data, where)
    except CorruptDatasetError as error:
        raise UnfinishedMergeError(path, revision, error.reason) from error
    found = guard_of(folder, guard.path)
    for name in ("files", "data", "meta"):
        if getattr(found, name) != getattr(guard, name):
            raise UnfinishedMergeError(path, revision, f"its {name} are not those of its snapshot")
