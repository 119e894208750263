"""Files beside the datasets of a Kart repository, as its diffs tell of them.

In Kart's words these are attachments, such as `metadata.xml`, and whatever else is in a
commit. In other repositories they are git's own business, and no diff has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from havasu_vc.looking.requests import FileChangesRequest
from havasu_vc.model.diffs import FileChange
from havasu_vc.model.names import DATASET_MARKERS, KART_VERSION, OLD_VERSION
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import EMPTY_TREE, ObjectSource
from havasu_vc.store.revisions import resolve_compared
from havasu_vc.store.trees import TREE, find_entry, read_entries

__all__ = ["file_changes", "paths_matching"]

_LINK = b"160000"
_OF_KART = (KART_VERSION, OLD_VERSION)


def file_changes(repo: OpenRepo, request: FileChangesRequest) -> tuple[FileChange, ...]:
    """Return the files beside datasets that differ in a repository of Kart's, by path.

    A filter that is a folder's or file's path chooses them; one of rows or items does not.
    With `contents` they come with what they held and hold.
    """
    ends = resolve_compared(repo.git, request.revisions)
    source = repo.git.objects
    trees = [revision.tree or EMPTY_TREE for revision in (ends.old, ends.new)]
    of_kart = (find_entry(source, tree, name) for tree in trees for name in _OF_KART)
    if not any(entry is not None for entry in of_kart):
        return ()
    found = []
    for path, before, after in _differing(source, "", trees[0], trees[1]):
        if path == KART_VERSION or not _is_wanted(path, request.filters):
            continue
        sides = None
        if request.contents:
            blobs = [None if each is None else source.read(each)[1] for each in (before, after)]
            sides = (blobs[0], blobs[1])
        found.append(FileChange(path, before, after, sides))
    return tuple(sorted(found, key=lambda change: change.path))


def paths_matching(repo: OpenRepo, tree: str, pattern: str) -> list[str]:
    """Return the files beside the datasets of a tree whose paths a pattern matches."""
    found = _differing(repo.git.objects, "", EMPTY_TREE, tree)
    return [path for path, _, _ in found if path not in _OF_KART and fnmatchcase(path, pattern)]


def _is_wanted(path: str, filters: Sequence[str]) -> bool:
    chosen = [text.rstrip("/") for text in filters if ":" not in text]
    return not filters or any(
        path == text
        or path.startswith(f"{text}/")
        or any(fnmatchcase(path, pattern) for pattern in (text, f"{text}/*"))
        for text in chosen
    )


def _differing(
    source: ObjectSource, prefix: str, old: str, new: str
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield path and blobs of files that differ, without a look into datasets."""
    before, after = (
        {name: (mode == TREE, identity.hex()) for mode, name, identity in read_entries(source, tree)
         if mode != _LINK and name.decode(errors="replace") not in DATASET_MARKERS}
        for tree in (old, new)
    )  # fmt: skip
    for name in sorted(before.keys() | after.keys()):
        was, becomes = before.get(name), after.get(name)
        if was == becomes:
            continue
        path = prefix + name.decode("utf-8", "surrogateescape")
        folders = [side[1] if side and side[0] else EMPTY_TREE for side in (was, becomes)]
        files = [None if side is None or side[0] else side[1] for side in (was, becomes)]
        if files != [None, None]:
            yield path, files[0], files[1]
        if folders[0] != folders[1]:
            yield from _differing(source, f"{path}/", folders[0], folders[1])
