"""What git stopped half-way: which commits it was bringing together, and how it goes on.

git notes this in files of the git directory. A plain merge, a cherry-pick, a revert, a
step of a rebase and a squash are told apart; a `cherry-pick --no-commit` that stops
leaves no note of its commit, so it is none of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from havasu_vc.errors import StateError
from havasu_vc.records import dataclass
from havasu_vc.store.commits import read_commit
from havasu_vc.store.objects import ObjectId
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import EMPTY

__all__ = ["Stopped", "read_stopped", "unmerged_files"]

_COMMIT = re.compile(r"^commit ([0-9a-f]{40})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stopped:
    """An operation of git that waits for somebody to go on with it."""

    kind: str
    """`merge`, `cherry-pick`, `revert`, `rebase` or `squash`."""
    theirs: ObjectId | str | None
    """The revision that is brought into HEAD; None where a step is done and more are to come."""
    base: ObjectId | str | None = None
    """The revision that both are compared with; None for their merge base."""

    @property
    def command(self) -> str:
        """The git command that began it."""
        return "merge" if self.kind == "squash" else self.kind

    @property
    def resume(self) -> tuple[str, ...]:
        """The git command that goes on."""
        return ("commit",) if self.kind == "squash" else (self.kind, "--continue")

    @property
    def abort(self) -> tuple[str, ...]:
        """The git command that gives up."""
        return ("reset", "--merge") if self.kind == "squash" else (self.kind, "--abort")


def read_stopped(repository: GitRepository) -> Stopped | None:
    """Return what git stopped half-way, if that brings commits together."""
    folder = repository.git_directory
    rebasing = (folder / "rebase-merge").is_dir() or (folder / "rebase-apply/rebasing").exists()
    if merged := _read(folder / "MERGE_HEAD").split():
        if len(merged) > 1:
            raise StateError(
                "git stopped in a merge of several branches at once",
                hints=("`git merge --abort`, then merge one branch after the other",),
            )
        return Stopped("rebase" if rebasing else "merge", merged[0])
    if rebasing:
        return _picked(repository, "rebase", _read(folder / "REBASE_HEAD"))
    for kind, name in (("cherry-pick", "CHERRY_PICK_HEAD"), ("revert", "REVERT_HEAD")):
        if picked := _read(folder / name):
            return _picked(repository, kind, picked)
    todo = _read(folder / "sequencer" / "todo").split()
    if todo:
        return Stopped("revert" if todo[0] == "revert" else "cherry-pick", None)
    squashed = _COMMIT.search(_read(folder / "SQUASH_MSG"))
    if squashed is not None:
        # git forgets to remove this file when a squash is given up.
        staged = repository.git("diff-index", "--cached", "--quiet", "HEAD", "--", check=False)
        if staged.code:
            return Stopped("squash", squashed.group(1))
    return None


def _picked(repository: GitRepository, kind: str, commit: str) -> Stopped:
    if not commit:
        return Stopped(kind, None)
    parents = read_commit(repository.objects, commit).parents
    if len(parents) > 1:
        raise StateError(
            f"git stopped at {commit[:10]}, which is a merge, and did not note which of its "
            "parents counts",
            hints=(
                f"`git {kind} --abort`, then `havasu-vc {kind} --mainline N`"
                if kind != "rebase"
                else "`git rebase --abort`, then merge instead",
            ),
        )
    parent = parents[0] if parents else EMPTY
    return Stopped(kind, parent, commit) if kind == "revert" else Stopped(kind, commit, parent)


def unmerged_files(repository: GitRepository) -> tuple[str, ...]:
    """Return the paths that are in conflict in the index."""
    listed = repository.git("ls-files", "--unmerged", "-z").text.split("\0")
    return tuple(dict.fromkeys(line.split("\t", 1)[1] for line in listed if line))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
