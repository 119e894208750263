"""Clustered versions of datasets, for tables of the workspace that have files of their own.

    <data folder>/clustered/<tree>-<clustered tree>.table

A dataset is sorted once, with all of its rows. A later version is made from that by the
rows that differ, as a commit is: a small data file and a delete file beside the sorted
ones. Where half of the rows differ, where the partition spec or the key is another, or
where the table is small anyway, all rows are sorted anew. The clustered tree says exactly
which files a table has, so edits of it are told from what it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from havasu_vc.checkouts.counterparts import (
    SUFFIX,
    can_be_table,
    forget_versions,
    keep_version,
    making_version,
    no_table,
    read_version,
    table_view,
    tree_view,
)
from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.pairing import same_key
from havasu_vc.datasets.protocol import DatasetInFiles, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptionError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
)
from havasu_vc.exchange.importing import Curve, write_partitioned, write_table
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    DATASET,
    PartitionSpec,
    format_partition,
    format_properties,
    parse_partition,
)
from havasu_vc.formats.iceberg.transforms import parse_spec
from havasu_vc.history.diff import row_changes
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import short_lived_folder
from havasu_vc.store.files import DataFileStore
from havasu_vc.workspace.counting import check_keys
from havasu_vc.workspace.incoming import edit_of, edited_dataset
from havasu_vc.workspace.places import TEMPORARY
from havasu_vc.workspace.state import TableLayout, TableState, WorkspaceState
from havasu_vc.workspace.taking_in import TableEdits

__all__ = [
    "CLUSTERED",
    "can_cluster",
    "clustered",
    "clustered_base",
    "clustered_version",
    "described",
    "edit_of_clustered",
    "forget_clustered",
    "sorted_anew",
    "with_layout",
]


SMALL = 1 << 20
"""A table of fewer bytes is sorted anew whenever it changes."""


def with_layout(
    repo: OpenRepo,
    state: WorkspaceState,
    *,
    clustered: bool,
    dataset: str | None = None,
    partition_by: str | None = None,
) -> WorkspaceState:
    """Return a workspace's state with another layout of one table, or of all."""
    folders = {path: f for path, f in repo.folders(repo.head()).items() if can_be_table(f)}
    if dataset is None and partition_by is not None and len(folders) == 1:
        (dataset,) = folders
    if dataset is None:
        if partition_by is not None:
            raise InvalidArgumentError(
                "a partition spec is of the columns of one dataset",
                hints=("name it: `--dataset DATASET`",),
            )
        # A spec that was asked for one table stays that table's.
        own = {path: layout for path, layout in state.layouts.items() if layout.partition}
        return replace(state, layouts={**own, "": TableLayout(True)} if clustered else {})
    path = dataset.strip("/")
    if path not in folders:
        if path in repo.folders(repo.head()):
            raise InvalidArgumentError(no_table(path))
        raise DatasetNotFoundError(path, "HEAD")
    view = table_view(repo, folders[path], "HEAD")
    spec = None if partition_by is None else format_partition(parse_spec(partition_by, view.schema))
    layout = TableLayout(clustered, None if spec is None else spec.decode())
    if clustered and not can_cluster(view, layout):
        raise InvalidArgumentError(
            f"{path} has no geometries, so its files are as well sorted as they can be",
            hints=("`--partition-by 'bucket(16, id)'` deals its rows out by columns",),
        )
    return replace(state, layouts={**state.layouts, path: layout})


def _spec_of(view: DatasetInFiles, layout: TableLayout) -> PartitionSpec:
    """Return the spec that rows are dealt out by: what is wanted of columns that are there."""
    if layout.partition is None:
        return view.partition
    wanted = parse_partition(layout.partition.encode(), "the partition spec of the workspace")
    fields = tuple(field for field in wanted.fields if field.source_id in view.schema.by_id)
    return replace(wanted, fields=fields)


def can_cluster(view: DatasetInFiles, layout: TableLayout) -> bool:
    """Whether there is anything to sort a dataset's rows by that its own files are not."""
    return bool(view.schema.geometries or _spec_of(view, layout).fields)


