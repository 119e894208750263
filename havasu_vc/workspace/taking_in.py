"""The changes that an engine made in a checked-out table, in terms of the dataset it was made from.

A table is compared with the snapshot that was checked out: data files that left, data
files that came, rows that are deleted now and were not, rows that live again. It does
not matter how an engine did that: files are told apart by what and where they are, and
deletes of every kind are positions in data files. Nothing is written here but what is
derived, beside the key caches; the cost follows what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.documents import (
    SCHEMA,
    column_documents,
    layout_documents,
    layout_of,
)
from havasu_vc.datasets.havasu.far import version_of
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.havasu.plan import FileLayout, past_path
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import GeometryError, KeyViolationError, SchemaViolationError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    PartitionSpec,
    SortOrder,
    format_partition,
    format_sort_order,
)
from havasu_vc.formats.iceberg.values import DataFileContent, ManifestContent, Snapshot
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import is_url
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import edit_tree
from havasu_vc.tables.positions import read_position_deletes
from havasu_vc.tables.scanning import (
    DeleteIndex,
    RowSource,
    SourcePlanner,
    deleted_rows,
    row_sources,
    schema_of,
)
from havasu_vc.tables.snapshots import (
    FileDifference,
    SnapshotFile,
    difference,
    live_files_of,
    manifests_of,
    snapshot_of,
)
from havasu_vc.tables.table import Table, TableFolders, damaged
from havasu_vc.workspace.altered_columns import altered_schema
from havasu_vc.workspace.far_tables import leave_there, seen_there
from havasu_vc.workspace.foreign import (
    FileSchema,
    Measured,
    copy_rows,
    known_fields,
    measure,
    measure_there,
    parse_measured,
    read_file_schema,
    recall,
    says_all,
)

__all__ = [
    "AddedFile",
    "TableEdits",
    "added_files",
    "changed_documents",
    "come_files",
    "deleted_before",
    "layout_after",
    "read_edits",
    "rows_apart",
]


_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that came."""

    path: Path
    """Where it is."""
    schema: FileSchema
    """The columns that it has."""
    measured: Measured
    """Its measures."""
    deleted: Positions
    """Which of its rows are deleted again."""
    own: bool = True
    """Whether the file is the table's alone; else it is copied and never given another name."""
    copied: bool = False
    """Whether it is a copy of the table's file, made beside the key caches."""
    url: str | None = None
    """Where it is read if it stays in a bucket: then nothing is at its path."""

    @property
    def place(self) -> str:
        """Where it is read."""
        return self.url or str(self.path)

    @property
    def entry(self) -> Entry:
        """Its entry."""
        return self.measured.entry


