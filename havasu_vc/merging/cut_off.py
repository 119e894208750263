"""Where HEAD was before git went through several commits, noted until it is through.

git keeps that too, but not from its first step to its last: killed in between, or on a full
disk, its own `--abort` refuses, or leaves the branch where it had got. What is noted here puts
HEAD, its branch and the index back in one go. The note says `runs` while git works and `waits`
while a conflict does; only one that runs, of a git that is gone, means that it was cut off.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from havasu_vc.errors import StateError
from havasu_vc.merging.state import drop_state
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import replace_file
from havasu_vc.store.index import sweep
from havasu_vc.store.refs import BRANCHES, read_head
from havasu_vc.store.repository import GitRepository

__all__ = [
    "Begun",
    "begin",
    "forget",
    "put_back",
    "read_cut_off",
    "require_not_cut_off",
    "set_waiting",
]

_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_HEADS = ("CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "MERGE_MSG")


@dataclass(frozen=True, slots=True)
class Begun:
    """A sequence of commits that git began, and where HEAD was then."""

    kind: str
    """`cherry-pick`, `rebase` or `revert`."""
    branch: str | None
    """HEAD's branch; None where it was detached."""
    commit: str


def begin(git: GitRepository, kind: str) -> None:
    """Note where HEAD is, before git begins."""
    head = read_head(git)
    if head.commit is not None:
        _write(git, "runs", Begun(kind, head.branch, head.commit))


def set_waiting(git: GitRepository, waits: bool) -> None:
    """Note that git waits for conflicts to be resolved, or goes on, where it is noted at all."""
    found = _read(git)
    if found is not None:
        _write(git, "waits" if waits else "runs", found[1])


def forget(git: GitRepository) -> None:
    """Forget what was noted: it is through, or dropped."""
    _path(git).unlink(missing_ok=True)


def read_cut_off(git: GitRepository) -> Begun | None:
    """Return the sequence that was cut off and is half done; None where there is none."""
    found = _read(git)
    if found is None or found[0] != "runs":
        return None
    begun = found[1]
    return begun if _is_half_done(git) and _only_moved_by(git, begun) else None


def require_not_cut_off(git: GitRepository) -> None:
    """Raise where a sequence was cut off: who went on from there might leave a commit out."""
    begun = read_cut_off(git)
    if begun is not None:
        raise StateError(
            f"a {begun.kind} was cut off, and is half done",
            hints=(f"`havasu-vc {begun.kind} --abort` puts back what was before it",),
        )


def put_back(repo: OpenRepo, begun: Begun) -> None:
    """Drop a sequence that was cut off: HEAD, its branch and the index are as before it."""
    git = repo.git
    paths = {*repo.folders(repo.resolve("HEAD")), *repo.folders(repo.resolve(begun.commit))}
    # git puts what it had stashed by itself with the other stashes.
    git.git(begun.kind, "--quit", check=False, once=True)
    for name in _FOLDERS:
        shutil.rmtree(git.git_directory / name, ignore_errors=True)
    for name in _HEADS:
        (git.git_directory / name).unlink(missing_ok=True)
    if begun.branch is not None:
        git.git("symbolic-ref", "HEAD", BRANCHES + begun.branch)
    # A rebase begins with a clean work tree; a pick leaves other edits alone.
    how = "--hard" if begun.kind == "rebase" else "--merge"
    git.git("reset", "--quiet", how, begun.commit)
    drop_state(git)
    forget(git)
    sweep(git, sorted(paths))


def _is_half_done(git: GitRepository) -> bool:
    folder = git.git_directory
    if any((folder / name).exists() for name in (*_FOLDERS, *_HEADS[:3])):
        return True
    return bool(git.git("diff-index", "--cached", "--quiet", "HEAD", "--", check=False).code)


def _only_moved_by(git: GitRepository, begun: Begun) -> bool:
    """Whether nothing but the sequence has moved HEAD since, as far as the reflog tells."""
    told = git.git("log", "-g", "-500", "--format=%H %gs", "HEAD", "--", check=False)
    for line in told.lines:
        commit, _, subject = line.partition(" ")
        if commit == begun.commit:
            return True
        if not subject.startswith(begun.kind):
            return False
    return read_head(git).commit == begun.commit


def _path(git: GitRepository) -> Path:
    return git.git_directory / "havasu" / "sequence"


def _write(git: GitRepository, state: str, begun: Begun) -> None:
    text = f"{state} {begun.kind} {begun.commit} {begun.branch or ''}"
    replace_file(_path(git), text.encode("utf-8", "surrogateescape"))


def _read(git: GitRepository) -> tuple[str, Begun] | None:
    with suppress(OSError, ValueError):
        text = _path(git).read_bytes().decode("utf-8", "surrogateescape")
        state, kind, commit, branch = text.split(" ", 3)
        return state, Begun(kind, branch or None, commit)
    return None
