"""Mending the broken datasets of HEAD: there is always a way forward, in a commit on top.

The history is walked back, over all parents, to the versions of a dataset that are sound
last. Several, as where a merge broke it, are merged again row by row. Where it is one, and
the files of HEAD are its or agree among themselves, only the sums are made anew
(`upkeep.sums_anew`); else the dataset is taken as it was there, and every commit since whose
change of it cannot be told any more is named. Nothing is rewritten.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.folder import TreeFolder, edited
from havasu_vc.datasets.havasu.soundness import check_guard
from havasu_vc.datasets.kinds import find_kind, findings_in, is_in_files, require_files
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    ConflictError,
    CorruptDatasetError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    NoChangesError,
    NotYetSupportedError,
    UnfinishedMergeError,
)
from havasu_vc.formats.havasu.properties import DATASET
from havasu_vc.history.conflicts import MergePolicy
from havasu_vc.history.diff import changes_counted
from havasu_vc.history.merge_datasets import MergedDataset, markers_of
from havasu_vc.merging import MergeRules, RootTree, base_tree, merge_trees, root_tree
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.soundness import broken_datasets, defect
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.index import sweep
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import Change, DatasetFolder, Existing, edit_tree
from havasu_vc.upkeep.requests import RepairRequest
from havasu_vc.upkeep.sums_anew import give_harmless_paths, repair_dataset, sums_of_rows

__all__ = ["LastSound", "last_sound", "last_version", "repair"]


@dataclass(frozen=True, slots=True)
class LastSound:
    """Where a dataset was sound last, on every line of the history."""

    commits: tuple[str, ...]
    """Commits in which it is sound, or is not; none contains another."""
    lost: tuple[str, ...]
    """Commits since that changed it and were broken by that, the newest first."""
    unsummed: bool = False
    """Whether nothing is wrong but that its rows do not have the digests that stand there."""


@dataclass(frozen=True, slots=True)
class _Mended:
    """The outcome for one dataset."""

    datasets: Mapping[str, MergedDataset]
    """By path: it may have stood elsewhere."""
    notes: tuple[str, ...]
    """Notes on the version that was taken, and on what could not be kept."""


def repair(repo: OpenRepo, request: RepairRequest) -> CommitResult:
    """Mend broken datasets, in a commit on top of HEAD; its notes say what was taken.

    They are taken from a commit, or from where they were sound last; `policy` decides
    conflicts between several such versions.
    """
    moved = give_harmless_paths(repo, request.datasets, request.message)
    try:
        result = _repair(repo, request, tuple(moved))
    except NoChangesError:
        if not moved:
            raise
        return CommitResult(repo.head().commit, repo.head_branch, notes=tuple(moved.values()))
    return replace(result, notes=(*moved.values(), *result.notes))


def _repair(repo: OpenRepo, request: RepairRequest, done: Collection[str]) -> CommitResult:
    head = repo.head()
    broken = broken_datasets(repo, head)
    asked = [path for path in request.datasets if path not in done]
    paths = tuple(path.strip("/") for path in asked) if request.datasets else tuple(broken)
    if head.commit is None or not paths:
        raise NoChangesError("every dataset of HEAD is sound")
    if request.source is not None:
        if not request.datasets and len(paths) > 1:
            raise InvalidArgumentError(
                f"{' and '.join(paths)} are broken", hints=("name those that COMMIT is to mend",)
            )
        source = repo.resolve(request.source)
        plans = {path: _taken_from(repo, path, source.commit or "") for path in paths}
    else:
        plans = {path: _plan(repo, path, head.commit, broken.get(path)) for path in paths}
        if not any(plan.commits or plan.lost or plan.unsummed for plan in plans.values()):
            raise NoChangesError(f"{' and '.join(paths)} need no repair")
    message = request.message or f"Repair {', '.join(paths)}"
    result = _mend(repo, head.commit, plans, request, message)
    # Lines that meet in more than one merge are merged one after the other.
    while any(len(plan.commits) > 2 for plan in plans.values()):
        plans = {
            path: replace(plan, commits=(*plan.commits[:1], *plan.commits[2:]), lost=())
            for path, plan in plans.items()
            if len(plan.commits) > 2
        }
        more = _mend(repo, result.commit or head.commit, plans, request, message, upon_head=True)
        result = replace(more, notes=(*result.notes, *more.notes))
    sweep(repo.git, paths)
    return result


def _plan(repo: OpenRepo, path: str, commit: str, error: HavasuError | None) -> LastSound:
    """Return from where a dataset is mended; nothing for one that is sound."""
    folder = repo.folders(repo.head()).get(path)
    if folder is None:
        raise DatasetNotFoundError(path)
    if error is not None:
        return last_sound(repo, path, commit)
    # Whoever names it wants every row looked at.
    files = repo.view(folder, "HEAD").in_files
    if files is None:
        return last_sound(repo, path, commit, thorough=True)
    with repo.settings.open_engine(files.size) as engine:
        return LastSound((), (), unsummed=sums_of_rows(files, engine) is not None)


def _taken_from(repo: OpenRepo, path: str, commit: str) -> LastSound:
    folder = repo.folders(repo.resolve(commit)).get(path)
    if folder is None:
        raise DatasetNotFoundError(path, commit[:10])
    error = defect(repo, folder, commit[:10])
    if error is not None:
        raise error
    return LastSound((commit,), ())


def last_sound(repo: OpenRepo, path: str, commit: str, *, thorough: bool = False) -> LastSound:
    """Return where a dataset was sound last before it broke; nothing where it is sound now.

    A commit without the dataset ends a line too: it was moved there, or is not yet.
    """
    known: dict[str, bool] = {}

    def sound(folder: DatasetFolder) -> bool:
        if folder.internals not in known:
            known[folder.internals] = _is_sound(repo, folder, thorough=thorough)
        return known[folder.internals]

    ends, lost = _walk(repo, path, commit, sound)
    if ends == [commit]:
        return LastSound((), ())
    if len(ends) > 1:
        apart = repo.git.git("merge-base", "--independent", *ends).text.split()
        ends = [end for end in ends if end in apart]
    return LastSound(tuple(ends), tuple(lost))


def last_version(repo: OpenRepo, path: str, commit: str) -> tuple[DatasetFolder, str] | None:
    """Return the last sound version of a broken dataset, and the commit that has it."""
    for each in last_sound(repo, path, commit).commits:
        folder = repo.folders(repo.resolve(each)).get(path)
        if folder is not None:
            return folder, each
    return None


def _walk(
    repo: OpenRepo, path: str, commit: str, sound: Callable[[DatasetFolder], bool]
) -> tuple[list[str], list[str]]:
    """Return the commits at which a walk back from a broken one ends, and what is lost."""
    ends: list[str] = []
    lost: list[str] = []
    waiting, seen = [commit], {commit}
    while waiting:
        identity = waiting.pop()
        folder = repo.folders(repo.resolve(identity)).get(path)
        if folder is None or sound(folder):
            ends.append(identity)
            continue
        parents = read_commit(repo.git.objects, identity).parents
        if len(parents) < 2:
            before = [repo.folders(repo.resolve(parent)).get(path) for parent in parents]
            if not any(each and each.internals == folder.internals for each in before):
                lost.append(identity)
        # The first parent's line comes first; a shallow clone has not all of them.
        here = [each for each in reversed(parents) if repo.git.objects.has(each)]
        waiting += [parent for parent in here if parent not in seen]
        seen.update(parents)
    return ends, lost


def _is_sound(repo: OpenRepo, folder: DatasetFolder, *, thorough: bool) -> bool:
    if defect(repo, folder, "HEAD") is not None:
        return False
    if not thorough or is_in_files(folder.marker):
        return True
    with repo.settings.open_engine(0) as engine:
        return next(findings_in(repo.view(folder, "HEAD"), engine, full=True), None) is None


def _mend(
    repo: OpenRepo,
    head: str,
    plans: Mapping[str, LastSound],
    request: RepairRequest,
    message: str,
    *,
    upon_head: bool = False,
) -> CommitResult:
    """Commit datasets mended; with `upon_head` HEAD's version stands for the first commit."""
    with Transaction(repo) as transaction:
        transaction.require_head(head)
        mended = {
            path: _mended(repo, transaction, path, plan, request, head if upon_head else None)
            for path, plan in plans.items()
            if plan.commits or plan.lost or plan.unsummed
        }
        merged = {path: m for each in mended.values() for path, m in each.datasets.items()}
        found = [each.edit for each in merged.values() if each.edit is not None]
        edits = [edit for edit in found if edit.blobs]
        internals = {path: each.internals for path, each in merged.items()}
        now = {path: folder.internals for path, folder in transaction.folders.items()}
        if not edits and all(now.get(path) == tree for path, tree in internals.items()):
            raise NoChangesError(f"{' and '.join(plans)} are so in HEAD already")
        commit = transaction.commit(
            edits, message, merge=MergedTree({}, internals, (), markers_of(merged))
        )
    notes = tuple(note for each in mended.values() for note in each.notes)
    counts: dict[str, ChangeCounts] = {edit.path: edit.counts for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, notes)


