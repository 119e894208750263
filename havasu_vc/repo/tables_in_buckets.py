"""Tables outside of the workspace: in a bucket, or in any folder, and edits that come back.

    checkout --to s3://bucket/maps                  each dataset at <url>/<path>
    checkout --to s3://bucket/wells --dataset wells     the URL is the table
    commit --from s3://bucket/wells                 what Spark changed there since

A table says itself which commit it is of, so nothing is kept here. A commit takes edits in
as those of the workspace are taken in, merged onto HEAD where HEAD moved on, and then the
table is brought to HEAD, unless somebody wrote to it meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    HavasuError,
    InvalidArgumentError,
    NoChangesError,
    NotYetSupportedError,
    RevisionNotFoundError,
    StateError,
    UncommittedChangesError,
    UnsupportedVersionError,
)
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.repo.checkouts import KEPT
from havasu_vc.repo.clustering import CLUSTERED
from havasu_vc.repo.edited_tables import EditedTable
from havasu_vc.repo.following import following
from havasu_vc.repo.kart_tables import table_view, tree_view
from havasu_vc.repo.merging import require_calm
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.remote_data import data_url, default_remote
from havasu_vc.repo.results import CheckoutResult, CommitResult
from havasu_vc.repo.tables_elsewhere import Elsewhere, check_out_to, chosen_datasets
from havasu_vc.repo.transaction import Transaction
from havasu_vc.repo.workspace_edits import onto_head
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.short_lived import short_lived_folder
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.tables.bucket import BucketPlaces, BucketTable
from havasu_vc.tables.snapshots import difference
from havasu_vc.tables.table import Table, read_table, table_exists
from havasu_vc.workspace.damage import NEWEST_FORMAT
from havasu_vc.workspace.in_bucket import send_table
from havasu_vc.workspace.materialise import Checkout
from havasu_vc.workspace.properties import (
    BASE,
    COMMIT,
    DATASET,
    FLAVOUR,
    TREE,
    is_checkout,
    is_untouched,
)
from havasu_vc.workspace.state import TableState
from havasu_vc.workspace.taking_in import read_edits

__all__ = ["check_out_to_url", "commit_from_table", "is_table"]


def is_table(location: str) -> bool:
    """Whether a place that edits are to come from is a table rather than a file."""
    return in_bucket(location) or (Path(location).is_dir() and table_exists(Path(location)))


def check_out_to_url(
    repo: OpenRepo, url: str, wish: Elsewhere, *, expected: int | None = None
) -> CheckoutResult:
    """Make datasets of a revision tables below a URL; of one dataset, the table at the URL.

    With `expected`, nothing is done to a table that has another version by now.
    """
    if wish.clustered or wish.partition_by is not None:
        raise NotYetSupportedError(
            "tables in a bucket are not clustered anew",
            hints=("make the table in a folder with --layout, and copy nothing of it",),
        )
    found = repo.revision(wish.revision)
    folders = repo.folders(found)
    url = url.rstrip("/")
    chosen, notes = chosen_datasets(folders, wish)
    changed = []
    with shared_lock(repo.git.data_folder / "lock"):
        for below, folder in chosen.items():
            location = f"{url}/{below}".rstrip("/")
            if _make(repo, location, folder, found.commit or "", wish, expected):
                changed.append(folder.path)
    paths = tuple(folder.path for folder in chosen.values())
    return CheckoutResult(url, found.commit, paths, tuple(changed), notes=notes)


def _make(
    repo: OpenRepo,
    url: str,
    folder: DatasetFolder,
    commit: str,
    wish: Elsewhere,
    expected: int | None,
) -> bool:
    """Make one table; return whether it changed."""
    place = BucketTable(url)
    with short_lived_folder(repo.git.data_folder / "staging") as copies:
        there = place.read(copies) if place.versions() else None
        if there is None and place.holds_anything():
            raise InvalidArgumentError(
                f"something else is at {place.url}", hints=("choose another URL",)
            )
        if expected is not None and (there is None or there.version != expected):
            return False
        view = table_view(repo, folder, wish.revision)
        view.check_guard()
        if there is not None:
            _require_same(there, view.properties.table_uuid, folder.path, place.url)
            if _shows(there, folder.internals, wish.flavour):
                return False
            if not is_untouched(there) and not wish.discard:
                raise UncommittedChangesError(
                    f"the table at {place.url} was written to since it was checked out",
                    hints=(
                        f"`havasu-vc commit --from {place.url}` takes the edits in",
                        "`--discard-changes` drops what was written",
                    ),
                )
        request = Checkout(commit, folder.internals, wish.flavour, True, KEPT)
        send_table(view, place, there, request, data_url=_data_url(repo))
    return True


def _shows(there: Table, tree: str, flavour: Flavour | None) -> bool:
    snapshot = there.metadata.snapshot
    if snapshot is None or not is_untouched(there) or snapshot.summary.get(TREE) != tree:
        return False
    return flavour is None or there.metadata.properties.get(FLAVOUR) == flavour.value


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


def _data_url(repo: OpenRepo) -> str | None:
    try:
        url = data_url(repo, default_remote(repo))
    except HavasuError:
        url = repo.git.config.get("havasu.data.url")
    return url if url is not None and in_bucket(url) else None


# Edits


def commit_from_table(
    repo: OpenRepo,
    location: str,
    *,
    message: str | None = None,
    dry_run: bool = False,
    allow_empty: bool = False,
) -> CommitResult:
    """Commit what others changed in a table since it was checked out, and bring it to HEAD."""
    require_calm(repo)
    notes: tuple[str, ...] = ()
    with (
        short_lived_folder(repo.git.data_folder / "staging") as copies,
        Transaction(repo) as transaction,
    ):
        found = _edits_at(repo, location, copies, transaction)
        edit = onto_head(repo, transaction, found)
        edits = [edit] if edit.blobs else []
        if not (edits or allow_empty or dry_run):
            raise NoChangesError(f"{location} has no edits to commit")
        commit = None
        if not dry_run:
            with following(repo):
                commit = transaction.commit(edits, message or f"Edit {found.path}")
    if commit is not None:
        notes = _brought_along(repo, location, found)
    counts = {edit.path: edit.counts for edit in edits}
    meta = {edit.path: edit.meta for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, notes, meta)


def _edits_at(repo: OpenRepo, location: str, copies: Path, transaction: Transaction) -> EditedTable:
    """Return what was edited in a table, wherever it is."""
    table = BucketTable(location).read(copies) if in_bucket(location) else read_table(location)
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
    if isinstance(table.places, BucketPlaces):

        def known(name: str) -> Path | None:
            entry = base.entries.get(name.partition(".")[0])
            return None if entry is None else Path(base.file_path(entry))

        table.places.know(known)
        current = table.metadata.current_snapshot_id
        files = difference(table, state.snapshot_id, current)
        table.places.bring(live.file.path for live in files.added)
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


def _brought_along(repo: OpenRepo, location: str, found: EditedTable) -> tuple[str, ...]:
    """Bring a table whose edits are committed to HEAD; the commit stands whatever happens."""
    wish = Elsewhere(Path(location), dataset=found.path, flavour=found.state.flavour, discard=True)
    try:
        if in_bucket(location):
            result = check_out_to_url(repo, location, wish, expected=found.version)
        elif read_table(location).version != found.version:
            raise ConcurrentChangeError("somebody wrote to it meanwhile")
        else:
            result = check_out_to(repo, wish)
    except HavasuError as error:
        return (f"the table stays as it was: {error.message}",)
    return () if result.changed else ("the table stays as it was: somebody wrote to it meanwhile",)
