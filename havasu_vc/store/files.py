"""The data files of a repository, named by their content.

    <common git directory>/havasu/
      objects/<aa>/<bb>/<sha256>   a data file: complete, read-only, never changed
      temporary/<random>           a file in the making, on the same file system

The layout of `objects/` is git-lfs's, which sees the files by links (`lfs_links`). A file
gets its name when all of its bytes are on disk; the folders that hold the names are synced
once per commit, by `commit_all`, which must come before the commit that names the files.
Every method may be called from several threads and processes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    DataFileNotFoundError,
    NotFoundError,
    NotYetSupportedError,
)
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.store.system import WINDOWS, open_binary, set_mode, sync_file

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = [
    "ALLOWED",
    "DataFileStore",
    "LfsLinks",
    "LinkedFiles",
    "lfs_folder",
    "linked_location",
    "linked_path",
]


STALE_SECONDS = 24 * 60 * 60
"""A temporary file that nobody wrote to for so long was left by a crash."""

_NAME = re.compile(r"[0-9a-f]{64}")


class DataFileStore:
    """The data files below one folder, `<common git directory>/havasu`."""

    __slots__ = ("_lfs", "_lock", "_unsynced", "lfs_links", "objects", "root", "scratch")

    def __init__(self, root: Path, lfs: Path | None = None) -> None:
        """Use the store at `root`, which need not exist yet, and is shown to git-lfs at `lfs`."""
        self.root = Path(root)
        self._lfs = lfs
        self.lfs_links = None if lfs is None else LfsLinks(self.root, lfs)
        self.objects = self.root / "objects"
        self.scratch = self.root / "temporary"
        self._unsynced: set[str] = set()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[DataFileStore], tuple[Path, Path | None]]:
        return DataFileStore, (self.root, self._lfs)

    def temporary(self) -> Path:
        """Return a new path for a file that `put` will take, or that is removed if it is not."""
        with reporting_storage_errors(self.scratch):
            self.scratch.mkdir(parents=True, exist_ok=True)
        return self.scratch / uuid.uuid4().hex

    def put(self, temporary: Path, *, sha256: str | None = None) -> tuple[str, int]:
        """Take a complete file in under its hash, and return that and its size.

        The file is moved, or removed when the store has it or cannot take it. A caller that
        hashed the bytes while writing them gives `sha256`.
        """
        try:
            with reporting_storage_errors(self.objects):
                name, size = self._settled(temporary, sha256)
                place = self._place(name)
                if not self._holds(place, size):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(temporary, place)
                # Also when another process put it there: its folder may not be synced yet.
                with self._lock:
                    self._unsynced.add(name)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        return name, size

    def commit_all(self) -> None:
        """Make the names of all files that were put durable. Call it before the commit."""
        with self._lock:
            names, self._unsynced = sorted(self._unsynced), set()
        places = [self._place(name) for name in names]
        folders = {folder for place in places for folder in place.parents[:3]}
        with reporting_storage_errors(self.objects):
            for folder in sorted(folders):
                fsync_folder(folder)
        if self.lfs_links is not None:
            self.lfs_links.add(names)

    def show_all_to_lfs(self) -> None:
        """Link to every file here where git-lfs keeps its own."""
        if self.lfs_links is not None:
            self.lfs_links.add(self.iter())
            self.lfs_links.note()

    def path(self, sha256: str) -> Path:
        """Return where a file is; raise DataFileNotFoundError if it is not here."""
        place = self._place(sha256)
        if self._status(place, sha256) is None:
            raise DataFileNotFoundError(sha256)
        return place

    def location(self, sha256: str) -> Path:
        """Return where a file is or would be."""
        return self._place(sha256)

    def has(self, sha256: str) -> bool:
        """Return whether a file is here."""
        return self._status(self._place(sha256), sha256) is not None

    def size(self, sha256: str) -> int:
        """Return the size of a file; raise DataFileNotFoundError if it is not here."""
        status = self._status(self._place(sha256), sha256)
        if status is None:
            raise DataFileNotFoundError(sha256)
        return status.st_size

    def check_size(self, sha256: str, expected: int) -> None:
        """Raise CorruptDataFileError unless a file has its size; costs no reading."""
        if (found := self.size(sha256)) != expected:
            raise CorruptDataFileError(sha256, f"it has {found} bytes instead of {expected}")

    def verify(self, sha256: str) -> None:
        """Raise CorruptDataFileError unless a file's bytes have the hash that names it."""
        place = self.path(sha256)
        try:
            number = open_binary(place)
            with os.fdopen(number, "rb", buffering=0) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise CorruptDataFileError(sha256, f"it cannot be read ({error.strerror})") from error
        if found != sha256:
            raise CorruptDataFileError(sha256, f"its bytes have the hash {found}")

    def set_aside(self, sha256: str) -> Path:
        """Take a damaged file out of the store, and git-lfs's view of it; return where it is."""
        place, aside = self._place(sha256), self.temporary()
        if self.lfs_links is not None:
            self.lfs_links.remove(sha256)
        with reporting_storage_errors(place):
            os.replace(place, aside)
        return aside

    def put_back(self, sha256: str, aside: Path) -> None:
        """Put a file that was set aside where it was, unless another has come; it goes then."""
        place = self._place(sha256)
        with reporting_storage_errors(place):
            if place.exists():
                aside.unlink()
            else:
                os.replace(aside, place)

    def iter(self) -> Iterator[str]:
        """Yield the hash of every file here, in order."""
        for first in _names(self.objects, 2):
            for second in _names(self.objects / first, 2):
                for name in _names(self.objects / first / second, 64):
                    if name.startswith(first + second):
                        yield name

    def delete(self, sha256: str) -> int:
        """Remove a file, for gc, and return how many bytes that frees; 0 if it was not here."""
        place = self._place(sha256)
        if self.lfs_links is not None:
            self.lfs_links.remove(sha256)
        with reporting_storage_errors(place):
            try:
                size = place.lstat().st_size
                place.unlink()
            except FileNotFoundError:
                return 0
            for folder in (place.parent, place.parent.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()  # works when it is empty
        return size

    def delete_stale(self, age: float = STALE_SECONDS) -> int:
        """Remove what crashes left among the temporary files; return how many."""
        removed, oldest = 0, time.time() - age
        with contextlib.suppress(FileNotFoundError), os.scandir(self.scratch) as found:
            for item in found:
                with contextlib.suppress(FileNotFoundError), reporting_storage_errors(self.scratch):
                    if item.is_dir(follow_symlinks=False):
                        continue
                    if item.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(item.path)
                        removed += 1
        return removed

    def _place(self, sha256: str) -> Path:
        if not _NAME.fullmatch(sha256):
            # Names come from documents in git, and become paths.
            raise CorruptDataFileError(repr(sha256[:80]), "its name is not a sha256")
        return self.objects / sha256[:2] / sha256[2:4] / sha256

    def _status(self, place: Path, sha256: str) -> os.stat_result | None:
        try:
            status = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise CorruptDataFileError(sha256, f"it cannot be read ({error.strerror})") from error
        if not stat.S_ISREG(status.st_mode):
            raise CorruptDataFileError(sha256, "it is not an ordinary file")
        return status

    def _holds(self, place: Path, size: int) -> bool:
        """Return whether a file is there that need not be written again.

        One of another size is damaged, and the good one replaces it.
        """
        try:
            status = place.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        # gc spares what is young, and this file is about to be named by a commit.
        with contextlib.suppress(OSError):
            os.utime(place)
        return True

    def _settled(self, temporary: Path, sha256: str | None) -> tuple[str, int]:
        """Make a file's bytes durable and the file read-only; return its hash and size."""
        number = open_binary(temporary)
        with os.fdopen(number, "rb", buffering=0) as file:
            if sha256 is None:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            elif not _NAME.fullmatch(sha256):
                raise ValueError(f"{sha256!r} is not a sha256")
            set_mode(file.fileno(), temporary, 0o444)
            size = os.fstat(file.fileno()).st_size
        sync_file(temporary)
        return sha256, size


def _names(folder: Path, length: int) -> list[str]:
    """Return the names in a folder that are hex digits of that length, in order."""
    try:
        if folder.is_symlink():
            return []
        found = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(n for n in found if len(n) == length and re.fullmatch(r"[0-9a-f]+", n))


# Data files that a dataset names and that stay where their owner keeps them.
#
#     <common git directory>/havasu/linked/<aa>/<sha256>   a symbolic link to the file
#
# A commit names such a file by its hash and its location. What leads to it on this machine
# is a link here, made by whoever named the file (`import --link`), or when a commit of others
# names one that is in a folder which the user's own configuration allows and whose bytes have
# the hash. The link's time is the file's when its bytes were last known to be right: a file
# of another time or size is hashed again before it is read. Nothing here ever writes to,
# moves or removes a file that is linked to.

ALLOWED = "havasu.linked.allow"
"""The git setting with folders whose files may be read where others' commits name them."""

_SECOND = 1_000_000_000


def linked_location(path: Path) -> str:
    """Return how an entry names a file that stays where it is.

    >>> linked_location(Path("/data/a b.parquet"))
    'file:///data/a%20b.parquet'
    """
    return path.as_uri()


def linked_path(location: str) -> Path:
    """Return the path of this machine that an entry's location names; nothing is looked up."""
    try:
        parts = urlsplit(location)
        path = unquote(parts.path, errors="strict")
    except ValueError as error:
        raise CorruptDatasetError(location[:200], "it is not the location of a file") from error
    if parts.scheme != "file" and parts.scheme:
        raise NotYetSupportedError(
            f"the linked file {location} is on another file system, {parts.scheme}",
            hints=("only files of this machine can be linked",),
        )
    sound = parts.scheme == "file" and parts.netloc in ("", "localhost")
    if not sound or not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise CorruptDatasetError(location[:200], "it is not the location of a file")
    return Path(path[1:] if WINDOWS and re.match("/[A-Za-z]:", path) else path)


class LinkedFiles:
    """The links below one folder, and the folders that others' commits may lead to."""

    __slots__ = ("allowed", "root")

    def __init__(self, root: Path, allowed: tuple[str, ...] = ()) -> None:
        """Use the links at `root`, which need not exist yet."""
        self.root = root
        self.allowed = allowed

    def place(self, sha256: str) -> Path:
        """Return where the link to a file is or would be."""
        if not _NAME.fullmatch(sha256):
            raise CorruptDataFileError(repr(sha256[:80]), "its name is not a sha256")
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Whether there is a link to a file, which may be gone."""
        return self.place(sha256).is_symlink()

    def link(self, sha256: str, path: Path) -> Path:
        """Remember where a file is whose bytes have a hash, and return the link.

        A link that leads elsewhere is left when what is there still has the same size.
        """
        place = self.place(sha256)
        target = os.path.realpath(path)
        with reporting_storage_errors(place):
            found = os.stat(target)
            if self._is_good(place, found.st_size):
                return place
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_name(f".tmp-{secrets.token_hex(8)}")
            os.symlink(target, temporary)
            try:
                _set_time(temporary, found.st_mtime_ns)
                os.replace(temporary, place)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    temporary.unlink()
        return place

    def _is_good(self, place: Path, size: int) -> bool:
        try:
            found = os.stat(place)
        except OSError:
            return False
        return found.st_size == size and _same_time(os.lstat(place), found)

    def open(self, sha256: str, size: int, location: str, where: str) -> Path:
        """Return the link to a file that is there and is what its name says.

        `where` names the dataset in errors. Raises `NotFoundError` for a file that is gone
        or may not be read, `CorruptDataFileError` for one that was changed.
        """
        place = self.place(sha256)
        if not place.is_symlink():
            self._follow(sha256, size, location, where)
            return place
        found = self._status(place, location, where)
        if found.st_size != size:
            raise _changed(sha256, location, f"has {found.st_size} bytes instead of {size}")
        if not _same_time(os.lstat(place), found):
            self._verify(sha256, Path(os.path.realpath(place)), location)
            with contextlib.suppress(OSError):
                _set_time(place, found.st_mtime_ns)
        return place

    def _follow(self, sha256: str, size: int, location: str, where: str) -> None:
        """Link to a file that a commit of others names, if that may be and it is the one."""
        path = Path(os.path.realpath(linked_path(location)))
        if not any(_inside(path, folder) for folder in self.allowed):
            raise NotFoundError(
                f"{where}: the linked file {location} may not be read from this repository",
                hints=(
                    f"if you trust it, `git config --add {ALLOWED} {path.parent}` allows that "
                    "folder",
                    "or import the table where the file is, not linked, and push that",
                ),
            )
        found = self._status(path, location, where)
        if found.st_size != size:
            raise _changed(sha256, location, f"has {found.st_size} bytes instead of {size}")
        self._verify(sha256, path, location)
        self.link(sha256, path)

    def _status(self, path: Path, location: str, where: str) -> os.stat_result:
        try:
            found = os.stat(path)
        except OSError as error:
            reason = "" if error.errno == errno.ENOENT else f" ({error.strerror})"
            raise NotFoundError(
                f"{where}: the linked file {location} is not there{reason}",
                hints=(
                    "put it back where it was, or link the table again with "
                    "`havasu-vc import … --link --replace`",
                ),
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise NotFoundError(f"{where}: {location}, which is linked to, is not a file")
        return found

    def _verify(self, sha256: str, path: Path, location: str) -> None:
        try:
            with path.open("rb", buffering=0) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise CorruptDataFileError(sha256, f"{location}: {error.strerror}") from error
        if found != sha256:
            raise _changed(sha256, location, f"has the hash {found}")

    def iter(self) -> Iterator[str]:
        """Yield the hash of every file that is linked to, in order."""
        if not self.root.is_dir():
            return
        for folder in sorted(self.root.iterdir()):
            if folder.is_dir() and not folder.is_symlink():
                names = sorted(path.name for path in folder.iterdir())
                yield from (name for name in names if _NAME.fullmatch(name))

    def forget(self, sha256: str) -> None:
        """Remove a link; the file stays."""
        place = self.place(sha256)
        with reporting_storage_errors(place), contextlib.suppress(FileNotFoundError):
            place.unlink()


def _inside(path: Path, folder: str) -> bool:
    root = os.path.realpath(os.path.expanduser(folder))
    return os.path.isabs(os.path.expanduser(folder)) and str(path).startswith(
        root.rstrip("/") + "/"
    )


def _changed(sha256: str, location: str, reason: str) -> CorruptDataFileError:
    return CorruptDataFileError(sha256, f"{location}, which is linked to, {reason}")


def _set_time(link: Path, time_ns: int) -> None:
    if os.utime in os.supports_follow_symlinks:
        os.utime(link, ns=(time_ns, time_ns), follow_symlinks=False)


def _same_time(link: os.stat_result, file: os.stat_result) -> bool:
    known, now = link.st_mtime_ns, file.st_mtime_ns
    # A file system that keeps whole seconds only, in the repository or beside the file.
    whole = not known % _SECOND or not now % _SECOND
    return known // _SECOND == now // _SECOND if whole else known == now


# What git-lfs sees of the data files here: a link to each, where it keeps its own files.
#
#     <common git directory>/lfs/objects/<aa>/<bb>/<sha256>    a symbolic link into our store
#
# By these `git lfs fsck`, `fetch`, `ls-files` and `push` know the files. Our store itself is not
# given to git-lfs (`lfs.storage`), for two reasons: `git lfs prune` deletes all that it does not
# find named by branches, which would be edits, stashes and unfinished merges; and our garbage
# collection would delete what git-lfs keeps for other files of the repository. Of links nothing
# is lost, and `data fetch` makes them anew. Where links cannot be made, git-lfs sees less.

_ALL_MADE = "lfs-links"
"""A file of the data folder: what was there before there were links has them, too."""


def lfs_folder(repository: GitRepository) -> Path:
    """Return where git-lfs keeps its files."""
    return repository.common_directory / (repository.config.get("lfs.storage") or "lfs")


class LfsLinks:
    """The links to the files of one store."""

    __slots__ = ("_objects", "_relative", "_root", "folder")

    def __init__(self, root: Path, folder: Path) -> None:
        """Link to files of the store at `root` from the folder of git-lfs."""
        self._root = root
        self.folder = folder
        self._objects = folder / "objects"
        self._relative = folder.parent == root.parent

    def add(self, names: Iterable[str]) -> None:
        """Link to files where git-lfs has nothing of that name."""
        if self._objects == self._root / "objects":
            return  # the user has told it to use the store itself
        for name in names:
            place = self.place(name)
            with suppress(OSError):
                if not os.path.lexists(place):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.symlink(self._target(name), place)

    def replace(self, name: str) -> None:
        """Link to a file that was taken from what git-lfs has, instead of keeping both."""
        place = self.place(name)
        temporary = place.with_name(f".{secrets.token_hex(8)}")
        with suppress(OSError):
            os.symlink(self._target(name), temporary)
            os.replace(temporary, place)

    def remove(self, name: str) -> None:
        """Remove the link to a file; a file of git-lfs's own stays."""
        place = self.place(name)
        with suppress(OSError):
            if place.is_symlink():
                place.unlink()
                for folder in (place.parent, place.parent.parent):
                    folder.rmdir()  # works when it is empty

    def is_ours(self, name: str) -> bool:
        """Whether git-lfs has no file of its own of a name."""
        place = self.place(name)
        return place.is_symlink() or not place.exists()

    def place(self, name: str) -> Path:
        """Return where git-lfs looks for a file."""
        return self._objects / name[:2] / name[2:4] / name

    @property
    def noted(self) -> bool:
        """Whether it is written down that every file has its link."""
        return (self._root / _ALL_MADE).exists()

    @property
    def all_made(self) -> bool:
        """Whether files from before there were links have theirs."""
        return self.noted or not (self._root / "objects").exists()

    def note(self) -> None:
        """Write down that every file has its link, or gets it when it comes."""
        with suppress(OSError):
            self._root.mkdir(parents=True, exist_ok=True)
            (self._root / _ALL_MADE).touch()

    def _target(self, name: str) -> Path:
        ours = Path("objects", name[:2], name[2:4], name)
        return Path("../../../..", self._root.name) / ours if self._relative else self._root / ours