def _moved_apart(
    repo: OpenRepo, transaction: Transaction, path: str, plan: LastSound, policy: MergePolicy
) -> _Mended | None:
    """Return what brings documents at the old place of a moved dataset to the new one.

    git leaves them there when one side moved a dataset and the other edited it.
    """
    now = transaction.folders
    inside = TreeFolder(repo.git.objects, now[path].internals)
    if now[path].marker != HAVASU_MARKER or inside.read(DATASET) is not None:
        return None
    identity = _identity(repo, now[path])
    for other, folder in now.items():
        if other == path or identity is None or _identity(repo, folder) != identity:
            continue
        blobs: dict[str, Change] = {name: Existing(blob) for name, blob in inside.blobs("")}
        edit = TreeEdit(other, blobs)
        home = TreeFolder(repo.git.objects, folder.internals)
        with suppress(HavasuError):
            check_guard(edited(home, edit), other, "HEAD")
            counts = _counted(repo, transaction, folder, edit)
            mended = MergedDataset(folder.internals, replace(edit, counts=counts))
            said = f"{path}: what was edited there is brought to {other}, where the table is now"
            return _Mended({path: MergedDataset(None), other: mended}, (said,))
        return _merged_apart(repo, transaction, path, other, blobs, plan, policy)
    return None


