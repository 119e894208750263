"""The repository that git's variables name, as where git runs a hook or an alias.

`GIT_DIR` stands before the current folder, and `-C` before it: who names a repository means no
other. A work tree or an index apart from the repository's own is refused, or told of.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.errors import RepositoryNotFoundError, StateError

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["check_named", "named_place"]


def named_place(folder: Path) -> Path:
    """Return where to look for the repository of a command that is to work in a folder."""
    named = os.environ.get("GIT_DIR")
    if not named or folder != Path():
        return folder
    place = Path(named)
    if place.is_file():
        return place.parent  # it says where the git directory is
    # Else it would be looked for in the folders around it, which git does not.
    has_objects = (place / "objects").is_dir() or (place / "commondir").is_file()
    if not os.path.lexists(place / "HEAD") or not has_objects:
        error = RepositoryNotFoundError(named)
        error.hints = ("GIT_DIR names it; `unset GIT_DIR` looks in the current folder",)
        raise error
    return place


def check_named(folder: Path, git: GitRepository) -> str | None:
    """Raise where git's variables name another work tree; return what to tell of another index."""
    if folder != Path():
        return None
    named = os.environ.get("GIT_WORK_TREE")
    own = git.work_tree
    if named and (own is None or os.path.realpath(named) != os.path.realpath(own)):
        there = "it is bare" if own is None else f"its work tree is {own}"
        raise StateError(
            f"GIT_WORK_TREE names {named} for {git.git_directory}, but {there}",
            hints=("`git config core.worktree FOLDER` gives a repository another work tree",),
        )
    index = os.environ.get("GIT_INDEX_FILE")
    # While git commits, its own lies beside the other and changes nothing of datasets.
    if index and os.path.realpath(os.path.dirname(index)) != os.path.realpath(git.git_directory):
        return f"GIT_INDEX_FILE is not followed: {index} is not the index of {git.git_directory}"
    return None
