"""Merging a commit into HEAD: fast-forward, or row by row with a commit of two parents.

Datasets are merged from their rows in the three commits; the user's own files are
merged by git. When something is in conflict nothing moves: what waits to be resolved
is kept under the git directory, and `conclude` makes the merge again with the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.errors import (
    ConflictError,
    InvalidArgumentError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.history.conflicts import DatasetConflicts, MergePolicy
from havasu_vc.history.merge_datasets import DATASET, SCHEMA, MergedDataset, markers_of
from havasu_vc.merging.kart_stops import stop_as_kart
from havasu_vc.merging.requests import MergeRequest
from havasu_vc.merging.state import (
    MergeState,
    drop_state,
    require_calm,
    require_state,
    write_state,
)
from havasu_vc.merging.trees import (
    MergeRules,
    RootTree,
    base_tree,
    merge_bases,
    merge_files,
    merge_trees,
    root_tree,
)
from havasu_vc.merging.waiting import MERGED_REF, merge_waits
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import unsafe_reason
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.repo.soundness import tell_broken
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.index import moving_all
from havasu_vc.store.preparation import ATTRIBUTES_FILE
from havasu_vc.store.refs import move_head, move_ref, read_head
from havasu_vc.store.trees import Change

__all__ = [
    "MergeResult",
    "base_of",
    "conclude_merge",
    "drop_merge",
    "merge",
    "merge_commits",
    "merge_datasets",
    "require_resolved",
    "tree_so_far",
]

FAST_FORWARD = ("auto", "only", "never")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The outcome of a merge."""

    kind: str
    """`up-to-date`, `fast-forward`, `conflicts`, `empty` when nothing is left to commit, or
    else what the commit is: `merge`, `squash`, `cherry-pick` or `revert`."""
    commit: str | None
    """HEAD's commit after it; None for a dry run that would make one, and for conflicts."""
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)
    """Rows of ours that change, by dataset."""
    conflicts: tuple[DatasetConflicts, ...] = ()
    """The conflicts that have to be resolved."""


def merge(repo: OpenRepo, request: MergeRequest) -> MergeResult:
    """Merge a commit into HEAD, or into another branch."""
    if request.fast_forward not in FAST_FORWARD:
        raise InvalidArgumentError(f"there is no fast-forward mode {request.fast_forward!r}")
    require_calm(repo)
    branch = other_branch(repo, request.into)
    ours = repo.resolve("HEAD" if branch is None else f"refs/heads/{branch}")
    theirs = repo.resolve(request.revision)
    if ours.commit is None or theirs.commit is None:
        raise InvalidArgumentError(f"{request.revision} is no commit")
    bases = merge_bases(repo, ours.commit, theirs.commit, request.revision)
    if bases == (theirs.commit,):
        return MergeResult("up-to-date", ours.commit)
    if bases == (ours.commit,) and request.fast_forward != "never" and not request.squash:
        return _fast_forward(repo, ours.commit, theirs.commit, request, branch)
    if request.fast_forward == "only":
        raise StateError(
            f"{branch or 'HEAD'} cannot be fast-forwarded to {request.revision}: "
            "it has commits of its own",
            hints=("merge without --ff-only",),
        )
    message = request.message or _message(branch or repo.head_branch, request)
    state = MergeState(
        ours.commit,
        theirs.commit,
        request.revision,
        message,
        request.policy or MergePolicy(),
        kind="squash" if request.squash else "merge",
        parents=() if request.squash else (theirs.commit,),
    )
    return merge_commits(repo, state, dry_run=request.dry_run, branch=branch)


def _message(branch: str | None, request: MergeRequest) -> str:
    what, name = "Squash" if request.squash else "Merge", request.revision
    return f'{what} branch "{name}" into {branch}' if branch else f'{what} "{name}"'


def _fast_forward(
    repo: OpenRepo, ours: str, commit: str, request: MergeRequest, branch: str | None
) -> MergeResult:
    """Move from what was merged with: a branch that has moved on since has commits to keep."""
    if request.dry_run:
        return MergeResult("fast-forward", None)
    told = f"merge {request.revision}: Fast-forward"
    if branch is not None:
        ref = f"refs/heads/{branch}"
        move_ref(repo.git, ref, old=ours, new=commit, message=told)
        return MergeResult("fast-forward", commit)
    if repo.git.is_bare or repo.git.is_kart:
        move_head(repo.git, replace(read_head(repo.git), commit=ours), commit, told)
    else:
        # git brings the user's own files along, or refuses when that would lose edits.
        with moving_all(repo.git, commit):
            repo.git.git("merge", "--quiet", "--ff-only", commit)
    tell_broken(repo, repo.head())
    return MergeResult("fast-forward", commit)


