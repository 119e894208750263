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

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.checkouts.catching_up import following
from havasu_vc.checkouts.checking_out import KEPT, changing_tables
from havasu_vc.checkouts.counterparts import (
    can_be_table,
    needs_counterpart,
    no_table,
    stored_view,
    table_view,
    tree_view,
)
from havasu_vc.checkouts.edited_tables import EditedTable, seen_in_bucket
from havasu_vc.checkouts.edits import onto_head, stored_edit_of, table_diff
from havasu_vc.checkouts.requests import CheckoutToRequest, TableCommitRequest
from havasu_vc.checkouts.sorted_rows import CLUSTERED, clustered
from havasu_vc.checkouts.table_places import place_elsewhere, require_no_link
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.far import where_it_is
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import (
    CorruptionError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    NoChangesError,
    NotYetSupportedError,
    RevisionNotFoundError,
    StateError,
    UncommittedChangesError,
    UnsupportedVersionError,
)
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import PartitionSpec, format_partition
from havasu_vc.formats.iceberg.transforms import parse_spec
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.merging import require_calm
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.records import dataclass
from havasu_vc.repo.filters import parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import part_of
from havasu_vc.repo.results import CheckoutResult, CommitResult
from havasu_vc.repo.soundness import defect, require_sound_head
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.objects import EMPTY_TREE, Draft
from havasu_vc.store.trees import DatasetFolder, edit_tree
from havasu_vc.tables.table import Table, local_path
from havasu_vc.workspace.condition import NEWEST_FORMAT, Condition, condition_of
from havasu_vc.workspace.incoming import edit_of
from havasu_vc.workspace.materialise import Checkout, materialise
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.properties import BASE, COMMIT, DATASET, FLAVOUR, TREE, is_checkout
from havasu_vc.workspace.state import TableState, read_state
from havasu_vc.workspace.taking_in import read_edits

__all__ = [
    "ServedBase",
    "check_out_to",
    "chosen_datasets",
    "commit_from_table",
    "edit_of_new",
    "edit_of_served",
]


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
    request: TableCommitRequest,
) -> CommitResult:
    """Commit what others changed in a table that `check_out_to` made, and bring it to HEAD.

    With filters, only what these name, and the table stays as it is. It is refused where HEAD
    has a broken dataset, unless that is allowed.
    """
    require_sound_head(repo, allowed=request.allow_broken)
    require_calm(repo)
    notes: tuple[str, ...] = ()
    location = request.location
    require_no_link(repo, location)
    where = _place(location)
    dry_run = request.dry_run
    with (
        place_elsewhere(repo, where) as place,
        Transaction(repo, dry_run=dry_run) as transaction,
    ):
        found = _edits_at(repo, place, transaction.storage)
        edit = onto_head(repo, transaction, found)
        if request.filters:
            wanted = parse_filters(request.filters, of_changes=True)
            wanted.check([edit.path])
            edit = part_of(repo, transaction.dataset(edit.path), edit, wanted)
        edits = [edit] if edit.blobs else []
        if not (edits or request.allow_empty or request.dry_run):
            raise NoChangesError(f"{location} has no edits to commit")
        commit = None
        if not request.dry_run:
            with following(repo):
                commit = transaction.commit(edits, request.message or f"Edit {found.path}")
    if commit is not None and not request.filters:
        notes = _brought_along(repo, where, found)
    counts = {edit.path: edit.counts for edit in edits} | transaction.recounted
    meta = {edit.path: edit.meta for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, notes, meta)


def diff_table(
    repo: OpenRepo, location: str, filters: Sequence[str] = (), revision: str | None = None
) -> Iterator[DatasetDiff]:
    """Yield what was edited in a table that `check_out_to` made: how it differs from its commit.

    With a revision, how it differs from that.
    """
    require_no_link(repo, location)
    wanted = parse_filters(filters, of_changes=True)
    with place_elsewhere(repo, _place(location)) as place:
        found = _edits_at(repo, place, repo.storage)
        wanted.check([found.path])
        if revision is not None or not found.edits.is_empty:
            old = None if revision is None else repo.resolve(revision)
            yield from wanted.chosen([table_diff(repo, found, old)])


def _place(location: str) -> Path | str:
    """Return the folder or the URL that is meant."""
    if in_bucket(location):
        return location
    return Path(local_path(location) if ":" in location else location)


def _edits_at(repo: OpenRepo, place: TablePlace, storage: Storage) -> EditedTable:
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
    base = base.with_storage(storage)
    with repo.settings.open_engine(0) as engine:
        base = seen_in_bucket(repo, base, location, state.tree, engine)
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
    request = CheckoutToRequest(
        where, dataset=found.path, flavour=found.state.flavour, discard=True
    )
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
    view = tree_view(repo, base.path, base.tree, revision).with_storage(transaction.storage)
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


# Tables of any revision anywhere: `checkout REV --to FOLDER`, or `--to s3://bucket/maps`.
#
# They belong to no workspace: HEAD stays where it is and nothing follows it. What such a
# table is of stands in the table itself, so checking out to the same place again moves
# only what differs, and refuses to pass over what others wrote there.


