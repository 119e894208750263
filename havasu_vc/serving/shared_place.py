"""The catalog's documents in a bucket, where clients see them who see nothing of this machine.

    <data folder>/catalog/tables/…     <url>/tables/…      sent before a client is told of it
    <data folder>/catalog/feeds/…      <url>/feeds/…       the same
    <data folder>/catalog/staging/…    <url>/staging/…     written by clients, brought when needed
    <data folder>/objects/…            <data url>/objects/…

Every document is made here and has the same name there, so that what either side names the other
finds. Nothing that is sent is ever changed.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from havasu_vc.errors import CorruptionError, InvalidArgumentError
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_size, put_object, url_below
from havasu_vc.tables.bucket import BucketTable, plain_location
from havasu_vc.tables.table import TableFolders

__all__ = ["SharedPlace"]

_THREADS = 8
_DATA = re.compile(r"[0-9a-f]{64}")
_BESIDE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[A-Za-z0-9._-]{1,120}-deletes\.parquet")
"""The file that DuckDB writes beside a data file: positions of rows that it deletes there."""
_MOST_SENT = 500_000


class SharedPlace:
    """A bucket that has what is below a folder of this machine, and the data files."""

    def __init__(self, url: str, root: Path, data_url: str, store: DataFileStore) -> None:
        """Name the bucket, the folder, and where data files are there and here."""
        if not urlsplit(url).netloc:
            raise InvalidArgumentError(f"havasu.catalog.url is {url!r}, which names no bucket")
        self._bucket = BucketTable(url)
        self._root = Path(os.path.realpath(root))
        self.data_url = data_url
        """Where data files are."""
        self._store = store
        self._beside = BucketTable(data_url.partition("?")[0])
        self._data = f"{self._beside.url}/objects/"
        self._brought = self._root / "staging" / "beside" / "data"
        self._sent: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where the bucket is."""
        return self._bucket.url

    def spell(self, path: Path | str) -> str:
        """Return the location of a file, or a folder, that clients are told of."""
        return f"{self.url}/{Path(path).relative_to(self._root).as_posix()}"

    def spell_data(self, file: str) -> str:
        """Return the location of a data file, which is sent where only this machine has it."""
        url = url_below(self.data_url, file)
        if file not in self._sent and self._store.has(file):
            path = self._store.location(file)
            if object_size(url) != path.stat().st_size:
                put_object(url, path)
            self._note([file])
        return url.partition("?")[0]

    def send(self, files: Iterable[str]) -> None:
        """Have documents in the bucket."""
        left = [file for file in files if file not in self._sent]
        if not left:
            return

        def send(file: str) -> None:
            put_object(self.spell(file), Path(file))

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="havasu-vc-send") as pool:
            for _ in pool.map(send, left):
                pass
        self._note(left)

    def _note(self, files: Iterable[str]) -> None:
        with self._lock:
            if len(self._sent) > _MOST_SENT:
                self._sent.clear()
            self._sent.update(files)

    def within(self, folders: Iterable[Path]) -> TableFolders:
        """Return where files of a table are found that must be in some folders of ours."""
        return _SharedFiles(self, [*folders, self._brought])

    def here(self, location: str) -> Path | None:
        """Return where a file of the bucket is on this machine; None for what is elsewhere."""
        plain = plain_location(location)
        name = plain.removeprefix(self.url + "/")
        if name != plain:
            parts = name.split("/")
            if any(part in ("", ".", "..") for part in parts) or len(name) > 1024:
                raise CorruptionError(f"the table names {location[:200]}, which is no file")
            return self._root / name
        name = plain.removeprefix(self._data)
        if name == plain:
            return None
        if (match := _BESIDE.fullmatch(name)) is not None:
            return self._brought / match[0].replace("/", "-")
        last = name.rpartition("/")[2]
        if not _DATA.fullmatch(last):
            raise CorruptionError(f"the table names {location[:200]}, which is no file")
        return self._store.location(last)

    def bring(self, path: Path) -> None:
        """Copy a file of the bucket to this machine, unless it is here."""
        if path.exists() or not path.is_relative_to(self._root):
            return
        if path.parent == self._brought:
            name = path.name.replace("-", "/", 2)
            self._beside.bring(f"objects/{name}", path)
        else:
            self._bucket.bring(path.relative_to(self._root).as_posix(), path)


class _SharedFiles(TableFolders):
    """Files of a bucket, as they are on this machine."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedPlace, folders: Iterable[Path]) -> None:
        super().__init__(folders)
        self._shared = shared

    def file(self, location: str) -> Path:
        """Return where a file is, which is brought if it is not here yet."""
        here = self._shared.here(location)
        found = super().file(location if here is None else str(here))
        self._shared.bring(found)
        return found

    def has(self, location: str) -> bool:
        """Whether a file is there."""
        return self.file(location).is_file()

    def is_home(self, location: str, folder: Path) -> bool:
        """Whether a location that the table gives itself is that of its folder."""
        here = self._shared.here(location)
        return super().is_home(location if here is None else str(here), folder)
