"""Trees in the making: as a commit would have them, in memory, beside what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.model.names import HAVASU_MARKER, TABLES
from havasu_vc.records import dataclass
from havasu_vc.store.trees import Change, Existing

__all__ = ["MergedTree", "edit_changes"]


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
    """Return what edits make of each path."""
    changes: dict[str, Change] = {}
    for edit in edits:
        folder = f"{edit.path}/{edit.marker}"
        if edit.fresh:
            changes[folder] = None
        for path, data in edit.blobs.items():
            changes[f"{folder}/{path}"] = data
    return changes
