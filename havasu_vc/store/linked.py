"""Data files that a dataset names and that stay where their owner keeps them.

    <common git directory>/havasu/linked/<aa>/<sha256>   a symbolic link to the file

A commit names such a file by its hash and its location. What leads to it on this machine
is a link here, made by whoever named the file (`import --link`), or when a commit of others
names one that is in a folder which the user's own configuration allows and whose bytes have
the hash. The link's time is the file's when its bytes were last known to be right: a file
of another time or size is hashed again before it is read. Nothing here ever writes to,
moves or removes a file that is linked to.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    NotFoundError,
    NotYetSupportedError,
)
from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["ALLOWED", "LinkedFiles", "linked_location", "linked_path"]

ALLOWED = "havasu.linked.allow"
"""The git setting with folders whose files may be read where others' commits name them."""

_NAME = re.compile(r"[0-9a-f]{64}")
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
    return Path(path)


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
                    "or import the table without --link where the file is, and push that",
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