def clustered_version(
    repo: OpenRepo,
    view: DatasetInFiles,
    tree: str,
    layout: TableLayout,
    *,
    near: TableState | None = None,
    fresh: bool = False,
) -> tuple[DatasetInFiles, str]:
    """Return a clustered version of a dataset, and its tree: one that is kept, or a new one.

    `tree` is the dataset's in git. `near` is a table that shows another version; `fresh`
    asks for one without rows that came after the sorting.
    """
    spec = _spec_of(view, layout)
    found = _kept(repo, view, tree, spec)
    if found is not None and not (fresh and not _is_fresh(found)):
        return found, _tree(found)
    with making_version(repo) as storage:
        near = None if fresh else near
        folder = _brought(repo, view, spec, near, storage) or sorted_anew(repo, view, storage, spec)
        files = HavasuDataset(view.path, folder, storage, view.revision).entries
        kept = keep_version(repo, storage, folder, files, lambda made: _place(repo, tree, made))
    return HavasuDataset(view.path, kept, repo.storage, view.revision), kept.tree


def clustered_base(repo: OpenRepo, table: TableState) -> DatasetInFiles:
    """Return the clustered version that a table was made from."""
    place = _place(repo, table.tree, table.clustered or "")
    found = read_version(repo, table.path, place, table.commit[:10])
    if found is None:
        raise CorruptionError(
            f"{table.path}: what its clustered table was made from is not there any more",
            hints=("`havasu-vc checkout --discard-changes` makes it anew, without edits",),
        )
    return found


def forget_clustered(
    repo: OpenRepo, keep: set[str], *, grace_seconds: float, dry_run: bool = False
) -> int:
    """Remove clustered versions that are old and are not among some; return how many bytes."""
    return forget_versions(
        _folder(repo),
        lambda name: name.rpartition("-")[2] in keep,
        grace_seconds=grace_seconds,
        dry_run=dry_run,
    )