@dataclass(frozen=True)
class TableEdits:
    """How a table differs from the dataset that was checked out."""

    base: DatasetInFiles
    """The dataset as it was checked out."""
    schema: Schema
    """The columns now."""
    layout: FileLayout
    """The form of new files in an edit of the dataset."""
    documents: Mapping[str, bytes] = field(default_factory=dict)
    """Documents of the dataset that change, by path."""
    removed: tuple[Entry, ...] = ()
    """Data files of the dataset that left."""
    added: tuple[AddedFile, ...] = ()
    """Data files that came."""
    deleted: Mapping[str, Positions] = field(default_factory=dict)
    """Rows that are gone, by data file of the dataset; never all rows of one."""
    restored: Mapping[str, Positions] = field(default_factory=dict)
    """Rows that live again, by data file of the dataset."""
    linked: bool = False
    """Whether data files that came stay where they are."""

    @property
    def path(self) -> str:
        """The dataset's path."""
        return self.base.path

    @property
    def touches_rows(self) -> bool:
        """Whether any file differs, even if no row does in the end."""
        return bool(self.removed or self.added or self.deleted or self.restored)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs at all."""
        return not self.touches_rows and not self.documents

    @cached_property
    def frame(self) -> DatasetInFiles:
        """The dataset with the documents that it has now, and the files it had."""
        documents = dict(self.documents)
        for each in self.added:
            documents[past_path(each.schema.name)] = each.schema.document
        return _with_documents(self.base, documents, self.schema)

    def live_before(self, entry: Entry) -> int:
        """Return how many rows of a data file were live when it was checked out."""
        return entry.rows - len(deleted_before(self.base, entry))


def deleted_before(base: DatasetInFiles, entry: Entry) -> Positions:
    """Return which rows of a data file were deleted when it was checked out."""
    found = deleted_positions(entry.file, base.delete_paths(entry))
    return _NOTHING if found is None else found


@dataclass(frozen=True, slots=True)
class RowsApart:
    """Which rows differ in data files that a table still has."""

    emptied: Mapping[str, Entry]
    """Files without a live row, by name."""
    deleted: Mapping[str, Positions]
    """Rows of the others that are gone and were not, by file."""
    restored: Mapping[str, Positions]
    """Rows of the others that live again, by file."""


def rows_apart(base: DatasetInFiles, now: Iterable[tuple[Entry, Positions]]) -> RowsApart:
    """Return what differs in data files, given which rows of each are deleted now."""
    emptied: dict[str, Entry] = {}
    deleted: dict[str, Positions] = {}
    restored: dict[str, Positions] = {}
    for entry, after in now:
        if len(after) == entry.rows:
            emptied[entry.file] = entry
            continue
        before = deleted_before(base, entry)
        gone = np.setdiff1d(after, before, assume_unique=True)
        back = np.setdiff1d(before, after, assume_unique=True)
        if len(gone):
            deleted[entry.file] = gone
        if len(back):
            restored[entry.file] = back
    return RowsApart(emptied, deleted, restored)


def _with_documents(
    view: DatasetInFiles, documents: Mapping[str, bytes], schema: Schema
) -> DatasetInFiles:
    folder = view.folder
    if not isinstance(folder, TreeFolder):
        raise TypeError("what is checked out is in git")
    draft = Draft(folder.source)
    columns = column_documents(folder, schema) if SCHEMA in documents else {}
    changes = {**{n: d for n, d in documents.items() if n != SCHEMA}, **columns}
    tree = edit_tree(draft, folder.tree, changes)
    return version_of(view, TreeFolder(draft, tree), "the workspace")


def read_edits(
    base: DatasetInFiles,
    table: Table,
    base_snapshot: int | None,
    engine: Engine,
    *,
    branch_snapshot: int | None = None,
) -> TableEdits:
    """Return how a table differs from its snapshot of `base`; None is a base without rows.

    With `branch_snapshot`, how a branch of it does, whose columns stay what they are: a
    table has one schema, and it is HEAD's.
    """
    if branch_snapshot is None:
        current = snapshot_of(table)
        then, now = schema_of(table, base_snapshot), table.metadata.schema
        schema = altered_schema(base.schema, then, now, base.path)
    else:
        current, schema = snapshot_of(table, branch_snapshot), base.schema
    files = FileDifference()
    if current is None or current.snapshot_id != base_snapshot:
        changed = None if current is None else current.snapshot_id
        files = difference(table, base_snapshot, changed)
    if not leave_there(table.places, base, files):
        table.places.know(lambda name: _path_here(base, name))
        table.places.bring(live.file.path for live in files.added)
    if type(table.places) is TableFolders:
        # A table may have gone through other hands, and what it names is committed and pushed:
        # so its files are its own, or where the user's own configuration allows.
        allowed = map(Path, base.storage.allowed)
        table = replace(table, places=TableFolders([*map(Path, table.places.roots), *allowed]))
    sources = _Sources(table, current, files, base)
    removed = {_file_of(live, base).file: _file_of(live, base) for live in files.removed_data}
    coming = come_files(base, table, files.added_data, schema)
    documents = changed_documents(base, schema, [each.schema for each in coming])
    layout = layout_after(base, schema, documents)
    added = added_files(base, layout, coming, sources.of, engine)
    apart = rows_apart(base, sources.positions())
    removed |= apart.emptied
    return TableEdits(
        base,
        schema,
        layout,
        documents,
        tuple(removed[file] for file in sorted(removed)),
        added,
        apart.deleted,
        apart.restored,
    )


def _path_here(base: DatasetInFiles, name: str) -> Path | None:
    """Return where a data file of the dataset is, by its name in the table; None for others."""
    entry = base.entries.get(name.removesuffix(".parquet"))
    return None if entry is None else Path(base.file_path(entry))


def _file_of(live: SnapshotFile, base: DatasetInFiles) -> Entry:
    """Return the entry of a data file that was checked out."""
    found = _known_file(live.file.path, base)
    if found is None:
        raise damaged(live.file.path, f"it is no file of {base.path} as it was checked out")
    return found


def _known_file(location: str, base: DatasetInFiles) -> Entry | None:
    name = location.rpartition("/")[2].partition(".")[0]
    return base.entries.get(name)


@dataclass(frozen=True, slots=True)
class ComingFile:
    """A data file that came and is to be looked at."""

    live: SnapshotFile
    """The file as the table lists it."""
    source: RowSource
    """How the table reads it, deletes apart."""
    path: Path
    """Where it is, or a copy of it that says all that the table does."""
    schema: FileSchema
    """The columns that it has."""
    own: bool = True
    """Whether it is the table's alone."""
    copied: bool = False
    """Whether `path` is a copy."""
    whole: bool = True
    """Whether its rows are all there, so that positions in it are the table's."""
    url: str | None = None
    """Where it is read if it stays in a bucket."""


