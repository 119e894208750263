"""Delete files that git's merges left without a place.

A delete file names positions in data files. When git puts together an edit of one side and
a fold of the other, the file that a row was deleted from may have been replaced, or a row
be deleted twice where an equal one came back. What is meant is the row: it is looked up
by its key in the other live files, equal in all columns that both know. One delete file
with the places that were found stands for those without (`relocating`).

Nearly no table has any, so what is needed to see that is all that is loaded here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from havasu_vc.datasets.havasu.deletes import read_positions
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.store.sound import is_sound, remember_sound, settled_mark

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["in_question", "without_place"]


def without_place(view: DatasetInFiles) -> set[str]:
    """Return the delete files of a dataset that delete what is not live, or what another does."""
    live = view.stored_entries
    found = view.delete_targets.items()
    homeless = {file for file, targets in found if any(each not in live for each in targets)}
    return homeless | _clashing(view)


def in_question(view: DatasetInFiles) -> list[Entry]:
    """Return the delete files that must be read before any is believed; none, once they were."""
    entries = view.stored_entries
    return [entries[file] for found in _sharing(view).values() for file in found]


def _sharing(view: DatasetInFiles) -> dict[str, list[str]]:
    """Return the delete files of data files that have several, unless these were compared."""
    sharing: dict[str, list[str]] = {}
    for file, targets in view.delete_targets.items():
        for target in targets:
            sharing.setdefault(target, []).append(file)
    sharing = {target: found for target, found in sharing.items() if len(found) > 1}
    return {} if not sharing or is_sound(*_mark(view)) else sharing


def _mark(view: DatasetInFiles) -> tuple[Path, str]:
    return view.storage.files.root, settled_mark(view.folder.tree_id("files"))


def _clashing(view: DatasetInFiles) -> set[str]:
    """Return the delete files that delete a row which another one deletes too."""
    sharing = _sharing(view)
    if not sharing:
        return set()
    clashing: set[str] = set()
    entries = view.stored_entries
    nothing = np.empty(0, np.int64)
    try:
        view.bring((), deletes=False)
        places = {
            target: [
                read_positions(view.file_path(entries[file])).get(target, nothing) for file in found
            ]
            for target, found in sharing.items()
        }
    except HavasuError:
        return set()  # whoever reads the file that is missing or damaged hears of it
    for target, found in sharing.items():
        pieces = places[target]
        every, counts = np.unique(np.concatenate(pieces), return_counts=True)
        twice = every[counts > 1]
        if len(twice):
            clashing |= {
                file
                for file, piece in zip(found, pieces, strict=True)
                if np.isin(twice, piece).any()
            }
    if not clashing:
        remember_sound(*_mark(view))
    return clashing
