"""Tables that others wrote to since they were checked out, and the datasets that they hold.

A table that nobody wrote to costs a look at two names. One that was written to is
compared with the snapshot that was checked out (`workspace.taking_in`), and what differs
is a version of the dataset that no commit has yet. Nothing here writes into a table.

Branches of tables that an engine wrote to, committed to git's branches of those names.

`checkout --refs` shows git's branches in the tables. What was written to one is an edit
of the dataset as that branch has it, and becomes a commit there; where git's branch has
moved since, row by row. A table has one schema, HEAD's, so columns are altered on HEAD
alone, and values in columns that a branch does not have are refused.
"""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from havasu_vc.checkouts.checking_out import open_state
from havasu_vc.checkouts.counterparts import needs_counterpart, tree_view
from havasu_vc.checkouts.table_places import table_place
from havasu_vc.datasets.folder import TreeFolder, edited
from havasu_vc.datasets.havasu.far import where_it_is
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import ConflictError, DatasetNotFoundError, SchemaViolationError, StateError
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import rebase_edits
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import may_put
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.refs import list_branches
from havasu_vc.tables.table import Table
from havasu_vc.workspace.condition import Condition, condition_of, open_checked_out
from havasu_vc.workspace.incoming import edit_of, edited_dataset
from havasu_vc.workspace.state import RefState, TableState, WorkspaceState
from havasu_vc.workspace.taking_in import TableEdits, read_edits

__all__ = [
    "BranchEdits",
    "EditedTable",
    "base_view",
    "branch_edits",
    "branch_notes",
    "chosen_tables",
    "commit_branches",
    "committed_draft",
    "committed_view",
    "draft_view",
    "drafted",
    "read_table_edits",
    "require_workspace",
    "seen_in_bucket",
]

V = TypeVar("V", bound=Dataset)


@dataclass(frozen=True, slots=True)
class EditedTable:
    """A table that others wrote to since it was checked out."""

    state: TableState
    """The table as it was checked out."""
    version: int
    """The table's version that was read."""
    edits: TableEdits
    """How it differs from that."""
    branches: Mapping[str, int] = field(default_factory=dict)
    """Branches of the table that were written to, and their snapshots."""

    @property
    def path(self) -> str:
        """The dataset's path."""
        return self.state.path


def require_workspace(repo: OpenRepo) -> WorkspaceState:
    """Return what is checked out; raise when nothing is."""
    state = open_state(repo)
    if state is None:
        raise StateError(
            "there is no workspace, so there are no edits in it",
            hints=("`havasu-vc checkout` makes one, with a table for each dataset",),
        )
    return state


def base_view(repo: OpenRepo, table: TableState, *, apart: bool = False) -> DatasetInFiles:
    """Return the dataset that a table was made from; what is clustered also as read `apart`."""
    if table.clustered is not None:
        from havasu_vc.checkouts.clustered_versions import clustered_base

        return clustered_base(repo, table, apart=apart)
    return committed_view(repo, table)


def committed_view(repo: OpenRepo, table: TableState) -> DatasetInFiles:
    """Return the dataset that a table shows, with the files that it has in its commit."""
    return tree_view(repo, table.path, table.tree, table.commit[:10])


def read_table_edits(
    repo: OpenRepo, state: WorkspaceState, table: TableState, storage: Storage | None = None
) -> EditedTable | None:
    """Return what was edited in a table; None when nobody wrote to it."""
    place = table_place(repo, state.root, table.path)
    condition, known = condition_of(place, table)
    if condition is Condition.CLEAN and known is not None and known.tree == table.tree:
        base_view(repo, table)  # a checkout of what is gone must not pass for a sound one
        place.check_files(table, repo.storage.files)
        return None
    table = known if condition is Condition.EDITED and known is not None else table
    with repo.settings.open_engine(0) as engine:
        base = base_view(repo, table, apart=engine.apart)
        found = open_checked_out(place, table, base.properties.table_uuid)
        place.check_files(table, repo.storage.files)
        if storage is not None:
            base = base.with_storage(storage)
        if table.clustered is None:
            base = seen_in_bucket(repo, base, place.location, table.tree, engine)
        edits = read_edits(base, found, table.snapshot_id, engine)
    return EditedTable(table, found.version, edits, _written_branches(found, table))


