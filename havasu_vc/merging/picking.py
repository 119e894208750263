"""Bringing the change of one commit to HEAD, or taking it back: cherry-pick and revert.

Both are merges whose base is not the merge base. A cherry-pick brings what the commit
made of its parent into HEAD; a revert brings what the parent is, seen from the commit.
So rows merge cell by cell, and what is in conflict waits, is resolved, concluded and
dropped exactly as with a merge.

Several commits one after the other: cherry-pick, revert and rebase of more than one.

git goes through them, so that authors, messages, reflogs and what waits are as git has them,
and git's own commands go on with it as well as ours do. Where it stops at rows that both
sides changed, these are merged cell by cell (`takeover`) and git goes on by itself; only what
is truly in conflict stops it. git does not follow a dataset that was moved, so commits that meet
one are gone through here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from havasu_vc.errors import (
    CorruptionError,
    DataFileNotFoundError,
    InvalidArgumentError,
    NoChangesError,
    StateError,
    UnsupportedRepositoryError,
)
from havasu_vc.history.conflicts import MergePolicy
from havasu_vc.merging import takeover
from havasu_vc.merging.merge_commits import (
    MergeResult,
    conclude_merge,
    drop_merge,
    merge_commits,
    require_resolved,
)
from havasu_vc.merging.requests import PickRequest, RebaseRequest, SequenceRequest
from havasu_vc.merging.state import (
    MergeState,
    Todo,
    begin,
    drop_state,
    forget,
    read_state,
    read_waiting,
    require_calm,
    require_not_cut_off,
    require_state,
    reset,
    set_waiting,
    write_todo,
)
from havasu_vc.merging.takeover import asked_of_git, go_on
from havasu_vc.merging.waiting import merge_waits, require_no_merge_of_kart
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.repo.differences import diff_revisions, moved_datasets
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import on_newest_head
from havasu_vc.repo.soundness import broken_datasets
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.refs import read_head
from havasu_vc.store.revisions import EMPTY, read_stopped

__all__ = ["cherry_pick", "continue_merge", "pick_several", "rebase", "revert", "skip_commit"]


def revert(repo: OpenRepo, request: PickRequest) -> MergeResult:
    """Commit the opposite of what a commit changed."""
    require_calm(repo)
    return _merged(repo, _reverting(repo, request), dry_run=request.dry_run)


def _reverting(repo: OpenRepo, request: PickRequest) -> MergeState:
    ours, undone, parent = _commits(repo, request.revision, request.mainline)
    return MergeState(
        ours,
        parent,
        f"the parent of {request.revision}",
        request.message or _message(undone, parent),
        request.policy or MergePolicy(),
        kind="revert",
        base=undone.id,
    )


def cherry_pick(repo: OpenRepo, request: PickRequest) -> MergeResult:
    """Commit again on HEAD what a commit changed, as its author's."""
    require_calm(repo)
    return _merged(repo, _picking(repo, request), dry_run=request.dry_run)


def _picking(repo: OpenRepo, request: PickRequest) -> MergeState:
    ours, picked, parent = _commits(repo, request.revision, request.mainline)
    text = request.message or picked.message
    if request.record:
        text = f"{text.rstrip()}\n\n(cherry picked from commit {picked.id})\n"
    return MergeState(
        ours,
        picked.id,
        request.revision,
        text,
        request.policy or MergePolicy(),
        kind="cherry-pick",
        base=parent,
        author=picked.author,
    )


def _merged(repo: OpenRepo, state: MergeState, *, dry_run: bool) -> MergeResult:
    def attempt() -> MergeResult:
        ours = repo.head().commit or state.ours
        merged = merge_commits(repo, replace(state, ours=ours), dry_run=dry_run)
        return _counted(repo, merged, ours)

    return on_newest_head(repo, attempt)


