"""The protocol of datasets, whatever their kind. Nothing here writes.

A `Dataset` is a read-only view of one dataset in one git tree. Scans and diffs come
back as tasks for an engine to run; `apply` returns the edit that a commit would make,
and only `Repo` makes it. Whoever has one asks nothing about its kind: what a kind cannot
do, a method answers with None, and `in_files` is the view of its data files where it has any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.records import dataclass
from havasu_vc.store.trees import Change

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from havasu_vc.datasets.chosen import ChosenKeys
    from havasu_vc.datasets.folder import Folder, TreeFolder
    from havasu_vc.datasets.havasu.file_columns import Mask, Record
    from havasu_vc.datasets.havasu.plan import FileLayout
    from havasu_vc.datasets.havasu.writing import WrittenFile
    from havasu_vc.datasets.places import SideSource
    from havasu_vc.datasets.storage import Storage
    from havasu_vc.formats.havasu.deltas import Delta
    from havasu_vc.formats.havasu.entry import Entry
    from havasu_vc.formats.havasu.markers import Epoch
    from havasu_vc.formats.havasu.properties import (
        Digest,
        PartitionSpec,
        Properties,
        Snapshot,
        SortOrder,
    )
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.task import Task

__all__ = [
    "Dataset",
    "DatasetEdit",
    "DatasetInFiles",
    "DiffPlan",
    "EarlierImport",
    "NewTable",
    "NewTableInFiles",
    "Predicate",
    "Reading",
    "RunTasks",
    "TreeEdit",
]

RunTasks: TypeAlias = "Callable[[list[Task]], Iterator[pa.RecordBatch]]"
"""A function that runs tasks, such as an engine's."""


_ITEMS = ("title", "description", "schema.json")


@dataclass(frozen=True, slots=True)
class TreeEdit:
    """The changes that a commit makes in one dataset."""

    path: str
    """The dataset's path."""
    blobs: Mapping[str, Change]
    """By path below the dataset's own folder: new bytes, what is stored, or None to remove."""
    fresh: bool = False
    """Whether the dataset starts from an empty folder."""
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    """How many rows it changes."""
    marker: str = HAVASU_MARKER
    """The name of the dataset's own folder."""
    elsewhere: frozenset[str] = frozenset()
    """Data files that are where the repository's data is, and not here."""

    @property
    def meta(self) -> tuple[str, ...]:
        """The meta items that it changes, of those that people see and set."""
        names = {path.removeprefix("meta/") for path in self.blobs if path.startswith("meta/")}
        if any(path.startswith("columns/") for path in self.blobs):
            names.add("schema.json")
        return tuple(sorted(name for name in names if name.startswith("crs/") or name in _ITEMS))


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which rows a scan must give; it may give more only where it says so."""

    keys: tuple[tuple[Any, ...], ...] | None = None
    """Only rows with these keys."""
    box: tuple[float, float, float, float] | None = None
    """Only files whose geometries may touch this box (not exact)."""
    nulls: bool = False
    """With a box, also files with rows that have no geometry."""
    here: bool = False
    """Without rows that a partial clone left with its remote."""


class Reading(Enum):
    """How the changes of chosen rows between two versions are found with the least reading."""

    NOTHING = "nothing"
    """None of the rows changed."""
    CHANGES = "changes"
    """All changes are few: theirs are among them."""
    ROWS = "rows"
    """The rows are looked up in both versions."""


class DiffPlan(Protocol):
    """How to find the changes from one version of a dataset to another."""

    @property
    def old_schema(self) -> Schema:
        """The old side's columns."""

    @property
    def new_schema(self) -> Schema:
        """The new side's columns."""

    @property
    def dealt(self) -> bool:
        """Whether rows must be dealt out by key hash before they can be paired."""

    @property
    def unverified(self) -> Sequence[str]:
        """Files whose rows could not be compared with the data that they delete."""

    def tasks(self) -> list[Task]:
        """Return the tasks that pair rows in place, in key order."""

    def halves(self) -> tuple[list[Task], list[Task], list[Task]]:
        """Return tasks whose rows are to be dealt out by `_key`.

        Some yield rows of the old side, some of the new, and some both, half paired.
        """

    def sides(self) -> tuple[Sequence[SideSource], Sequence[SideSource]]:
        """Return the rows of either side, for an engine that matches them by hashes."""

    def pair(self, old: Sequence[Task], new: Sequence[Task], half_paired: Sequence[Task]) -> Task:
        """Return the task that pairs rows which were dealt out to one part."""