def seen_in_bucket(
    repo: OpenRepo, base: DatasetInFiles, location: str, tree: str, engine: Engine
) -> DatasetInFiles:
    """Return what a table was made of, read in the bucket where the table and the data are.

    Who may not write there commits with the files here, and whoever pushes sends them.
    """
    if not in_bucket(location) or needs_counterpart(repo, tree):
        return base
    storage = base.storage
    url = storage.bucket
    commits = storage.staging.root != storage.files.root
    if url is None or (commits and not engine.apart and not may_put(url)):
        return base
    return where_it_is(base, apart=engine.apart)


def _written_branches(table: Table, known: TableState) -> dict[str, int]:
    """Return the branches of a table that show another snapshot than they were given."""
    references = table.metadata.references
    return {
        name: references[name].snapshot_id
        for name, ref in known.refs.items()
        if name in references
        and references[name].kind == "branch"
        and references[name].snapshot_id != ref.snapshot_id
    }


def chosen_tables(state: WorkspaceState, paths: Sequence[str]) -> list[str]:
    """Return the checked-out datasets that are meant, in order; all when none is named."""
    for path in paths:
        if path.strip("/") not in state.tables:
            raise DatasetNotFoundError(path, "the workspace")
    return sorted({path.strip("/") for path in paths} or state.tables)


def draft_view(repo: OpenRepo, table: EditedTable) -> DatasetInFiles:
    """Return the dataset that a table holds; its new files go when nobody holds it any more."""
    return drafted(repo, lambda storage: edited_dataset(table.edits, storage))


def committed_draft(repo: OpenRepo, table: EditedTable) -> DatasetInFiles:
    """Return the dataset that a table holds, near to what its commit has.

    Of a clustered table it has the files of the commit, so that it is compared with other
    versions by what differs.
    """
    known = table.state
    if known.clustered is None or needs_counterpart(repo, known.tree):
        return draft_view(repo, table)
    from havasu_vc.checkouts.clustered_versions import edit_of_clustered

    def made(storage: Storage) -> DatasetInFiles:
        base = committed_view(repo, known).with_storage(storage)
        with repo.settings.open_engine(0) as engine:
            edit = edit_of_clustered(table.edits, base, engine)
        return HavasuDataset(base.path, edited(base.folder, edit), storage, "the workspace")

    return drafted(repo, made)


def drafted(repo: OpenRepo, make: Callable[[Storage], V]) -> V:
    """Return a dataset whose new files go when nobody holds it any more."""
    folder = _scratch(repo)
    storage = replace(repo.storage, staging=DataFileStore(folder))
    try:
        view = make(storage)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(view, shutil.rmtree, folder, ignore_errors=True)
    return view


def _scratch(repo: OpenRepo) -> Path:
    """Return a folder for files of a draft, in the repository where that can be written."""
    folder = repo.git.data_folder / "staging" / secrets.token_hex(8)
    try:
        folder.mkdir(parents=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="havasu-vc-"))
    return folder


@dataclass(frozen=True, slots=True)
class BranchEdits:
    """Edits that are committed to one branch."""

    commit: str
    """Where git's branch is."""
    edits: tuple[TreeEdit, ...]
    """The changes in it."""


