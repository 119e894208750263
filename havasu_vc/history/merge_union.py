"""Two sides of a dataset put together file by file, as git does: right where both agree.

What one side alone changed is taken; where both changed the same file otherwise, or one has
a file where the other has a folder, rows have to be merged. The result counts only if it is
sound.
"""

from __future__ import annotations

from collections.abc import Iterable

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import StateError
from havasu_vc.history.diff import row_changes
from havasu_vc.model.changes import count_changes
from havasu_vc.model.types import descendants
from havasu_vc.records import dataclass
from havasu_vc.store.trees import Change, Existing

__all__ = ["Versions", "joined", "union"]


@dataclass(frozen=True, slots=True)
class Versions:
    """One dataset in the three commits; None where it is not there."""

    base: Dataset | None
    """In the merge base."""
    ours: Dataset | None
    """On our side."""
    theirs: Dataset | None
    """On theirs."""


def union(versions: Versions, settings: Settings) -> TreeEdit | None:
    """Return what theirs changes upon ours, file by file; None where rows must be merged."""
    changes = joined(versions)
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    if changes is None or base is None or ours is None or theirs is None:
        return None
    with settings.open_engine(max(base.size, theirs.size)) as engine:
        counts = count_changes(row_changes(base, theirs, engine))
    return TreeEdit(ours.path, changes, counts=counts)


def joined(versions: Versions) -> dict[str, Change] | None:
    """Return the files of theirs that ours takes; None where rows must be merged."""
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    if base is None or ours is None or theirs is None or ours.in_files is None:
        return None
    if not isinstance(ours.folder, TreeFolder):
        return None
    if _dropped(base, ours) or _dropped(base, theirs):
        return None  # whether the other side edited the column, git does not ask
    mine = {name: after for name, _, after in base.folder.difference(ours.folder, "")}
    other = {name: after for name, _, after in base.folder.difference(theirs.folder, "")}
    if any(mine[name] != after for name, after in other.items() if name in mine):
        return None
    come = [{name for name, after in side.items() if after is not None} for side in (mine, other)]
    if come[0] & _folders(come[1]) or come[1] & _folders(come[0]):
        return None
    changes: dict[str, Change] = {
        name: None if after is None else Existing(after)
        for name, after in sorted(other.items(), key=lambda each: (each[1] is not None, each[0]))
        # A file in the place of a folder takes all of it away.
        if name not in mine and (after is not None or not _above(name) & come[1])
    }
    return changes if _is_sound(ours, changes) else None


def _dropped(old: Dataset, new: Dataset) -> bool:
    """Whether a side dropped a column, or a part of one."""
    kept = {field.id for field in descendants(new.schema.fields)}
    return any(field.id not in kept for field in descendants(old.schema.fields))


def _above(name: str) -> set[str]:
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def _folders(names: Iterable[str]) -> set[str]:
    """Return every folder above some files."""
    found: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _is_sound(ours: Dataset, changes: dict[str, Change]) -> bool:
    try:
        ours.after(TreeEdit(ours.path, changes), "the merge").check_guard()
    except StateError:
        return False
    return True
