"""A table in a bucket: read through copies of its files here, published by its metadata file.

    <url>/metadata/v<N>.metadata.json   as on a file system (`table`)
    <url>/metadata/*.avro, <url>/data/…

What a reader opens is brought to a folder of this machine once, as files of a table never
change. A location leads only to what is below the table's own URL: `s3://`, `s3a://` and
`s3n://` are one place. A version is published when nobody else has published one of its
number. Stores do not tell two writers of the same instant apart, and neither do Spark's
writers there, so a table in a bucket is for one writer at a time.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem, FileType

from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    InvalidArgumentError,
)
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.object_systems import object_system, reporting_store_errors
from havasu_vc.tables.locations import Places
from havasu_vc.tables.table import HINT, METADATA, Table, read_table

__all__ = ["BucketPlaces", "BucketTable", "plain_location"]

_ALIASES = re.compile(r"s3[an]://", re.IGNORECASE)
_VERSION = re.compile(r"v(\d{1,18})(?:\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_SAFE = re.compile(r"[A-Za-z0-9._=-]{1,120}")
_LARGEST_DOCUMENT = 1 << 30
_BLOCK = 1 << 20
THREADS = 8


def plain_location(location: str) -> str:
    """Return a location as it is spelled here, whichever name of the store's a writer used.

    >>> plain_location("s3a://maps/wells/"), plain_location("gs://maps/x")
    ('s3://maps/wells', 'gs://maps/x')
    """
    return _ALIASES.sub("s3://", location, count=1).rstrip("/")


class BucketTable:
    """The place of a table in a bucket, whether there is one or not."""

    def __init__(self, url: str) -> None:
        if "?" in url or "#" in url:
            raise InvalidArgumentError(
                f"{url.partition('?')[0]}: a table's URL has no options",
                hints=("say where the server is in the environment, as AWS_ENDPOINT_URL",),
            )
        self.url = plain_location(url)
        """Its location, as documents spell it."""
        found = object_system(self.url)
        self._system: FileSystem = found[0]
        self._root: str = found[1].rstrip("/")

    def versions(self) -> dict[int, str]:
        """Return the names of the metadata files that are there, by version."""
        found = {}
        for name, _ in self.files(METADATA):
            if match := _VERSION.fullmatch(name):
                found[int(match[1])] = name
        return found

    def files(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of the files of one of its folders."""
        selector = FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        with reporting_store_errors(self.url, "listed"):
            for info in self._system.get_file_info(selector):
                if info.type is FileType.File:
                    yield info.base_name, info.size

    def holds_anything(self) -> bool:
        """Whether any object lies below it."""
        selector = FileSelector(self._root, allow_not_found=True)
        with reporting_store_errors(self.url, "listed"):
            return bool(self._system.get_file_info(selector))

    def read(self, folder: Path, version: int | None = None) -> Table:
        """Return the newest version of the table, or one; copies of its files go to a folder."""
        versions = self.versions()
        number = max(versions, default=0) if version is None else version
        if number not in versions:
            raise CorruptionError(
                f"there is no table at {self.url}",
                hints=("the URL is that of the table itself, which has a folder `metadata`",),
            )
        places = BucketPlaces(self, folder)
        document = places.file(f"{self.url}/{METADATA}/{versions[number]}")
        named = folder / METADATA / versions[number]
        named.parent.mkdir(parents=True, exist_ok=True)
        named.unlink(missing_ok=True)
        named.hardlink_to(document)
        return replace(read_table(named), location=folder, places=places)

    def bring(self, name: str, target: Path) -> None:
        """Copy one of its files to this machine."""
        with reporting_store_errors(self.url, "read"):
            (info,) = self._system.get_file_info([f"{self._root}/{name}"])
            if info.type is not FileType.File:
                raise CorruptionError(f"{self.url}/{name} is missing, and the table needs it")
            if name.startswith(f"{METADATA}/") and info.size > _LARGEST_DOCUMENT:
                raise CorruptionError(f"{self.url}/{name} is larger than a document can be")
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{secrets.token_hex(8)}")
            try:
                with (
                    self._system.open_input_stream(info.path) as source,
                    temporary.open("xb") as written,
                ):
                    while data := source.read(_BLOCK):
                        written.write(data)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def send(self, path: Path, name: str) -> None:
        """Make a file of this machine one of its files; it is there when it is whole."""
        with reporting_store_errors(self.url, "written"), path.open("rb") as source:
            stream = self._system.open_output_stream(f"{self._root}/{name}")
            try:
                while data := source.read(_BLOCK):
                    stream.write(data)
            finally:
                stream.close()

    def copy_from(self, url: str, name: str, size: int) -> bool:
        """Have the store copy an object of its own; False where it has none of that size."""
        system, path = object_system(url)
        if not self._system.equals(system):
            return False
        with reporting_store_errors(self.url, "written"):
            (info,) = system.get_file_info([path])
            if info.type is not FileType.File or info.size != size:
                return False
            self._system.copy_file(path, f"{self._root}/{name}")
        return True

    def publish(self, metadata: TableMetadata, version: int, flavour: Flavour) -> None:
        """Make metadata the version of a number; raise when there is one of it, or a later one."""
        name = f"v{version}.metadata.json"
        document = format_metadata(metadata, flavour=flavour)
        parse_metadata(document, name)  # what every reader will see, or no version
        if max(self.versions(), default=0) >= version:
            raise self._overtaken()
        self._write(f"{METADATA}/{name}", document)
        if self._read(f"{METADATA}/{name}") != document:
            raise self._overtaken()
        self._write(f"{METADATA}/{HINT}", str(version).encode())

    def _write(self, name: str, data: bytes) -> None:
        with (
            reporting_store_errors(self.url, "written"),
            self._system.open_output_stream(f"{self._root}/{name}") as stream,
        ):
            stream.write(data)

    def _read(self, name: str) -> bytes:
        with (
            reporting_store_errors(self.url, "read"),
            self._system.open_input_stream(f"{self._root}/{name}") as stream,
        ):
            return bytes(stream.read())

    def _overtaken(self) -> ConcurrentChangeError:
        return ConcurrentChangeError(
            f"another program changed the table at {self.url} first",
            hints=("nothing was changed; try again",),
        )


