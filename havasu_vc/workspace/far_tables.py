"""Tables in a bucket whose edits are taken in where no data is: their files stay in the bucket.

Data files of the dataset and of the table are read at their URLs, by tasks. What comes to
this machine is what says which rows are deleted. A data file that a commit takes as it is, a
task copies to where the data of the repository is; one that no URL can name comes here, and
so does a copy of what does not say all of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.havasu.far import url_of
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.task import kernel, task_of
from havasu_vc.store.object_systems import object_size, put_object, url_below
from havasu_vc.store.object_urls import shown_url
from havasu_vc.tables.bucket import BucketPlaces, copied_here
from havasu_vc.tables.scanning import RowSource
from havasu_vc.tables.snapshots import FileDifference
from havasu_vc.tables.table import TableFolders
from havasu_vc.workspace.foreign import hash_file

__all__ = ["keep_there", "leave_there", "named_url", "seen_there"]


def leave_there(places: TableFolders, base: DatasetInFiles, files: FileDifference) -> bool:
    """Leave data files where they are and bring what deletes from them; False: bring them too."""
    if url_of(base) is None or not isinstance(places, BucketPlaces):
        return False
    later = places.later()
    there = {
        later.name(live.file.path).rpartition("/")[2]: later.file(live.file.path)
        for live in files.added_data
        if places.url(live.file.path)
    }

    def known(name: str) -> Path | None:
        entry = base.entries.get(name.removesuffix(".parquet"))
        return there.get(name) if entry is None else base.storage.location(entry.file)

    places.know(known)
    places.bring(live.file.path for live in files.added)
    return True


def seen_there(source: RowSource, base: DatasetInFiles, places: TableFolders) -> RowSource:
    """Return a data file as it is read where the data is away: at a URL."""
    if url_of(base) is None or not isinstance(places, BucketPlaces):
        return source
    name = source.location.rpartition("/")[2].partition(".")[0]
    entry = base.entries.get(name)
    url = places.url(source.location) if entry is None else base.file_path(entry)
    return source if url is None else replace(source, path=url)


def named_url(url: str, file: str) -> str:
    """Return the URL of a file of a table that says what the file is called in a dataset.

    >>> named_url("s3://maps/wells/data/00000.parquet", "ab")
    's3://maps/wells/data/00000.parquet#ab'
    """
    return f"{url}#{file}"


def keep_there(files: Sequence[tuple[str, str]], url: str, engine: Engine, what: str) -> None:
    """Have tasks copy files of a table, by URL and name, to where data files are."""
    tasks = [task_of(kept_file, (), place, file, url) for place, file in files]
    for _ in engine.run_dealt([], tasks, description=what) if tasks else ():
        pass


@kernel
def kept_file(pieces: tuple[()], place: str, file: str, url: str) -> Iterator[pa.RecordBatch]:
    """Copy a file to where data files are, if it is what it was; nothing is dealt to it."""
    target = url_below(url, file)
    with copied_here(place) as path:
        found, size = hash_file(Path(path))
        if found != file:
            raise SchemaViolationError(
                f"{shown_url(place)} changed while it was read",
                hints=("let the engine finish, then try again",),
            )
        if object_size(target) != size:
            put_object(target, Path(path))
    yield pa.record_batch({"size": [size]})
