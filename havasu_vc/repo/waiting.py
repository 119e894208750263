"""Whether a merge waits for its conflicts, ours or Kart's, without reading any of it."""

from __future__ import annotations

from pathlib import Path

from havasu_vc.errors import StateError
from havasu_vc.store.repository import GitRepository

__all__ = ["merge_folder", "merge_waits", "require_no_merge_of_kart"]


def merge_folder(git: GitRepository) -> Path:
    """Return the folder in which a merge of this work tree waits."""
    return git.git_directory / "havasu" / "merge"


def merge_waits(git: GitRepository) -> bool:
    """Whether a merge waits."""
    return (merge_folder(git) / "state.json").exists()


def require_no_merge_of_kart(git: GitRepository) -> None:
    """Raise while a merge of Kart's is half done: HEAD must not move, and only Kart ends it."""
    branch = git.kart_merge
    if branch is not None:
        raise StateError(
            f"a merge of Kart's, of {branch}, is half done",
            hints=("`kart merge --continue` concludes it, `kart merge --abort` drops it",),
        )
