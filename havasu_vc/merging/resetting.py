"""Moving the branch to another commit, as `git reset` does.

git moves the index and the user's files, so it keeps or drops what is not committed as
it always does. The internals of datasets are never staged: they follow the branch.
"""

from __future__ import annotations

from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.waiting import drop_state, merge_waits, require_no_merge_of_kart
from havasu_vc.store.index import in_step, mend
from havasu_vc.store.refs import move_head, read_head

__all__ = ["MODES", "reset"]

MODES = ("soft", "mixed", "hard", "keep")


def reset(repo: OpenRepo, revision: str = "HEAD", *, mode: str = "mixed") -> str:
    """Move the branch to a commit and return its id.

    `soft` leaves the index and the user's files alone, `mixed` the files, `hard` drops
    edits that are not committed, `keep` refuses where it would lose some.
    """
    if mode not in MODES:
        raise InvalidArgumentError(
            f"there is no reset mode {mode!r}", hints=(f"modes: {', '.join(MODES)}",)
        )
    commit = repo.resolve(revision).commit
    if commit is None:
        raise InvalidArgumentError(f"{revision} is no commit")
    require_no_merge_of_kart(repo.git)
    if merge_waits(repo.git) and mode in ("soft", "keep"):
        raise StateError(
            "a merge waits for its conflicts to be resolved",
            hints=("`havasu-vc merge --abort` drops it",),
        )
    if mode != "soft" and repo.git.is_bare:
        raise StateError(
            "there is no work tree to reset", hints=("`--soft` moves the branch alone",)
        )
    if mode == "soft" or repo.git.is_kart:
        # Kart's index holds nothing, and its work tree is a working copy that follows HEAD.
        _move(repo, commit, revision)
    else:
        repo.git.git("reset", "--quiet", f"--{mode}", commit)
        mend(repo.git)
    drop_state(repo.git)
    return commit


def _move(repo: OpenRepo, commit: str, revision: str) -> None:
    head = read_head(repo.git)
    before, after = repo.folders(repo.head()), repo.folders(repo.resolve(commit))
    changed = [
        f"{folder.path}/{folder.marker}"
        for path in sorted(before.keys() | after.keys())
        for folder in {before.get(path), after.get(path)}
        if folder is not None and before.get(path) != after.get(path)
    ]
    with in_step(repo.git, sorted(set(changed))):
        move_head(repo.git, head, commit, f"reset: moving to {revision}")
