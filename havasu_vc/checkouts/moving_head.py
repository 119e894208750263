"""Moving HEAD where tables are checked out: refused where their edits would be lost.

Merge, rebase, reset and switch, as people call them. The tables follow HEAD to where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from havasu_vc.checkouts.catching_up import following, require_no_merge
from havasu_vc.checkouts.keeping_bases import left_behind
from havasu_vc.checkouts.requests import ResetRequest, SwitchRequest
from havasu_vc.checkouts.workspace import Workspace
from havasu_vc.errors import CorruptionError, NotYetSupportedError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.store import refs
from havasu_vc.store.index import switch_worktree

if TYPE_CHECKING:
    from havasu_vc.merging import MergeRequest, MergeResult, RebaseRequest

__all__ = ["abort_merge", "commit_of", "continue_merge", "merge", "rebase", "reset", "switch"]


def merge(repo: OpenRepo, request: MergeRequest) -> MergeResult:
    """Merge a commit into HEAD, row by row and cell by cell.

    `fast_forward` is `auto`, `only` (refuses to merge) or `never` (always makes a commit).
    What is in conflict, and `policy` does not decide, waits until it is resolved; nothing
    moves until then. Tables with edits that the merge would pass over make it refuse.
    """
    from havasu_vc.merging import merge

    with following(repo):
        if other_branch(repo, request.into) is None:
            # In a repository of Kart's any edit is in the way, also where nothing would be merged.
            kart = repo.git.is_kart
            Workspace(repo).require_no_loss(request.revision, any_edit=kart, merging=True)
        return merge(repo, request)


def continue_merge(repo: OpenRepo, *, message: str | None = None) -> MergeResult:
    """Conclude the merge that waits, whoever began it.

    Rows that were edited meanwhile in a living working copy stay as they stand there.
    """
    from havasu_vc.merging import continue_merge

    with following(repo):
        if repo.git.kart_merge is not None:
            return _continue_kart(repo, message)
        return continue_merge(repo, message=message)


def _continue_kart(repo: OpenRepo, message: str | None) -> MergeResult:
    """Conclude a merge in which Kart stopped, as Kart would."""
    from havasu_vc.checkouts.living_kart_merge import leave_kart_merge
    from havasu_vc.merging import conclude_kart_merge, read_kart_merge, tree_of_kart_merge

    merge = read_kart_merge(repo.git)
    tree = tree_of_kart_merge(repo.git, merge)
    living = Workspace(repo).living
    if living is not None:
        leave_kart_merge(repo, living, merge, tree)
    return conclude_kart_merge(repo, merge, tree, message=message)


def _abort_kart(repo: OpenRepo) -> None:
    from havasu_vc.checkouts.living_kart_merge import leave_kart_merge
    from havasu_vc.merging import KartMerge, drop_kart_merge, read_kart_merge

    living = Workspace(repo).living
    if living is not None:
        try:
            merge = read_kart_merge(repo.git)
        except CorruptionError:
            merge = KartMerge("", "", (), {}, {})  # then every edit is somebody's
        leave_kart_merge(repo, living, merge, None)
    drop_kart_merge(repo.git)


def abort_merge(repo: OpenRepo) -> None:
    """Give up the merge that waits, whoever began it; HEAD is where it was before.

    Refused where a row that the merge changed was edited in a living working copy since.
    """
    from havasu_vc.merging import abort_merge

    with following(repo):
        if repo.git.kart_merge is not None:
            _abort_kart(repo)
            return
        living = Workspace(repo).living
        if living is not None:
            living.require_abort()
        abort_merge(repo)


def rebase(repo: OpenRepo, request: RebaseRequest) -> MergeResult:
    """Make the commits of HEAD's branch that upstream lacks again upon it, row by row.

    It stops at what is in conflict, until that is resolved. Tables with edits make it refuse.
    """
    from havasu_vc.merging import rebase

    with following(repo):
        Workspace(repo).require_no_loss("HEAD", any_edit=True)
        return rebase(repo, request)


def reset(repo: OpenRepo, request: ResetRequest) -> str:
    """Move the branch to a commit, as git does.

    `hard` and `keep` refuse where tables have edits, unless these are to be discarded.
    """
    mode = request.mode or "mixed"
    from havasu_vc.merging import reset

    if mode in ("hard", "keep"):
        Workspace(repo).require_no_loss(
            request.revision, discard=request.discard, any_edit=mode == "hard"
        )
    with following(repo, discard=request.discard):
        return reset(repo, request.revision, mode=mode)


def switch(repo: OpenRepo, request: SwitchRequest) -> None:
    """Put HEAD on a branch, or on a commit; refused while a merge waits.

    `HEAD` itself is where HEAD is, on its branch. Commits that nothing names any more
    are noted.
    """
    target, create, discard = request.target, request.create, request.discard
    require_no_merge(repo)
    before = refs.read_head(repo.git)
    if target in ("HEAD", "@") and not create:
        target = before.branch or target
    known = create or any(branch.name == target for branch in refs.list_branches(repo.git))
    begin = None if request.start is None else commit_of(repo, request.start)
    Workspace(repo).require_no_loss(begin or ("HEAD" if create else target), discard=discard)
    with following(repo, discard=discard):
        switch_worktree(
            repo.git,
            target if known else commit_of(repo, target),
            create=create,
            start=begin,
            discard=discard,
        )
    if before.branch is None and (note := left_behind(repo, before)):
        repo.settings.note(note)


def commit_of(repo: OpenRepo, revision: str) -> str:
    """Return the id of the commit that a revision means."""
    commit = repo.resolve(revision).commit
    if commit is None:
        raise NotYetSupportedError(f"{revision} is no commit")
    return commit
