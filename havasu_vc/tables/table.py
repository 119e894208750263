"""A table on a file system: which metadata file is its newest, and what that says.

    <location>/
      metadata/v<N>.metadata.json     one per version; `.gz.metadata.json` when compressed
      metadata/version-hint.text      N, or a number that was N some time ago
      metadata/*.avro                 manifest lists and manifests
      data/…                          data files and delete files

A version is published by the name of its metadata file coming to be, so the hint is
only where the search for the newest begins. Without a hint the folder is listed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    CorruptionError,
    DataFileNotFoundError,
    InvalidArgumentError,
    NotYetSupportedError,
    SourceNotFoundError,
    StorageError,
)
from havasu_vc.formats.iceberg.metadata import parse_metadata
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.records import dataclass
from havasu_vc.store.files import ALLOWED
from havasu_vc.store.system import WINDOWS

__all__ = [
    "HINT",
    "LARGEST_METADATA",
    "METADATA",
    "Table",
    "TableFolders",
    "damaged",
    "local_path",
    "location_of",
    "metadata_versions",
    "missing",
    "read_table",
    "reading_document",
    "reading_table_file",
    "table_exists",
]

METADATA = "metadata"
"""The folder of a table's documents."""
HINT = "version-hint.text"
"""The file that says where the search for the newest version begins."""

