"""A table of the workspace in a bucket: documents are made here, then sent.

What is written for a version lies beside copies of what was read from the bucket, in a folder
of this machine that may be removed at any time. Data files are copied by the store itself
where it has them (they are not shared: what an engine expires must never be what commits
name), else sent from here after they were hashed; one that is there under its name and with
its size is not sent again. Everything is there before the metadata that names it, so an
upload that is killed leaves the table as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

from pyarrow.fs import FileInfo

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import CorruptDataFileError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.disk import replace_file
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import url_below
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.tables.bucket import THREADS, BucketPlaces, BucketTable, copied_here
from havasu_vc.tables.publishing import logged
from havasu_vc.tables.table import METADATA, Table
from havasu_vc.workspace.far_tables import named_url
from havasu_vc.workspace.foreign import hash_file
from havasu_vc.workspace.places import Holds
from havasu_vc.workspace.state import FileIdentity, TableState

__all__ = ["BucketPlace"]


class BucketPlace:
    """A table's URL."""

    def __init__(self, url: str, folder: Path, data_url: str | None = None) -> None:
        """Name the URL, a folder for copies, and where the repository's data files are kept."""
        self._table = BucketTable(url)
        self._folder = folder
        self._data_url = data_url
        self._places = BucketPlaces(self._table, folder)
        self._reused: list[DatasetInFiles] = []

    @property
    def location(self) -> str:
        """The URL."""
        return self._table.url

    @property
    def folder(self) -> Path:
        """The folder with copies of its documents."""
        return self._folder

    @property
    def places(self) -> BucketPlaces:
        """Where its files are found."""
        return self._places

    def holds(self) -> Holds:
        """Return what is there."""
        if self._table.versions():
            return Holds.TABLE
        return Holds.OTHERS if any(True for _ in self._table.files()) else Holds.NOTHING

    def exists(self) -> bool:
        """Whether any document or data file is there."""
        return any(True for folder in (METADATA, "data") for _ in self._table.files(folder))

    def newest(self) -> int | None:
        """Return the number of the newest version."""
        return max(self._table.versions(), default=None)

    def newest_document(self, version: int) -> FileIdentity | None:
        """Return what tells a metadata file from another, None if there is one after it."""
        documents = self._table.documents()
        found = documents.get(version)
        if found is None or max(documents) != version:
            return None
        if found.base_name != f"v{version}.metadata.json":
            return None
        return FileIdentity(0, found.size, found.mtime_ns or 0)

    def read(self, version: int | None = None) -> Table:
        """Return the newest version, or one."""
        return self._table.read(self._folder, version, places=self._places)

    def metadata_files(self) -> Iterator[Path]:
        """Yield the metadata files that are there, which are brought here."""
        for name in self._table.versions().values():
            yield self._places.file(f"{self.location}/{METADATA}/{name}")

    def put(self, view: DatasetInFiles, *, copy: bool = True) -> dict[str, FileIdentity]:
        """Have the data files of a dataset in the bucket, each under the name of its content."""
        if self._send_missing(view, self._data_files()) < len(view.data_entries):
            self._reused.append(view)
        return {entry.file: FileIdentity(0, entry.size, 0) for entry in view.data_entries}

    def _send_missing(self, view: DatasetInFiles, there: Mapping[str, int]) -> int:
        """Send the data files that are not there, and return how many those were."""
        wanted = [e for e in view.data_entries if there.get(f"{e.file}.parquet") != e.size]

        def copied(entry: Entry) -> bool:
            source = view.place(entry.file)
            if not in_bucket(source):
                if self._data_url is None:
                    return False
                source = url_below(self._data_url, entry.file)
            return self._table.copy_from(source, f"data/{entry.file}.parquet", entry.size)

        def sent(entry: Entry) -> None:
            source = view.file_path(entry)
            if view.storage.files.has(entry.file):
                view.storage.files.verify(entry.file)
            with copied_here(source) if in_bucket(source) else nullcontext(source) as path:
                if path != source and hash_file(Path(path)) != (entry.file, entry.size):
                    raise CorruptDataFileError(entry.file, "its bytes in the bucket are others")
                self._table.send(Path(path), f"data/{entry.file}.parquet")

        with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
            done = list(pool.map(copied, wanted))
            left = [entry for entry, is_there in zip(wanted, done, strict=True) if not is_there]
            here = [entry for entry in left if not in_bucket(view.place(entry.file))]
            view.storage.bring((entry.file, entry.size) for entry in here)
            for _ in pool.map(sent, left):
                pass
        return len(wanted)

    def readable_files(self) -> Mapping[str, str]:
        """Return the URLs of the data files that are there, each with the name at its end."""
        there = (name.removesuffix(".parquet") for name in self._data_files())
        return {file: named_url(f"{self.location}/data/{file}.parquet", file) for file in there}

    def publish(self, table: Table | None, metadata: TableMetadata, flavour: Flavour) -> Table:
        """Send what was written, then make metadata the version after `table`."""
        version = 1
        if table is not None:
            version = table.version + 1
            metadata = logged(metadata, table)
        self._places.send_written()
        document = self._table.publish(metadata, version, flavour)
        named = self._folder / METADATA / f"v{version}.metadata.json"
        replace_file(named, document)
        self._forget_copies(named)
        self._send_again()
        return Table(self._folder, version, metadata, named, self._places)

    def _send_again(self) -> None:
        """Send files that were there and are not now.

        Another writer's version may have let go of them before this one named them.
        """
        there = self._data_files() if self._reused else {}
        for view in self._reused:
            self._send_missing(view, there)
        self._reused.clear()

    def _forget_copies(self, newest: Path) -> None:
        """Remove copies that are not looked at again: of data, and of older versions."""
        for folder in ("data", "copies"):
            shutil.rmtree(self._folder / folder, ignore_errors=True)
        for path in newest.parent.glob("v*.json*"):
            if path != newest:
                path.unlink(missing_ok=True)

    def abandoned(self, needed: set[str]) -> Iterable[str]:
        """Return nothing: another machine may be sending files that nothing names yet."""
        return ()

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that no version needs."""
        names = list(names)
        self._table.remove(names)
        for name in names:
            with suppress(OSError):
                self._places.forget(name)

    def check_files(self, known: TableState, store: DataFileStore) -> None:
        """Do nothing: nobody writes into an object, and asking for each costs too much."""

    def is_whole(self, known: TableState) -> bool:
        """Whether no file of the table was removed."""
        there = self._data_files()
        whole = all(
            there.get(f"{file}.parquet") == found.size for file, found in known.files.items()
        )
        made = [location for batch in known.deletes for location in batch.files]
        return whole and all(location.rpartition("/")[2] in there for location in made)

    def require_inside(self) -> None:
        """Do nothing: no link leads out of a bucket."""

    def remove(self) -> None:
        """Remove the table, and the copies of it."""
        self._table.remove_all()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _data_files(self) -> dict[str, int]:
        found: dict[str, FileInfo] = {info.base_name: info for info in self._table.files("data")}
        return {name: info.size for name, info in found.items()}
