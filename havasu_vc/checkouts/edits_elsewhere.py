"""Edits of tables outside of the workspace come back, from a bucket or any folder.

    checkout --to s3://bucket/wells --dataset wells     the URL is the table
    commit --from s3://bucket/wells                 what Spark changed there since

A table says itself which commit it is of, so nothing is kept here. A commit takes edits in
as those of the workspace are taken in, merged onto HEAD where HEAD moved on, and then the
table is brought to HEAD, unless somebody wrote to it meanwhile.

Edits of a table that was served to a client: who served it says what it was made of.

A table in a folder says itself which commit it is of. One that a catalog handed out is a
document with snapshots of several commits, and the client names the one that it wrote upon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.checkouts.catching_up import following
from havasu_vc.checkouts.clustered_versions import CLUSTERED
from havasu_vc.checkouts.counterparts import needs_counterpart, stored_view, tree_view
from havasu_vc.checkouts.edited_tables import EditedTable
from havasu_vc.checkouts.edits import onto_head, stored_edit_of
from havasu_vc.checkouts.table_places import place_elsewhere
from havasu_vc.checkouts.tables_elsewhere import Elsewhere, check_out_to
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    CorruptionError,
    HavasuError,
    NoChangesError,
    NotYetSupportedError,
    RevisionNotFoundError,
    StateError,
    UnsupportedVersionError,
)
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.merging import require_calm
from havasu_vc.records import dataclass
from havasu_vc.repo.filters import parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import part_of
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.objects import EMPTY_TREE, Draft
from havasu_vc.store.trees import edit_tree
from havasu_vc.tables.locations import local_path
from havasu_vc.tables.table import Table
from havasu_vc.workspace.condition import NEWEST_FORMAT
from havasu_vc.workspace.incoming import edit_of
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.properties import BASE, COMMIT, DATASET, FLAVOUR, TREE, is_checkout
from havasu_vc.workspace.state import TableState
from havasu_vc.workspace.taking_in import read_edits

__all__ = ["ServedBase", "commit_from_table", "edit_of_new", "edit_of_served"]


def _require_same(there: Table, uuid: str, path: str, location: str) -> None:
    """Raise unless a table is one that edits may come from and a checkout may follow."""
    if there.metadata.table_uuid != uuid or not is_checkout(there):
        raise StateError(
            f"the table at {location} is not one of {path}", hints=("choose another place",)
        )
    if there.metadata.format_version > NEWEST_FORMAT:
        raise UnsupportedVersionError(
            f"the table at {location} was upgraded to Iceberg's format "
            f"{there.metadata.format_version}, and tables here are of version {NEWEST_FORMAT}"
        )


def commit_from_table(
    repo: OpenRepo,
    location: str,
    *,
    filters: Sequence[str] = (),
    message: str | None = None,
    dry_run: bool = False,
    allow_empty: bool = False,
) -> CommitResult:
    """Commit what others changed in a table since it was checked out, and bring it to HEAD."""
    require_calm(repo)
    notes: tuple[str, ...] = ()
    where = location if in_bucket(location) else _folder(location)
    with place_elsewhere(repo, where) as place, Transaction(repo) as transaction:
        found = _edits_at(repo, place, transaction)
        edit = onto_head(repo, transaction, found)
        if filters:
            wanted = parse_filters(filters, of_changes=True)
            wanted.check([edit.path])
            edit = part_of(repo, transaction.dataset(edit.path), edit, wanted)
        edits = [edit] if edit.blobs else []
        if not (edits or allow_empty or dry_run):
            raise NoChangesError(f"{location} has no edits to commit")
        commit = None
        if not dry_run:
            with following(repo):
                commit = transaction.commit(edits, message or f"Edit {found.path}")
    if commit is not None and not filters:
        notes = _brought_along(repo, where, found)
    counts = {edit.path: edit.counts for edit in edits}
    meta = {edit.path: edit.meta for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, notes, meta)


def _folder(location: str) -> Path:
    return Path(local_path(location) if ":" in location else location)


def _edits_at(repo: OpenRepo, place: TablePlace, transaction: Transaction) -> EditedTable:
    """Return what was edited in a table, wherever it is."""
    table, location = place.read(), place.location
    state = _state_of(table, location)
    if CLUSTERED in state.tree:
        raise NotYetSupportedError(
            f"the table at {location} was clustered anew, and edits of such tables stay there"
        )
    try:
        base = tree_view(repo, state.path, state.tree, state.commit[:10])
        uuid = base.properties.table_uuid
    except (HavasuError, KeyError) as error:
        raise RevisionNotFoundError(state.commit) from error
    _require_same(table, uuid, state.path, location)
    base = replace(base, storage=transaction.storage)
    with repo.settings.open_engine(0) as engine:
        edits = read_edits(base, table, state.snapshot_id, engine)
    return EditedTable(state, table.version, edits)


def _state_of(table: Table, location: str) -> TableState:
    """Return what a table says of its checkout."""
    properties, metadata = table.metadata.properties, table.metadata
    reference = metadata.references.get(BASE)
    snapshot = None if reference is None else metadata.snapshots.get(reference.snapshot_id)
    flavour = properties.get(FLAVOUR, "")
    if (
        not is_checkout(table)
        or snapshot is None
        or TREE not in snapshot.summary
        or flavour not in list(Flavour)
    ):
        raise CorruptionError(
            f"the table at {location} does not say which commit it is of",
            hints=("edits come back from tables that `havasu-vc checkout --to` made",),
        )
    return TableState(
        properties.get(DATASET, ""),
        snapshot.summary.get(COMMIT, ""),
        snapshot.summary[TREE],
        snapshot.snapshot_id,
        table.version,
        Flavour(flavour),
    )


def _brought_along(repo: OpenRepo, where: Path | str, found: EditedTable) -> tuple[str, ...]:
    """Bring a table whose edits are committed to HEAD; the commit stands whatever happens."""
    request = Elsewhere(where, dataset=found.path, flavour=found.state.flavour, discard=True)
    try:
        result = check_out_to(repo, request, upon=found.version)
    except HavasuError as error:
        return (f"the table stays as it was: {error.message}",)
    return () if result.changed else ("the table stays as it was: somebody wrote to it meanwhile",)


@dataclass(frozen=True, slots=True)
class ServedBase:
    """The version of a dataset that a table was served of."""

    path: str
    """The dataset."""
    commit: str
    """The commit."""
    tree: str
    """The dataset's internals there."""
    snapshot_id: int
    """The snapshot of it in the table."""