def _counted(repo: OpenRepo, result: MergeResult, ours: str) -> MergeResult:
    """Return a result that also counts the rows of datasets that were taken as they are."""
    if result.commit in (None, ours):
        return result
    changes = dict(result.changes)
    ends = repo.resolve(ours), repo.resolve(str(result.commit))
    # The commit stands, so what cannot be counted is no error any more.
    broken = {path for end in ends for path in broken_datasets(repo, end)}
    for diff in diff_revisions(repo, *ends, skipped=broken, moves=True):
        if diff.path not in changes:
            with suppress(CorruptionError, DataFileNotFoundError):
                changes[diff.path] = count_changes(diff.changes)
    return replace(result, changes=changes)


def _message(undone: Commit, parent: str) -> str:
    reversing = f", reversing\nchanges made to {parent}" if len(undone.parents) > 1 else ""
    return f'Revert "{undone.subject}"\n\nThis reverts commit {undone.id}{reversing}.\n'


def _commits(repo: OpenRepo, revision: str, mainline: int | None) -> tuple[str, Commit, str]:
    """Return HEAD's commit, the commit that is meant, and the parent that it is compared with."""
    ours, found = repo.resolve("HEAD").commit, repo.resolve(revision).commit
    if ours is None or found is None:
        raise InvalidArgumentError(f"{revision} is no commit")
    commit = read_commit(repo.git.objects, found)
    return ours, commit, _parent(commit, revision, mainline)


def _parent(commit: Commit, revision: str, mainline: int | None) -> str:
    parents = commit.parents
    if len(parents) > 1 and mainline is None:
        raise InvalidArgumentError(
            f"{revision} is a merge, so it is not clear what it changed",
            hints=("`--mainline 1` means what it changed of the branch it was merged into",),
        )
    if len(parents) < 2 and mainline is not None:
        raise InvalidArgumentError(f"{revision} is no merge, so it has no mainline")
    if mainline is not None and not 1 <= mainline <= len(parents):
        raise InvalidArgumentError(
            f"{revision} has no parent {mainline}", hints=(f"parents go from 1 to {len(parents)}",)
        )
    if not parents:
        return EMPTY
    return parents[(mainline or 1) - 1]


def rebase(repo: OpenRepo, request: RebaseRequest) -> MergeResult:
    """Make the commits that upstream lacks again, upon it, row by row and cell by cell."""
    require_calm(repo)
    if request.upstream is None and request.onto is None:
        raise InvalidArgumentError("a rebase of all commits needs a commit to make them upon")
    names = [name for name in (request.upstream, request.branch) if name is not None]
    for name in (*names, request.onto):
        if name is not None and repo.resolve(name).commit is None:
            raise InvalidArgumentError(f"{name} is no commit")
    if not _has_work_tree(repo) or _over_a_move(repo, request):
        return _rebase_commits(repo, request)
    options = ["--rebase-merges"] if request.merges else []
    options += ["--fork-point"] if request.fork_point else []
    options += [] if request.onto is None else ["--onto", request.onto]
    options += ["--root"] if request.upstream is None else []
    return _run(repo, ("rebase", *options, *names), request.policy)


def pick_several(repo: OpenRepo, request: SequenceRequest) -> MergeResult:
    """Cherry-pick or revert (`kind`) commits and ranges, each with a commit of its own."""
    kind, revisions, mainline = request.kind, request.revisions, request.mainline
    require_calm(repo)
    for text in revisions:
        for name in text.removeprefix("^").replace("...", "..").split(".."):
            repo.resolve(name or "HEAD")
    if not repo.git.git("rev-list", "-1", *revisions, "--").text:
        raise NoChangesError(f"empty commit set passed: no commit is in {' '.join(revisions)}")
    ranges = any(".." in text or text.startswith("^") for text in revisions)
    order = ["--topo-order"] if ranges else ["--no-walk=unsorted"]
    order += ["--reverse"] if ranges and kind == "cherry-pick" else []
    commits = repo.git.git("rev-list", *order, *revisions, "--").lines
    # git finds out when it has made the commits before, and stops there.
    found = [read_commit(repo.git.objects, name) for name in commits]
    if len({len(each.parents) > 1 for each in found}) > 1:
        merge = next(each for each in found if len(each.parents) > 1)
        raise InvalidArgumentError(
            f"{merge.id[:10]} is a merge, and others of {' '.join(revisions)} are none",
            hints=("name merges apart from the others, with --mainline",),
        )
    for each in found:
        _parent(each, each.id[:10], mainline)
    if not _has_work_tree(repo) or _moved(repo, commits, "HEAD"):
        begin(repo.git, kind)
        return _go_through(
            repo, kind, commits, mainline=mainline, record=request.record, policy=request.policy
        )
    options = [] if mainline is None else ["--mainline", str(mainline)]
    options += ["-x"] if request.record else []
    options += ["--no-edit"] if kind == "revert" else []
    return _run(repo, (kind, *options, *revisions), request.policy)


