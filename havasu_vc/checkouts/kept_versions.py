"""Versions of datasets that no commit has, for tables: the same rows in another form.

    <data folder>/<kind>/<name>.table    the documents of one, as git objects
    <data folder>/objects/…              its data files, among all others

A version appears when it is whole, so what goes wrong while it is made leaves nothing
behind. It is a cache: one that is damaged or whose files are gone counts as not there,
and `gc` takes what no checked-out table is of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.folder import Folder, TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import HavasuError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import replace_file, short_lived_folder
from havasu_vc.store.drafts import KeptObjects, format_objects, parse_objects
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.trees import edit_tree

__all__ = ["SUFFIX", "forget_versions", "keep_version", "making_version", "read_version"]

SUFFIX = ".table"
"""How the name of a kept version ends."""


@contextmanager
def making_version(repo: OpenRepo) -> Iterator[Storage]:
    """Yield where files of a version in the making wait; gc is kept away meanwhile."""
    folder = repo.git.data_folder
    with shared_lock(folder / "lock"), short_lived_folder(folder / "staging") as staging:
        yield replace(repo.storage, staging=DataFileStore(staging))


def keep_version(
    repo: OpenRepo,
    storage: Storage,
    folder: Folder,
    files: Iterable[str],
    place: Callable[[str], Path],
) -> TreeFolder:
    """Keep a version whose new `files` are staged, and return its documents.

    `place` gives the file for the tree of the version.
    """
    for file in files:
        if storage.staging.has(file):
            repo.storage.files.put(storage.staging.path(file), sha256=file)
    repo.storage.files.commit_all()
    kept = KeptObjects()
    blobs = {name: folder.read_blob(blob) for name, blob in folder.blobs("")}
    tree = edit_tree(kept, None, blobs)
    replace_file(place(tree), format_objects(tree, kept))
    return TreeFolder(kept, tree)


def read_version(repo: OpenRepo, path: str, place: Path, revision: str) -> HavasuDataset | None:
    """Return the version that is kept in a file, if it is whole."""
    try:
        tree, kept = parse_objects(place.read_bytes(), str(place))
        found = HavasuDataset(path, TreeFolder(kept, tree), repo.storage, revision)
        found.check_guard()
        whole = all(repo.storage.files.has(file) for file in found.entries)
    except (OSError, HavasuError):
        return None
    return found if whole else None


def forget_versions(
    folder: Path, wanted: Callable[[str], bool], *, grace_seconds: float, dry_run: bool = False
) -> int:
    """Remove versions of a folder that are not wanted and are old; return how many bytes.

    `wanted` is asked by name, without the suffix.
    """
    size = 0
    for place in sorted(folder.glob(f"*{SUFFIX}")):
        with suppress(OSError):
            status = place.stat()
            if status.st_mtime > time.time() - grace_seconds:
                continue
            if wanted(place.name.removesuffix(SUFFIX)):
                continue
            size += status.st_size
            if not dry_run:
                place.unlink()
    return size
