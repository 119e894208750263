"""Broken datasets: which ones a revision has, and why.

A dataset breaks where something that knows nothing of datasets writes it: git told to take
one side of a conflict, an editor in a browser, a script. That is an ordinary event. What is
broken is named and passed over, every other dataset works, and what would carry the broken
one on refuses unless it is told otherwise. Whether one dataset is sound its own view knows
(`check_guard`); here is asked of all.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import find_kind
from havasu_vc.errors import CorruptionError, HavasuError, StateError, UnsupportedError
from havasu_vc.model.names import TABLES
from havasu_vc.repo.opened import OpenRepo, unsafe_path
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import find_datasets

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.store.trees import DatasetFolder

__all__ = [
    "ALLOW",
    "broken_datasets",
    "defect",
    "defect_of",
    "raise_last",
    "require_sound",
    "require_sound_head",
    "sound_datasets",
    "tell_broken",
]

ALLOW = "--allow-broken"
"""The option that carries broken datasets on."""


def defect_of(view: Dataset) -> HavasuError | None:
    """Return why a dataset cannot be read, as far as its documents tell; None where it can.

    That may be no fault of its own: `UnsupportedError` says that another version is needed.
    """

    def check() -> None:
        view.check_guard()
        _ = view.header

    return _raised(check)


def defect(repo: OpenRepo, folder: DatasetFolder, revision: str) -> HavasuError | None:
    """Return why the dataset in a folder is broken; None where it is sound, or not for us."""
    kind = find_kind(folder.marker)
    if kind is None:
        return None
    inside = TreeFolder(repo.git.objects, folder.internals)
    memory = repo.git.data_folder
    # Without opening it, which may take Arrow: much that asks this reads no row.
    found = _raised(lambda: kind.check(inside, folder.path, revision, folder.marker, memory))
    return None if isinstance(found, UnsupportedError) else found


def _raised(check: Callable[[], None]) -> HavasuError | None:
    try:
        check()
    except (CorruptionError, StateError, UnsupportedError) as error:
        return error
    return None


def broken_datasets(repo: OpenRepo, revision: Revision) -> Mapping[str, HavasuError]:
    """Return what is wrong with the datasets of a revision, by path; nothing is noted."""
    broken: dict[str, HavasuError] = {}

    def passed_over(folder: DatasetFolder, reason: str) -> None:
        broken[folder.path] = unsafe_path(f"{folder.path!r} at {revision.name}", reason)

    for folder in find_datasets(repo.git.objects, revision.tree, passed_over):
        found = defect(repo, folder, revision.name)
        if found is not None:
            broken[folder.path] = found
    return dict(sorted(broken.items()))


def tell_broken(repo: OpenRepo, revision: Revision, only: Container[str] | None = None) -> None:
    """Tell of broken datasets of a revision which something goes on with as they are."""
    for path, error in broken_datasets(repo, revision).items():
        if only is None or path in only:
            repo.tell(path, f"{error.message}; `havasu-vc repair` mends it")


def raise_last(repo: OpenRepo, broken: Mapping[str, HavasuError]) -> None:
    """Raise what is wrong with a dataset once others were dealt with, and tell of the rest."""
    for path, error in list(broken.items())[1:]:
        repo.tell(path, error.message)
    for error in broken.values():
        raise error


def sound_datasets(repo: OpenRepo, revision: str = "HEAD") -> tuple[str, ...]:
    """Return the paths of the tables of a revision that can be read; the others are told of."""
    found = []
    for path, folder in repo.folders(repo.revision(revision)).items():
        if folder.marker not in TABLES:
            continue
        error = defect(repo, folder, revision)
        if error is None:
            found.append(path)
        else:
            repo.tell(path, error.message)
    return tuple(found)


def require_sound(repo: OpenRepo, *revisions: Revision, what: str, allowed: bool = False) -> None:
    """Raise where revisions have broken datasets, or tell of them where that is allowed.

    `what` says what would carry them on, as in "this commit".
    """
    found = [item for each in revisions for item in broken_datasets(repo, each).items()]
    if allowed:
        for path, error in found:
            repo.tell(path, error.message)
        return
    said = list(dict.fromkeys(error.message for _, error in found))
    if not said:
        return
    datasets = "a broken dataset" if len(said) == 1 else f"{len(said)} broken datasets"
    raise StateError(
        f"{what} would carry {datasets} on: {'; '.join(said)}",
        hints=(
            "`havasu-vc repair` mends it, in a commit of its own",
            f"`{ALLOW}` carries it on as it is, to rescue something else",
        ),
    )


def require_sound_head(repo: OpenRepo, *, allowed: bool) -> None:
    """Raise where HEAD has broken datasets, which a commit would carry on, unless allowed."""
    require_sound(repo, replace(repo.head(), name="HEAD"), what="this commit", allowed=allowed)
