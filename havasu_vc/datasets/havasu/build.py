"""A new Havasu dataset, or a new version of one, from files that tasks wrote.

`write` and `write_ranges` are the kernels of an import: they run where an engine says,
put data files into the store, and yield their entries as documents, so that only a few
bytes come back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.documents import layout_documents, layout_of, past_documents
from havasu_vc.datasets.havasu.ledger import Change, change_blobs, first_blobs
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import WrittenFile, write_data_files
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.sorting import (
    OrderCheck,
    OutOfOrder,
    RunReader,
    SortRange,
    check_increasing,
)
from havasu_vc.formats.havasu.entry import Origin, format_entry, parse_entry
from havasu_vc.formats.havasu.properties import (
    DATASET,
    PartitionSpec,
    Properties,
    SortField,
    SortOrder,
    format_properties,
    parse_properties,
)
from havasu_vc.model.columns import schema_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles
    from havasu_vc.datasets.storage import Storage

__all__ = [
    "NewDataset",
    "Report",
    "crs_document",
    "new_table",
    "parse_report",
    "remade",
    "schema_of_items",
    "write",
    "write_ranges",
]


class NewDataset:
    """The documents and the layout of a dataset that is being made."""

    def __init__(
        self,
        path: str,
        schema: Schema,
        *,
        table_uuid: str,
        meta: Mapping[str, bytes],
        hilbert: int | None = None,
        partition: PartitionSpec | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        fields = tuple(SortField(field.id) for field in schema.key.fields)
        if hilbert is not None:
            fields = (SortField(hilbert, "hilbert"),)
        order = SortOrder(fields, int(bool(fields)))
        self._hilbert = None if hilbert is None else schema.by_id[hilbert].name
        self.path = path
        self.schema = schema
        self.documents: dict[str, bytes] = {
            **meta,
            **layout_documents(schema, partition or PartitionSpec(), order),
            DATASET: format_properties(Properties(table_uuid, schema.last_id, properties or {})),
        }
        self.layout = layout_of(schema, self.documents)

    @property
    def files(self) -> NewDataset:
        """Itself: tasks write its rows to data files, which `edit` takes."""
        return self

    @property
    def hilbert(self) -> str | None:
        """The name of the column along whose curve rows stand; None for key order."""
        return self._hilbert

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Refuse: rows of any number go to files."""
        raise NotImplementedError("an engine writes its files")

    def finish(self) -> TreeEdit:
        """Refuse: there are files to name."""
        raise NotImplementedError("`edit` takes the files that an engine wrote")

    def edit(self, files: Iterable[WrittenFile]) -> TreeEdit:
        """Return what a commit changes to have this dataset, made of these files."""
        written: dict[str, WrittenFile] = {}
        for file in files:
            if file.entry.file in written:
                raise ValueError("a data file stands twice; `distinct_files` tells them apart")
            written[file.entry.file] = file
        documents = past_documents(None, self.layout, self.documents)
        table = parse_properties(self.documents[DATASET], DATASET).table_uuid
        each = ((file.entry, file.digests) for file in written.values())
        blobs = first_blobs(table, each, documents)
        rows = sum(file.entry.rows for file in written.values())
        return TreeEdit(self.path, blobs, fresh=True, counts=ChangeCounts(inserts=rows))

    def replacing(self, old: DatasetInFiles, files: Iterable[WrittenFile]) -> TreeEdit:
        """Return what a commit changes to have these files and documents in place of all others.

        The dataset stays what it is, so that what others changed meanwhile meets this.
        """
        written = list(files)
        documents: dict[str, bytes | None] = {
            f"meta/{name}": None for name, _ in old.folder.blobs("meta")
        }
        documents |= self.documents
        del documents[DATASET]
        blobs = past_documents(old.folder, self.layout, documents)
        digests = Digests()
        for file in written:
            digests.add(file.digests)
        digests.subtract(old.snapshot.digests)
        rows = sum(file.entry.rows for file in written)
        change = Change(
            frozenset(old.entries),
            tuple(file.entry for file in written),
            rows - old.rows,
            digests.sums,
            close=True,
        )
        return TreeEdit(self.path, change_blobs(old, change, blobs))


def new_table(
    path: str,
    schema: Schema,
    storage: Storage,
    *,
    meta: Mapping[str, bytes],
    hilbert: int | None = None,
) -> NewDataset:
    """Return a new dataset in the making."""
    return NewDataset(path, schema, table_uuid=str(uuid.uuid4()), meta=meta, hilbert=hilbert)