def skip_commit(repo: OpenRepo) -> MergeResult:
    """Leave out the commit at which a cherry-pick, revert or rebase waits, and go on."""
    require_no_merge_of_kart(repo.git)
    if (waiting := read_waiting(repo.git)) is not None:
        decided = require_state(repo.git).policy
        set_waiting(repo.git, False)
        drop_merge(repo)
        return _go_on(repo, waiting[1], decided)
    state = read_state(repo.git) if merge_waits(repo.git) else None
    stopped = read_stopped(repo.git)
    kind = stopped.kind if stopped is not None else None if state is None else state.kind
    if kind in (None, "merge", "squash"):
        raise StateError(
            "no cherry-pick, revert or rebase is in progress, so there is nothing to skip",
            hints=("`havasu-vc status`",),
        )
    if stopped is None:
        drop_merge(repo)
        return MergeResult("skipped", read_head(repo.git).commit)
    policy = None if state is None else state.policy
    require_not_cut_off(repo.git)
    set_waiting(repo.git, False)
    answer = asked_of_git(repo, stopped.kind, "--skip", kind=stopped.kind)
    drop_state(repo.git)
    return go_on(repo, stopped, answer, policy=policy)


def _run(repo: OpenRepo, command: Sequence[str], policy: MergePolicy | None) -> MergeResult:
    before = read_head(repo.git)
    begin(repo.git, command[0])
    answer = asked_of_git(repo, *command, kind=command[0])
    result = go_on(repo, None, answer, command=command, policy=policy)
    if result.kind != "conflicts" and read_head(repo.git) == before:
        return MergeResult("up-to-date", before.commit)
    return result


def continue_merge(repo: OpenRepo, *, message: str | None = None) -> MergeResult:
    """Conclude what waits, whoever began it, and go on with the commits that come after."""
    waiting = read_waiting(repo.git)
    if waiting is None:
        return takeover.continue_merge(repo, message=message)
    state = require_state(repo.git)
    require_resolved(state)
    set_waiting(repo.git, False)
    result = conclude_merge(repo, message=message)
    return _go_on(repo, waiting[1], state.policy, result.changes)


def _has_work_tree(repo: OpenRepo) -> bool:
    """Whether git can go through commits: Kart's work trees hold no datasets."""
    return not (repo.git.is_bare or repo.git.is_kart)


def _rebase_commits(repo: OpenRepo, request: RebaseRequest) -> MergeResult:
    """Rebase HEAD's branch where git cannot."""
    if not _has_work_tree(repo) and (request.merges or request.branch is not None):
        raise UnsupportedRepositoryError(
            "without a work tree, a rebase is of HEAD's branch and leaves merges out",
            hints=("`havasu-vc switch BRANCH` first, and leave --rebase-merges out",),
        )
    onto, commits = _to_rebase(repo, request, "HEAD")
    head = read_head(repo.git)
    if (
        repo.git.git("rev-list", "--reverse", "--topo-order", f"{onto}..HEAD", "--").lines
        == commits
    ):
        if not repo.git.git("rev-list", "-1", f"HEAD..{onto}", "--").text.strip():
            return MergeResult("up-to-date", head.commit)
    begin(repo.git, "rebase")
    write_todo(repo.git, Todo("rebase", head.commit or "", tuple(commits)))
    reset(repo, onto, mode="keep" if _has_work_tree(repo) else "soft")
    return _go_through(repo, "rebase", commits, policy=request.policy)