def edit_of_clustered(edits: TableEdits, base: DatasetInFiles, engine: Engine) -> TreeEdit:
    """Return the edit of a dataset that makes it what its clustered table holds.

    Files come in as they are where rows only came; else the row changes do.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {})
    if not (edits.removed or edits.deleted or edits.restored or edits.documents):
        return edit_of(replace(edits, base=base, layout=base.layout), base.storage, engine)
    check_keys(edits)
    _, edit = base.evolved(edits.schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            take_changes(edit, edits.base, draft, engine)
        if not edit.counts.total and edits.schema == base.schema:
            return TreeEdit(edits.path, {})
        return edit.finish()


def _folder(repo: OpenRepo) -> Path:
    return repo.git.data_folder / "clustered"


def _place(repo: OpenRepo, tree: str, clustered: str) -> Path:
    return _folder(repo) / f"{tree}-{clustered}{SUFFIX}"


def _kept(
    repo: OpenRepo, view: DatasetInFiles, tree: str, spec: PartitionSpec
) -> DatasetInFiles | None:
    """Return the newest version that is kept of a tree and dealt out by a spec."""
    places: list[tuple[int, Path]] = []
    for place in _folder(repo).glob(f"{tree}-*{SUFFIX}"):
        with suppress(OSError):
            places.append((place.stat().st_mtime_ns, place))
    for _, place in sorted(places, reverse=True):
        found = read_version(repo, view.path, place, view.revision)
        if found is not None and found.partition.fields == spec.fields:
            return found
    return None


def _tree(view: DatasetInFiles) -> str:
    if not isinstance(view.folder, TreeFolder):
        raise TypeError("what is kept is a tree")
    return view.folder.tree


def _is_fresh(view: DatasetInFiles) -> bool:
    """Whether all files of a version were written by one sorting."""
    return not view.deletes and all(e.origin is Origin.IMPORT for e in view.data_entries)


def _brought(
    repo: OpenRepo,
    view: DatasetInFiles,
    spec: PartitionSpec,
    near: TableState | None,
    storage: Storage,
) -> Folder | None:
    """Return the version made from that of another table, None where sorting anew is better."""
    if near is None or near.clustered is None or view.size < SMALL:
        return None
    try:
        base = clustered_base(repo, near)
        old = tree_view(repo, near.path, near.tree, near.commit[:10])
    except HavasuError:
        return None
    if base.partition.fields != spec.fields or not _comparable(old, view):
        return None
    _, edit = base.with_storage(storage).evolved(view.schema)
    assert isinstance(edit, Edit)
    # Files of a few rows lie in no partition.
    unpartitioned = document_hash(format_partition(PartitionSpec()))
    edit.layout = replace(edit.layout, partition_hash=unpartitioned)
    with edit, repo.settings.open_engine(0) as engine:
        edit.add_documents(_documents(base, view))
        for batch in row_changes(old, view, engine):
            edit.collect(iter((batch,)))
            if edit.counts.total > view.rows // 2:
                return None
        return edited(base.folder, edit.finish())


def _comparable(old: DatasetInFiles, new: DatasetInFiles) -> bool:
    if not (old.schema.key or new.schema.key):
        return old.schema == new.schema
    curves = [[field.id for field in view.schema.geometries][:1] for view in (old, new)]
    return same_key(old.schema, new.schema) and curves[0] == curves[1]


def _documents(base: DatasetInFiles, view: DatasetInFiles) -> dict[str, bytes | None]:
    """Return the documents that differ between a version and one to be made from it."""
    now = described(view)
    documents: dict[str, bytes | None] = dict.fromkeys(described(base).keys() - now.keys())
    return {**documents, **now, DATASET: format_properties(view.properties)}


# A dataset's rows sorted anew for a table: nearby rows in the same files and row groups.
#
# Rows with geometries lie along a Hilbert curve, others in the order of their key. With a
# partition spec, that of the dataset or one that is asked for, no file holds rows of two
# partitions, and each partition is ordered so. The engine sorts them, so with `--engine
# spark` it is a Spark job; what it writes are the files of that table alone, and the
# repository does not know of them.

CLUSTERED = "-clustered"
"""The end of a tree's name where its rows are sorted anew."""


@contextmanager
def clustered(
    repo: OpenRepo, view: DatasetInFiles, location: Path, spec: PartitionSpec
) -> Iterator[DatasetInFiles]:
    """Yield a dataset of the same rows in clustered files, which go when the block ends."""
    with short_lived_folder(location, TEMPORARY) as scratch:
        storage = replace(
            view.storage, keys=scratch / "keys", staging=DataFileStore(scratch / "files")
        )
        folder = sorted_anew(repo, view, storage, spec)
        yield HavasuDataset(view.path, folder, storage, view.revision)


def sorted_anew(
    repo: OpenRepo, view: DatasetInFiles, storage: Storage, spec: PartitionSpec
) -> Folder:
    """Return the documents of a dataset with the rows of another in files anew, all staged."""
    column = next(iter(view.schema.geometries), None)
    unpartitioned = format_partition(PartitionSpec())
    new = NewDataset(
        view.path,
        view.schema,
        table_uuid=view.properties.table_uuid,
        meta={
            # What rows that come later are written with: they are few, of any partition.
            past_path(document_hash(unpartitioned)): unpartitioned,
            **described(view),
        },
        hilbert=None if column is None else column.id,
        partition=spec,
    )
    new.documents[DATASET] = format_properties(view.properties)
    curve = None if column is None else Curve(column.name)
    size = view.size
    with repo.settings.open_engine(size) as engine:
        if spec.fields:
            files = write_partitioned(view.scan(), new, spec, storage, engine, curve=curve)
        else:
            files = write_table(view.scan(), new, storage, engine, input_bytes=size, curve=curve)
    return edited(None, new.edit(files))


def described(view: DatasetInFiles) -> dict[str, bytes]:
    """Return the documents that say what a dataset is to people."""
    return {
        f"meta/{name}": view.folder.read_blob(blob)
        for name, blob in view.folder.blobs("meta")
        if name in ("title", "description") or name.startswith("crs/")
    }
