"""A table in a bucket: read through copies of its files here, published by its metadata file.

    <url>/metadata/v<N>.metadata.json   as on a file system (`table`)
    <url>/metadata/*.avro, <url>/data/…

What a reader opens is brought to a folder of this machine once, as files of a table never
change. A location leads only to what is below the table's own URL: `s3://`, `s3a://` and
`s3n://` are one place.

A version is published by an object that the store makes only where there is none of its name
(`store.conditional_writes`). Where the store cannot be asked so, it is looked for, written
and read again, which two writers of the same instant may both get through. Spark's writers
ask first and write then, so one of them may still replace a version that was just published.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    InvalidArgumentError,
)
from havasu_vc.formats.iceberg.metadata import format_metadata, format_metadata_3, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import NativeTypes
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.store.object_systems import create_object, object_system, reporting_store_errors
from havasu_vc.store.object_urls import shown_url, with_endpoint
from havasu_vc.tables.table import HINT, METADATA, Table, TableFolders, read_table

__all__ = [
    "BucketPlaces",
    "BucketTable",
    "bringing",
    "copied_here",
    "folder_of_copies",
    "plain_location",
]

_ALIASES = re.compile(r"s3[an]://", re.IGNORECASE)
_VERSION = re.compile(r"v(\d{1,18})(?:\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_SAFE = re.compile(r"[A-Za-z0-9._=-]{1,120}")
_LARGEST_DOCUMENT = 1 << 30
_BLOCK = 8 << 20
"""Bytes that one request asks for."""
THREADS = 8


def plain_location(location: str) -> str:
    """Return a location as it is spelled here, whichever name of the store's a writer used.

    >>> plain_location("s3a://maps/wells/"), plain_location("gs://maps/x")
    ('s3://maps/wells', 'gs://maps/x')
    """
    return _ALIASES.sub("s3://", location, count=1).rstrip("/")


@cache  # until the process ends: one that is forgotten goes, and somebody may be reading it
def _copies(url: str) -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="havasu-vc-table-")


def folder_of_copies(url: str) -> Path:
    """Return a folder for copies of a table's files, called as the table is; it goes when we do."""
    return Path(_copies(url).name) / (PurePosixPath(urlsplit(url).path).name or "table")


