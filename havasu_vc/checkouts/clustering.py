"""A dataset's rows sorted anew for a table: nearby rows in the same files and row groups.

Rows with geometries lie along a Hilbert curve, others in the order of their key. With a
partition spec, that of the dataset or one that is asked for, no file holds rows of two
partitions, and each partition is ordered so. The engine sorts them, so with `--engine
spark` it is a Spark job; what it writes are the files of that table alone, and the
repository does not know of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.folder import Folder, edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.storage import Storage
from havasu_vc.exchange.importing import Curve, write_partitioned, write_table
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.layout import PartitionSpec, format_partition
from havasu_vc.formats.havasu.properties import DATASET, format_properties
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.short_lived import short_lived_folder
from havasu_vc.workspace.removal import TEMPORARY

__all__ = ["CLUSTERED", "clustered", "described", "sorted_anew"]

CLUSTERED = "-clustered"
"""What the name of a tree ends in where its rows are sorted anew."""


@contextmanager
def clustered(
    repo: OpenRepo, view: HavasuDataset, location: Path, spec: PartitionSpec
) -> Iterator[HavasuDataset]:
    """Yield a dataset of the same rows in clustered files, which go when the block ends."""
    with short_lived_folder(location, TEMPORARY) as scratch:
        storage = replace(
            view.storage, keys=scratch / "keys", staging=DataFileStore(scratch / "files")
        )
        folder = sorted_anew(repo, view, storage, spec)
        yield HavasuDataset(view.path, folder, storage, view.revision)


def sorted_anew(
    repo: OpenRepo, view: HavasuDataset, storage: Storage, spec: PartitionSpec
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


def described(view: HavasuDataset) -> dict[str, bytes]:
    """Return the documents that say what a dataset is to people."""
    return {
        f"meta/{name}": view.folder.read_blob(blob)
        for name, blob in view.folder.blobs("meta")
        if name in ("title", "description") or name.startswith("crs/")
    }
