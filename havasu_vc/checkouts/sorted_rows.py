"""A dataset's rows sorted anew for a table: nearby rows in the same files and row groups.

Rows with geometries lie along a Hilbert curve, others in the order of their key. With a
partition spec, that of the dataset or one that is asked for, no file holds rows of two
partitions, and each partition is ordered so. The engine sorts them, so with `--engine
spark` it is a Spark job; what it writes are the files of that table alone, and the
repository does not know of them. A cluster that sees no folder of this machine writes them
below the bucket's `temporary/`, where they are until the table has them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.folder import Folder, edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.far import edited_there, put_at, version_of, where_it_is
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.soundness import unlike_its_sums
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import WrittenFile
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.exchange.importing import Curve, write_partitioned, write_table
from havasu_vc.exchange.owned_imports import rows_dealt
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    DATASET,
    PartitionSpec,
    format_partition,
    format_properties,
)
from havasu_vc.model.bounds import Bounds
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import short_lived_folder
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import remove_folder, url_below
from havasu_vc.workspace.places import TEMPORARY

__all__ = [
    "CLUSTERED",
    "bring",
    "clustered",
    "described",
    "sorted_anew",
    "tried_files",
    "trying",
]


CLUSTERED = "-clustered"
"""The end of a tree's name where its rows are sorted anew."""


@contextmanager
def clustered(
    repo: OpenRepo, view: DatasetInFiles, location: Path, spec: PartitionSpec
) -> Iterator[DatasetInFiles]:
    """Yield a dataset of the same rows in clustered files, which go when the block ends."""
    with short_lived_folder(location, TEMPORARY) as scratch:
        storage = replace(
            view.storage,
            keys=scratch / "keys",
            staging=DataFileStore(scratch / secrets.token_hex(8)),
        )
        with trying(storage) as storage:
            folder = sorted_anew(repo, view, storage, spec)
            made = HavasuDataset(view.path, folder, storage, view.revision)
            there = where_it_is(made, apart=False)
            yield version_of(there, folder, view.revision, tried_files(made))


@contextmanager
def trying(storage: Storage) -> Iterator[Storage]:
    """Yield where files are written that are soon copied: what is in a bucket goes with the block.

    What is only tried is written in the same way, below the bucket's `temporary/`.
    """
    storage = replace(storage, trial=True, tried=set())
    try:
        yield storage
    finally:
        for folder in storage.tried:
            remove_folder(folder)


def tried_files(made: DatasetInFiles) -> dict[str, str]:
    """Return where files are of a version in the making that are in a bucket and not here."""
    away = [file for file in made.entries if not made.storage.has(file)]
    return {file: url_below(url, file) for url in made.storage.tried for file in away}


def bring(made: DatasetInFiles, away: Mapping[str, str]) -> None:
    """Have files of a version in the making here, staged."""
    if not away:
        return
    from havasu_vc.tables.bucket import copied_here  # with it come clients of all stores

    staging = made.storage.staging
    for file, url in away.items():
        with copied_here(url) as path:
            staging.put(Path(path), sha256=file)
            staging.verify(file)


def sorted_anew(
    repo: OpenRepo, view: DatasetInFiles, storage: Storage, spec: PartitionSpec
) -> Folder:
    """Return the documents of a dataset with the rows of another in files anew.

    They are staged, but for those that a cluster made which sees no folder of this machine:
    these are where it puts what is only tried.
    """
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
        (view,) = edited_there(
            view.with_storage(storage), distributed=engine.apart, apart=engine.apart, stays=True
        )
        url = put_at(view)
        if url is not None:
            files = _sorted_there(view, new, spec, url, engine)
        elif spec.fields:
            files = write_partitioned(view.scan(), new, spec, storage, engine, curve=curve)
        else:
            files = write_table(view.scan(), new, storage, engine, input_bytes=size, curve=curve)
    folder = edited(None, new.edit(files))
    if url is not None:
        made = HavasuDataset(view.path, folder, storage, view.revision)
        if (made.rows, made.snapshot.digests) != (view.rows, view.snapshot.digests):
            raise unlike_its_sums(view.path)
    return folder


def _sorted_there(
    view: DatasetInFiles,
    new: NewDataset,
    spec: PartitionSpec,
    url: str,
    engine: Engine,
) -> list[WrittenFile]:
    """Return the files that a cluster makes of a dataset's rows, and puts at a URL."""
    along = None
    if new.hilbert is not None:
        column = view.schema.by_name[new.hilbert].id
        bounds = (entry.bounds.get(column) for entry in view.data_entries)
        along = (new.hilbert, Bounds.of(bounds) or Bounds(0, 0, 0, 0))
    what, entries = f"Sorting {view.path}", view.data_entries
    return rows_dealt(
        view, entries, new.layout, url, engine, curve=along, spec=spec, description=what
    )


def described(view: DatasetInFiles) -> dict[str, bytes]:
    """Return the documents that say what a dataset is to people."""
    return {
        f"meta/{name}": view.folder.read_blob(blob)
        for name, blob in view.folder.blobs("meta")
        if name in ("title", "description") or name.startswith("crs/")
    }
