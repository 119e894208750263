"""Where a table of the workspace is: one idea, whether that is a folder or a bucket.

What a checkout does (`materialise`), how a table is found (`condition`) and what is taken in
from it is the same everywhere. A place knows how documents are looked for, how data files
get there, how a version is published, and how what is not needed goes. Documents are written
below `folder` on this machine in either case: it is the table's own, or one of copies, from
which they are sent before a version names them.

A table goes: from one instant to the next, and its empty parent folders with it.

Nothing decides here that a table may go. One that cannot be read goes only where nothing
in it says that it is another table.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import CorruptDataFileError, HavasuError, StateError, StorageError
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.copying import copy_checked
from havasu_vc.store.disk import read_ordinary, reporting_storage_errors
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_system, reporting_store_errors
from havasu_vc.store.object_urls import shown_url
from havasu_vc.store.system import clone_blocks, set_mode, sync_file
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import LARGEST_METADATA, Table, TableFolders
from havasu_vc.workspace.state import FileIdentity, TableState, identify

__all__ = [
    "TEMPORARY",
    "Holds",
    "TablePlace",
    "copy_from_bucket",
    "in_the_way",
    "is_newest",
    "link_file",
    "remove_leftovers",
    "remove_table",
    "remove_unreadable",
]


class Holds(StrEnum):
    """The finds at a place."""

    NOTHING = "nothing"
    """Nothing, or folders alone: tables of other datasets may lie below."""
    TABLE = "table"
    """Some version of a table."""
    OTHERS = "others"
    """Something that is no table."""


class TablePlace(Protocol):
    """Where one table is, or will be."""

    @property
    def location(self) -> str:
        """The place as documents spell it and people know it: a path or a URL."""

    @property
    def folder(self) -> Path:
        """Where its documents are on this machine."""

    @property
    def places(self) -> TableFolders:
        """Where its files are found."""

    def holds(self) -> Holds:
        """Return what is there."""

    def exists(self) -> bool:
        """Whether anything is left of a table."""

    def newest(self) -> int | None:
        """Return the number of the newest version, None where there is none."""

    def newest_document(self, version: int) -> FileIdentity | None:
        """Return what tells our metadata file of a version from another one of its name.

        None when it is not there, or there is one after it.
        """

    def read(self, version: int | None = None) -> Table:
        """Return the newest version, or one."""

    def metadata_files(self) -> Iterator[Path]:
        """Yield the metadata files that are there, as files of this machine."""

    def put(self, view: DatasetInFiles, *, copy: bool) -> Mapping[str, FileIdentity]:
        """Have the data files of a dataset there, and return what tells them from others."""

    def readable_files(self) -> Mapping[str, str]:
        """Return where the data files that were put there are read by others, by their names.

        None of those in a folder are.
        """

    def publish(self, table: Table | None, metadata: TableMetadata, flavour: Flavour) -> Table:
        """Make metadata the version after `table`, once all that was written is there.

        Raises `ConcurrentChangeError` when another writer was faster; nothing has changed then.
        """

    def abandoned(self, needed: set[str]) -> Iterable[str]:
        """Return the names of files that checkouts which died left there."""

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that no version needs, by their names (`Places.name`)."""

    def check_files(self, known: TableState, store: DataFileStore) -> None:
        """Raise when a data file that was put there is gone or was changed, if that is cheap."""

    def is_whole(self, known: TableState) -> bool:
        """Whether none of the files that were put there was removed."""

    def require_inside(self) -> None:
        """Raise when the place is not where it seems to be: the repository may be a stranger's."""

    def remove(self) -> None:
        """Remove the table; nobody sees half of it."""


def in_the_way(place: TablePlace) -> StateError:
    """Return what is wrong where something that no checkout made is in a table's place."""
    return StateError(
        f"something else is at {place.location}",
        hints=("move it away, then `havasu-vc checkout`",),
    )


def is_newest(place: TablePlace, version: int) -> bool:
    """Whether our metadata file of a version is there, and none after it."""
    return place.newest_document(version) is not None


def remove_table(root: Path, location: Path) -> None:
    """Remove the folder of a table below a root; nobody sees half of it."""
    doomed = root / f"{TEMPORARY}removed-{secrets.token_hex(8)}"
    with reporting_storage_errors(location):
        try:
            os.rename(location, doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)
    for folder in location.relative_to(root).parents[:-1]:
        with suppress(OSError):
            (root / folder).rmdir()  # works when it is empty