class DatasetEdit(Protocol):
    """An edit of a dataset while it is put together. Use it as a context manager."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of what was collected."""

    @property
    def schema(self) -> Schema:
        """The columns after the edit."""

    @property
    def counts(self) -> ChangeCounts:
        """The changes collected so far."""

    def add_documents(self, documents: Mapping[str, bytes | None]) -> None:
        """Write or remove documents of the dataset itself, by path."""

    def collect(self, changes: Iterator[ChangeBatch]) -> None:
        """Check changes against the dataset that is edited and take them in."""

    def spell(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Store texts of rows that come as they are spelled here, if the kind stores texts."""

    def join(self, theirs: Dataset) -> bool:
        """Take the place of what another side has alone and this edit has too; whether any is."""

    def adopt_rows(self, base: Dataset, theirs: Dataset) -> bool:
        """Take rows as they are stored in `theirs` that it alone changed since `base`.

        Return whether there are any: only a kind has them whose rows are stored one by one.
        """

    def take_alone(self, base: Dataset, theirs: Dataset) -> Sequence[tuple[Any, ...]] | None:
        """Take rows that `theirs` alone changed since `base`, unread, and count them.

        Return the keys of those that both sides changed; None where none is taken, as rows must be
        read to tell which these are.
        """

    def finish(self, *, fold: bool = True) -> TreeEdit:
        """Return what changes in the tree; with `fold` small files may be merged."""


class NewTable(Protocol):
    """A dataset while it is made, of rows that come."""

    @property
    def schema(self) -> Schema:
        """The columns that it will have; the key among them may be one that it gives."""

    @property
    def files(self) -> NewTableInFiles | None:
        """Itself where tasks write its rows to data files; None where `write` takes them."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows in."""

    def finish(self) -> TreeEdit:
        """Return the edit that makes the dataset of the rows that were taken in."""


class NewTableInFiles(NewTable, Protocol):
    """A dataset while it is made, whose rows tasks write to data files."""

    @property
    def layout(self) -> FileLayout:
        """The form of its files."""

    @property
    def hilbert(self) -> str | None:
        """The name of the column along whose curve rows stand; None for key order."""

    def edit(self, files: Iterable[WrittenFile]) -> TreeEdit:
        """Return what a commit changes to have this dataset, made of these files."""


@dataclass(frozen=True, slots=True)
class EarlierImport:
    """Where rows of a source without a key, which hardly changed, are looked for."""

    find: Callable[[], Dataset]
    """Return the dataset as the last import left it; called only when there is a need."""
    limit: int
    """How many rows may have come and gone at most, together."""


class Dataset(Protocol):
    """A read-only view of one dataset in one git tree."""

    @property
    def kind(self) -> str:
        """The name of its kind."""

    @property
    def marker(self) -> str:
        """The name of its folder, which makes it a dataset of its kind and version."""

    @property
    def path(self) -> str:
        """Where it is in the repository."""

    @property
    def folder(self) -> Folder:
        """The folder of its documents."""

    @property
    def storage(self) -> Storage:
        """Where its files are, and where edits of it stage what they write."""

    @property
    def revision(self) -> str:
        """The name of the tree in errors."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    @property
    def key(self) -> KeySpec:
        """Its key columns."""

    @property
    def crs(self) -> Mapping[str, str]:
        """Coordinate reference systems as WKT, by name."""

    @property
    def items(self) -> Mapping[str, bytes]:
        """The meta items that people see and set, as stored, without the columns."""

    @property
    def header(self) -> DatasetHeader:
        """Its description of itself."""

    def takes_item(self, name: str) -> bool:
        """Whether it may have a meta item of some name that only other programs know."""

    def columns_item(self, schema: Schema) -> list[Any]:
        """Return the item `schema.json` that it would have under another schema.

        Raises `UnsupportedTypeError` where it cannot hold a column.
        """

    def fitted(self, schema: Schema, declared: Mapping[str, str] | None = None) -> Schema:
        """Return another schema with the key of this dataset.

        It is this dataset's own where nothing differs that its kind can hold. `declared` are types
        in SQL that an editor gave to columns, by their names, for a kind that keeps more of them.
        """

    def listing_order(self, keys: pa.RecordBatch, schema: Schema) -> pa.Array | None:
        """Return the order in which rows of these keys are listed; None for that of the keys.

        `schema` has the columns of `keys`, whose order in a merge may be another.
        """

    def crs_item(self, definition: str) -> bytes:
        """Return the definition of a coordinate reference system as the item that it keeps."""

    def schema_of_items(self, columns: list[Any], *, keep_ids: bool = False) -> Schema:
        """Return the schema that its item `schema.json` means when it is set to some columns.

        With `keep_ids`, new columns have the ids that the columns give, where this dataset
        could have drawn such.
        """

    @property
    def identity(self) -> str | None:
        """The id that it keeps under any path; None where its kind has nothing of that sort."""

    @property
    def likely_identity(self) -> str | None:
        """Its identity, also where it is broken and what stands in it tells one all the same."""

    @property
    def last_column_id(self) -> int:
        """The highest id that a column has or had, as far as it knows."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    def keep_count(self, rows: int) -> None:
        """Take over how many rows it has from who has read all of them, if it would count them."""

    @property
    def digests(self) -> Mapping[int, Digest] | None:
        """The sum of each column's values, by the column's id; None where its kind keeps none."""

    @property
    def size(self) -> int:
        """Bytes of the files a full scan reads."""

    @property
    def keeps_dropped(self) -> bool:
        """Whether rows keep the values of columns that were dropped, and merges with them.

        Otherwise `revived` brings them back.
        """

    @property
    def in_files(self) -> DatasetInFiles | None:
        """Itself where its rows stand in data files that can be shown as they are, else None."""

    def check_guard(self) -> None:
        """Raise when it cannot be read, as far as its documents tell."""

    def emptied(self) -> Dataset:
        """Return it with the same columns and no rows."""

    def with_path(self, path: str) -> Self:
        """Return it as if it stood elsewhere."""

    def with_folder(self, folder: TreeFolder) -> Self:
        """Return it as another folder has it, such as that of a tree in the making."""

    def with_storage(self, storage: Storage) -> Self:
        """Return it with other storage, such as that of a transaction that edits it."""

    def after(self, edit: TreeEdit, revision: str | None = None) -> Self:
        """Return it as an edit makes it; `revision` is what errors call that."""

    def scan(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> list[Task]:
        """Return tasks that yield the live rows, in file order."""

    def rows_with_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose keys are among some, in no particular order.

        `keys` has the key columns in stored types. Rarely a row comes whose key only hashes alike.
        """

    def keys_named(self, names: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the keys of rows that files of these names hold; None where no row has its own."""

    def count_apart(
        self, keys: pa.RecordBatch, rows: Callable[[], pa.RecordBatch]
    ) -> ChangeCounts | None:
        """Return how many rows differ once those with `keys` are `rows`; None if it must read."""

    def compare(self, new: Dataset) -> DiffPlan | None:
        """Return how to find the changes to `new`; None where all must be read: kept otherwise."""

    def shown(self) -> Dataset:
        """Return it as people see what became of it: with changes that change no row, if any."""

    def compare_rows(self, new: Dataset, keys: Sequence[tuple[Any, ...]]) -> list[Task] | None:
        """Return tasks that yield the changes of rows with some keys, reading no others.

        None where that is no quicker than to look at all changes.
        """

    def plan_chosen(self, new: Dataset, chosen: ChosenKeys, *, live: bool) -> Reading:
        """Return what has to be read to have the changes of chosen rows from here to `new`.

        `live` says that all of them are in `new`. Both must have the same key.
        """

    def diff(self, new: Dataset) -> list[Task]:
        """Return tasks that yield, in key order, the changes from this view to `new`."""

    def apply(self, changes: Iterator[ChangeBatch]) -> TreeEdit:
        """Return the edit that makes the changes, after checking each `old` row."""

    def edit(self) -> DatasetEdit:
        """Return an edit of it; use that as a context manager."""

    def evolved(self, schema: Schema) -> tuple[dict[str, bytes], DatasetEdit]:
        """Return its documents under another schema, and an edit that writes them."""

    @property
    def keys_item(self) -> str | None:
        """The document that remembers which keys the rows of its source were given, if it has."""

    def columns_of_source(self, incoming: Schema) -> Schema:
        """Return its columns as a source may have them: without a key made for its rows."""

    def remade(
        self, schema: Schema, *, has_key: bool = True, earlier: EarlierImport | None = None
    ) -> NewTable:
        """Return what takes in the rows of another version of it, to be compared with this one.

        Of a source without a key they get the keys that they had, or had in an `earlier` import.
        """

    def rekeyed(
        self, schema: Schema, meta: Mapping[str, bytes | None], rows: Iterable[pa.RecordBatch]
    ) -> TreeEdit | None:
        """Return the edit that gives it another key; `rows` are all, in the columns of `schema`.

        None where data files have to be written by an engine.
        """

    def revived(
        self, schema: Schema, back: frozenset[int], run: RunTasks
    ) -> tuple[Dataset, dict[str, bytes | None]]:
        """Return it with columns again which it dropped, and the documents that say so.

        `back` are these columns, or parts of columns, by id. What was stored before still holds
        them, and counts again; rows that were written since have nulls. Needed where it does not
        keep what was dropped.
        """


class DatasetInFiles(Dataset, Protocol):
    """A dataset whose rows stand in data files, which can be shown as they are."""

    @property
    def identity(self) -> str:
        """The id that it keeps under any path."""

    @property
    def digests(self) -> Mapping[int, Digest]:
        """The sum of each column's values, by the column's id."""

    @property
    def places(self) -> Mapping[int, int]:
        """The places of its columns, by field id."""

    @property
    def snapshot(self) -> Snapshot:
        """The sums."""

    @property
    def properties(self) -> Properties:
        """Its identity and other facts."""

    @property
    def partition(self) -> PartitionSpec:
        """How rows are dealt out to files."""

    @property
    def order(self) -> SortOrder:
        """How rows are ordered in files."""

    @property
    def layout(self) -> FileLayout:
        """The form of new files."""

    @property
    def epoch(self) -> Epoch:
        """The epoch that is open."""

    @property
    def deltas(self) -> Mapping[str, Delta]:
        """The live deltas, by id."""

    @property
    def folded(self) -> Mapping[str, str]:
        """The deltas that others replaced, by id: which one did."""

    @property
    def marks(self) -> int:
        """The sum of the marks of all live deltas."""

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every file, by sha256; each delete file deletes from live ones, no row twice."""

    @property
    def stored_entries(self) -> Mapping[str, Entry]:
        """Every file as deltas have it, by sha256."""

    @property
    def data_entries(self) -> tuple[Entry, ...]:
        """Data files, in the order of their keys where that is known, else by name."""

    @property
    def delete_entries(self) -> tuple[Entry, ...]:
        """The delete files as deltas have them."""

    @property
    def delete_targets(self) -> Mapping[str, Collection[str]]:
        """The data files that each delete file deletes from, as deltas have it, by sha256."""

    @property
    def deletes(self) -> Mapping[str, tuple[Entry, ...]]:
        """Delete files by the data file that they delete from."""

    @property
    def derived_files(self) -> set[str]:
        """Delete files that stand for others, which folding takes up."""

    @property
    def rows_in_files(self) -> int:
        """How many rows its data files have, less those that its delete files take away."""

    def deltas_with(self, files: Collection[str], *, dated: bool = False) -> list[Delta]:
        """Return the live deltas of some files, and if asked those of the epoch, by id."""

    def stored_files(self, files: Iterable[str]) -> frozenset[str]:
        """Return the files as deltas have them, of some of `entries`."""

    def entries_at(self, name: str, blob: str) -> tuple[Entry, ...]:
        """Return the entries of what stands at a path below `files`; none for a tombstone."""

    def data_entries_of(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """Return the data files among some, in the order of their keys."""

    def data_entries_where(self, chosen: Callable[[Record], Mask]) -> tuple[Entry, ...]:
        """Return data files, in the order of their keys; where they are many, only chosen ones."""

    def edited_entries(self, size: int) -> tuple[Entry, ...]:
        """Return the data files that may be of less than some bytes, and brought by an edit."""

    def last_id_of(self, schemas: Iterable[str]) -> int:
        """Return the highest id of a column, given the schemas that its files were written with."""

    def past_schema(self, name: str) -> Schema:
        """Return the schema that some file was written with."""

    def past_document(self, name: str) -> bytes:
        """Return the schema, partition spec or sort order that some file was written with."""

    def place(self, file: str) -> str:
        """Return where a data file is or would be, which work may turn out not to need."""

    def file_path(self, entry: Entry) -> str:
        """Return the path of a data or delete file on this machine, after a look at its size."""

    def delete_paths(self, entry: Entry) -> tuple[str, ...]:
        """Return the paths of the delete files that delete from a data file."""

    def bring(
        self, entries: Iterable[Entry], *, deletes: bool = True, helpful: Sequence[Entry] = ()
    ) -> None:
        """Have files fetched that work is about to read, all at once, and what deletes from them.

        Those that tell whether delete files hold come along if they can be had, and others
        that are `helpful`.
        """

    def scan_file(self, entry: Entry, schema: Schema) -> Iterator[Task]:
        """Yield tasks that yield the live rows of one data file, in file order."""

    def emptied(self) -> DatasetInFiles:
        """Return it with the same columns and no rows."""
