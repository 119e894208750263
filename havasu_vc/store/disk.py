"""Durability: bytes that survive a power cut, and what to say when they cannot.

A file is durable when its content was synced before it got its name and its folder
after. `replace_file` does both for small files; the stores do it in larger steps.

Folders that live as long as a block does.

They have a name of their own below some folder, so that what a killed command left behind is
known for what it is, and `gc` removes it by its age.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from havasu_vc.errors import HavasuError, StorageError
from havasu_vc.store.system import open_binary, open_folder, set_mode

__all__ = [
    "fsync_folder",
    "may_write",
    "name_file",
    "no_room",
    "read_ordinary",
    "reason_of",
    "replace_file",
    "reporting_storage_errors",
    "scratch_folder",
    "short_lived_folder",
    "swap_folders",
]

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than the system allows",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
}


def reason_of(error: OSError) -> str:
    """Return why the system did not write, in our words where it is common.

    >>> reason_of(OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space"))
    'the disk is full'
    """
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


@contextlib.contextmanager
def reporting_storage_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into StorageError."""
    try:
        yield
    except HavasuError:
        raise  # some are OSErrors, and have said what they mean
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {reason_of(error)}") from error


def may_write(path: Path) -> bool:
    """Whether a file may be written, or made where there is none yet, with the folders above it."""
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    return os.access(there, os.W_OK | os.X_OK if there.is_dir() else os.W_OK)


def read_ordinary(path: Path, most: int) -> bytes | None:
    """Return the beginning of a file; None where there is none, or a link, a pipe or a device."""
    try:
        with os.fdopen(open_binary(path), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return file.read(most)
    except OSError:
        return None


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def no_room(error: BaseException) -> StorageError | None:
    """Return what an error means when it came of a disk that takes no more, wherever it arose."""
    if not isinstance(error, OSError) or isinstance(error, HavasuError):
        return None
    if error.errno not in _NO_ROOM:
        return None
    where = f"{error.filename} cannot" if error.filename else "a file cannot"
    return StorageError(
        f"{where} be written: {_REASONS[error.errno]}", hints=("make room, then try again",)
    )


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system lets one ask for that."""
    number = open_folder(folder)
    if number is None:
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


_HERE, _NO_REPLACE, _EXCHANGE = -100, 1, 2
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def name_file(temporary: Path, final: Path) -> None:
    """Give a whole file a name that nobody has; FileExistsError where somebody was faster.

    Whether it keeps its first name too depends on the file system, of which not all have links.
    """
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_to_new(temporary, final)


def _rename_to_new(temporary: Path, final: Path) -> None:
    if os.name == "nt":
        os.rename(temporary, final)
        return
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        names = (os.fsencode(temporary), os.fsencode(final))
        if rename(_HERE, names[0], _HERE, names[1], _NO_REPLACE) == 0:
            return
        if ctypes.get_errno() == errno.EEXIST:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
    # Still only one makes the name, which for an instant stands for an empty file.
    with final.open("xb"):
        pass
    os.replace(temporary, final)


def swap_folders(one: Path, other: Path) -> None:
    """Give each of two folders the other's name, at once where the system can.

    Elsewhere `other` has no name for a moment; what it held is then beside `one`.
    """
    import ctypes

    library = None if os.name == "nt" else ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    names = (os.fsencode(one), os.fsencode(other))
    if rename is not None and rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0:
        return
    aside = one.with_name(f"{one.name}-before")
    os.rename(other, aside)
    try:
        os.rename(one, other)
    except BaseException:
        os.rename(aside, other)
        raise
    os.rename(aside, one)


def replace_file(
    path: Path, data: bytes, *, begun_in: Path | None = None, durable: bool = True
) -> None:
    """Write a small file so that readers see the old one or the new one, and durably.

    In a folder of the user's it is begun elsewhere, where what a killed command leaves is no
    file of theirs. What only spares work need not be `durable`: after a loss of power it may
    be empty or cut short.
    """
    with reporting_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        folder = path.parent
        if begun_in is not None:
            begun_in.mkdir(parents=True, exist_ok=True)
            if begun_in.stat().st_dev == folder.stat().st_dev:
                folder = begun_in
        number, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                set_mode(file.fileno(), name, mode)
                if durable:
                    os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        if durable:
            fsync_folder(path.parent)


def _umask() -> int:
    # There is no way to only read it, and other threads may be making files: set it to
    # something careful for the instant.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def short_lived_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield a new folder below another, which goes with all that is in it when the block ends."""
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    try:
        with reporting_storage_errors(parent):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a folder as `short_lived_folder` does; the system's own where `parent` is read-only."""
    if may_write(parent):
        with short_lived_folder(parent) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="havasu-vc-", ignore_cleanup_errors=True) as name:
        yield Path(name)