def come_files(
    base: DatasetInFiles, table: Table, files: Iterable[SnapshotFile], schema: Schema
) -> list[ComingFile]:
    """Return data files that came, those that do not say all of themselves as copies."""
    metadata = table.metadata
    older = [metadata.schemas[number] for number in sorted(metadata.schemas, reverse=True)]
    known = known_fields(schema, base.schema, *older)
    planner = SourcePlanner(table)
    nothing = DeleteIndex((), metadata.partition_specs)
    home = TableFolders([table.location])
    found = []
    for live in files:
        source = planner.source(live, nothing)
        path = Path(source.path)
        source = seen_there(source, base, table.places)
        url = source.path if is_url(source.path) else None
        own, copied = home.holds(path), not says_all(source, schema)
        if copied:
            path, url = copy_rows(source, schema, base.storage.keys), None
        file_schema = read_file_schema(url or path, known, schema)
        found.append(ComingFile(live, source, path, file_schema, own or copied, copied, url=url))
    return found


def added_files(
    base: DatasetInFiles,
    layout: FileLayout,
    coming: Sequence[ComingFile],
    deleted: Callable[[str], Positions],
    engine: Engine,
) -> tuple[AddedFile, ...]:
    """Return files that came with what is in them; `deleted` tells which rows are gone.

    A row that cannot be kept does not matter when it is deleted: its file is taken in with
    its live rows alone.
    """
    gone = [deleted(each.live.file.path) for each in coming]
    try:
        measured = measure_files(base, layout, coming, engine)
    except (GeometryError, KeyViolationError, SchemaViolationError):
        if not any(map(len, gone)):
            raise
        schema = layout.schema
        coming = [
            _live_alone(each, schema, positions, base) if len(positions) else each
            for each, positions in zip(coming, gone, strict=True)
        ]
        measured = measure_files(base, layout, coming, engine)
    return tuple(
        AddedFile(
            each.path,
            each.schema,
            found,
            rows if each.whole else _NOTHING,
            each.own,
            each.copied,
            each.url,
        )
        for each, found, rows in zip(coming, measured, gone, strict=True)
    )


def _live_alone(
    each: ComingFile, schema: Schema, deleted: Positions, base: DatasetInFiles
) -> ComingFile:
    path = copy_rows(each.source, schema, base.storage.keys, deleted=deleted)
    known = known_fields(schema, base.schema)
    file_schema = read_file_schema(path, known, schema)
    return replace(
        each, path=path, schema=file_schema, own=True, copied=True, whole=False, url=None
    )


def measure_files(
    base: DatasetInFiles, layout: FileLayout, added: Iterable[ComingFile], engine: Engine
) -> list[Measured]:
    """Return what is in each file that came; those that were looked at before are recalled.

    What stays in a bucket is looked at by tasks that bring a copy for themselves.
    """
    keys = base.storage.keys
    unsorted = _unsorted(layout)
    files = list(added)
    found = [None if each.url else recall(each.path, each.schema, unsorted, keys) for each in files]
    new = [index for index, measured in enumerate(found) if measured is None]
    tasks = [_look(files[i], unsorted, base) for i in new]
    anywhere = all(files[i].url for i in new)
    what = f"Looking at {base.path}"
    batches = engine.run_each(tasks, description=what, anywhere=anywhere)
    for number, batch in batches:
        found[new[number]] = parse_measured(batch)
    return [measured for measured in found if measured is not None]


