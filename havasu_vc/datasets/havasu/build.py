"""A new Havasu dataset, or a new version of one, from files that tasks wrote.

`write` is the kernel of an import: it runs where an engine says, puts data files into
the store, and yields their entries as documents, so that only a few bytes come back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.documents import layout_documents, layout_of, past_documents
from havasu_vc.datasets.havasu.edit import file_blobs
from havasu_vc.datasets.havasu.writing import Layout, WrittenFile, write_data_files
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.formats.havasu.entry import Origin, format_entry, parse_entry
from havasu_vc.formats.havasu.layout import PartitionSpec, SortField, SortOrder
from havasu_vc.formats.havasu.properties import Properties, format_properties
from havasu_vc.formats.havasu.snapshot import Snapshot
from havasu_vc.model.changes import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.store.files import DataFileStore

__all__ = ["NewDataset", "parse_written", "write"]

WRITE = "havasu_vc.datasets.havasu.build:write"


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
    ) -> None:
        fields = tuple(SortField(field.id) for field in schema.key.fields)
        if hilbert is not None:
            fields = (SortField(hilbert, "hilbert"),)
        order = SortOrder(fields, int(bool(fields)))
        self.path = path
        self.schema = schema
        self.documents: dict[str, bytes] = {
            **meta,
            **layout_documents(schema, PartitionSpec(), order),
            "meta/properties.json": format_properties(Properties(table_uuid, schema.last_id)),
        }
        self.layout = layout_of(schema, self.documents)

    def task(self, sources: Sequence[Task], objects: Path, keys: Path | None) -> Task:
        """Return the task that writes the rows of some tasks to files."""
        return Task(WRITE, (tuple(sources), self.layout, str(objects), str(keys) if keys else None))

    def edit(self, files: Iterable[WrittenFile]) -> TreeEdit:
        """Return what a commit changes to have this dataset, made of these files."""
        written = {file.entry.file: file for file in files}
        blobs: dict[str, bytes | None] = past_documents(None, self.layout, self.documents)
        digests = Digests()
        for file in written.values():
            blobs.update(file_blobs(file.entry))
            digests.add(file.digests)
        rows = sum(file.entry.rows for file in written.values())
        snapshot = Snapshot(
            rows,
            0,
            sum(file.entry.size for file in written.values()),
            digests.of(self.schema.by_id),
        )
        return TreeEdit(self.path, blobs, snapshot, fresh=True, counts=ChangeCounts(inserts=rows))


_FIELDS = pa.schema([("file", pa.string()), ("entry", pa.binary()), ("digests", pa.string())])


@kernel
def write(
    sources: Sequence[Task], layout: Layout, objects: str, keys: str | None
) -> Iterator[pa.RecordBatch]:
    """Write the rows of some tasks to data files; yield a row for each file."""
    rows = (batch for task in sources for batch in run_task(task))
    store = DataFileStore(Path(objects))
    folder = Path(keys) if keys is not None else None
    for written in write_data_files(rows, layout, store, folder, origin=Origin.IMPORT):
        digests = {str(number): list(lanes) for number, lanes in written.digests.items()}
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([written.entry.file]),
                pa.array([format_entry(written.entry)]),
                pa.array([json.dumps(digests)]),
            ],
            schema=_FIELDS,
        )


def parse_written(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
    """Yield the files that `write` tasks reported."""
    for batch in batches:
        for row in batch.to_pylist():
            lanes = json.loads(row["digests"])
            yield WrittenFile(
                parse_entry(row["entry"], row["file"], row["file"]),
                {int(number): (first, second) for number, (first, second) in lanes.items()},
            )