def check_out_to(
    repo: OpenRepo, request: CheckoutToRequest, *, upon: int | None = None
) -> CheckoutResult:
    """Make datasets of a revision tables elsewhere; HEAD and the workspace stay.

    `folder` may be a URL, as `s3://bucket/maps`; with `dataset` it is that one's table.
    Files are linked unless `copy` says otherwise, edits in the way stop it unless they are
    to be discarded. With `clustered` rows are sorted anew, and lie by `partition_by`.

    With `upon`, nothing is done to a table that has another version by now.
    """
    if request.partition_by is not None and not request.clustered:
        raise InvalidArgumentError("a partition spec goes with a clustered layout")
    found = repo.revision(request.revision)
    folders = repo.folders(found)
    root = _root(request.folder)
    _require_free(repo, root)
    chosen, notes = chosen_datasets(folders, request)
    changed = []
    with changing_tables(repo):
        for below, folder in list(chosen.items()):
            broken = defect(repo, folder, request.revision) if request.dataset is None else None
            if broken is not None:
                repo.tell(folder.path, broken.message)
                del chosen[below]
                continue
            location = _below(root, below)
            with place_elsewhere(repo, location) as place:
                if _make(repo, place, folder, found.commit or "", request, upon=upon):
                    changed.append(folder.path)
    paths = tuple(folder.path for folder in chosen.values())
    return CheckoutResult(root, found.commit, paths, tuple(changed), notes=notes)


def _root(folder: str | Path) -> str | Path:
    """Return where tables go: a URL of a bucket, or a folder."""
    if isinstance(folder, str) and in_bucket(folder):
        return folder.rstrip("/")
    return Path(os.path.realpath(folder))


def chosen_datasets(
    folders: Mapping[str, DatasetFolder], request: CheckoutToRequest
) -> tuple[dict[str, DatasetFolder], tuple[str, ...]]:
    """Return the datasets that become tables, by where below the place, and notes on others."""
    if request.dataset is None:
        chosen = {path: folder for path, folder in folders.items() if can_be_table(folder)}
        return chosen, tuple(no_table(path) for path in folders if path not in chosen)
    path = request.dataset.strip("/")
    if path not in folders:
        raise DatasetNotFoundError(path, request.revision)
    if not can_be_table(folders[path]):
        raise InvalidArgumentError(no_table(path))
    return {"": folders[path]}, ()


def _below(root: Path | str, below: str) -> Path | str:
    return root / below if isinstance(root, Path) else f"{root}/{below}".rstrip("/")


def _require_free(repo: OpenRepo, root: Path | str) -> None:
    state = read_state(repo.git.git_directory)
    inside = state is not None and f"{root}/".startswith(f"{str(state.root).rstrip('/')}/")
    if inside:
        raise InvalidArgumentError(
            f"{root} is in the workspace, whose tables follow HEAD",
            hints=("choose another place",),
        )
    if isinstance(root, Path) and root.exists() and not root.is_dir():
        raise InvalidArgumentError(f"{root} is a file; tables need a folder")


def _make(
    repo: OpenRepo,
    place: TablePlace,
    folder: DatasetFolder,
    commit: str,
    request: CheckoutToRequest,
    *,
    upon: int | None,
) -> bool:
    """Make one table; return whether it changed."""
    condition, known = condition_of(place, None)
    if condition is Condition.FOREIGN:
        raise InvalidArgumentError(
            f"something else is at {place.location}", hints=("choose another place",)
        )
    if condition is Condition.EDITED and not request.discard:
        raise UncommittedChangesError(
            f"the table at {place.location} was written to since it was checked out",
            hints=(
                f"`havasu-vc commit --from {shlex.quote(place.location)}` takes the edits in",
                "`--discard-changes` drops what was written",
            ),
        )
    view = table_view(repo, folder, request.revision, near=_near(repo, folder.path, known))
    view.check_guard()
    tree, spec = folder.internals, PartitionSpec()
    if request.clustered:
        by = request.partition_by
        spec = view.partition if by is None else parse_spec(by, view.schema)
        tree += f"{CLUSTERED}{document_hash(format_partition(spec))[:8] if spec.fields else ''}"
    if known is not None and known.tree == tree and request.flavour in (None, known.flavour):
        return False
    keep = max(repo.git.config.integer("havasu.workspace.keep", KEPT), 1)
    checkout = Checkout(commit, tree, request.flavour, request.copy, keep)
    if not request.clustered:
        # What is copied stays apart from this clone, which then needs none of it.
        reads_there = request.copy or in_bucket(str(request.folder))
        far = where_it_is(view, apart=False) if reads_there else None
        materialise(view, place, checkout, previous=known, upon=upon, far=far)
        return True
    with clustered(repo, view, place.folder, spec) as sorted_view:
        materialise(sorted_view, place, checkout, previous=known, upon=upon)
    return True


def _near(repo: OpenRepo, path: str, known: TableState | None) -> list[str]:
    """Return trees of versions whose rows are here as files already."""
    state = read_state(repo.git.git_directory)
    checked_out = None if state is None else state.tables.get(path)
    return [table.tree for table in (known, checked_out) if table is not None]