def branch_edits(
    repo: OpenRepo, transaction: Transaction, tables: Iterable[EditedTable]
) -> dict[str, BranchEdits]:
    """Return what the branches of some tables change, by branch; those without changes are out."""
    tips = {branch.name: branch for branch in list_branches(repo.git)}
    found: dict[str, BranchEdits] = {}
    for table in tables:
        for name, snapshot_id in sorted(table.branches.items()):
            branch = tips.get(name)
            if branch is None:
                raise StateError(
                    f"{table.path}: its table has a branch {name} that git has not any more",
                    hints=(
                        f"`havasu-vc branch {shlex.quote(name)} "
                        f"{table.state.refs[name].commit[:10]}`",
                    ),
                )
            if branch.checked_out is not None:
                raise StateError(
                    f"the branch {name} is checked out at {branch.checked_out}, so it cannot "
                    "be written to as a branch of a table",
                    hints=("write to the table itself, where it is checked out",),
                )
            edit = _edit(repo, transaction, table, name, snapshot_id, branch.commit)
            if edit.blobs:
                before = found.get(name)
                edits = () if before is None else before.edits
                found[name] = BranchEdits(branch.commit, (*edits, edit))
    return found


def _edit(
    repo: OpenRepo,
    transaction: Transaction,
    table: EditedTable,
    name: str,
    snapshot_id: int,
    tip: str,
) -> TreeEdit:
    ref = table.state.refs[name]
    folder = TreeFolder(repo.git.objects, ref.tree)
    base = HavasuDataset(table.path, folder, transaction.storage, name)
    with repo.settings.open_engine(base.size) as engine:
        edits = read_edits(
            base, _table(repo, table), ref.snapshot_id, engine, branch_snapshot=snapshot_id
        )
        _check_columns(edits, name)
        edit = edit_of(replace(edits), transaction.storage, engine)
    if not edit.blobs:
        return edit
    try:
        (rebased,) = rebase_edits(
            repo, transaction.storage, [edit], repo.resolve(ref.commit), repo.resolve(tip)
        )
    except ConflictError as error:
        raise _conflict(table.path, name, ref) from error
    return rebased


def _table(repo: OpenRepo, table: EditedTable) -> Table:
    state = open_state(repo)
    assert state is not None
    return table_place(repo, state.root, table.path).read(table.version)


def _conflict(path: str, name: str, ref: RefState) -> ConflictError:
    return ConflictError(
        f"{path}: the branch {name} was written to from {ref.commit[:10]}, and git's has "
        "changed the same cells since; nothing is committed",
        hints=(f"`havasu-vc switch {shlex.quote(name)}` and make the edits there",),
    )


def _check_columns(edits: TableEdits, name: str) -> None:
    """Raise when values were written to columns that a branch does not have."""
    for each in edits.added:
        for column in each.schema.schema.fields:
            statistics = each.entry.statistics.get(column.id)
            lost = statistics is not None and statistics.nulls < statistics.values
            if column.id not in edits.schema.by_id and lost:
                raise SchemaViolationError(
                    f"{edits.path}: rows of the branch {name} have values in the column "
                    f"{column.name!r}, which that branch does not have",
                    hints=("merge the branch that has the column first",),
                )


def branch_notes(branches: Mapping[str, BranchEdits]) -> tuple[str, ...]:
    """Return one line for each branch that would get a commit."""
    return tuple(f"branch {name}: {_counted(each)}" for name, each in sorted(branches.items()))


def _counted(edits: BranchEdits) -> str:
    return ", ".join(
        f"{edit.path} {edit.counts.total:,} row{'s' if edit.counts.total != 1 else ''}"
        for edit in edits.edits
    )


def commit_branches(
    transaction: Transaction, branches: Mapping[str, BranchEdits], message: str | None
) -> tuple[str, ...]:
    """Commit to each branch, and return a line for each."""
    notes = []
    for name, each in sorted(branches.items()):
        text = message or f"Edit {', '.join(edit.path for edit in each.edits)}"
        commit = transaction.commit_to(f"refs/heads/{name}", each.edits, text, old=each.commit)
        notes.append(f"[{name} {commit[:7]}] {_counted(each)}")
    return tuple(notes)
