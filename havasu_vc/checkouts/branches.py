"""Branches of tables that an engine wrote to, committed to git's branches of those names.

`checkout --refs` shows git's branches in the tables. What was written to one is an edit
of the dataset as that branch has it, and becomes a commit there; where git's branch has
moved since, row by row. A table has one schema, HEAD's, so columns are altered on HEAD
alone, and values in columns that a branch does not have are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from havasu_vc.checkouts.checking_out import open_state
from havasu_vc.checkouts.edited_tables import EditedTable
from havasu_vc.checkouts.table_places import table_place
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import ConflictError, SchemaViolationError, StateError
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import rebase_edits
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.refs import list_branches
from havasu_vc.tables.table import Table
from havasu_vc.workspace.incoming import edit_of
from havasu_vc.workspace.state import RefState
from havasu_vc.workspace.taking_in import TableEdits, read_edits

__all__ = ["BranchEdits", "branch_edits", "branch_notes", "commit_branches"]


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
                    hints=(f"`havasu-vc branch {name} {table.state.refs[name].commit[:10]}`",),
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
        hints=(f"`havasu-vc switch {name}` and make the edits there",),
    )


def _check_columns(edits: TableEdits, name: str) -> None:
    """Raise when values were written to columns that a branch does not have."""
    for each in edits.added:
        for field in each.schema.schema.fields:
            statistics = each.entry.statistics.get(field.id)
            lost = statistics is not None and statistics.nulls < statistics.values
            if field.id not in edits.schema.by_id and lost:
                raise SchemaViolationError(
                    f"{edits.path}: rows of the branch {name} have values in the column "
                    f"{field.name!r}, which that branch does not have",
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