def _counted(
    repo: OpenRepo, transaction: Transaction, folder: DatasetFolder, edit: TreeEdit
) -> ChangeCounts:
    """Return how many rows of the last sound version an edit changes, as far as they are read."""
    view = repo.view(folder, "HEAD").with_storage(transaction.storage)
    last = last_version(repo, folder.path, repo.head().commit or "")
    before = view if last is None else repo.view(*last)
    with suppress(HavasuError), repo.settings.open_engine(view.size) as engine:
        return changes_counted(before, view.after(edit, "the repair"), engine)
    return ChangeCounts()


def _merged_apart(
    repo: OpenRepo,
    transaction: Transaction,
    path: str,
    other: str,
    added: Collection[str],
    plan: LastSound,
    policy: MergePolicy,
) -> _Mended | None:
    """Merge the rows of a dataset as it was with those of where it went; None if neither tells.

    What git left at the old place is what was added there since both were one.
    """
    if len(plan.commits) != 1:
        return None
    internals = f"{path}/{HAVASU_MARKER}"
    ours = root_tree(repo, repo.resolve(plan.commits[0]))
    draft = Draft(repo.git.objects)
    base, theirs = (
        RootTree(tree.name, draft, edit_tree(draft, tree.tree, dict.fromkeys(gone)))
        for tree, gone in (
            (ours, [f"{internals}/{name}" for name in added]),
            (root_tree(repo, repo.head()), [internals]),
        )
    )
    before = base.folders().get(path)
    if before is None:
        return None
    try:
        check_guard(TreeFolder(draft, before.internals), path, base.name)
    except HavasuError:
        return None
    rules = MergeRules(policy, joins=False, only=(path,))
    merged = merge_trees(repo, transaction.storage, (base, ours, theirs), rules)
    sides = (_named(repo, plan.commits[0]), f"{other} at HEAD")
    _require_no_conflicts(path, merged, sides)
    said = f"{path} is merged row by row with {other}, where it was moved to, from "
    return _Mended(merged, (f"{said}{sides[0]} and {sides[1]}",))


def _mended(
    repo: OpenRepo,
    transaction: Transaction,
    path: str,
    plan: LastSound,
    request: RepairRequest,
    ours: str | None,
) -> _Mended:
    if plan.unsummed:
        files = require_files(repo.view(transaction.folders[path], "HEAD"), "repair")
        with repo.settings.open_engine(files.size) as engine:
            summed = sums_of_rows(files.with_storage(transaction.storage), engine)
        kept = MergedDataset(transaction.folders[path].internals, summed)
        return _Mended({path: kept}, (f"{path}: its sums are made anew from its rows",))
    policy = request.policy or MergePolicy()
    lost = tuple(_lost(repo, path, plan.lost))
    apart = None if request.source else _moved_apart(repo, transaction, path, plan, policy)
    if apart is not None:
        return apart
    if len(plan.commits) > 1:
        return _merged_again(repo, transaction, path, plan.commits, policy, ours)
    folder = None
    if plan.commits:
        folder = repo.folders(repo.resolve(plan.commits[0])).get(path)
    if request.source is None:
        edit = _summed_anew(repo, transaction, path, folder, plan)
        if edit is not None:
            kept = MergedDataset(transaction.folders[path].internals, edit)
            return _Mended({path: kept}, (f"{path}: its files are kept, and their sums made anew",))
    if folder is None:
        folder = _moved_from(repo, transaction.folders, path, plan.commits)
    if folder is None:
        raise NotYetSupportedError(
            f"no version of {path} that HEAD comes from is sound",
            hints=(
                f"`havasu-vc repair {shlex.quote(path)} --from COMMIT` takes it from any "
                f"other commit",
                "`havasu-vc import --replace` takes its rows from a file",
            ),
        )
    taken = MergedDataset(folder.internals, marker=folder.marker)
    said = f"{path} is as it was at {_named(repo, plan.commits[0])}"
    return _Mended({path: taken}, (said, *lost))


