"""Edits in checked-out tables: looking at them, comparing them, committing them.

Nothing here writes into a table; a commit is followed by a checkout, which is
`checkouts.checking_out`' to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from havasu_vc.checkouts.catching_up import following
from havasu_vc.checkouts.checking_out import open_state
from havasu_vc.checkouts.counterparts import needs_counterpart, stored_view
from havasu_vc.checkouts.edited_tables import (
    EditedTable,
    branch_edits,
    branch_notes,
    chosen_tables,
    commit_branches,
    committed_draft,
    committed_view,
    draft_view,
    read_table_edits,
    require_workspace,
)
from havasu_vc.checkouts.glance import (
    TableChanges,
    WorkspaceChanges,
    notes_on,
    notes_on_head,
    nothing_edited,
    remember,
)
from havasu_vc.checkouts.requests import WorkspaceCommitRequest
from havasu_vc.checkouts.table_places import table_place
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.far import url_of, where_it_is
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    ConflictError,
    CorruptionError,
    HavasuError,
    RevisionNotFoundError,
    StateError,
    UnsupportedTypeError,
)
from havasu_vc.history.diff import changes_counted, diff_datasets
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.merging import require_calm
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, count_meta, meta_changes
from havasu_vc.repo.filters import parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import rebase_edits
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.revisions import Revision
from havasu_vc.workspace.condition import Condition, condition_of
from havasu_vc.workspace.counting import can_count, check_keys, count_edits
from havasu_vc.workspace.counting_apart import count_apart
from havasu_vc.workspace.incoming import edit_of, edited_dataset
from havasu_vc.workspace.places import in_the_way
from havasu_vc.workspace.state import TableState
from havasu_vc.workspace.taking_in import TableEdits

__all__ = [
    "commit_edits_of",
    "described_as_stored",
    "diff_workspace",
    "discard_edits",
    "onto_head",
    "shown_datasets",
    "still_edited",
    "stored_edit_between",
    "stored_edit_of",
    "without_changes",
    "workspace_changes",
]


def _count(repo: OpenRepo, table: EditedTable) -> TableChanges:
    edits = table.edits
    meta = meta_changes(edits.base.header, edits.frame.header)
    counts = count_meta(meta)
    if not meta and "meta/schema.json" in edits.documents:
        # Such as a comment inside of a struct, which no meta item shows.
        counts = ChangeCounts(updates=1)
    if not edits.touches_rows:
        rows = ChangeCounts()
    elif can_count(edits) and url_of(edits.base) is not None:
        with repo.settings.open_engine(edits.base.size) as engine:
            base = where_it_is(edits.base, apart=engine.apart)
            rows = count_apart(replace(edits, base=base), engine, check=False).counts
    elif can_count(edits):
        rows = count_edits(edits)
    else:
        draft = draft_view(repo, table)
        with repo.settings.open_engine(draft.size) as engine:
            rows = changes_counted(edits.base, draft, engine)
    return TableChanges(counts, rows, table.state.commit, tuple(sorted(table.branches)))


def workspace_changes(repo: OpenRepo) -> WorkspaceChanges | None:
    """Return what is edited; None where there is no workspace. No damage stops it."""
    try:
        state = open_state(repo)
    except StateError as error:
        return WorkspaceChanges(Path(), {}, ("; ".join((error.message, *error.hints)),))
    if state is None:
        return None
    tables: dict[str, TableChanges] = {}
    problems: list[str] = []
    notes: list[str] = []
    for path, known in state.tables.items():
        try:
            found = read_table_edits(repo, state, known)
            changes = None if found is None else _count(repo, found)
        except HavasuError as error:
            problems.append("; ".join((error.message, *error.hints)))
            continue
        if changes is None:
            continue
        remember(repo, state, known, changes)
        notes += notes_on(repo, known, changes)
        if changes.total:
            tables[path] = changes
    notes += notes_on_head(repo, state, tables)
    return WorkspaceChanges(state.root, tables, tuple(problems), tuple(notes))


def without_changes(repo: OpenRepo, tables: Mapping[str, TableState]) -> dict[str, int]:
    """Return which tables were written to without changing a row, and the version read of each."""
    state = require_workspace(repo)
    found: dict[str, int] = {}
    for path, known in tables.items():
        with suppress(HavasuError):
            table = read_table_edits(repo, state, known)
            if table is not None and not _count(repo, table).total:
                found[path] = table.version
    return found


def edited_tables(repo: OpenRepo) -> set[str]:
    """Return the datasets whose tables are edited."""
    state = require_workspace(repo)
    found = {path: read_table_edits(repo, state, known) for path, known in state.tables.items()}
    return {path for path, table in found.items() if table is not None and not table.edits.is_empty}


def diff_workspace(
    repo: OpenRepo,
    revision: str | None = None,
    filters: Sequence[str] = (),
    *,
    only: Collection[str] | None = None,
) -> Iterator[DatasetDiff]:
    """Yield how each dataset in the workspace, or `only` some, differs from what was checked out.

    With a revision, how it differs from that: datasets that are not edited count as they
    were checked out, and those that are not checked out as they are at HEAD.
    """
    state = require_workspace(repo)
    wanted = parse_filters(filters, of_changes=True, lenient=repo.git.follows_kart)
    old = None if revision is None else repo.revision(revision, or_tree=True)
    before = {} if old is None else repo.folders(old)
    now = {} if old is None else repo.folders(repo.head())
    paths = sorted(state.tables.keys() | before.keys() | now.keys())
    wanted.check(paths)

    def differing() -> Iterator[DatasetDiff]:
        for path in paths:
            if wanted.of(path) is None or (only is not None and path not in only):
                continue
            known = state.tables.get(path)
            found = None if known is None else read_table_edits(repo, state, known)
            if old is None:
                if found is not None and not found.edits.is_empty:
                    yield table_diff(repo, found)
                continue
            folder = before.get(path)
            first = None if folder is None else repo.view(folder, old.name)
            if found is not None:
                second: Dataset | None = committed_draft(repo, found)
            elif known is not None:
                second = _committed(repo, known)
            else:
                second = repo.view(now[path], "HEAD") if path in now else None
            if first is not None and second is not None and _same(first, second):
                continue
            yield _described(repo, known, _diff(repo, path, first, second))

    return wanted.chosen(differing())


def table_diff(repo: OpenRepo, table: EditedTable, old: Revision | None = None) -> DatasetDiff:
    """Return how a table differs from what was checked out, or from a revision."""
    base: Dataset | None = table.edits.base
    if old is not None:
        folder = repo.folders(old).get(table.path)
        base = None if folder is None else repo.view(folder, old.name)
    diff = _diff(repo, table.path, base, draft_view(repo, table))
    return _described(repo, table.state, diff)


def shown_datasets(repo: OpenRepo) -> Mapping[str, Callable[[], Dataset]]:
    """Return what gives each checked-out dataset as its table has it, edits included."""
    state = open_state(repo)

    def shown(known: TableState) -> Dataset:
        found = None if state is None else read_table_edits(repo, state, known)
        return _committed(repo, known) if found is None else committed_draft(repo, found)

    tables = {} if state is None else state.tables
    return {path: partial(shown, known) for path, known in tables.items()}


def _committed(repo: OpenRepo, known: TableState) -> Dataset:
    """Return what a table that nobody edited shows."""
    if needs_counterpart(repo, known.tree):
        return stored_view(repo, known.path, known.tree, repo.storage, known.commit[:10])
    return committed_view(repo, known)


def _described(repo: OpenRepo, known: TableState | None, diff: DatasetDiff) -> DatasetDiff:
    """Return a diff with what each side says of itself as the dataset's kind has it."""
    if known is None or not needs_counterpart(repo, known.tree):
        return diff
    base = stored_view(repo, known.path, known.tree, repo.storage, known.commit[:10])
    return described_as_stored(diff, base)


