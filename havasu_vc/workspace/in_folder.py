"""A table of the workspace in a folder of this machine: its data files are linked."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import HavasuError, StateError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.tables.publishing import publish
from havasu_vc.tables.snapshots import manifests_of
from havasu_vc.tables.table import (
    METADATA,
    Table,
    TableFolders,
    local_path,
    location_of,
    metadata_versions,
    read_table,
    table_exists,
)
from havasu_vc.workspace.condition import check_linked
from havasu_vc.workspace.places import (
    TEMPORARY,
    Holds,
    copy_from_bucket,
    link_file,
    remove_table,
)
from havasu_vc.workspace.snapshots import data_path
from havasu_vc.workspace.state import FileIdentity, TableState, identify

__all__ = ["FolderPlace", "a_link"]

THREADS = 8
"""Files that are copied from a bucket side by side."""
UNFINISHED_SECONDS = 3600.0
"""The age from which a file that nothing names was left by a checkout that died."""

_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_OURS = re.compile(
    rf"[0-9a-f]{{64}}(-deletes)?\.parquet|{re.escape(TEMPORARY)}.*|[0-9a-f]{{32}}-m\.avro|snap-\d+-[0-9a-f]{{32}}\.avro|\.[0-9a-f]{{16}}.*"
)


def a_link(folder: Path) -> StateError:
    """Return what it means that a folder of tables is a link."""
    return StateError(
        f"{folder} is a link; tables are put into folders alone", hints=("remove the link",)
    )


class FolderPlace:
    """A table's folder, below that of all tables."""

    def __init__(self, path: Path, root: Path | None = None, top: Path | None = None) -> None:
        """Name the folder, that of all tables, and the one that all of them must be in."""
        self._path = path
        self._root = path.parent if root is None else root
        self._top = self._root if top is None else top

    @cached_property
    def folder(self) -> Path:
        """The folder, by its real path."""
        return Path(os.path.realpath(self._path))

    @property
    def location(self) -> str:
        """The same as documents spell it."""
        return location_of(self.folder)

    @property
    def places(self) -> TableFolders:
        """Where its files are found: in the folder."""
        return TableFolders([self.folder])

    def holds(self) -> Holds:
        """Return what is there."""
        if table_exists(self._path):
            return Holds.TABLE
        if not self._path.exists():
            return Holds.NOTHING
        items = self._path.iterdir() if self._path.is_dir() else iter((self._path,))
        others = any(not item.is_dir() or item.is_symlink() for item in items)
        return Holds.OTHERS if others else Holds.NOTHING

    def exists(self) -> bool:
        """Whether the folder is there."""
        return self._path.is_dir()

    def newest(self) -> int | None:
        """Return the number of the newest version."""
        return max((number for number, _ in metadata_versions(self._path)), default=None)

    def newest_document(self, version: int) -> FileIdentity | None:
        """Return the identity of a metadata file, None unless it is there and none after it."""
        folder = self._path / METADATA
        if any((folder / f"v{version + 1}{suffix}").exists() for suffix in _SUFFIXES):
            return None
        place = folder / f"v{version}.metadata.json"
        try:
            return identify(place) if place.is_file() else None
        except OSError:
            return None

    def read(self, version: int | None = None) -> Table:
        """Return the newest version, or one."""
        return read_table(self._path, version=version)

    def metadata_files(self) -> Iterator[Path]:
        """Yield the metadata files that are there."""
        return (path for _, path in metadata_versions(self._path))

    def put(self, view: DatasetInFiles, *, copy: bool) -> dict[str, FileIdentity]:
        """Link the data files of a dataset, or copy them; those that are there stay.

        Those that a dataset reads in a bucket are copied from there.
        """
        with reporting_storage_errors(self.folder):
            (self.folder / "data").mkdir(parents=True, exist_ok=True)
        view.bring(view.data_entries)
        found = self._copied_there(view)
        left = [entry for entry in view.data_entries if entry.file not in found]
        if found:
            view.storage.bring((each.file, each.size) for each in left if each.location is None)
        for entry in left:
            source, target = Path(view.file_path(entry)), data_path(self.folder, entry.file)
            found[entry.file] = link_file(source, target, entry.size, copy=copy)
        return found

    def readable_files(self) -> Mapping[str, str]:
        """Return none: others do not see the folder."""
        return {}

    def _copied_there(self, view: DatasetInFiles) -> dict[str, FileIdentity]:
        """Copy the data files that a dataset reads in a bucket and that are there."""
        away = [each for each in view.data_entries if in_bucket(view.file_path(each))]
        if not away:
            return {}

        def copied(entry: Entry) -> FileIdentity | None:
            source, target = view.file_path(entry), data_path(self.folder, entry.file)
            return copy_from_bucket(source, target, entry.file, entry.size)

        with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
            made = zip(away, pool.map(copied, away), strict=True)
            return {entry.file: identity for entry, identity in made if identity is not None}

    def publish(self, table: Table | None, metadata: TableMetadata, flavour: Flavour) -> Table:
        """Make metadata the version after `table`."""
        with reporting_storage_errors(self.folder):
            fsync_folder(self.folder / "data")
        return publish(table, self.folder, metadata, flavour=flavour)

    def abandoned(self, needed: set[str]) -> Iterator[str]:
        """Yield files that are named as ours, that nothing names, and that nobody just made."""
        oldest = time.time() - UNFINISHED_SECONDS
        for folder in (self.folder / "data", self.folder / METADATA):
            with suppress(OSError), os.scandir(folder) as items:
                for item in items:
                    if (
                        _OURS.fullmatch(item.name)
                        and item.path not in needed
                        and item.stat(follow_symlinks=False).st_ctime < oldest
                    ):
                        yield item.path

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that no version needs."""
        for name in names:
            with suppress(OSError):
                os.unlink(name)

    def check_files(self, known: TableState, store: DataFileStore) -> None:
        """Raise when a data file is gone, or was written into since it was linked."""
        check_linked(self._path, known, store)

    def is_whole(self, known: TableState) -> bool:
        """Whether no file of the table was removed."""
        places = [data_path(self._path, file) for file in known.files]
        made = [Path(local_path(path)) for batch in known.deletes for path in batch.files]
        try:
            table = read_table(self._path)
            listed = manifests_of(table, table.metadata.snapshot)
        except HavasuError:
            return False
        documents = [Path(table.places.file(manifest.path)) for manifest in listed]
        return all(path.is_file() for path in (*places, *made, *documents))

    def require_inside(self) -> None:
        """Raise when a link leads out of the root."""
        for folder in (self._path, *self._path.parents):
            if folder == self._top:
                return
            if folder.is_symlink():
                raise a_link(folder)

    def remove(self) -> None:
        """Remove the folder, and parents that are empty then."""
        remove_table(self._root, self._path)
