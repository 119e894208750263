"""Whether a merge waits for its conflicts, ours or Kart's, without loading any of them.

Conflicts of an operation that git began wait only as long as git does: once that was aborted,
skipped or concluded by git itself, what was noted of it means nothing and goes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from havasu_vc.errors import HavasuError, StateError
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import read_stopped

__all__ = [
    "MERGED_REF",
    "drop_state",
    "merge_folder",
    "merge_waits",
    "merged_tree",
    "require_no_merge_of_kart",
]

MERGED_REF = "refs/worktree/havasu-vc/merged"
"""Keeps the tree that a living working copy has the rows of while a merge waits."""


def merge_folder(git: GitRepository) -> Path:
    """Return the folder in which a merge of this work tree waits."""
    return git.git_directory / "havasu" / "merge"


def merge_waits(git: GitRepository) -> bool:
    """Whether a merge waits; what outlived its operation is dropped."""
    path = merge_folder(git) / "state.json"
    if not path.exists():
        return False
    if _is_over(git, path):
        drop_state(git)
        return False
    return True


def merged_tree(git: GitRepository) -> str | None:
    """Return the tree with all that a merge that waits has merged, if one was made; else None."""
    if git.kart_merge is not None:
        try:
            return (git.git_directory / "MERGED_TREE").read_text("ascii").strip() or None
        except (OSError, ValueError):
            return None
    try:
        value = json.loads((merge_folder(git) / "state.json").read_bytes())
        tree = value.get("merged")
        # Cut off when HEAD had moved, it is over.
        return tree if tree and value["ours"] == read_head(git).commit else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _is_over(git: GitRepository, path: Path) -> bool:
    """Whether a merge that git began is not what git has stopped at."""
    try:
        value = json.loads(path.read_bytes())
        if value["takes_over"] is not True:
            return False
        noted = (value["ours"], value["theirs"], value["base"])
        stopped = read_stopped(git)
        return stopped is None or (read_head(git).commit, stopped.theirs, stopped.base) != noted
    except (OSError, ValueError, LookupError, TypeError, RecursionError, HavasuError):
        return False  # whoever reads it says what is wrong


def drop_state(git: GitRepository) -> None:
    """Forget the merge that waits."""
    folder = merge_folder(git)
    (folder / "state.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def require_no_merge_of_kart(git: GitRepository) -> None:
    """Raise while a merge of Kart's is half done: HEAD must not move before it ends."""
    branch = git.kart_merge
    if branch is not None:
        raise StateError(
            f"a merge of Kart's, of {branch}, is half done",
            hints=(
                "once `kart resolve` settled it, `kart merge --continue` concludes it, or "
                "`havasu-vc merge --continue`; `--abort` of either drops it",
            ),
        )