class BucketPlaces(Places):
    """Files of a table in a bucket, as copies here."""

    __slots__ = ("_copies", "_known", "_table")

    def __init__(self, table: BucketTable, folder: Path) -> None:
        super().__init__([folder])
        self._table = table
        self._copies = folder / "copies"
        self._known: Callable[[str], Path | None] = lambda name: None

    def know(self, known: Callable[[str], Path | None]) -> None:
        """Ask for a file by its name first: data files that are here already need not come."""
        self._known = known

    def file(self, location: str) -> Path:
        """Return the copy of a file, which is brought if it is not here yet."""
        name = self._name(location)
        found = self._known(name.rpartition("/")[2]) if name.startswith("data/") else None
        if found is not None:
            return found
        target = self._copy(name)
        if not target.exists():
            self._table.bring(name, target)
        return target

    def bring(self, locations: Iterable[str]) -> None:
        """Have many files come side by side."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
            for _ in pool.map(self.file, locations):
                pass

    def _copy(self, name: str) -> Path:
        last = name.rpartition("/")[2]
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        return self._copies / (f"{digest}-{last}" if _SAFE.fullmatch(last) else digest)

    def _name(self, location: str) -> str:
        """Return what a location is called below the table's URL."""
        plain = plain_location(location)
        name = plain.removeprefix(self._table.url + "/")
        parts = name.split("/")
        if name == plain or any(part in ("", ".", "..") for part in parts) or len(name) > 1024:
            raise CorruptionError(
                f"the table names {location[:200]}, which is outside of {self._table.url}",
                hints=("a table that was copied still names its old place: read it there",),
            )
        return name