class BucketTable:
    """The place of a table in a bucket, whether there is one or not; nothing is asked unasked."""

    def __init__(self, url: str) -> None:
        if "?" in url or "#" in url:
            raise InvalidArgumentError(
                f"{url.partition('?')[0]}: a table's URL has no options",
                hints=("say where the server is in the environment, as AWS_ENDPOINT_URL",),
            )
        parts = urlsplit(url)
        if "@" in parts.netloc and not parts.scheme.startswith("abfs"):
            raise InvalidArgumentError(
                f"{shown_url(url)} was given with a secret, which would be written into tables",
                hints=("credentials are taken from the environment, as other programs take them",),
            )
        self.url = plain_location(url)
        """Its location, as documents spell it."""

    @cached_property
    def _opened(self) -> tuple[FileSystem, str]:
        system, path = object_system(self.url)
        return system, path.rstrip("/")

    @property
    def _system(self) -> FileSystem:
        return self._opened[0]

    @property
    def _root(self) -> str:
        return self._opened[1]

    def versions(self) -> dict[int, str]:
        """Return the names of the metadata files that are there, by version."""
        return {number: info.base_name for number, info in self.documents().items()}

    def documents(self) -> dict[int, FileInfo]:
        """Return what the store says of the metadata files that are there, by version."""
        found = {}
        for info in self.files(METADATA):
            if match := _VERSION.fullmatch(info.base_name):
                found[int(match[1])] = info
        return found

    def files(self, folder: str = "") -> Iterator[FileInfo]:
        """Yield what the store says of the files in one of its folders, not of those below."""
        selector = FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        with reporting_store_errors(self.url, "listed"):
            for info in self._system.get_file_info(selector):
                if info.type is FileType.File:
                    yield info

    def has(self, name: str) -> bool:
        """Whether one of its files is there."""
        with reporting_store_errors(self.url, "asked"):
            (info,) = self._system.get_file_info([f"{self._root}/{name}"])
            return bool(info.type is FileType.File)

    def read(
        self, folder: Path, version: int | None = None, *, places: BucketPlaces | None = None
    ) -> Table:
        """Return the newest version of the table, or one; copies of its files go to a folder."""
        versions = self.versions()
        number = max(versions, default=0) if version is None else version
        if number not in versions:
            raise CorruptionError(
                f"there is no table at {self.url}",
                hints=("the URL is that of the table itself, which has a folder `metadata`",),
            )
        return self.read_document(folder, versions[number], places=places)

    def read_document(
        self, folder: Path, document: str, *, places: BucketPlaces | None = None
    ) -> Table:
        """Return the version of the table that a metadata file tells, by its name."""
        name = f"{METADATA}/{document}"
        # Always anew: of all files these alone may come to be others under their names.
        self.bring(name, folder / name)
        places = BucketPlaces(self, folder) if places is None else places
        try:
            table = read_table(folder / name)
        except CorruptionError as error:
            there = error.message.replace(str(folder), self.url)
            raise CorruptionError(there, hints=error.hints) from error
        return replace(table, location=folder, places=places)

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

    def bring_all(self, names: Iterable[str], folder: Path) -> None:
        """Copy some of its files, a few at a time, to a folder, in which some may be already."""
        wanted = []
        for name in names:
            if any(part in ("", ".", "..") for part in name.split("/")) or len(name) > 1024:
                raise self.outside(name)
            if not (folder / name).exists():
                wanted.append(name)
        _side_by_side(lambda name: self.bring(name, folder / name), wanted)

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

    def publish(
        self,
        metadata: TableMetadata,
        version: int,
        flavour: Flavour,
        types: NativeTypes = MappingProxyType({}),
    ) -> bytes:
        """Make metadata the version of a number, and return its document.

        `types` are those of columns that version 3 calls otherwise than our schema does.
        Raises `ConcurrentChangeError` when there is one of that number, or a later one.
        """
        name = f"v{version}.metadata.json"
        if metadata.format_version > 2:
            document = format_metadata_3(metadata, types)
        else:
            document = format_metadata(metadata, flavour=flavour)
        parse_metadata(document, name)  # what every reader will see, or no version
        if max(self.versions(), default=0) >= version:
            raise self._overtaken()
        if not self.create(f"{METADATA}/{name}", document):
            raise self._overtaken()
        self._write(f"{METADATA}/{HINT}", str(version).encode())
        return document

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one of its name; return whether what is there is ours."""
        made = create_object(f"{self.url}/{name}", data)
        if made is None and not self.has(name):
            self._write(name, data)
        # What seems to be another's is ours where the answer to our first try was lost.
        return bool(made) or (self.has(name) and self._read(name) == data)

    def remove(self, names: Iterable[str]) -> None:
        """Remove some of its files; those that are gone already do not matter."""

        def removed(name: str) -> None:
            with reporting_store_errors(self.url, "written"), suppress(FileNotFoundError):
                self._system.delete_file(f"{self._root}/{name}")

        _side_by_side(removed, names)

    def remove_all(self) -> None:
        """Remove the table: first what makes it one, so that nobody reads half of it."""
        documents = sorted(self.versions().items(), reverse=True)
        self.remove([f"{METADATA}/{HINT}"])
        for _, name in documents:
            self.remove([f"{METADATA}/{name}"])
        with reporting_store_errors(self.url, "written"):
            for folder in (METADATA, "data"):
                with suppress(FileNotFoundError):
                    self._system.delete_dir(f"{self._root}/{folder}")

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

    def outside(self, location: str) -> CorruptionError:
        """Return the error for a file that the table names and that is not below its URL."""
        return CorruptionError(
            f"the table names {location[:200]}, which is outside of {self.url}",
            hints=("a table that was copied still names its old place: read it there",),
        )

    def _overtaken(self) -> ConcurrentChangeError:
        return ConcurrentChangeError(
            f"another program changed the table at {self.url} first",
            hints=("nothing was changed; try again",),
        )


class BucketPlaces(TableFolders):
    """Files of a table in a bucket, as copies here; `later`, those that a task brings itself."""

    __slots__ = ("_home", "_known", "_later", "_table", "_written")

    def __init__(self, table: BucketTable, folder: Path, *, later: bool = False) -> None:
        super().__init__([folder])
        self._later = later
        self._table = table
        self._home = folder
        self._known: Callable[[str], Path | None] = lambda name: None
        self._written: dict[str, Path] = {}

    def know(self, known: Callable[[str], Path | None]) -> None:
        """Ask for a file by its name first: data files that are here already need not come."""
        self._known = known

    def file(self, location: str) -> Path:
        """Return the copy of a file, which is brought if it is not here yet."""
        name = self.name(location)
        found = self._known(name.rpartition("/")[2]) if name.startswith("data/") else None
        if found is not None:
            return found
        target = self._copy(name)
        if not self._later and not target.exists():
            self._table.bring(name, target)
        return target

    def url(self, location: str) -> str | None:
        """Return the URL at which any machine reads a file; None where no URL can name it."""
        name = self.name(location)
        return (
            None
            if set("?#") & set(name)
            else with_endpoint(f"{self._table.url}/{name}", os.environ)
        )

    def later(self) -> BucketPlaces:
        """Return them as places of copies that are not brought here."""
        return BucketPlaces(self._table, self._home, later=True)

    def bringing(self, task: Task, locations: Iterable[str]) -> Task:
        """Return a task that first brings some files to where it runs."""
        names = {self.name(location) for location in locations}
        copies = {name: self._copy(name).relative_to(self._home).as_posix() for name in names}
        return bringing(task, self._table.url, copies, self._home)

    def has(self, location: str) -> bool:
        """Whether a file is in the bucket."""
        return self._table.has(self.name(location))

    def spelled(self, path: Path) -> str:
        """Return the location of a file by the place of its copy."""
        return f"{self._table.url}/{path.relative_to(self._home).as_posix()}"

    def written(self, path: Path) -> str:
        """Take note of a file that is to be sent before a version names it."""
        self._written[path.relative_to(self._home).as_posix()] = path
        return self.spelled(path)

    @property
    def unsent(self) -> list[str]:
        """The names of files that were written and are still to be sent."""
        return list(self._written)

    def send_written(self) -> None:
        """Send the files that were written since this was done last."""
        _side_by_side(lambda name: self._table.send(self._written[name], name), self._written)
        self._written.clear()

    def is_home(self, location: str, folder: Path) -> bool:
        """Whether a location that the table gives itself is its URL."""
        return plain_location(location) == self._table.url

    def bring(self, locations: Iterable[str]) -> None:
        """Have many files come side by side."""
        _side_by_side(self.file, locations)

    def forget(self, name: str) -> None:
        """Remove the copy of a file, which is not in the bucket any more."""
        self._copy(name).unlink(missing_ok=True)

    def _copy(self, name: str) -> Path:
        if all(_SAFE.fullmatch(part) for part in name.split("/")):
            return self._home / name
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        last = name.rpartition("/")[2]
        return self._home / "copies" / (f"{digest}-{last}" if _SAFE.fullmatch(last) else digest)

    def name(self, location: str) -> str:
        """Return what a location is called below the table's URL."""
        plain = plain_location(location)
        name = plain.removeprefix(self._table.url + "/")
        parts = name.split("/")
        if name == plain or any(part in ("", ".", "..") for part in parts) or len(name) > 1024:
            raise self._table.outside(location)
        return name


