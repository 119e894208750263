"""Trees in the making: as a commit would have them, in memory, beside what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from havasu_vc.datasets.folder import TreeFolder, guard_of
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.formats.havasu.snapshot import format_snapshot
from havasu_vc.model.names import HAVASU_MARKER, TABLES
from havasu_vc.records import dataclass
from havasu_vc.store.drafts import Draft
from havasu_vc.store.edits import Change, Existing, ObjectSink, edit_tree
from havasu_vc.store.trees import find_entry

__all__ = ["MergedTree", "edit_changes", "write_tree"]


@dataclass(frozen=True, slots=True)
class MergedTree:
    """What a merge commit is made of, beside its edits."""

    files: Mapping[str, Change]
    """What becomes of the user's own files, by path."""
    internals: Mapping[str, str | None]
    """The internals of every dataset before the edits, by path; None where it goes."""
    parents: tuple[str, ...]
    """The parents after HEAD; none for a squash."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """The name of the internals' folder by path, for those that are no Havasu datasets."""

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


def edit_changes(edits: Sequence[TreeEdit]) -> dict[str, Change]:
    """Return what edits make of each path, guards apart."""
    changes: dict[str, Change] = {}
    for edit in edits:
        folder = f"{edit.path}/{edit.marker}"
        if edit.fresh:
            changes[folder] = None
        for path, data in edit.blobs.items():
            changes[f"{folder}/{path}"] = data
    return changes


def write_tree(
    writer: ObjectSink, base: str | None, edits: Sequence[TreeEdit], changes: dict[str, Change]
) -> str:
    """Write the trees that changes make of a base, guards included; return the root's id.

    A guard names trees, so these are made once without it, in memory: git's store gets
    nothing that no commit reaches.
    """
    if all(edit.snapshot is None for edit in edits):
        return edit_tree(writer, base, changes)
    draft = Draft(writer)
    tree = edit_tree(draft, base, changes)
    guards: dict[str, Change] = {}
    for edit in edits:
        if edit.snapshot is not None:
            inside = find_entry(draft, tree, f"{edit.path}/{edit.marker}")
            if inside is None:
                raise ValueError(f"the edit of {edit.path} leaves nothing")
            guard = guard_of(TreeFolder(draft, inside.id), edit.path)
            document = format_snapshot(edit.snapshot, guard)
            guards[f"{edit.path}/{edit.marker}/snapshot.json"] = document
    return edit_tree(writer, base, {**changes, **guards})
