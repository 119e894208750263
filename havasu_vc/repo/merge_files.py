"""Merging the user's own files, which stand beside the datasets.

What one side changed is taken. A text that both changed is merged by `git merge-file`,
line by line; what that cannot merge stops the merge, with the file's name. Files are
not followed through renames.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from havasu_vc.errors import ConflictError
from havasu_vc.model.names import DATASET_MARKERS
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.edits import Change, Existing
from havasu_vc.store.objects import read_object
from havasu_vc.store.trees import Entry, find_entry, tree_difference

__all__ = ["merge_files"]

ORDINARY = (b"100644", b"100755")


def merge_files(repo: OpenRepo, base: str, ours: str, theirs: str) -> Mapping[str, Change]:
    """Return what becomes of files of our tree, given three trees."""
    objects = repo.git.objects
    changes: dict[str, Change] = {}
    for change in tree_difference(objects, base, theirs):
        if set(change.path.split("/")) & set(DATASET_MARKERS):
            continue
        before, mine, other = (
            find_entry(objects, tree, change.path) for tree in (base, ours, theirs)
        )
        if mine == other:
            continue
        if mine == before:
            changes[change.path] = None if other is None else Existing(other.id, mode=other.mode)
        else:
            changes[change.path] = _merged(repo, change.path, before, mine, other)
    return changes


def _merged(
    repo: OpenRepo, path: str, before: Entry | None, mine: Entry | None, other: Entry | None
) -> bytes:
    """Return a text that both sides changed."""
    sides = (mine, before, other)
    if mine is None or other is None or any(s and s.mode not in ORDINARY for s in sides):
        raise _clash(path)
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        names = []
        for name, side in zip(("ours", "base", "theirs"), sides, strict=True):
            data = b"" if side is None else read_object(repo.git.objects, side.id, "blob")
            place = Path(folder) / name
            place.write_bytes(data)
            names.append(str(place))
        result = repo.git.git("merge-file", "-p", "-q", *names, check=False)
    if result.code != 0:
        raise _clash(path)
    return result.output


def _clash(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed on both sides, and git cannot merge it",
        hints=("make that file alike on both branches, then merge again",),
    )