def remove_unreadable(place: TablePlace, table_uuid: str) -> bool:
    """Remove a table whose metadata or manifests cannot be read; return whether it was so.

    Raises `StateError`, and removes nothing, where it says that it is another table.
    """
    try:
        table = place.read()
        for manifest in manifests_of(table, table.metadata.snapshot):
            list(read_manifest(table, manifest))  # it reads as it goes
    except StorageError:
        raise  # what cannot be reached may be sound
    except HavasuError:
        told = set(_told_uuids(place))
        if told and table_uuid not in told:
            raise in_the_way(place) from None
        place.remove()
        return True
    return False


def _told_uuids(place: TablePlace) -> Iterator[str]:
    """Yield the ids that a table's metadata files give it, also those that end too soon."""
    for path in place.metadata_files():
        for found in _UUID.finditer(read_ordinary(path, LARGEST_METADATA) or b""):
            yield found[1].decode("utf-8", "replace")


_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"\\]+)"')


def remove_leftovers(root: Path) -> None:
    """Remove what a removal that died left behind."""
    with suppress(OSError):
        for item in root.iterdir():
            if item.name.startswith(f"{TEMPORARY}removed-"):
                shutil.rmtree(item, ignore_errors=True)


# A file of the store put into a table: without its bytes where that can be.
#
# In this order: a reflink (another file that shares its blocks, so that nobody who writes
# into it reaches the store), a hard link (the same file, which is read-only), a copy. A
# name appears when its file is complete, and never stands for other bytes again.

TEMPORARY = ".havasu-"
"""How names of files in the making begin; readers of tables pass over them."""

_NO_LINK = frozenset(
    (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS)
)
"""The store is on another file system, has no room for another link, or may not be linked."""


def link_file(
    source: Path, target: Path, size: int, *, copy: bool = False, reflink: bool = True
) -> FileIdentity:
    """Give a file of the store a second name, and return what tells it from a changed one.

    A file of that name and size is the one: names are hashes. `reflink` may be off where
    it is known that the file system has none.
    """
    with reporting_storage_errors(target):
        return _known(target, size) or _placed(source, target, copy=copy, reflink=reflink)


def _known(target: Path, size: int) -> FileIdentity | None:
    """Return what tells a file that is there from a changed one; None where there is none."""
    try:
        found = identify(target)
    except FileNotFoundError:
        return None
    if found.size != size:
        raise CorruptDataFileError(
            target.name.partition(".")[0], f"{target} was changed in place; remove it"
        )
    return found


def _placed(source: Path, target: Path, *, copy: bool, reflink: bool) -> FileIdentity:
    source = source.resolve()  # a file that stays where its owner keeps it is led to by a link
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        if not (reflink and not copy and _cloned(source, temporary)):
            if not copy and _linked(source, target):
                return identify(target)
            shutil.copyfile(source, temporary)
        sync_file(temporary)
        set_mode(None, temporary, 0o444)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return identify(target)


class _Reporting:
    """Bytes that are written for a file, whose errors are not those of what is read for it."""

    def __init__(self, written: IO[bytes], target: Path) -> None:
        self._written = written
        self._target = target

    def write(self, data: memoryview) -> None:
        """Take bytes, all of them."""
        with reporting_storage_errors(self._target):
            self._written.write(data)


def copy_from_bucket(url: str, target: Path, file: str, size: int) -> FileIdentity | None:
    """Give a file of a bucket a name here, its bytes checked while they come; None without one.

    A file of that name and size is the one.
    """
    with reporting_storage_errors(target):
        if (known := _known(target, size)) is not None:
            return known
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    system, path = object_system(url)
    try:
        with (
            reporting_store_errors(shown_url(url), "read", passing=(FileNotFoundError,)),
            system.open_input_stream(path) as source,
            temporary.open("xb") as written,
        ):
            copy_checked(source, _Reporting(written, target), file, size)
        sync_file(temporary)
        set_mode(None, temporary, 0o444)
        os.replace(temporary, target)
    except FileNotFoundError:
        return None
    finally:
        temporary.unlink(missing_ok=True)
    return identify(target)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def _cloned(source: Path, target: Path) -> bool:
    """Share a file's blocks; leave nothing behind where the file system cannot."""
    try:
        with open(source, "rb") as old, open(target, "xb") as new:
            clone_blocks(old.fileno(), new.fileno())
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        return False
    return True
