"""Datasets that stand in no git tree: data files in a folder of the test, documents in memory.

`MemoryDatasets` makes them from rows, gives the version after an edit, and reads them
back, so that a test can say `apply(a, diff(a, b)) == b` in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.havasu.apply import collect_changes
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.documents import layout_documents, layout_of
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import write_data_files
from havasu_vc.datasets.kart.build import NewKartDataset
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.pairing import sort_by_key
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.formats.kart.columns import kart_schema
from havasu_vc.formats.kart.paths import PathStructure
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.objects import Draft, ObjectId, ObjectKind
from havasu_vc.store.trees import Change, edit_tree
from havasu_vc.testing.tables import Row, batch_of

__all__ = ["KartDatasets", "MemoryDatasets", "recomputed_digests", "rows_in", "run_all"]


class MemoryDatasets:
    """Makes datasets whose data files are below one folder."""

    def __init__(self, folder: Path) -> None:
        self.storage = Storage(
            DataFileStore(folder / "havasu"),
            folder / "keys",
            DataFileStore(folder / "staging"),
            folds=True,
        )
        """Where the files are."""

    def new(
        self,
        schema: Schema,
        rows: Sequence[Row],
        *,
        path: str = "parcels",
        hilbert: int | None = None,
    ) -> HavasuDataset:
        """Return a dataset with these rows, in one file or more of an import.

        Along a Hilbert curve they stand as they are given.
        """
        new = NewDataset(path, schema, table_uuid="00000000-test", meta={}, hilbert=hilbert)
        batch = batch_of(rows, schema)
        if hilbert is None:
            batch = sort_by_key(batch, schema)
        files = list(
            write_data_files(
                [batch] if rows else [],
                new.layout,
                self.storage.staging,
                self.storage.keys,
                origin=Origin.IMPORT,
            )
        )
        return self.view(edited(None, new.edit(files)), path)

    def view(self, folder: Folder, path: str = "parcels") -> HavasuDataset:
        """Return the dataset whose documents are in a folder."""
        return HavasuDataset(path, folder, self.storage)

    def after(self, dataset: HavasuDataset, edit: TreeEdit) -> HavasuDataset:
        """Return the dataset that an edit makes of another."""
        return self.view(edited(dataset.folder, edit), dataset.path)

    def apply(self, dataset: HavasuDataset, changes: Iterable[ChangeBatch]) -> HavasuDataset:
        """Return the dataset after some changes."""
        return self.after(dataset, dataset.apply(iter(changes)))

    def evolve(
        self, dataset: HavasuDataset, schema: Schema, changes: Iterable[ChangeBatch] = ()
    ) -> HavasuDataset:
        """Return the dataset under another schema, after some changes that come with it."""
        documents: dict[str, bytes | None] = {
            **layout_documents(schema, dataset.partition, dataset.order),
        }
        layout = layout_of(schema, {name: data for name, data in documents.items() if data})
        with Edit(dataset, layout=layout, documents=documents) as edit:
            collect_changes(edit, iter(changes))
            return self.after(dataset, edit.finish())


def run_all(tasks: Iterable[Task]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of tasks, one after the other, without an engine."""
    for task in tasks:
        yield from run_task(task)


def rows_in(dataset: HavasuDataset) -> list[Row]:
    """Return the rows of a dataset by field id."""
    ids = [field.id for field in dataset.schema.fields]
    found: list[Row] = []
    for batch in run_all(dataset.scan()):
        columns = [column.to_pylist() for column in batch.columns]
        found += [dict(zip(ids, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def recomputed_digests(dataset: HavasuDataset) -> Mapping[int, Digest]:
    """Return the digests of the rows that a scan finds."""
    digests = Digests()
    for batch in run_all(dataset.scan()):
        digests.add(hash_rows(batch, dataset.schema).digests)
    return digests.of(dataset.schema.by_id)


# Kart datasets that stand in no repository: their objects are in memory.
#
# `KartDatasets` makes them from rows and gives the version after an edit, so that a test
# can say `apply(a, diff(a, b)) == b` in one line.


class _Nowhere:
    """A source without objects."""

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        raise CorruptDatasetError(f"git object {object_id}", "it is missing")


class KartDatasets:
    """Makes datasets whose objects are in memory."""

    def __init__(self, folder: Path, *, sink: bool = True) -> None:
        """Keep caches in `folder`; without a `sink`, edits hold what they write."""
        self.objects = Draft(_Nowhere())
        """All objects."""
        files = DataFileStore(folder)
        self.storage = Storage(files, folder / "keys", files, self.objects if sink else None)
        """Where edits write."""

    def new(
        self,
        schema: Schema,
        rows: Sequence[Row],
        *,
        path: str = "parcels",
        structure: PathStructure | None = None,
    ) -> KartDataset:
        """Return a dataset with these rows."""
        wanted = kart_schema(schema)
        made = NewKartDataset(path, wanted, self.objects, structure=structure)
        made.write([batch_of(rows, wanted)])
        return self.of(made.finish().blobs, path)

    def of(
        self, blobs: Mapping[str, Change], path: str = "parcels", base: str | None = None
    ) -> KartDataset:
        """Return the dataset that some blobs make of a tree."""
        tree = edit_tree(self.objects, base, blobs)
        return KartDataset(path, TreeFolder(self.objects, tree), self.storage)

    def after(self, dataset: KartDataset, edit: TreeEdit) -> KartDataset:
        """Return the dataset that an edit makes of another."""
        found = self.of(edit.blobs, dataset.path, dataset.folder.tree)
        return replace(found, revision=dataset.revision)
