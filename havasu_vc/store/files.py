"""The data files of a repository, named by their content.

    <common git directory>/havasu/
      objects/<aa>/<bb>/<sha256>   a data file: complete, read-only, never changed
      temporary/<random>           a file in the making, on the same file system

The layout of `objects/` is git-lfs's, which sees the files by links (`lfs_links`). A file
gets its name when all of its bytes are on disk; the folders that hold the names are synced
once per commit, by `commit_all`, which must come before the commit that names the files.
Every method may be called from several threads and processes.
"""

import contextlib
import hashlib
import os
import re
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError
from havasu_vc.store.durability import fsync_folder, reporting_storage_errors
from havasu_vc.store.lfs_links import LfsLinks

__all__ = ["DataFileStore"]

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

    def __reduce__(self) -> tuple[type["DataFileStore"], tuple[Path, Path | None]]:
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
            number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(number, "rb", buffering=0) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise CorruptDataFileError(sha256, f"it cannot be read ({error.strerror})") from error
        if found != sha256:
            raise CorruptDataFileError(sha256, f"its bytes have the hash {found}")

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
        number = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, "rb", buffering=0) as file:
            if sha256 is None:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            elif not _NAME.fullmatch(sha256):
                raise ValueError(f"{sha256!r} is not a sha256")
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
            return sha256, os.fstat(file.fileno()).st_size


def _names(folder: Path, length: int) -> list[str]:
    """Return the names in a folder that are hex digits of that length, in order."""
    try:
        if folder.is_symlink():
            return []
        found = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(n for n in found if len(n) == length and re.fullmatch(r"[0-9a-f]+", n))