def edit_of_served(
    repo: OpenRepo, transaction: Transaction, table: Table, base: ServedBase
) -> TreeEdit:
    """Return the edit of the base that makes it what a table shows; it may be none."""
    revision = base.commit[:10]
    view = replace(
        tree_view(repo, base.path, base.tree, revision),
        storage=transaction.storage,
    )
    with repo.settings.open_engine(0) as engine:
        edits = read_edits(view, table, base.snapshot_id, engine)
        if needs_counterpart(repo, base.tree):
            stored = stored_view(repo, base.path, base.tree, transaction.storage, revision)
            return stored_edit_of(edits, stored, engine)
        return edit_of(edits, transaction.storage, engine)


def edit_of_new(
    repo: OpenRepo, transaction: Transaction, table: Table, created: TreeEdit
) -> TreeEdit:
    """Return the edit that creates a dataset with the rows that a table shows.

    `created` is the one that creates it without rows.
    """
    draft = Draft(repo.git.objects)
    folder = TreeFolder(draft, edit_tree(draft, EMPTY_TREE, dict(created.blobs)))
    view = HavasuDataset(created.path, folder, transaction.storage, "the request")
    with repo.settings.open_engine(0) as engine:
        edits = read_edits(view, table, None, engine)
        edit = edit_of(edits, transaction.storage, engine)
    blobs = {**created.blobs, **edit.blobs}
    kept = {name: data for name, data in blobs.items() if data is not None}
    return replace(created, blobs=kept, counts=edit.counts)
