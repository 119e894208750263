"""Kart datasets that stand in no repository: their objects are in memory.

`KartDatasets` makes them from rows and gives the version after an edit, so that a test
can say `apply(a, diff(a, b)) == b` in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kart.build import NewKartDataset
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.columns import kart_schema
from havasu_vc.formats.kart.paths import PathStructure
from havasu_vc.model.schema import Schema
from havasu_vc.store.drafts import Draft
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.objects import ObjectId, ObjectKind
from havasu_vc.store.trees import Change, edit_tree
from havasu_vc.testing.tables import Row, batch_of

__all__ = ["KartDatasets"]


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