def _moved_from(
    repo: OpenRepo, now: Mapping[str, DatasetFolder], path: str, commits: Sequence[str]
) -> DatasetFolder | None:
    """Return the dataset of one of some commits that stood elsewhere and is the same."""
    identity = _identity(repo, now[path])
    for commit in commits:
        for other, folder in repo.folders(repo.resolve(commit)).items():
            gone = other not in now and identity is not None
            if gone and _identity(repo, folder) == identity and not defect(repo, folder, commit):
                return folder
    return None


def _identity(repo: OpenRepo, folder: DatasetFolder) -> str | None:
    return repo.view(folder, "HEAD").likely_identity if find_kind(folder.marker) else None


def _summed_anew(
    repo: OpenRepo,
    transaction: Transaction,
    path: str,
    last: DatasetFolder | None,
    plan: LastSound,
) -> TreeEdit | None:
    """Return the edit that gives the files of HEAD their sums; None where that cannot be."""
    view = repo.view(transaction.folders[path], "HEAD")
    before = [] if last is None else [repo.view(last, plan.commits[0][:10])]
    files = view.in_files
    parents = [each.in_files for each in before]
    if files is None or None in parents:
        return None
    try:
        with repo.settings.open_engine(0) as engine:
            staged = files.with_storage(transaction.storage)
            return repair_dataset(staged, engine, parents=[each for each in parents if each])
    except (NotYetSupportedError, NoChangesError, CorruptDatasetError, UnfinishedMergeError):
        return None


def _lost(repo: OpenRepo, path: str, commits: Sequence[str]) -> Iterator[str]:
    for commit in commits:
        yield (
            f"{path}: what {_named(repo, commit)} changed is not in it, as only its own broken "
            "version tells; `havasu-vc cherry-pick` or `import --replace` can bring that again"
        )


def _named(repo: OpenRepo, commit: str) -> str:
    subject = read_commit(repo.git.objects, commit).message.partition("\n")[0]
    return f"{commit[:10]} ({subject})"


def _merged_again(
    repo: OpenRepo,
    transaction: Transaction,
    path: str,
    commits: Sequence[str],
    policy: MergePolicy,
    ours: str | None,
) -> _Mended:
    """Merge a dataset from two commits, row by row."""
    first, second = commits[0], commits[1]
    bases = repo.git.git("merge-base", "--all", first, second, check=False).text.split()
    base = base_tree(repo, transaction.storage, sorted(bases))
    sides = [root_tree(repo, repo.resolve(commit)) for commit in (ours or first, second)]
    rules = MergeRules(policy, only=(path,))
    merged = merge_trees(repo, transaction.storage, (base, sides[0], sides[1]), rules)
    _require_no_conflicts(
        path,
        merged,
        (_named(repo, first), _named(repo, second)),
        f"`havasu-vc diff {first[:10]}...{second[:10]} {shlex.quote(path)}` shows what one changed",
    )
    said = f"{path} is merged again, row by row, from {_named(repo, first)} and "
    # What no side has is what git made of a dataset that was moved.
    return _Mended({path: MergedDataset(None), **merged}, (said + _named(repo, second),))


def _require_no_conflicts(
    path: str, merged: Mapping[str, MergedDataset], sides: tuple[str, str], *hints: str
) -> None:
    for each in merged.values():
        if each.conflicts is not None:
            raise ConflictError(
                f"{path}: {each.conflicts.total:,} conflicts between {sides[0]} and {sides[1]}, "
                "which a merge did not resolve",
                hints=(
                    f"`havasu-vc repair {shlex.quote(path)} -X ours` decides them by the former, "
                    "`-X theirs` by the latter, `-X COLUMN=theirs` cell by cell",
                    *hints,
                    f"`havasu-vc repair {shlex.quote(path)} --from COMMIT` takes all of one "
                    f"version",
                ),
            )