def _look(each: ComingFile, layout: FileLayout, base: DatasetInFiles) -> Task:
    if each.url is not None:
        return task_of(measure_there, each.url, each.schema, layout, base.path)
    return task_of(measure, str(each.path), each.schema, layout, str(base.storage.keys), base.path)


def _unsorted(layout: FileLayout) -> FileLayout:
    """Return what entries of foreign files say of partition and order: none of either."""
    return FileLayout(
        layout.schema,
        layout.schema_hash,
        document_hash(format_partition(PartitionSpec())),
        document_hash(format_sort_order(SortOrder())),
    )


def changed_documents(
    base: DatasetInFiles, schema: Schema, files: Iterable[FileSchema]
) -> dict[str, bytes]:
    """Return the documents that other columns make."""
    documents: dict[str, bytes] = {}
    if schema != base.schema:
        documents = layout_documents(schema, base.partition, base.order)
        documents = {
            name: data for name, data in documents.items() if base.folder.read(name) != data
        }
    return documents


def layout_after(
    base: DatasetInFiles, schema: Schema, documents: Mapping[str, bytes]
) -> FileLayout:
    """Return what new files are written with once some documents have changed."""
    if SCHEMA not in documents:
        return base.layout
    whole = {**layout_documents(schema, base.partition, base.order), **documents}
    return layout_of(schema, whole)


class _Sources:
    """Which rows are deleted now, of every data file whose deletes may have changed."""

    def __init__(
        self,
        table: Table,
        current: Snapshot | None,
        files: FileDifference,
        base: DatasetInFiles,
    ) -> None:
        self._base = base
        self._table = table
        self._after: dict[str, Positions] = {}
        self._affected: set[str] = set()
        changed = [*files.added_deletes, *files.removed_deletes]
        changed += [live for pair in files.renumbered for live in pair if not live.is_data]
        if not changed and not files.added_data and not files.renumbered:
            return
        manifests = manifests_of(table, current)
        deletes = live_files_of(
            table, [each for each in manifests if each.content is ManifestContent.DELETES]
        )
        data = {live.file.path: live for live in files.added_data}
        data |= {new.file.path: new for _, new in files.renumbered if new.is_data}
        equality = any(
            each.file.content is DataFileContent.EQUALITY_DELETES for each in (*changed, *deletes)
        )
        named = self._named(changed) - data.keys() - {r.file.path for r in files.removed_data}
        for manifest in manifests:
            if manifest.content is ManifestContent.DATA and (equality or named - data.keys()):
                for live in live_files_of(table, [manifest]):
                    if equality or live.file.path in named:
                        data[live.file.path] = live
        for live, source in row_sources(table, [*data.values(), *deletes]):
            self._add(live, source)

    def _named(self, deletes: Iterable[SnapshotFile]) -> set[str]:
        """Return the data files that some position deletes name."""
        named: set[str] = set()
        for live in deletes:
            if live.file.is_vector and live.file.referenced_data_file is not None:
                named.add(live.file.referenced_data_file)
            elif live.file.content is DataFileContent.POSITION_DELETES:
                named.update(read_position_deletes(self._table.places.file(live.file.path)))
        return named

    def _add(self, live: SnapshotFile, source: RowSource) -> None:
        seen = seen_there(source, self._base, self._table.places)
        self._after[live.file.path] = deleted_rows(seen)

    def of(self, location: str) -> Positions:
        """Return the rows of one data file that are deleted now."""
        return self._after.get(location, _NOTHING)

    def positions(self) -> Iterable[tuple[Entry, Positions]]:
        """Return the data files of the dataset that may be affected, and their deleted rows."""
        for location, after in self._after.items():
            entry = _known_file(location, self._base)
            if entry is not None:
                yield entry, after