def _same(first: Dataset, second: Dataset) -> bool:
    one, other = first.folder, second.folder
    return isinstance(one, TreeFolder) and isinstance(other, TreeFolder) and one.tree == other.tree


def _diff(repo: OpenRepo, path: str, old: Dataset | None, new: Dataset | None) -> DatasetDiff:
    size = sum(view.size for view in (old, new) if view is not None)
    return diff_datasets(
        path, old, new, lambda: repo.settings.open_engine(size), note=repo.settings.note
    )


def commit_edits_of(repo: OpenRepo, request: WorkspaceCommitRequest) -> CommitResult:
    """Commit what was edited in the tables of all datasets, or of some.

    With `refs`, branches of tables that were written to are committed to git's as well.

    The tables whose edits the commit holds are at HEAD then.
    """
    require_calm(repo)
    state = require_workspace(repo)
    with Transaction(repo, dry_run=request.dry_run) as transaction:
        looked_at: list[EditedTable] = []
        edits: list[TreeEdit] = []
        for path in chosen_tables(state, request.filters):
            found = read_table_edits(repo, state, state.tables[path], transaction.storage)
            if found is None:
                continue
            if found.branches and not request.refs:
                raise _branches_written(found)
            edit = onto_head(repo, transaction, found)
            looked_at.append(found)
            edits += [edit] if edit.blobs else []
        others = branch_edits(repo, transaction, looked_at) if request.refs else {}
        if not (edits or others or request.allow_empty or request.dry_run):
            behind = [
                (table.path, table.version)
                for table in looked_at
                if transaction.folders[table.path].internals != table.state.tree
            ]
            if behind:
                # HEAD has it all, as after a commit that died before the tables came along.
                with following(repo):
                    repo.taken.update(behind)
            raise nothing_edited(request.filters)
        counts = {edit.path: edit.counts for edit in edits}
        commit, notes = None, branch_notes(others)
        if not request.dry_run and (edits or others or request.allow_empty):
            with following(repo):
                if edits or request.allow_empty:
                    commit = transaction.commit(edits, request.message or _message(edits))
                    counts |= transaction.recounted
                notes = commit_branches(transaction, others, request.message)
                # What was read is in HEAD now; what is written to a table meanwhile is not.
                repo.taken.update((table.path, table.version) for table in looked_at)
    meta = {edit.path: edit.meta for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, notes, meta)


