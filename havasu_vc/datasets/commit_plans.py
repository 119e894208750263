"""Commits as planned: what one makes of the tree below it, before anything of it is stored.

The edits of datasets, the parts of a merge and what goes become one list of changes by path,
which the tree, the index and what is remembered of a commit are made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.model.names import HAVASU_MARKER, TABLES
from havasu_vc.records import dataclass
from havasu_vc.store.commits import Commit
from havasu_vc.store.objects import ObjectSource, Signature, object_id
from havasu_vc.store.trees import Change, Existing, entries, find_entry

__all__ = ["CommitPlan", "MergedTree", "edit_changes", "files_beside"]


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The parts of a merge commit, beside its edits."""

    files: Mapping[str, Change]
    """Changes of the user's own files, by path."""
    internals: Mapping[str, str | None]
    """The internals of every dataset before the edits, by path; None where it goes."""
    parents: tuple[str, ...]
    """The parents after HEAD; none for a squash."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """The name of the internals' folder by path, for those that are no Havasu datasets."""

    @classmethod
    def without(cls, files: Iterable[str]) -> MergedTree | None:
        """Return what takes files and folders of the user's own away; None where there are none."""
        gone = dict.fromkeys(files)
        return cls(gone, {}, ()) if gone else None

    def marker(self, path: str) -> str:
        """Return the name of the internals' folder of a dataset."""
        return self.markers.get(path, HAVASU_MARKER)

    def changes(self) -> dict[str, Change]:
        """Return what becomes of each path."""
        changes = dict(self.files)
        for path, tree in self.internals.items():
            changes.update({f"{path}/{marker}": None for marker in TABLES})
            if tree is not None:
                changes[f"{path}/{self.marker(path)}"] = Existing(tree, "tree")
        return changes


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """A commit to make."""

    edits: tuple[TreeEdit, ...]
    message: str
    author: Signature | None
    removed: tuple[str, ...]
    """The internals of datasets that go."""
    merge: MergedTree | None
    amended: Commit | None = None
    """The commit in whose place it stands, where that is HEAD's."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The internals of the datasets that it changes."""
        merged = {} if self.merge is None else self.merge.internals
        others = [] if self.merge is None else [f"{p}/{self.merge.marker(p)}" for p in merged]
        edited = [f"{edit.path}/{edit.marker}" for edit in self.edits]
        return tuple(dict.fromkeys((*edited, *self.removed, *others)))

    @property
    def places(self) -> tuple[str, ...]:
        """Where the index changes: also where a dataset of another kind may have stood."""
        merged = () if self.merge is None else self.merge.internals
        replaced = (f"{path}/{marker}" for path in merged for marker in TABLES)
        return tuple(dict.fromkeys((*self.folders, *replaced)))

    def entries(self, changes: Mapping[str, Change]) -> dict[str, str | None] | None:
        """Return the blobs of all paths that change; None where folders do."""
        if self.merge is not None or self.removed:
            return None
        found: dict[str, str | None] = {}
        ids: dict[bytes, str] = {}  # all markers of a delta are one blob
        for path, change in changes.items():
            if isinstance(change, bytes):
                if change not in ids:
                    ids[change] = object_id("blob", change)
                found[path] = ids[change]
            elif change is None and path.split("/")[-3:-2] == ["data"]:
                found[path] = None
            else:
                return None
        return found

    def changes(self) -> dict[str, Change]:
        """Return what becomes of each path."""
        changes: dict[str, Change] = dict.fromkeys(self.removed)
        if self.merge is not None:
            changes.update(self.merge.changes())
        return {**changes, **edit_changes(self.edits)}


def edit_changes(edits: Sequence[TreeEdit]) -> dict[str, Change]:
    """Return what edits make of each path."""
    changes: dict[str, Change] = {}
    for edit in edits:
        folder = f"{edit.path}/{edit.marker}"
        if edit.fresh:
            changes[folder] = None
        for path, data in edit.blobs.items():
            changes[f"{folder}/{path}"] = data
    return changes


def files_beside(objects: ObjectSource, tree: str, path: str) -> dict[str, Existing]:
    """Return the files and folders in the folder of a dataset that are the user's own, by path."""
    found = find_entry(objects, tree, path)
    return {
        f"{path}/{entry.name}": Existing(entry.id, "tree" if entry.is_tree else "blob", entry.mode)
        for entry in (() if found is None else entries(objects, found.id))
        if entry.name not in TABLES
    }