def _to_rebase(repo: OpenRepo, request: RebaseRequest, head: str) -> tuple[str, list[str]]:
    """Return the commit to make commits upon, and these, the oldest first."""
    onto = repo.resolve(request.onto or request.upstream or "").commit or ""
    upstream = onto if request.upstream is None else repo.resolve(request.upstream).commit or ""
    left = upstream
    if request.fork_point and request.upstream is not None:
        asked = ("merge-base", "--fork-point", request.upstream, head)
        left = repo.git.git(*asked, check=False).text.strip() or upstream
    how = ("--reverse", "--topo-order", "--no-merges", "--cherry-pick", "--right-only")
    found = repo.git.git("rev-list", *how, f"{upstream}...{head}", f"^{left}", "--")
    return onto, list(found.lines)


def _over_a_move(repo: OpenRepo, request: RebaseRequest) -> bool:
    """Whether a rebase has to follow a dataset that was moved, which git does not.

    Raises `StateError` where only git could do it.
    """
    onto, commits = _to_rebase(repo, request, request.branch or "HEAD")
    moved = _moved(repo, commits, onto)
    if not moved:
        return False
    if request.merges or request.branch is not None:
        was, now = next(iter(moved.items()))
        raise StateError(
            f"{was} is {now} on the other side, and git's rebase follows no moves",
            hints=(
                "leave --rebase-merges out: commits are then made in a row"
                if request.merges
                else f"`havasu-vc switch {shlex.quote(request.branch or '')}` first, then rebase "
                "without naming it",
            ),
        )
    _require_no_edited_files(repo)
    return True


def _require_no_edited_files(repo: OpenRepo) -> None:
    """Raise where files have edits, as git does: who drops a rebase drops them."""
    asked = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
    edited = [line[3:] for line in repo.git.git(*asked).lines]
    if edited:
        raise StateError(
            f"cannot rebase: {', '.join(edited[:5])} {'has' if len(edited) == 1 else 'have'} "
            "changes that are not committed",
            hints=("commit or stash them",),
        )


def _moved(repo: OpenRepo, commits: Sequence[str], onto: str) -> dict[str, str]:
    """Return datasets that stand elsewhere in a commit, or before some others, by where they were.

    git takes what changed in them for files of the old path, and makes half a dataset there.
    """
    goal = repo.folders(repo.resolve(onto))
    seen = {frozenset(goal)}
    for commit in commits:
        parents = read_commit(repo.git.objects, commit).parents
        for name in (*parents, commit):
            there = repo.folders(repo.resolve(name))
            if frozenset(there) in seen:
                continue
            seen.add(frozenset(there))
            with suppress(CorruptionError):
                found = moved_datasets(repo, there, goal, (name, onto))
                if found:
                    return {was: now for now, was in found.items()}
    return {}


def _go_on(
    repo: OpenRepo,
    todo: Todo,
    policy: MergePolicy,
    changes: Mapping[str, ChangeCounts] | None = None,
) -> MergeResult:
    return _go_through(
        repo,
        todo.kind,
        todo.rest,
        mainline=todo.mainline,
        record=todo.record,
        policy=policy,
        changes=changes,
    )


def _go_through(
    repo: OpenRepo,
    kind: str,
    commits: Sequence[str],
    *,
    mainline: int | None = None,
    record: bool = False,
    policy: MergePolicy | None = None,
    changes: Mapping[str, ChangeCounts] | None = None,
) -> MergeResult:
    """Pick or revert commits one by one, until one is in conflict."""
    counted = dict(changes or {})
    for place, commit in enumerate(commits):
        ours = repo.head().commit or ""
        write_todo(repo.git, Todo(kind, ours, tuple(commits[place + 1 :]), mainline, record))
        one = PickRequest(commit, mainline, record=record, policy=policy)
        state = _reverting(repo, one) if kind == "revert" else _picking(repo, one)
        result = merge_commits(repo, state)
        for path, counts in _counted(repo, result, ours).changes.items():
            counted[path] = counted.get(path, ChangeCounts()) + counts
        if result.kind == "conflicts":
            set_waiting(repo.git, True)
            return replace(result, changes=counted)
    forget(repo.git)
    return MergeResult(kind, read_head(repo.git).commit, counted)