def _branches_written(table: EditedTable) -> StateError:
    names = " and ".join(sorted(table.branches))
    return StateError(
        f"{table.path}: the branch {names} of its table was written to as well",
        hints=("`havasu-vc commit --refs` commits it to git's branch of that name",),
    )


def _message(edits: Sequence[TreeEdit]) -> str:
    return f"Edit {', '.join(edit.path for edit in edits)}" if edits else "Empty commit"


def onto_head(repo: OpenRepo, transaction: Transaction, table: EditedTable) -> TreeEdit:
    """Return the edit of HEAD's dataset that a table's edits make."""
    base = table.edits.base
    known = table.state
    with repo.settings.open_engine(base.size) as engine:
        if needs_counterpart(repo, known.tree):
            storage, commit = transaction.storage, known.commit[:10]
            stored = stored_view(repo, table.path, known.tree, storage, commit)
            edit = stored_edit_of(table.edits, stored, engine)
        elif known.clustered is not None:
            from havasu_vc.checkouts.clustered_versions import edit_of_clustered

            committed = committed_view(repo, known).with_storage(transaction.storage)
            edit = edit_of_clustered(table.edits, committed, engine)
        else:
            edit = edit_of(table.edits, transaction.storage, engine)
    now = transaction.folders.get(table.path)
    if not edit.blobs or (now is not None and now.internals == table.state.tree):
        return edit
    if now is None:
        raise ConflictError(
            f"{table.path} was edited in the workspace, and HEAD does not have it any more",
            hints=(
                f"`havasu-vc switch -c edits {table.state.commit[:10]}`, commit there and merge",
                f"or drop the edits with `havasu-vc restore {shlex.quote(table.path)}`",
            ),
        )
    head = transaction.head.commit
    revisions = (_revision(repo, table), repo.resolve(head or "[EMPTY]"))
    try:
        (rebased,) = rebase_edits(repo, transaction.storage, [edit], *revisions)
    except ConflictError as error:
        raise ConflictError(
            f"{table.path}: the edits were made on {table.state.commit[:10]}, and HEAD has "
            "changed the same cells since; nothing is committed",
            hints=(
                f"`havasu-vc switch -c edits {table.state.commit[:10]}`, commit there, then "
                "switch back and `havasu-vc merge edits`, which lets you decide",
            ),
        ) from error
    return rebased