def merge_commits(
    repo: OpenRepo, state: MergeState, *, dry_run: bool = False, branch: str | None = None
) -> MergeResult:
    """Merge from the three commits; with resolutions, when `state` has some.

    A `branch` is another than HEAD's: what is in conflict there does not wait.
    """
    ours, theirs = repo.resolve(state.ours), repo.resolve(state.theirs)
    with Transaction(repo, branch=branch, dry_run=dry_run) as transaction:
        transaction.require_head(state.ours)
        base = base_of(repo, transaction, state)
        files = _files(repo, state, (base, ours.tree, theirs.tree))
        if not dry_run and branch is None:
            _require_committed(repo, tuple(files))
        merged = merge_datasets(repo, transaction, base, state)
        if _waits_as_in_kart(repo, state, merged) and not state.policy.whole:
            # What Kart may go on with is what it would have left: rows as wholes, too.
            state = replace(state, policy=replace(state.policy, whole=True))
            merged = merge_datasets(repo, transaction, base, state)
        for tree in (ours, theirs):
            taken = {
                path
                for path, folder in repo.folders(tree).items()
                if path in merged
                and folder.internals == merged[path].internals
                and merged[path].edit is None
            }
            tell_broken(repo, tree, taken)
        waiting = tuple(each.conflicts for each in merged.values() if each.conflicts is not None)
        edits = [each.edit for each in merged.values() if each.edit is not None and each.edit.blobs]
        changes = {edit.path: edit.counts for edit in edits}
        if waiting:
            if not dry_run and branch is None:
                _stop(repo, transaction, state, base, merged, files)
            return MergeResult("conflicts", None, changes, waiting)
        internals = {path: each.internals for path, each in merged.items()}
        empty = not (state.parents or files or edits) and internals == {
            path: None if folder is None else folder.internals
            for path, folder in ((path, transaction.folders.get(path)) for path in internals)
        }
        # What has a path that no tree should have stays where it is.
        for path, folder in root_tree(repo, ours).folders().items():
            if unsafe_reason(path) and internals.get(path) == folder.internals:
                del internals[path]
        kind, commit = ("empty", state.ours) if empty else (state.kind, None)
        if not (empty or dry_run):
            commit = transaction.commit(
                edits,
                state.message,
                author=state.author,
                merge=MergedTree(files, internals, state.parents, markers_of(merged)),
            )
    if not dry_run and branch is None:
        drop_state(repo.git)
    return MergeResult(kind, commit, changes)


def _stop(
    repo: OpenRepo,
    transaction: Transaction,
    state: MergeState,
    base: RootTree,
    merged: Mapping[str, MergedDataset],
    files: Mapping[str, Change],
) -> None:
    """Let a merge wait for its conflicts; as Kart does in its repositories, where that can be."""
    waiting = tuple(each.conflicts for each in merged.values() if each.conflicts is not None)
    if repo.git.is_kart and state.kind == "merge":
        shown = _show_merged(repo, transaction, merged, files, whole=state.policy.whole)
        if stop_as_kart(repo, state, waiting, base, shown):
            return
    # Kart's working copy stays at HEAD then, as Kart knows nothing of a merge of ours.
    seen = repo.held is not None and not repo.git.is_kart
    kept = _show_merged(repo, transaction, merged) if seen else None
    write_state(repo.git, replace(state.with_conflicts(waiting), merged=kept))


def tree_so_far(repo: OpenRepo, state: MergeState) -> str:
    """Keep the tree of a merge that waits, with what was resolved, and return its id."""
    with Transaction(repo) as transaction:
        transaction.require_head(state.ours)
        base = base_of(repo, transaction, state)
        sides = (repo.resolve(state.ours).tree, repo.resolve(state.theirs).tree)
        merged = merge_datasets(repo, transaction, base, state)
        files = _files(repo, state, (base, *sides))
        return _show_merged(repo, transaction, merged, files, whole=state.policy.whole)


def _waits_as_in_kart(
    repo: OpenRepo, state: MergeState, merged: Mapping[str, MergedDataset]
) -> bool:
    """Whether the columns of a dataset wait in a merge that Kart may go on with."""
    found = (each.conflicts for each in merged.values() if each.conflicts is not None)
    waits = any(each.items.get(SCHEMA, "") is None for each in found)
    return waits and repo.git.is_kart and state.kind == "merge"


