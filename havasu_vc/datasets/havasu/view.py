"""A Havasu dataset in one git tree, seen as a table.

Opening one reads a handful of small documents. Deltas are read when they are needed; data
files only by kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from havasu_vc.datasets.base import StoredDataset, remembered_schema
from havasu_vc.datasets.folder import Folder, MemoryFolder, edited
from havasu_vc.datasets.havasu.entries import in_key_order, within_box
from havasu_vc.datasets.havasu.plan import FileLayout, clustered_column, past_path
from havasu_vc.datasets.havasu.soundness import (
    Settled,
    check_guard,
    columns_in,
    epoch_of,
    require_format,
    standing_of,
)
from havasu_vc.datasets.havasu.standing import LiveFiles, Standing, delta_of, table_of
from havasu_vc.datasets.protocol import (
    Dataset,
    DatasetInFiles,
    EarlierImport,
    Predicate,
    Reading,
    RunTasks,
    TreeEdit,
)
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import CorruptDataFileError, CorruptDatasetError, HavasuError
from havasu_vc.formats.havasu.deltas import Delta
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.markers import Epoch
from havasu_vc.formats.havasu.properties import (
    DATASET,
    Digest,
    PartitionSpec,
    Properties,
    Snapshot,
    SortOrder,
    parse_partition,
    parse_properties,
    parse_sort_order,
)
from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.model.columns import columns_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.model.task import Task
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.datasets.chosen import ChosenKeys
    from havasu_vc.datasets.havasu.build import NewDataset
    from havasu_vc.datasets.havasu.diff import DiffPlan
    from havasu_vc.datasets.havasu.edit import Edit
    from havasu_vc.datasets.havasu.file_columns import FileColumns, Mask, Record

__all__ = ["FOLDER", "HavasuDataset", "Storage", "open_view"]

FOLDER = ".havasu-dataset"
"""The name of the folder that makes a folder a dataset."""

SCAN = "havasu_vc.datasets.havasu.kernels:scan"
GROUPS_A_TASK = 8


@dataclass(frozen=True)
class HavasuDataset(StoredDataset):
    """A read-only view of one Havasu dataset in one git tree."""

    path: str
    """Where it is in the repository."""
    folder: Folder
    """Its `.havasu-dataset`."""
    storage: Storage
    """Where its files are."""
    revision: str = "HEAD"
    """The name of the tree in errors."""
    kind: str = field(default="havasu", init=False)
    """The kind of dataset."""
    marker: str = field(default=FOLDER, init=False)
    """The name of its folder."""

    # Documents

    def _document(self, name: str) -> bytes:
        data = self.folder.read(name)
        if data is None:
            raise CorruptDatasetError(f"{self.path} at {self.revision}", f"{name} is missing")
        return data

    def _where(self, name: str) -> str:
        return f"{self.path}/{FOLDER}/{name} at {self.revision}"

    @cached_property
    def snapshot(self) -> Snapshot:
        """The sums."""
        digests = self._standing.digests
        deleted = sum(entry.rows for entry in self.delete_entries)
        return Snapshot(
            self.rows, deleted, self.size, {n: digests.get(n, (0, 0)) for n in self.schema.by_id}
        )

    @property
    def digests(self) -> Mapping[int, Digest]:
        """The sum of each column's values, by the column's id."""
        return self.snapshot.digests

    def check_guard(self) -> None:
        """Raise `UnfinishedMergeError` when what stands in the tree does not agree."""
        check_guard(self.folder, self.path, self.revision, memory=self.storage.files.root)

    @cached_property
    def _columns(self) -> tuple[Schema, dict[int, int]]:
        require_format(self.folder, self.path, self.revision)
        return columns_in(self.folder, f"{self.path}/{FOLDER}", self.revision)

    @property
    def schema(self) -> Schema:
        """Its columns."""
        return self._columns[0]

    @property
    def places(self) -> Mapping[int, int]:
        """The places of its columns, by field id."""
        return self._columns[1]

    @property
    def key(self) -> KeySpec:
        """Its key columns."""
        return self.schema.key

    @cached_property
    def properties(self) -> Properties:
        """Its identity and other facts."""
        require_format(self.folder, self.path, self.revision)
        return parse_properties(self._document(DATASET), self._where(DATASET))

    @cached_property
    def last_column_id(self) -> int:
        """The highest id that a column has or had, as far as its files know."""
        return self.last_id_of({entry.schema for entry in self.stored_entries.values()})

    def last_id_of(self, schemas: Iterable[str]) -> int:
        """Return the highest id of a column, given the schemas that its files were written with."""
        known = [self.properties.last_column_id, self.schema.last_id]
        return max([*known, *(self.past_schema(name).last_id for name in schemas)])

    @cached_property
    def partition(self) -> PartitionSpec:
        """How rows are dealt out to files."""
        name = "meta/partition.json"
        return parse_partition(self._document(name), self._where(name))

    @cached_property
    def order(self) -> SortOrder:
        """How rows are ordered in files."""
        name = "meta/sort-order.json"
        return parse_sort_order(self._document(name), self._where(name))

    @cached_property
    def crs(self) -> Mapping[str, str]:
        """Coordinate reference systems as WKT, by name."""
        return {
            name.removesuffix(".wkt"): self.folder.read_blob(blob).decode(errors="replace")
            for name, blob in self.folder.blobs("meta/crs")
            if name.endswith(".wkt")
        }

    @property
    def items(self) -> Mapping[str, bytes]:
        """The meta items that people see and set, as stored, without the columns."""
        return {
            name: self.folder.read_blob(blob)
            for name, blob in self.folder.blobs("meta")
            if name in ("title", "description") or name.startswith("crs/")
        }

    def columns_item(self, schema: Schema) -> list[Any]:
        """Return the item `schema.json` that it would have under another schema."""
        return columns_of(schema)

    def crs_item(self, definition: str) -> bytes:
        """Return the definition of a coordinate reference system as the item that it keeps."""
        from havasu_vc.geo.crs import parse_crs

        return parse_crs(definition).wkt.encode()

    def schema_of_items(self, columns: list[Any], *, keep_ids: bool = False) -> Schema:
        """Return the schema that its item `schema.json` means when it is set to some columns."""
        from havasu_vc.datasets.havasu.evolving import schema_of_items

        return schema_of_items(self, columns, keep_ids=keep_ids)

    @property
    def identity(self) -> str:
        """The id that it keeps under any path."""
        return self.properties.table_uuid

    @property
    def likely_identity(self) -> str | None:
        """The identity in its properties, or else the one that all of its deltas have."""
        with suppress(HavasuError):
            return self.identity
        return table_of(self.folder, self.path)

    @cached_property
    def header(self) -> DatasetHeader:
        """Its description of itself."""
        texts = ((name, self.folder.read(f"meta/{name}")) for name in ("title", "description"))
        said = {name: data.decode(errors="replace") for name, data in texts if data is not None}
        systems = {f"crs/{name}.wkt": wkt for name, wkt in self.crs.items()}
        meta: dict[str, object] = {**said, "schema.json": columns_of(self.schema), **systems}
        return DatasetHeader(self.path, self.kind, self.schema, meta)

    @cached_property
    def layout(self) -> FileLayout:
        """The form of new files."""
        partition, order = (
            document_hash(self._document(f"meta/{name}.json"))
            for name in ("partition", "sort-order")
        )
        schema = document_hash(format_schema(self.schema))
        clustered = clustered_column(self.schema, self.order)
        return FileLayout(self.schema, schema, partition, order, clustered)

    def past_schema(self, name: str) -> Schema:
        """Return the schema that some file was written with."""
        cached = self._past.get(name)
        if cached is None:
            where = f"the schema {name} of {self.path} at {self.revision}"
            cached = remembered_schema(parse_schema, self.past_document(name), where)
            self._past[name] = cached
        return cached

    def past_document(self, name: str) -> bytes:
        """Return the schema, partition spec or sort order that some file was written with."""
        if (text := _past_text(self._standing.parsed, name)) is not None:
            return text.encode()
        # What is written now may be of no delta yet, as in a draft.
        documents = (self.folder.read(f"meta/{each}.json") for each in ("partition", "sort-order"))
        current = (format_schema(self.schema), *documents, self.folder.read(past_path(name)))
        for data in current:
            if data is not None and document_hash(data) == name:
                return data
        if (text := _past_text(self.deltas.values(), name)) is not None:
            return text.encode()
        raise CorruptDatasetError(
            f"{self.path} at {self.revision}", f"no delta has {name}, which a file was written with"
        )

    @cached_property
    def _past(self) -> dict[str, Schema]:
        return {}

    # Entries

    @cached_property
    def _standing(self) -> Standing:
        require_format(self.folder, self.path, self.revision)
        memory, table = self.storage.files.root, self.properties.table_uuid
        return standing_of(self.folder, self.path, memory, table, self.schema)

    @property
    def _columns_of_files(self) -> FileColumns | None:
        record = self._standing.record
        return None if record is None else record.columns

    @property
    def deltas(self) -> Mapping[str, Delta]:
        """The live deltas, by id."""
        return self._standing.live

    def deltas_with(self, files: Collection[str], *, dated: bool = False) -> list[Delta]:
        """Return the live deltas of some files, and if asked those of the epoch, by id."""
        return self._standing.deltas_with(files, dated=dated)

    @property
    def marks(self) -> int:
        """The sum of the marks of all live deltas."""
        return self._standing.marks

    @property
    def folded(self) -> Mapping[str, str]:
        """The deltas that others replaced, by id: which one did."""
        return self._standing.folded

    @cached_property
    def epoch(self) -> Epoch:
        """The epoch that is open."""
        return epoch_of(self.folder)

    @cached_property
    def stored_entries(self) -> Mapping[str, Entry]:
        """Every file as deltas have it, by sha256."""
        columns = self._columns_of_files
        if columns is not None:
            return LiveFiles(self.deltas, columns)
        return {entry.file: entry for delta in self.deltas.values() for entry in delta.files}

    @cached_property
    def _settled(self) -> Settled:
        entries = self.stored_entries
        if not self.delete_targets:
            return Settled(entries)
        from havasu_vc.datasets.havasu.settling import without_place

        homeless = without_place(self)
        if not homeless:
            return Settled(entries)
        from havasu_vc.datasets.havasu.relocating import relocated

        return relocated(self, homeless)

    @cached_property
    def delete_entries(self) -> tuple[Entry, ...]:
        """The delete files as deltas have them."""
        return tuple(self.stored_entries[file] for file in self.delete_targets)

    @cached_property
    def delete_targets(self) -> Mapping[str, Collection[str]]:
        """The data files that each delete file deletes from, as deltas have it, by sha256."""
        columns = self._columns_of_files
        if columns is not None:
            return columns.targets
        entries = self.stored_entries.values()
        return {each.file: each.targets for each in entries if each.content is Content.DELETES}

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every file, by sha256; each delete file deletes from live ones, no row twice.

        Where that is not so in what deltas have, one delete file stands for several.
        """
        return self._settled.entries

    @property
    def derived_files(self) -> set[str]:
        """Delete files that stand for others, which folding takes up."""
        return set(self._settled.origins)

    def stored_files(self, files: Iterable[str]) -> frozenset[str]:
        """Return the files as deltas have them, of some of `entries`."""
        origins = self._settled.origins
        return frozenset(name for file in files for name in origins.get(file, (file,)))

    def entries_at(self, name: str, blob: str) -> tuple[Entry, ...]:
        """Return the entries of what stands at a path below `files`; none for a tombstone."""
        found = delta_of(self.folder, name, blob, self._where("files"))
        return found.files if isinstance(found, Delta) else ()

    @cached_property
    def data_entries(self) -> tuple[Entry, ...]:
        """Data files, in the order of their keys where that is known, else by name."""
        return self.data_entries_of(self.stored_entries.values())

    def data_entries_where(self, chosen: Callable[[Record], Mask]) -> tuple[Entry, ...]:
        """Return data files, in the order of their keys; where they are many, only chosen ones.

        What is chosen from columns is what may be wanted: it is to be looked at more closely.
        """
        record = self._standing.record
        if record is None:
            return self.data_entries
        files = record.columns.files_where(chosen(record))
        return self.data_entries_of(self.stored_entries[file] for file in files)

    def edited_entries(self, size: int) -> tuple[Entry, ...]:
        """Return the data files that may be of less than some bytes, and brought by an edit."""
        return self.data_entries_where(lambda record: record.columns.below(size))

    def data_entries_of(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """Return the data files among some, in the order of their keys."""
        found = [entry for entry in entries if entry.content is Content.DATA]
        return tuple(in_key_order(found, self.key, self.order))

    @cached_property
    def deletes(self) -> Mapping[str, tuple[Entry, ...]]:
        """Delete files by the data file that they delete from."""
        found: dict[str, list[Entry]] = {}
        entries = self._settled.entries
        deleting = self.delete_entries
        if self.derived_files:
            deleting = tuple(e for e in entries.values() if e.content is Content.DELETES)
        for entry in sorted(deleting, key=lambda entry: entry.file):
            for target in entry.targets:
                found.setdefault(target, []).append(entry)
        dangling = sorted(target for target in found if target not in entries)
        if dangling:  # `entries` leaves none
            raise CorruptDatasetError(
                self._where("files"), f"rows of {dangling[0]} are deleted but the file is not live"
            )
        return {target: tuple(entries) for target, entries in found.items()}

    def file_path(self, entry: Entry) -> str:
        """Return the path of a data or delete file on this machine, after a look at its size."""
        if entry.location is not None and not self.storage.has(entry.file):
            linked = self.storage.linked
            return str(linked.open(entry.file, entry.size, entry.location, self.path))
        self.storage.bring([(entry.file, entry.size)])
        path = self.storage.path(entry.file)
        size = path.stat().st_size
        if size != entry.size:
            raise CorruptDataFileError(entry.file, f"it has {size} bytes instead of {entry.size}")
        return str(path)

    def place(self, file: str) -> str:
        """Return where a data file is or would be, which work may turn out not to need."""
        return str(self.storage.location(file))

    def bring(
        self, entries: Iterable[Entry], *, deletes: bool = True, helpful: Sequence[Entry] = ()
    ) -> None:
        """Have files fetched that work is about to read, all at once, and what deletes from them.

        Those that tell whether delete files hold come along if they can be had, and others
        that are `helpful`. Does nothing where every file is here.
        """
        if self.storage.fetcher is None:
            return
        from havasu_vc.datasets.havasu.settling import in_question

        wanted = list(entries)
        if deletes:
            files = {entry.file for entry in wanted}
            deleting = self.delete_entries
            wanted += [each for each in deleting if not files.isdisjoint(each.targets)]
        needed = [(each.file, each.size) for each in wanted if each.location is None]
        here = all(self.storage.has(file) for file, _ in needed)
        if here and not helpful and not self.storage.on_demand:
            return
        more = [(each.file, each.size) for each in (*helpful, *in_question(self))]
        try:
            self.storage.bring([*needed, *more])
        except HavasuError:
            self.storage.bring(needed)

    def delete_paths(self, entry: Entry) -> tuple[str, ...]:
        """Return the paths of the delete files that delete from a data file."""
        return tuple(self.file_path(delete) for delete in self.deletes.get(entry.file, ()))

    # Dataset

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self._standing.rows

    @property
    def rows_in_files(self) -> int:
        """How many rows its data files have, less those that its delete files take away."""
        columns = self._columns_of_files
        if columns is not None and not self.derived_files:
            return int(columns.rows[columns.data].sum() - columns.rows[columns.deletes].sum())
        signs = {Content.DATA: 1, Content.DELETES: -1}
        return sum(signs[entry.content] * entry.rows for entry in self.entries.values())

    @property
    def size(self) -> int:
        """Bytes of its files."""
        if (columns := self._columns_of_files) is not None:
            return int(columns.sizes.sum())
        return sum(entry.size for entry in self.stored_entries.values())

    def scan(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> list[Task]:
        """Return tasks that yield the live rows, in file order."""
        where = where or Predicate()
        if where.keys is not None:
            from havasu_vc.datasets.havasu.locate import plan_rows

            return plan_rows(self, where.keys, columns)
        schema = self.schema if columns is None else self.schema.select(tuple(columns))
        box = where.box
        if box is None:
            chosen = list(self.data_entries)
        else:
            near = self.data_entries_where(lambda record: record.near(box, self.schema))
            others = self.data_entries if where.nulls else ()
            chosen = within_box(near, others, box, self.schema)
        self.bring(chosen)
        return [task for entry in chosen for task in self.scan_file(entry, schema)]

    def scan_file(self, entry: Entry, schema: Schema) -> Iterator[Task]:
        """Yield tasks that yield the live rows of one data file, in file order."""
        path, deletes = self.file_path(entry), self.delete_paths(entry)
        groups = len(entry.splits)
        for first in range(0, max(groups, 1), GROUPS_A_TASK):
            chosen = tuple(range(first, min(first + GROUPS_A_TASK, groups)))
            yield Task(SCAN, (path, schema, deletes, chosen if groups else None))

    @property
    def keeps_dropped(self) -> bool:
        """No: files that are written anew leave them out."""
        return False

    @property
    def in_files(self) -> HavasuDataset:
        """Itself: its rows stand in data files that can be shown as they are."""
        return self

    def emptied(self) -> HavasuDataset:
        """Return it with the same columns and no rows."""
        from havasu_vc.datasets.havasu.documents import empty_documents

        return replace(self, folder=MemoryFolder(empty_documents(self.schema)), revision="HEAD")

    def after(self, edit: TreeEdit, revision: str | None = None) -> Self:
        """Return it as an edit makes it; `revision` is what errors call that."""
        folder = edited(self.folder, edit)
        return replace(self, folder=folder, revision=revision or self.revision)

    def rows_with_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose keys are among some, in no particular order."""
        from havasu_vc.datasets.havasu.locate import rows_with_keys

        return rows_with_keys(self, keys)

    def count_apart(
        self, keys: pa.RecordBatch, rows: Callable[[], pa.RecordBatch]
    ) -> ChangeCounts | None:
        """Return how many rows differ where those with some keys became `rows`, reading none."""
        from havasu_vc.datasets.havasu.locate import count_apart

        return count_apart(self, keys, rows())

    def compare(self, new: Dataset) -> DiffPlan | None:
        """Return how to find the changes from this view to `new`; None for another kind."""
        if not isinstance(new, HavasuDataset):
            return None
        from havasu_vc.datasets.havasu.diff import plan_diff

        return plan_diff(self, new)

    def plan_chosen(self, new: Dataset, chosen: ChosenKeys, *, live: bool) -> Reading:
        """Return what has to be read to have the changes of chosen rows, as entries tell."""
        if not isinstance(new, HavasuDataset):
            return super().plan_chosen(new, chosen, live=live)
        from havasu_vc.datasets.havasu.chosen import plan_chosen

        return plan_chosen(self, new, chosen, live=live)

    def remade(
        self, schema: Schema, *, has_key: bool = True, earlier: EarlierImport | None = None
    ) -> NewDataset:
        """Return what takes in the rows of another version of it, in the order of this one."""
        from havasu_vc.datasets.havasu.build import remade

        return remade(self, schema)

    def edit(self) -> Edit:
        """Return an edit of it; use that as a context manager."""
        from havasu_vc.datasets.havasu.edit import Edit

        return Edit(self)

    def evolved(self, schema: Schema) -> tuple[dict[str, bytes], Edit]:
        """Return its documents under another schema, and an edit that writes them."""
        from havasu_vc.datasets.havasu.evolving import evolved

        return evolved(self, schema)

    def revived(
        self, schema: Schema, back: frozenset[int], run: RunTasks
    ) -> tuple[DatasetInFiles, dict[str, bytes | None]]:
        """Return it with columns again which it dropped, and the documents that say so."""
        from havasu_vc.datasets.havasu.evolving import revived

        return revived(self, schema, back, run)


def _past_text(deltas: Iterable[Delta], name: str) -> str | None:
    return next((delta.past[name] for delta in deltas if name in delta.past), None)


def open_view(path: str, folder: Folder, storage: Storage, revision: str, _: str) -> HavasuDataset:
    """Return the dataset in a folder, unchecked; all folders of the kind have one name."""
    return HavasuDataset(path, folder, storage, revision)