def _revision(repo: OpenRepo, table: EditedTable) -> Revision:
    try:
        return repo.resolve(table.state.commit)
    except RevisionNotFoundError as error:
        raise CorruptionError(
            f"{table.path}: the commit {table.state.commit[:10]}, which its table was made from, "
            "is not in the repository any more",
            hints=("fetch it again, from where it was pushed to",),
        ) from error


def still_edited(repo: OpenRepo, paths: Sequence[str]) -> tuple[str, ...]:
    """Return which of some tables are not as they were checked out."""
    state = require_workspace(repo)
    return tuple(
        path
        for path in paths
        if path in state.tables
        and condition_of(table_place(repo, state.root, path), state.tables[path])[0]
        is not Condition.CLEAN
    )


def discard_edits(repo: OpenRepo, paths: Sequence[str] = ()) -> tuple[str, ...]:
    """Note in `repo.taken` that the edits of tables may go, and return which have some.

    A table that cannot be read, or that is gone, is made anew as well.
    """
    state = require_workspace(repo)
    found = []
    for path in chosen_tables(state, paths):
        place, known = table_place(repo, state.root, path), state.tables[path]
        condition, _ = condition_of(place, known)
        if condition is Condition.CLEAN:
            continue
        if condition is Condition.FOREIGN:
            raise in_the_way(place)
        found.append(path)
        newest = place.newest()
        if newest is not None:
            repo.taken[path] = newest
    return tuple(found)


# Edits in the table of a dataset whose rows stand in no data files, as edits of the dataset.
#
# The table is one of a counterpart (`checkouts.counterparts`), so what differs from that are rows,
# which the dataset takes in as any edit of it does. So the trees of a Kart dataset are those that
# Kart would make of the same rows.


def stored_edit_of(edits: TableEdits, base: Dataset, engine: Engine) -> TreeEdit:
    """Return the edit of a dataset that makes it what its table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique, and `UnsupportedTypeError`
    for columns that its kind has no type for.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {}, marker=base.marker)
    check_keys(edits)
    schema = base.fitted(edits.schema)
    _, edit = base.evolved(schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            take_changes(edit, edits.base, draft, engine)
        if not edit.counts.total and schema == base.schema:
            return TreeEdit(edits.path, {}, marker=base.marker)
        return edit.finish()


def stored_edit_between(old: Dataset, new: Dataset, engine: Engine) -> TreeEdit:
    """Return the edit of rows, columns and texts that makes one version of a dataset the other."""
    items = [f"meta/{each.name}" for each in meta_changes(old.header, new.header)]
    _, edit = old.evolved(new.schema)
    with edit:
        edit.add_documents({n: new.folder.read(n) for n in items if n != "meta/schema.json"})
        take_changes(edit, old, new, engine)
        return edit.finish()


def described_as_stored(diff: DatasetDiff, base: Dataset) -> DatasetDiff:
    """Return how a table differs from a dataset, with documents and ids of columns as it has them.

    The rows are those of its counterpart.
    """
    sides = [_described_edit(header, base) for header in (diff.old, diff.new)]
    return replace(diff, old=sides[0], new=sides[1], meta=meta_changes(*sides))


def _described_edit(header: DatasetHeader | None, base: Dataset) -> DatasetHeader | None:
    if header is None or header.kind == base.kind:
        return header
    meta = dict(base.header.meta)
    try:
        schema = base.fitted(header.schema)
        if schema != base.schema:
            meta["schema.json"] = base.columns_item(schema)
    except UnsupportedTypeError:  # which a commit will tell
        meta["schema.json"] = header.meta["schema.json"]
    return replace(header, kind=base.kind, meta=meta)