def _show_merged(
    repo: OpenRepo,
    transaction: Transaction,
    merged: Mapping[str, MergedDataset],
    files: Mapping[str, Change] | None = None,
    *,
    whole: bool = False,
) -> str:
    """Keep the tree with all that is not in conflict, for a working copy that shows it.

    Where whole datasets or their columns are in conflict, they are ours; with columns that are
    in conflict as a `whole`, as in Kart, so are these alone, and what else merged is in it.
    """
    undecided = (DATASET,) if whole else (DATASET, SCHEMA)
    edits, internals = [], {}
    for path, each in merged.items():
        items = {} if each.conflicts is None else each.conflicts.items
        if any(items.get(name, "") is None for name in undecided):
            ours = transaction.folders.get(path)
            internals[path] = None if ours is None else ours.internals
            continue
        internals[path] = each.internals
        edits += [each.edit] if each.edit is not None and each.edit.blobs else []
    shown = MergedTree(files or {}, internals, (), markers_of(merged))
    return transaction.keep_tree(edits, shown, MERGED_REF)


def _require_committed(repo: OpenRepo, files: tuple[str, ...]) -> None:
    """Raise when the user's edits of some files are not committed."""
    if not files or repo.git.is_bare or repo.git.is_kart:
        return
    # A command line holds only so many names.
    paths = files if len(files) <= 200 else ()
    options = ("--porcelain", "-z", "--no-renames", "--untracked-files=all")
    found = repo.git.git("status", *options, "--", *paths).text.split("\0")
    edited = {line[3:] for line in found if line}.intersection(files)
    if edited:
        name = min(edited)
        raise UncommittedChangesError(
            f"the merge changes {name}, which has edits that are not committed",
            hints=("commit or stash them with git first",),
        )


def base_of(repo: OpenRepo, transaction: Transaction, state: MergeState) -> RootTree:
    """Return the tree that both sides are compared with."""
    if state.base is not None:
        return root_tree(repo, repo.resolve(state.base))
    bases = merge_bases(repo, state.ours, state.theirs, state.name)
    return base_tree(repo, transaction.storage, bases)


def merge_datasets(
    repo: OpenRepo, transaction: Transaction, base: RootTree, state: MergeState
) -> dict[str, MergedDataset]:
    """Merge every dataset that is on any side, with the resolutions that the state has."""
    ours, theirs = (root_tree(repo, repo.resolve(name)) for name in (state.ours, state.theirs))
    resolved = {each.path: each for each in state.conflicts}
    rules = MergeRules(state.policy, resolved, joins=state.kind == "merge")
    return merge_trees(repo, transaction.storage, (base, ours, theirs), rules)


def _files(
    repo: OpenRepo, state: MergeState, trees: tuple[RootTree, str, str]
) -> dict[str, Change]:
    """Return what becomes of the user's own files."""
    if state.takes_over:
        # What git began, it merges the user's files of.
        return {}
    base, ours, theirs = trees
    files = dict(merge_files(repo, base.tree, ours, theirs, source=base.source))
    if files.get(ATTRIBUTES_FILE, b"") is None:
        # What stands in it is as true of the other datasets.
        del files[ATTRIBUTES_FILE]
    return files


def conclude_merge(repo: OpenRepo, *, message: str | None = None) -> MergeResult:
    """Conclude the merge that waits."""
    state = require_state(repo.git)
    if state.takes_over:
        drop_state(repo.git)
        raise StateError(
            f"git's {state.kind} was ended otherwise, so nothing waits any more",
            hints=("`havasu-vc status`",),
        )
    require_resolved(state)
    head = read_head(repo.git).commit
    if head != state.ours:
        if head is not None and _concludes(repo, head, state, message):
            # It was cut off when the commit was made and this was not forgotten yet.
            drop_state(repo.git)
            return MergeResult(state.kind, head)
        raise StateError(
            "HEAD has moved since the merge began",
            hints=("`havasu-vc merge --abort`, then merge again",),
        )
    if message is not None:
        state = replace(state, message=message)
    return merge_commits(repo, state)


def _concludes(repo: OpenRepo, commit: str, state: MergeState, message: str | None) -> bool:
    """Whether a commit is the one that a merge that waits was to end with."""
    made = read_commit(repo.git.objects, commit)
    if made.parents != (state.ours, *state.parents):
        return False
    return bool(state.parents) or made.message.strip() in (
        state.message.strip(),
        None if message is None else message.strip(),
    )


def require_resolved(state: MergeState) -> None:
    """Raise while conflicts wait."""
    if state.unresolved:
        raise ConflictError(
            f"{state.unresolved:,} conflicts are not resolved yet",
            hints=("`havasu-vc conflicts` shows them, `havasu-vc resolve` settles them",),
        )


def drop_merge(repo: OpenRepo) -> None:
    """Drop the merge that waits; HEAD never moved."""
    if not merge_waits(repo.git):
        require_state(repo.git)
    # A damaged state is dropped as well; nothing in it is needed for that.
    drop_state(repo.git)
