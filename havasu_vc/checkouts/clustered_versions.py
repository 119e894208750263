"""Clustered versions of datasets, for tables of the workspace that have files of their own.

    <data folder>/clustered/<tree>-<clustered tree>.table

A dataset is sorted once, with all of its rows. A later version is made from that by the
rows that differ, as a commit is: a small data file and a delete file beside the sorted
ones. Where half of the rows differ, where the partition spec or the key is another, or
where the table is small anyway, all rows are sorted anew. The clustered tree says exactly
which files a table has, so edits of it are told from what it was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
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
from havasu_vc.checkouts.sorted_rows import bring, described, sorted_anew, tried_files, trying
from havasu_vc.checkouts.table_places import table_place, workspace_root
from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import (
    far_dataset,
    put_at,
    sent,
    url_of,
    version_of,
    where_it_is,
)
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
from havasu_vc.store.object_systems import may_put
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.workspace.counting import check_keys
from havasu_vc.workspace.counting_apart import count_apart
from havasu_vc.workspace.incoming import edit_of, edited_dataset
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.state import TableLayout, TableState, WorkspaceState
from havasu_vc.workspace.taking_in import TableEdits

__all__ = [
    "can_cluster",
    "clustered_base",
    "clustered_version",
    "edit_of_clustered",
    "forget_clustered",
    "with_layout",
]


_Files = Callable[[], Mapping[str, str]]
"""Tells where files are read that are not here, by their names."""
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


@contextmanager
def clustered_version(
    repo: OpenRepo,
    view: DatasetInFiles,
    tree: str,
    layout: TableLayout,
    place: TablePlace,
    *,
    near: TableState | None = None,
    fresh: bool = False,
) -> Iterator[tuple[DatasetInFiles, str]]:
    """Yield a clustered version of a dataset, and its tree: one that is kept, or a new one.

    `tree` is the dataset's in git, and `place` that of the table, which is to have the files
    when the block ends: where data is away they are then read there alone. `near` is a table
    that shows another version; `fresh` asks for one without rows that came after the sorting.
    """
    spec = _spec_of(view, layout)
    away = _is_away(repo, place)
    there = _files_at(repo, place)
    found = _kept(repo, view, tree, spec, there)
    if found is not None and not (fresh and not _is_fresh(found)):
        yield found, _tree(found)
        return
    with making_version(repo) as storage, trying(storage) as storage:
        near = None if fresh else near
        folder = _brought(repo, view, spec, near, storage, away=away)
        if folder is None:
            folder = sorted_anew(repo, view, storage, spec)
        made = HavasuDataset(view.path, folder, storage, view.revision)
        tried = tried_files(made)
        here = [each.file for each in (made.delete_entries if away else made.entries.values())]
        bring(made, {file: url for file, url in tried.items() if file in here})
        kept = keep_version(repo, storage, folder, here, lambda made: _place(repo, tree, made))
        shown = HavasuDataset(view.path, kept, storage, view.revision)
        yield _as_read(shown, lambda: {**there(), **tried}), kept.tree


def clustered_base(repo: OpenRepo, table: TableState, *, apart: bool = False) -> DatasetInFiles:
    """Return the clustered version that a table was made from.

    Those who read `apart` see no folder of this machine.
    """
    file = _place(repo, table.tree, table.clustered or "")
    there = _files_at(repo, table_place(repo, workspace_root(repo), table.path))
    found = _read(repo, table.path, file, table.commit[:10], there, apart=apart)
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
    if (url := url_of(edits.base)) is not None:
        apart = engine.apart
        base = far_dataset(base, url, apart=apart, writes=apart or may_put(url)) or base
        edits = replace(edits, base=where_it_is(edits.base, apart=apart))
    if not (edits.removed or edits.deleted or edits.restored or edits.documents):
        return edit_of(replace(edits, base=base, layout=base.layout), base.storage, engine)
    if url is None:
        check_keys(edits)
    else:
        count_apart(edits, engine)
    _, edit = base.evolved(edits.schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            take_changes(edit, edits.base, draft, engine)
        if not edit.counts.total and edits.schema == base.schema:
            return TreeEdit(edits.path, {})
        made = edit.finish()
    there = put_at(base)
    return made if there is None else sent(made, base.storage.staging, there)


def _folder(repo: OpenRepo) -> Path:
    return repo.git.data_folder / "clustered"


def _place(repo: OpenRepo, tree: str, clustered: str) -> Path:
    return _folder(repo) / f"{tree}-{clustered}{SUFFIX}"


def _kept(
    repo: OpenRepo, view: DatasetInFiles, tree: str, spec: PartitionSpec, there: _Files
) -> DatasetInFiles | None:
    """Return the newest version that is kept of a tree and dealt out by a spec."""
    files: list[tuple[int, Path]] = []
    for file in _folder(repo).glob(f"{tree}-*{SUFFIX}"):
        with suppress(OSError):
            files.append((file.stat().st_mtime_ns, file))
    for _, file in sorted(files, reverse=True):
        found = _read(repo, view.path, file, view.revision, there)
        if found is not None and found.partition.fields == spec.fields:
            return found
    return None


def _read(
    repo: OpenRepo,
    path: str,
    file: Path,
    revision: str,
    there: _Files,
    *,
    apart: bool = False,
) -> DatasetInFiles | None:
    """Return the version that is kept in a file, whose data files may be in its table alone."""
    found = read_version(repo, path, file, revision, there)
    return None if found is None else _as_read(found, there, apart=apart)


def _files_at(repo: OpenRepo, place: TablePlace) -> _Files:
    """Return what tells where data files are read that a table has alone; it looks once."""
    return cache(place.readable_files) if _is_away(repo, place) else dict


def _is_away(repo: OpenRepo, place: TablePlace) -> bool:
    """Whether a table's data files are in a bucket, as those of commits are, and none is here."""
    return in_bucket(place.location) and repo.storage.bucket is not None


def _as_read(view: DatasetInFiles, there: _Files, *, apart: bool = False) -> DatasetInFiles:
    """Return a version as its files are read: where they are, if they are not all here."""
    entries = view.data_entries
    away = [e.file for e in entries if apart or not view.storage.has(e.file)]
    if not away:
        return view
    known = there()
    elsewhere = {file: known[file] for file in away if file in known}
    return version_of(where_it_is(view, apart=apart), view.folder, view.revision, elsewhere)


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
    *,
    away: bool,
) -> Folder | None:
    """Return the version made from that of another table, None where sorting anew is better."""
    if near is None or near.clustered is None or view.size < SMALL:
        return None
    with repo.settings.open_engine(view.size if away else 0) as engine:
        apart = engine.apart
        try:
            base = clustered_base(repo, near, apart=apart)
            old = tree_view(repo, near.path, near.tree, near.commit[:10])
        except HavasuError:
            return None
        if base.partition.fields != spec.fields or not _comparable(old, view):
            return None
        old, view = (where_it_is(each, apart=apart) for each in (old, view))
        _, edit = base.with_storage(storage).evolved(view.schema)
        assert isinstance(edit, Edit)
        # Files of a few rows lie in no partition.
        unpartitioned = document_hash(format_partition(PartitionSpec()))
        edit.layout = replace(edit.layout, partition_hash=unpartitioned)
        with edit:
            edit.add_documents(_documents(base, view))
            if apart:
                take_changes(edit, old, view, engine)
            else:
                for batch in row_changes(old, view, engine):
                    edit.collect(iter((batch,)))
                    if edit.counts.total > view.rows // 2:
                        break
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
