"""Where a table says that its files are, as paths of this machine that may be opened.

Iceberg names files by whole locations: `/x` and `file:/x` (Spark) and `file:///x` are
the same file, and nothing in them is ever decoded. A table may come from a stranger, so
a location leads only to a regular file inside the table's own folder, or a folder that
the caller allows besides; symbolic links are followed before that is decided.
Other file systems are refused; tables in a bucket have places of their own (`bucket`).

Errors of a table that cannot be read: one line that names the file, and a way on.

The readers below say of their files what is true in a repository; what is true of a
table's files is said here. Nothing of a damaged table is ever deleted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    CorruptionError,
    DataFileNotFoundError,
    InvalidArgumentError,
    NotYetSupportedError,
    StorageError,
)
from havasu_vc.store.files import ALLOWED
from havasu_vc.store.system import WINDOWS

__all__ = [
    "TableFolders",
    "damaged",
    "local_path",
    "location_of",
    "missing",
    "reading_document",
    "reading_table_file",
]

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
