"""Merging the user's own files, which stand beside the datasets.

What one side changed is taken. A text that both changed is merged by `git merge-file`,
line by line; what that cannot merge stops the merge, with the file's name. Files are
not followed through renames.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from havasu_vc.errors import ConflictError
from havasu_vc.model.names import DATASET_MARKERS
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import ObjectSource, read_object
from havasu_vc.store.trees import Change, Entry, Existing, find_entry, tree_difference

__all__ = ["clashing_files", "merge_base_files", "merge_files"]

ORDINARY = (b"100644", b"100755")


def merge_files(
    repo: OpenRepo, base: str, ours: str, theirs: str, *, source: ObjectSource | None = None
) -> Mapping[str, Change]:
    """Return what becomes of files of our tree, given three trees."""
    changes: dict[str, Change] = {}
    for path, sides in _differing(source or repo.git.objects, (base, ours, theirs)):
        before, mine, other = sides
        if mine == before:
            changes[path] = _as_it_is(other)
        else:
            changes[path] = _merged(repo, source or repo.git.objects, path, sides)
    return changes


def clashing_files(
    repo: OpenRepo, base: str, ours: str, theirs: str, *, source: ObjectSource
) -> Iterator[str]:
    """Yield the files that git cannot merge, given three trees."""
    for path, sides in _differing(source, (base, ours, theirs)):
        if sides[1] != sides[0]:
            try:
                _merged(repo, source, path, sides)
            except ConflictError:
                yield path


def merge_base_files(
    repo: OpenRepo, source: ObjectSource, trees: tuple[str, str, str]
) -> Mapping[str, Change]:
    """Return what becomes of files of one merge base, given what both came from and another.

    What cannot be merged is left out, so that a merge takes it for new on both sides.
    """
    changes: dict[str, Change] = {}
    for path, sides in _differing(source, trees):
        before, mine, other = sides
        if mine == before:
            changes[path] = _as_it_is(other)
            continue
        try:
            changes[path] = _merged(repo, source, path, sides)
        except ConflictError:
            changes[path] = None
    return changes


_Sides = tuple[Entry | None, Entry | None, Entry | None]


def _differing(source: ObjectSource, trees: tuple[str, str, str]) -> Iterator[tuple[str, _Sides]]:
    """Yield the files outside of datasets that theirs changed, and not just as ours."""
    for change in tree_difference(source, trees[0], trees[2]):
        if set(change.path.split("/")) & set(DATASET_MARKERS):
            continue
        before, mine, other = (find_entry(source, tree, change.path) for tree in trees)
        if mine != other:
            yield change.path, (before, mine, other)


def _as_it_is(entry: Entry | None) -> Change:
    return None if entry is None else Existing(entry.id, mode=entry.mode)


def _merged(repo: OpenRepo, source: ObjectSource, path: str, versions: _Sides) -> bytes:
    """Return a text that both sides changed."""
    before, mine, other = versions
    sides = (mine, before, other)
    if mine is None or other is None or any(s and s.mode not in ORDINARY for s in sides):
        raise _clash(path)
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        names = []
        for name, side in zip(("ours", "base", "theirs"), sides, strict=True):
            data = b"" if side is None else read_object(source, side.id, "blob")
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