def remade(old: DatasetInFiles, schema: Schema) -> NewDataset:
    """Return what takes in the rows of another version of a dataset, in the order of this one."""
    hilbert = schema.geometries[0].id if old.order.is_hilbert and schema.geometries else None
    identity = old.properties.table_uuid
    return NewDataset(old.path, schema, table_uuid=identity, meta={}, hilbert=hilbert)


def schema_of_items(columns: list[Any]) -> Schema:
    """Return the schema that a list of columns means."""
    return schema_of(columns)


def crs_document(wkt: str) -> bytes:
    """Return the definition of a coordinate reference system as a document."""
    return wkt.encode()


_FIELDS = pa.schema(
    [
        ("file", pa.string()),
        ("entry", pa.binary()),
        ("digests", pa.string()),
        ("edges", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a write task."""

    files: tuple[WrittenFile, ...]
    """The files in the store, in order."""
    edges: pa.RecordBatch | None
    """The first and the last key; None when there were no rows or no key."""
    in_order: bool = True
    """False when the rows were not in key order, so that nothing was kept."""


@kernel
def write(
    sources: Sequence[Task], layout: FileLayout, objects: str, keys: str | None, ordered: bool
) -> Iterator[pa.RecordBatch]:
    """Write the rows of some tasks to data files, then yield a row for each file.

    With `ordered`, rows must come in key order; if they do not, one row says so.
    """
    rows: Iterator[pa.RecordBatch] = (batch for task in sources for batch in run_task(task))
    check = OrderCheck(layout.schema.key.names) if ordered else None
    try:
        written = _write(rows if check is None else check.watched(rows), layout, objects, keys)
    except OutOfOrder:
        yield reported([], b"out of order")
        return
    edges = b""
    if check is not None and check.first is not None and check.last is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, check.first.schema) as writer:
            writer.write_batch(pa.concat_batches([check.first, check.last]))
        edges = sink.getvalue().to_pybytes()
    yield reported(written, edges)


@kernel
def write_ranges(
    runs: Sequence[str],
    ranges: Sequence[SortRange],
    names: tuple[str, ...],
    layout: FileLayout,
    objects: str,
    keys: str | None,
) -> Iterator[pa.RecordBatch]:
    """Write some ranges of sorted runs to data files, then yield a row for each file.

    Columns that the layout does not have served only to sort by.
    """
    reader = RunReader(runs, names)
    columns = list(layout.schema.names)
    by_key = names == layout.schema.key.names

    def rows() -> Iterator[pa.RecordBatch]:
        for each in ranges:
            batch = reader.rows(each)
            if batch is not None:
                if by_key:
                    check_increasing(batch.select(list(names)))
                yield batch.select(columns)

    yield reported(_write(rows(), layout, objects, keys), b"")


def _write(
    rows: Iterator[pa.RecordBatch], layout: FileLayout, objects: str, keys: str | None
) -> list[WrittenFile]:
    store = DataFileStore(Path(objects))
    folder = Path(keys) if keys is not None else None
    return list(write_data_files(rows, layout, store, folder, origin=Origin.IMPORT))


def reported(files: Sequence[WrittenFile], edges: bytes) -> pa.RecordBatch:
    """Return what a write task yields of the files that it wrote."""
    digests = [
        json.dumps({str(number): list(lanes) for number, lanes in file.digests.items()})
        for file in files
    ]
    nothing = [] if files else [""]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([file.entry.file for file in files] or nothing, pa.string()),
            pa.array([format_entry(file.entry) for file in files] or nothing, pa.binary()),
            pa.array(digests or nothing, pa.string()),
            pa.array([edges] * max(len(files), 1), pa.binary()),
        ],
        schema=_FIELDS,
    )


def parse_report(batch: pa.RecordBatch) -> Report:
    """Return what a write task reported."""
    files = []
    edges = batch.column("edges")[0].as_py()
    for row in batch.to_pylist():
        if row["file"]:
            lanes = json.loads(row["digests"])
            entry = parse_entry(row["entry"], row["file"], row["file"])
            files.append(
                WrittenFile(
                    entry, {int(n): (first, second) for n, (first, second) in lanes.items()}
                )
            )
    if edges == b"out of order":
        return Report((), None, in_order=False)
    found = pa.ipc.open_stream(edges).read_next_batch() if edges else None
    return Report(tuple(files), found)
