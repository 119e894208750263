"""Files of datasets that git put into the work tree, where they never belong.

git does that with files in conflict, whatever the sparse checkout says, and leaves them
there. Nobody's own files are below a dataset's internals.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.store.repository import GitRepository

__all__ = ["sweep"]


def sweep(repository: GitRepository, datasets: Iterable[str]) -> None:
    """Remove the internals of datasets from the work tree, and let git not miss them."""
    work_tree = repository.work_tree
    if work_tree is None or repository.is_kart:
        return
    for path in datasets:
        folder = work_tree / path / HAVASU_MARKER
        if not folder.is_dir() or _through_link(work_tree, folder):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        for parent in folder.relative_to(work_tree).parents[:-1]:
            with suppress(OSError):
                (work_tree / parent).rmdir()
    # What was in conflict, or added by hand, lost its mark of being left out.
    repository.git("sparse-checkout", "reapply", check=False)


def _through_link(work_tree: Path, folder: Path) -> bool:
    """Whether a link of the user's leads there, perhaps out of the work tree."""
    parts = folder.relative_to(work_tree).parents[:-1]
    return folder.is_symlink() or any((work_tree / part).is_symlink() for part in parts)