LARGEST_METADATA = 64 << 20
"""No metadata file of more bytes is parsed."""
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(\d{1,18})(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_CATALOG = re.compile(r"(\d{1,18})-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json")


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table."""

    location: Path
    """Its folder, absolute."""
    version: int
    """The number in the name of its metadata file."""
    metadata: TableMetadata
    """The metadata in that file."""
    metadata_file: Path
    """The file."""
    places: TableFolders = field(compare=False)
    """Where its files may be."""

    @property
    def moved_from(self) -> str | None:
        """Return where the table says that it is, None when that is where it is."""
        location = self.metadata.location
        return None if self.places.is_home(location, self.location) else location


def table_exists(location: Path) -> bool:
    """Whether a folder holds some version of a table."""
    return any(True for _ in metadata_versions(location))


def read_table(
    location: Path | str, *, version: int | None = None, allowed: Iterable[Path] = ()
) -> Table:
    """Return the newest version of the table in a folder, or the one that is named.

    `location` may also be a metadata file. Files of the table are read from its folder
    and from the folders in `allowed`, and from nowhere else.
    """
    path = Path(os.path.abspath(local_path(str(location)) if ":" in str(location) else location))
    if path.name.endswith((".metadata.json", ".metadata.json.gz")):
        folder, found, file = path.parent.parent, _version_of(path.name), path
    else:
        folder = path
        found, file = _named(folder, version) if version is not None else _newest(folder)
    places = TableFolders([folder, *allowed])
    metadata = _read_metadata(file)
    return Table(folder, found, metadata, file, places)


def metadata_versions(location: Path) -> Iterator[tuple[int, Path]]:
    """Yield the versions of a table that are there and their metadata files, in no order."""
    try:
        names = os.listdir(location / METADATA)
    except OSError:
        return
    for name in names:
        if match := _VERSION.fullmatch(name):
            yield int(match[1]), location / METADATA / name


def _version_of(name: str) -> int:
    match = _VERSION.fullmatch(name) or _CATALOG.fullmatch(name)
    return int(match[1]) if match else 0


def _named(folder: Path, version: int) -> tuple[int, Path]:
    file = _file_of(folder, version)
    if file is None:
        raise SourceNotFoundError(f"the table at {folder} has no version {version}")
    return version, file


def _newest(folder: Path) -> tuple[int, Path]:
    version = _hint(folder)
    file = _file_of(folder, version) if version is not None else None
    if file is None:
        # No hint, or one that names a file that is gone.
        found = max(metadata_versions(folder), default=None, key=lambda each: each[0])
        if found is None:
            raise _no_table(folder)
        version = found[0]
        file = _file_of(folder, version) or found[1]
    assert version is not None
    while (following := _file_of(folder, version + 1)) is not None:
        version, file = version + 1, following
    return version, file


def _hint(folder: Path) -> int | None:
    hint = folder / METADATA / HINT
    if not _is_own(folder, hint):
        return None
    try:
        with open(hint, "rb") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text) <= 18 else None


def _file_of(folder: Path, version: int) -> Path | None:
    for suffix in _SUFFIXES:
        path = folder / METADATA / f"v{version}{suffix}"
        if _is_own(folder, path):
            return path
    return None


def _is_own(folder: Path, path: Path) -> bool:
    """Whether a document of a table is there, a file and no link to outside of the table."""
    if not path.is_file():
        return False
    if not TableFolders([folder]).holds(path):
        raise damaged(path, "it leads to a file that is outside of the table")
    return True


def _no_table(folder: Path) -> SourceNotFoundError | CorruptionError:
    if not folder.is_dir():
        return SourceNotFoundError(f"there is no table at {folder}: no such folder")
    documents = folder / METADATA
    if (folder / "_delta_log").is_dir():
        return SourceNotFoundError(f"{folder} is a Delta table, not an Iceberg table")
    if not documents.is_dir():
        return SourceNotFoundError(
            f"there is no table at {folder}: it has no folder {METADATA!r}",
            hints=("a table of a Hadoop catalog is at <warehouse>/<namespace>/<table>",),
        )
    if any(_CATALOG.fullmatch(name) for name in os.listdir(documents)):
        return SourceNotFoundError(
            f"the table at {folder} belongs to a catalog, which alone knows its newest version",
            hints=("give the metadata file that the catalog names instead of the folder",),
        )
    return damaged(documents, "it holds no v<N>.metadata.json")


def _read_metadata(file: Path) -> TableMetadata:
    with reading_document(file):
        if not file.is_file():
            raise missing(file)
        if file.stat().st_size > LARGEST_METADATA:
            raise damaged(file, "it is larger than a metadata file can be")
        data = file.read_bytes()
        if not data.strip():
            raise damaged(file, "it is empty")
        return parse_metadata(data, str(file))


# Where a table says that its files are, as paths of this machine that may be opened.
#
# Iceberg names files by whole locations: `/x` and `file:/x` (Spark) and `file:///x` are
# the same file, and nothing in them is ever decoded. A table may come from a stranger, so
# a location leads only to a regular file inside the table's own folder, or a folder that
# the caller allows besides; symbolic links are followed before that is decided.
# Other file systems are refused; tables in a bucket have places of their own (`bucket`).
#
# Errors of a table that cannot be read: one line that names the file, and a way on.
#
# The readers below say of their files what is true in a repository; what is true of a
# table's files is said here. Nothing of a damaged table is ever deleted.


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)
_DRIVE = re.compile(
    r"(?:file:/(?://(?:localhost/)?)?)?([A-Za-z]:[/\\].*)", re.IGNORECASE | re.DOTALL
)
_LONGEST = 4096


def local_path(location: str) -> str:
    """Return the path of this machine that a location names; nothing is looked up.

    >>> local_path("file:/data/a%20b.parquet"), local_path("file:///data/c")
    ('/data/a%20b.parquet', '/data/c')
    """
    if len(location) > _LONGEST or "\0" in location:
        raise InvalidArgumentError(f"{location[:80]!r}… is not the location of a file")
    if WINDOWS and (match := _DRIVE.fullmatch(location)):
        return os.path.normpath(match[1])
    if location.startswith("/") and not location.startswith("//"):
        return location
    if match := _FILE.fullmatch(location):
        return match[1]
    if (match := _SCHEME.match(location)) and match[1].lower() != "file":
        raise NotYetSupportedError(
            f"{location!r} is on another file system, {match[1]}",
            hints=("copy the table to a folder of this machine",),
        )
    raise InvalidArgumentError(
        f"{location!r} is not the location of a file",
        hints=("a location is an absolute path or begins with file:/",),
    )


def location_of(path: Path) -> str:
    """Return the location of a file or folder of this machine."""
    return f"file:///{path.as_posix()}" if WINDOWS and path.drive else str(path)


class TableFolders:
    """The folders that the files of a table may be in.

    Folders are looked up once and remembered, so a check costs one look at the file.
    """

    __slots__ = ("_folders", "roots")

    def __init__(self, roots: Iterable[Path]) -> None:
        """Allow what is inside some folders."""
        self.roots = tuple(dict.fromkeys(os.path.realpath(root) for root in roots))
        """Their real paths."""
        self._folders: dict[str, str | None] = {}

    def file(self, location: str) -> Path:
        """Return where a file is that may be opened; that it is not there is no error yet."""
        path = local_path(location)
        folder, name = os.path.split(path)
        real = self._folder(folder)
        if real is None or name in ("", ".", ".."):
            raise self._refused(location)
        found = Path(real, name)
        try:
            mode = os.lstat(found).st_mode
        except OSError:
            return found  # whoever opens it says that it is missing
        if stat.S_ISLNK(mode):
            target = os.path.realpath(found)
            if not self._inside(target):
                raise self._refused(location)
            found = Path(target)
            mode = found.stat().st_mode if found.exists() else stat.S_IFREG
        if not stat.S_ISREG(mode):
            raise CorruptionError(f"{location} is not a file")
        return found

    def name(self, location: str) -> str:
        """Return what a file is called here, the same for all spellings of its location."""
        return os.fspath(self.file(location))

    def has(self, location: str) -> bool:
        """Whether a file is there, by a location that we gave it."""
        return Path(local_path(location)).is_file()

    def spelled(self, path: Path) -> str:
        """Return the location of a file of the table, as documents are to spell it."""
        return location_of(path)

    def written(self, path: Path) -> str:
        """Take note of a file that was written for the table, and return its location."""
        return self.spelled(path)

    def is_home(self, location: str, folder: Path) -> bool:
        """Whether a location that a table gives itself is that of its folder."""
        try:
            there = local_path(location)
        except (ValueError, NotYetSupportedError):
            return False
        return os.path.realpath(there) == os.path.realpath(folder)

    def bring(self, locations: Iterable[str]) -> None:
        """Have files here that are about to be read; those of this machine are."""

    def know(self, known: Callable[[str], Path | None]) -> None:
        """Ask for data files by their names first, where files would have to be brought."""

    def holds(self, path: Path) -> bool:
        """Whether a path of this machine leads to inside."""
        return self._inside(os.path.realpath(path))

    def _folder(self, folder: str) -> str | None:
        """Return the real path of a folder, None when it is outside."""
        if folder not in self._folders:
            real = os.path.realpath(folder)
            self._folders[folder] = real if self._inside(real) else None
        return self._folders[folder]

    def _inside(self, path: str) -> bool:
        # Where a system takes letters of both cases for the same, as it does.
        path = os.path.normcase(path)
        roots = map(os.path.normcase, self.roots)
        return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)

    def _refused(self, location: str) -> CorruptionError:
        return CorruptionError(
            f"the table names {location}, which is outside of {self.roots[0]}",
            hints=(
                "a table that was moved or copied still names its old place:"
                " read it there, or rewrite it",
                f"if its files belong there, `git config --add {ALLOWED} "
                f"{os.path.dirname(local_path(location))}` allows to read them",
            ),
        )


_HINT = (
    "restore the file, or make the table anew; of a checkout `havasu-vc restore DATASET` does, "
    "without the edits that it held"
)


def damaged(path: str | Path, reason: str) -> CorruptionError:
    """Return the error of a file of a table that is not what it must be."""
    return CorruptionError(f"{path}: {reason}", hints=(_HINT,))


def missing(path: str | Path) -> CorruptionError:
    """Return the error of a file that a table names and that is not there."""
    return CorruptionError(f"{path} is missing, and the table needs it", hints=(_HINT,))


@contextmanager
def reading_document(path: Path) -> Iterator[None]:
    """Let errors of the block tell of a document of a table."""
    try:
        yield
    except CorruptDatasetError as error:
        raise damaged(path, error.reason) from error
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        if type(error).__module__.startswith("havasu_vc"):
            raise
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def reading_table_file(path: str | Path) -> Iterator[None]:
    """Let errors of the block tell of a data file or delete file of a table."""
    try:
        yield
    except DataFileNotFoundError:
        raise missing(path) from None
    except CorruptDataFileError as error:
        raise damaged(path, error.reason) from error
    except CorruptDatasetError as error:
        raise damaged(path, error.reason) from error