def bringing(task: Task, url: str, copies: Mapping[str, str], home: Path) -> Task:
    """Return a task that brings files below a URL for itself, wherever it runs.

    `copies` says where below `home` it looks for them, by their names.
    """
    place = with_endpoint(url, os.environ)
    return task_of(run_on_copies, task, place, tuple(sorted(copies.items())), str(home))


@kernel
def run_on_copies(
    task: Task, url: str, copies: tuple[tuple[str, str], ...], home: str
) -> Iterator[pa.RecordBatch]:
    """Yield what a task does, on copies of files that are there for as long as it runs."""
    system, root = object_system(url)
    with TemporaryDirectory(prefix="havasu-vc-table-") as folder:

        def bring(each: tuple[str, str]) -> None:
            target = Path(folder, each[1])
            target.parent.mkdir(parents=True, exist_ok=True)
            missing = (FileNotFoundError,)
            with reporting_store_errors(shown_url(url), "read", passing=missing):
                try:
                    with (
                        system.open_input_stream(f"{root.rstrip('/')}/{each[0]}") as source,
                        target.open("xb") as written,
                    ):
                        shutil.copyfileobj(source, written, _BLOCK)
                except FileNotFoundError as error:
                    lost = f"{shown_url(url)}/{each[0]} is missing, and the table needs it"
                    raise CorruptionError(lost) from error

        _side_by_side(bring, copies)
        yield from run_task(_moved(task, home, folder))


@contextmanager
def copied_here(url: str) -> Iterator[str]:
    """Give the path of a copy of a file of a table, which goes; errors tell of the file."""
    system, place = object_system(url)
    with TemporaryDirectory(prefix="havasu-vc-table-") as folder:
        path = Path(folder, PurePosixPath(place).name)
        with reporting_store_errors(shown_url(url), "read", passing=(FileNotFoundError,)):
            try:
                with system.open_input_stream(place) as source, path.open("xb") as written:
                    shutil.copyfileobj(source, written, _BLOCK)
            except FileNotFoundError as error:
                lost = f"{shown_url(url)} is missing, and the table needs it"
                raise CorruptionError(lost) from error
        try:
            yield str(path)
        except CorruptionError as error:
            there = error.message.replace(str(path), shown_url(url))
            raise CorruptionError(there, hints=error.hints) from error


def _moved(value: Any, old: str, new: str) -> Any:
    """Return a task, or what it is told, with paths below one folder as those below another."""
    if isinstance(value, str):
        inside = value == old or value.startswith(f"{old}{os.sep}")
        return new + value[len(old) :] if inside else value
    if isinstance(value, tuple):
        return tuple(_moved(each, old, new) for each in value)
    if is_dataclass(value) and not isinstance(value, (type, Schema)):
        told = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return replace(value, **{name: _moved(each, old, new) for name, each in told.items()})
    return value


def _side_by_side(work: Callable[[Any], object], names: Iterable[Any]) -> None:
    """Do the same for each of many names, a few at a time."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
        for _ in pool.map(work, names):
            pass
