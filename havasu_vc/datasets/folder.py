"""The folder that a dataset reads its documents from, in git or in memory.

`TreeFolder` is a view of a git tree that costs nothing to make and reads objects when
asked. `MemoryFolder` holds documents that are in no tree yet. A dataset that is being
imported, or edited and not committed, is a view upon one: it can be scanned and compared
like any other before anything is written to git. Tree ids are made as git makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Protocol

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.markers import blob_id
from havasu_vc.records import dataclass
from havasu_vc.store.objects import (
    EMPTY_TREE,
    Draft,
    ObjectId,
    ObjectKind,
    ObjectSource,
    object_id,
    read_object,
)
from havasu_vc.store.trees import (
    TREE,
    Change,
    blobs_below,
    edit_tree,
    find_entry,
    find_ids,
    format_tree,
    read_blob,
    read_entries,
    tree_difference,
)

__all__ = ["Folder", "FolderEdit", "MemoryFolder", "TreeFolder", "documents_of", "edited"]


class Folder(Protocol):
    """A folder of a git tree: what a dataset reads its documents from."""

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a blob; None when there is none at the path."""

    def read_blob(self, blob_id: str) -> bytes:
        """Return the bytes of a blob by its id."""

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""

    def items(self, path: str) -> dict[str, tuple[str, bool]]:
        """Return what stands in a folder, by name: its id, and whether it is a folder too."""

    def ids(self, path: str, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of what stands at some paths below a path, each folder read once."""

    def blobs(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of every blob below a path."""

    def difference(self, new: Folder, path: str) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield path, old id and new id of every blob below a path that differs."""


class FolderEdit(Protocol):
    """The changes of a folder: what of a `TreeEdit` tells how the folder is after it."""

    @property
    def blobs(self) -> Mapping[str, Change]:
        """By path: new bytes, what is stored, or None to remove."""

    @property
    def fresh(self) -> bool:
        """Whether the folder is empty before."""


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

    def items(self, path: str) -> dict[str, tuple[str, bool]]:
        """Return what stands in a folder, by name: its id, and whether it is a folder too."""
        tree = self.tree_id(path)
        if not tree:
            return {}
        return {
            name.decode("utf-8", "surrogateescape"): (identity.hex(), mode == TREE)
            for mode, name, identity in read_entries(self.source, tree)
        }

    def ids(self, path: str, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of what stands at some paths below a path, each folder read once."""
        tree = self.tree_id(path)
        return find_ids(self.source, tree, names) if tree else {}

    def blobs(self, path: str) -> Iterator[tuple[str, ObjectId]]:
        """Yield path and id of every blob below a path, in git's order."""
        return blobs_below(self.source, self.tree, path)

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
        inside = self._inside(path)
        return _tree_id(inside) if inside else ""

    def _inside(self, path: str) -> dict[str, bytes]:
        start = path + "/" if path else ""
        return {
            name.removeprefix(start): data
            for name, data in self.files.items()
            if name.startswith(start)
        }

    def items(self, path: str) -> dict[str, tuple[str, bool]]:
        """Return what stands in a folder, by name: its id, and whether it is a folder too."""
        found: dict[str, tuple[str, bool]] = {}
        for name, data in self._inside(path).items():
            first, slash, _ = name.partition("/")
            found[first] = ("", True) if slash else (_blob_id(data), False)
        return {
            name: (self.tree_id(f"{path}/{name}"), True) if inner else (identity, False)
            for name, (identity, inner) in found.items()
        }

    def ids(self, path: str, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of what stands at some paths below a path."""
        found: dict[str, str] = {}
        for name in names:
            whole = f"{path}/{name}" if path else name
            identity = _blob_id(self.files[whole]) if whole in self.files else self.tree_id(whole)
            if identity:
                found[name] = identity
        return found

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


_blob_id = blob_id


def _tree_id(files: Mapping[str, bytes]) -> str:
    entries: dict[bytes, tuple[bytes, bytes]] = {}
    folders: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = data
        else:
            entries[name.encode()] = (b"100644", bytes.fromhex(_blob_id(data)))
    for name, inside in folders.items():
        entries[name.encode()] = (TREE, bytes.fromhex(_tree_id(inside)))
    return object_id("tree", format_tree(entries))


def edited(old: Folder | None, edit: FolderEdit) -> Folder:
    """Return a dataset's folder as it is after an edit."""
    if isinstance(old, TreeFolder) and not edit.fresh:
        draft = Draft(old.source)
        return TreeFolder(draft, edit_tree(draft, old.tree, edit.blobs))
    folder = MemoryFolder()
    if old is not None and not edit.fresh:
        for name, blob in old.blobs(""):
            folder.files[name] = old.read_blob(blob)
    for path, data in edit.blobs.items():
        if data is None or path.startswith(EDITS):
            for name in [n for n in folder.files if n == path or n.startswith(path + "/")]:
                del folder.files[name]
        if data is None:
            continue
        if isinstance(data, bytes):
            folder.files[path] = data
        else:
            raise TypeError(f"{path} is stored already, so it cannot stand in memory")
    return folder


def documents_of(folder: Folder, path: str) -> Iterable[tuple[str, bytes]]:
    """Yield name and bytes of every document below a path."""
    for name, blob in folder.blobs(path):
        yield name, folder.read_blob(blob)
