"""One folder of a stored tree, by paths below it.

This is what a dataset reads its documents from: a view that costs nothing to make and
reads objects when asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from havasu_vc.errors import CorruptDatasetError
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

__all__ = ["TreeFolder"]


class _Folder(Protocol):
    def tree_id(self, path: str) -> str: ...

    def blobs(self, path: str) -> Iterator[tuple[str, str]]: ...


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
        self, new: _Folder, path: str
    ) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
        """Yield path, old id and new id of every blob below a path that differs.

        Between two folders in git only what differs is read.
        """
        if isinstance(new, TreeFolder):
            yield from self._tree_difference(new, path)
            return
        before, after = dict(self.blobs(path)), dict(new.blobs(path))
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield name, before.get(name), after.get(name)

    def _tree_difference(
        self, new: "TreeFolder", path: str
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
