"""Whether a merge waits for its conflicts, without reading any of it."""

from __future__ import annotations

from pathlib import Path

from havasu_vc.store.repository import GitRepository

__all__ = ["merge_folder", "merge_waits"]


def merge_folder(git: GitRepository) -> Path:
    """Return the folder in which a merge of this work tree waits."""
    return git.git_directory / "havasu" / "merge"


def merge_waits(git: GitRepository) -> bool:
    """Whether a merge waits."""
    return (merge_folder(git) / "state.json").exists()
