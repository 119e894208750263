"""Edits of the workspace set aside, and brought back.

    refs/havasu-vc/stash/<time>   a commit of the edits, whose parent is the HEAD they were
                                  made on

Each stash is a commit like any other, so its files are kept by `gc` and it can be looked
at, merged or picked; only that no branch has it. git's own stash is left alone. A stash
comes back into clean tables as edits that are not committed; where HEAD has moved since,
row by row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from havasu_vc.checkouts.catching_up import following, has_workspace
from havasu_vc.checkouts.living_lookup import working_copy
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import is_in_files, kind_of
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import (
    ConflictError,
    InvalidArgumentError,
    NoChangesError,
    NotFoundError,
    UncommittedChangesError,
)
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.merging import require_calm
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.records import dataclass
from havasu_vc.repo.differences import diff_revisions, moved_datasets
from havasu_vc.repo.filters import RepoFilter
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.objects import Draft
from havasu_vc.store.refs import delete_ref, list_refs
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import Change, DatasetFolder, edit_tree

if TYPE_CHECKING:
    from havasu_vc.checkouts.living_copy import LivingCopy
    from havasu_vc.workspace.places import TablePlace
    from havasu_vc.workspace.state import WorkspaceState

__all__ = [
    "Stash",
    "apply_stash",
    "diff_stash",
    "drop_stash",
    "edits_of_stash",
    "list_stashes",
    "save_stash",
]

PREFIX = "refs/havasu-vc/stash/"
_NUMBER = re.compile(r"(?:stash@\{(\d{1,9})\}|(\d{1,9}))")
_PARTS = ("files", "data", "meta", "columns")


@dataclass(frozen=True, slots=True)
class Stash:
    """Edits that were set aside."""

    number: int
    """0 for the newest."""
    ref: str
    """Its ref."""
    commit: str
    """Its commit."""
    message: str
    """Its message."""


def list_stashes(repo: OpenRepo) -> tuple[Stash, ...]:
    """Return all stashes, newest first."""
    found = sorted(list_refs(repo.git, PREFIX).items(), reverse=True)
    return tuple(
        Stash(number, ref, commit, read_commit(repo.git.objects, commit).subject)
        for number, (ref, commit) in enumerate(found)
    )


def find_stash(repo: OpenRepo, name: str | None) -> Stash:
    """Return the stash of a number, as `0` or `stash@{0}`; the newest when none is named."""
    match = _NUMBER.fullmatch(name or "0")
    if match is None:
        raise InvalidArgumentError(
            f"{name!r} is no stash", hints=("`havasu-vc stash list` shows them",)
        )
    number = int(match[1] or match[2])
    stashes = list_stashes(repo)
    if number >= len(stashes):
        what = f"no stash {number}" if stashes else "no stash"
        raise NotFoundError(f"there is {what}", hints=("`havasu-vc stash list` shows them",))
    return stashes[number]


def save_stash(repo: OpenRepo, paths: Sequence[str] = (), *, message: str | None = None) -> Stash:
    """Set the edits of all tables aside, or of some, and bring the tables back to HEAD."""
    require_calm(repo)
    ref = f"{PREFIX}{time.time_ns():020d}"
    living = working_copy(repo)
    if living is not None and (not has_workspace(repo.git) or living.edited()):
        living.set_aside(paths, _message(repo, message), ref)
        return list_stashes(repo)[0]
    return _save_tables(repo, paths, _message(repo, message), ref)


def _save_tables(repo: OpenRepo, paths: Sequence[str], message: str, ref: str) -> Stash:
    """Set aside what is edited in the tables of a work tree."""
    from havasu_vc.checkouts.edited_tables import (
        chosen_tables,
        read_table_edits,
        require_workspace,
    )
    from havasu_vc.checkouts.edits import onto_head

    state = require_workspace(repo)
    with Transaction(repo) as transaction:
        edits: list[TreeEdit] = []
        read: dict[str, int] = {}
        for path in chosen_tables(state, paths):
            found = read_table_edits(repo, state, state.tables[path], transaction.storage)
            if found is not None:
                edit = onto_head(repo, transaction, found)
                read[path] = found.version
                edits += [edit] if edit.blobs else []
        if not edits:
            raise NoChangesError("there is nothing to set aside: nothing was edited")
        with following(repo):
            transaction.set_aside(edits, message, ref)
            repo.taken.update(read)
    return list_stashes(repo)[0]


def _message(repo: OpenRepo, message: str | None) -> str:
    head = repo.head().commit
    where = repo.head_branch or "(no branch)"
    if message is not None:
        return f"On {where}: {message}"
    if head is None:
        return f"WIP on {where}"
    return f"WIP on {where}: {head[:7]} {read_commit(repo.git.objects, head).subject}"


def diff_stash(repo: OpenRepo, name: str | None) -> tuple[Stash, Iterator[DatasetDiff]]:
    """Return a stash and what it would change of the commit that it was made on."""
    stash = find_stash(repo, name)
    parents = read_commit(repo.git.objects, stash.commit).parents
    old = repo.resolve(parents[0] if parents else "[EMPTY]")
    return stash, diff_revisions(repo, old, repo.resolve(stash.commit))


def drop_stash(repo: OpenRepo, name: str | None) -> Stash:
    """Forget a stash."""
    stash = find_stash(repo, name)
    delete_ref(repo.git, stash.ref, stash.commit)
    return stash


def apply_stash(
    repo: OpenRepo, name: str | None, *, drop: bool = False, without: RepoFilter | None = None
) -> Stash:
    """Bring the edits of a stash back into the tables; with `drop`, forget it then.

    In tables of a checkout, `without` names rows whose edits do not come back.
    """
    require_calm(repo)
    stash = find_stash(repo, name)
    living = working_copy(repo)
    if living is not None:
        _bring_back(repo, living, stash)
    else:
        _show_tables(repo, stash, without)
    if drop:
        delete_ref(repo.git, stash.ref, stash.commit)
    return stash


def _show_tables(repo: OpenRepo, stash: Stash, without: RepoFilter | None) -> None:
    """Bring the edits of a stash back into the tables of a work tree."""
    from havasu_vc.checkouts.edited_tables import require_workspace
    from havasu_vc.checkouts.table_places import table_place
    from havasu_vc.repo.rebasing import rebase_edits, rest_of
    from havasu_vc.workspace.materialise import show_as_edits

    state = require_workspace(repo)
    then, before, after = _versions(repo, stash)
    changed = [path for path, folder in after.items() if _differ(before.get(path), folder)]
    _require_there(repo, changed, then)
    # What came back before this was cut off is there already.
    changed = [path for path in changed if _lacks(repo, state, path, stash)]
    with Transaction(repo) as transaction:
        views = {}
        for path in changed:
            edit = _edit(
                repo,
                transaction.storage,
                repo.view(before[path], then.name),
                repo.view(after[path], stash.commit),
            )
            if without is not None:
                base = repo.view(before[path], then.name).with_storage(transaction.storage)
                edit = rest_of(repo, base, edit, without)
                if not edit.blobs:
                    continue
            try:
                (rebased,) = rebase_edits(
                    repo, transaction.storage, [edit], then, repo.head(), before=before
                )
            except ConflictError as error:
                raise _changed_since(path, then.name) from error
            views[path] = _view(repo, transaction, path, rebased)
        for path, (view, tree) in views.items():
            place = table_place(repo, state.root, path)
            with _laid_out(repo, state, view, tree, place) as (shown, clustered):
                show_as_edits(
                    shown,
                    place,
                    state.tables[path],
                    commit=stash.commit,
                    tree=tree,
                    clustered=clustered,
                    copy=state.copy,
                )


def _lacks(repo: OpenRepo, state: WorkspaceState, path: str, stash: Stash) -> bool:
    """Whether a table lacks the edits of a stash; raise where it cannot take them."""
    from havasu_vc.checkouts.edited_tables import read_table_edits
    from havasu_vc.checkouts.table_places import table_place

    known = state.tables.get(path)
    if known is None:
        raise NotFoundError(
            f"{path} is not checked out, and the stash edits it",
            hints=("`havasu-vc checkout` makes its table",),
        )
    if _shows(table_place(repo, state.root, path), stash):
        return False
    if read_table_edits(repo, state, known) is not None:
        raise UncommittedChangesError(
            f"{path} has edits that are not committed",
            hints=("`havasu-vc commit` or `havasu-vc stash` them first",),
        )
    return True


def edits_of_stash(
    repo: OpenRepo, storage: Storage, stash: Stash, *, without: Collection[str] = ()
) -> list[TreeEdit]:
    """Return what a stash changes of the datasets of the commit that it was made on, or of some."""
    then, before, after = _versions(repo, stash)
    return [
        _edit(repo, storage, repo.view(before[path], then.name), repo.view(folder, stash.commit))
        for path, folder in after.items()
        if path not in without and _differ(before.get(path), folder)
    ]


def _versions(
    repo: OpenRepo, stash: Stash
) -> tuple[Revision, dict[str, DatasetFolder], dict[str, DatasetFolder]]:
    """Return the commit that a stash was made on, and the datasets of both where HEAD has them."""
    parents = read_commit(repo.git.objects, stash.commit).parents
    then, head = repo.resolve(parents[0] if parents else "[EMPTY]"), repo.head()
    before, after = repo.folders(then), repo.folders(repo.resolve(stash.commit))
    moved = moved_datasets(repo, before, repo.folders(head), (then.name, head.name))
    places = {was: now for now, was in moved.items()}

    def placed(folders: Mapping[str, DatasetFolder]) -> dict[str, DatasetFolder]:
        goals = {path: places.get(path, path) for path in folders}
        return {goals[path]: replace(each, path=goals[path]) for path, each in folders.items()}

    return then, placed(before), placed(after)


def _require_there(repo: OpenRepo, paths: Sequence[str], then: Revision) -> None:
    """Raise where HEAD lacks a dataset that a stash edits."""
    there = repo.folders(repo.head())
    for path in paths:
        if path not in there:
            raise NotFoundError(
                f"{path} is not at HEAD, and the stash edits it",
                hints=(
                    f"`havasu-vc switch -c stashed {then.name[:10]}` goes to where it was made; "
                    "`havasu-vc stash pop` brings it back there",
                ),
            )


def _changed_since(path: str, commit: str) -> ConflictError:
    return ConflictError(
        f"{path}: HEAD has changed the same cells since the stash was made",
        hints=(
            f"`havasu-vc switch -c stashed {commit[:10]}`, apply it there, commit, "
            "then switch back and `havasu-vc merge stashed`",
        ),
    )


def _bring_back(repo: OpenRepo, living: LivingCopy, stash: Stash) -> None:
    """Make the edits of a stash in the tables of the living working copy."""
    then, before, after = _versions(repo, stash)
    changed = [path for path, folder in after.items() if _differ(before.get(path), folder)]
    _require_there(repo, changed, then)

    def make(transaction: Transaction) -> dict[str, Dataset]:
        # What HEAD has as it was then is to become what was set aside.
        views = {
            path: repo.view(after[path], stash.commit)
            for path in changed
            if not _differ(before[path], transaction.folders.get(path))
        }
        storage = transaction.storage
        edits = edits_of_stash(repo, storage, stash, without=views)
        if not edits:
            return views
        from havasu_vc.repo.rebasing import rebase_edits

        try:
            rebased = rebase_edits(repo, storage, edits, then, repo.head(), before=before)
        except ConflictError as error:
            raise _changed_since(" and ".join(changed), then.name) from error
        there = {edit.path: edit for edit in rebased if edit.blobs}
        return views | {path: transaction.dataset(path).after(there[path]) for path in there}

    living.bring_back(make, changed)


def _shows(place: TablePlace, stash: Stash) -> bool:
    """Whether the newest snapshot of a table is the one that brought a stash back."""
    from havasu_vc.workspace.properties import COMMIT

    if place.newest() is None:
        return False
    snapshot = place.read().metadata.snapshot
    return snapshot is not None and snapshot.summary.get(COMMIT) == stash.commit


@contextmanager
def _laid_out(
    repo: OpenRepo, state: WorkspaceState, view: DatasetInFiles, tree: str, place: TablePlace
) -> Iterator[tuple[DatasetInFiles, str | None]]:
    """Yield what a table is to show of a dataset: in clustered files if it has such."""
    known, layout = state.tables[view.path], state.layout_of(view.path)
    if known.clustered is None or not layout.clustered:
        yield view, None
        return
    from havasu_vc.checkouts.clustered_versions import clustered_version

    with clustered_version(repo, view, tree, layout, place, near=known) as found:
        yield found


def _differ(old: object, new: object) -> bool:
    return old is not None and getattr(old, "internals", None) != getattr(new, "internals", None)


def _edit(repo: OpenRepo, storage: Storage, old: Dataset, new: Dataset) -> TreeEdit:
    """Return the edit that makes one version of a dataset the other."""
    if old.kind != new.kind:
        raise TypeError("a stash is of datasets that stayed of their kind")
    before, after = old.in_files, new.in_files
    if before is None or after is None:
        from havasu_vc.checkouts.edits import stored_edit_between

        with repo.settings.open_engine(old.size) as engine:
            return stored_edit_between(old.with_storage(storage), new, engine)
    blobs: dict[str, bytes | None] = {}
    for part in _PARTS:
        for name, _, blob in old.folder.difference(new.folder, part):
            blobs[f"{part}/{name}"] = None if blob is None else new.folder.read_blob(blob)
    return TreeEdit(old.path, {**blobs, **_epochs(before, after)})


def _epochs(old: DatasetInFiles, new: DatasetInFiles) -> dict[str, Change]:
    """Return what becomes of the markers: of an epoch that one version closed, all at once."""
    before, after = old.folder.items(EDITS), new.folder.items(EDITS)
    found: dict[str, Change] = {}
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name), after.get(name)
        path = f"{EDITS}/{name}"
        if first is not None and second is not None and first[1] and second[1]:
            for below, _, blob in old.folder.difference(new.folder, path):
                found[f"{path}/{below}"] = None if blob is None else new.folder.read_blob(blob)
        elif first != second:
            found[path] = None
            if second is not None and not second[1]:
                found[path] = new.folder.read_blob(second[0])
            elif second is not None:
                blobs = new.folder.blobs(path)
                found |= {f"{path}/{n}": new.folder.read_blob(blob) for n, blob in blobs}
    return found


def _view(
    repo: OpenRepo, transaction: Transaction, path: str, edit: TreeEdit
) -> tuple[DatasetInFiles, str]:
    """Return HEAD's dataset after an edit, and the tree that it would have."""
    from havasu_vc.checkouts.counterparts import counterpart
    from havasu_vc.datasets.havasu.view import HavasuDataset

    folder = transaction.folders[path]
    sink = transaction.storage.sink
    if not is_in_files(folder.marker) and sink is not None:
        tree = edit_tree(sink, folder.internals, edit.blobs)
        inside, kind = TreeFolder(sink, tree), kind_of(path, folder.marker)
        stored = kind.open(path, inside, transaction.storage, "the stash", folder.marker)
        return counterpart(repo, stored, near=[folder.internals]), tree
    draft = Draft(repo.git.objects)
    tree = edit_tree(draft, folder.internals, dict(edit.blobs))
    view = HavasuDataset(path, TreeFolder(draft, tree), transaction.storage, "the stash")
    return view, tree
