"""Files that are written beside their place and moved there as a whole.

Nobody ever sees half of one, and writing that fails leaves no trace.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, LockedError, StorageError
from havasu_vc.store.disk import name_file
from havasu_vc.store.ending import last_step
from havasu_vc.store.system import sync_file

__all__ = ["replacing", "require_unheld"]

_SHAPEFILE_PARTS = (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".qpj")


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path to write to, and move what was written to its place at the end.

    A GeoPackage that another program has open is never replaced.
    """
    _refuse_existing(path, overwrite=overwrite)
    is_database = path.suffix.lower() == ".gpkg"
    if is_database:
        require_unheld(path)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {(error.strerror or str(error)).lower()}",
            hints=("name a folder that is there and can be written to",),
        ) from error
    try:
        yield folder / path.name
        if is_database:
            require_unheld(path)
        _move(folder, path, overwrite=overwrite)
    finally:
        with last_step():
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_existing(path: Path, *, overwrite: bool) -> None:
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a folder", hints=("name a file",))
    if not overwrite and (path.exists() or path.is_symlink()):
        raise InvalidArgumentError(f"{path} is there already", hints=("--overwrite replaces it",))


def _move(folder: Path, path: Path, *, overwrite: bool) -> None:
    written = sorted(folder.iterdir(), key=lambda part: part.name == path.name)
    try:
        for part in written:
            with suppress(OSError):
                sync_file(part)
        with last_step():
            if path.suffix.lower() == ".shp":
                for suffix in _SHAPEFILE_PARTS:
                    stale = path.with_suffix(suffix)
                    if not (folder / stale.name).exists():
                        stale.unlink(missing_ok=True)
            for part in written:
                if part.name == path.name and not overwrite:
                    _place(part, path)
                else:
                    os.replace(part, path.parent / part.name)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"{path} cannot be written: {reason}") from error


def _place(part: Path, path: Path) -> None:
    """Move a file to a place where there must be none."""
    try:
        name_file(part, path)
    except FileExistsError as error:
        raise InvalidArgumentError(
            f"{path} is there already", hints=("--overwrite replaces it",)
        ) from error


# GeoPackages that another program has open, which are not replaced under it.
#
# SQLite keeps what was committed last in a log beside the file (`-wal`) while somebody has
# it open. A new file in the place of the old one would be read together with that log, which
# is of other pages; and an editor would go on writing into a file that has no name any more.

_LOGS = ("-wal", "-journal")


def require_unheld(path: Path) -> None:
    """Take a log into its GeoPackage, and raise `LockedError` when another program holds it.

    A log without its file belongs to none that could be written.
    """
    if not path.exists():
        for log in _logs(path):
            raise LockedError(
                f"{log.name} is a log of edits whose file is not there; "
                "it would be read into the new one",
                hints=(f"move {log} away, or bring {path.name} back",),
            )
        return
    with open(path, "rb") as file:
        if file.read(15) != b"SQLite format 3":
            if not _logs(path):
                return
            raise LockedError(
                f"{path} is no GeoPackage, and has a log of one beside it",
                hints=("choose another name",),
            )
    try:
        with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as database:
            (mode,) = database.execute("PRAGMA journal_mode").fetchone()
            if mode == "wal":
                # Only who alone has it open may leave the mode, which takes the log in.
                (mode,) = database.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode == "wal":
                raise _held(path)
            database.execute("BEGIN EXCLUSIVE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise _held(path) from error
        raise StorageError(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StorageError(f"{path} cannot be opened: {error}") from error
    if _logs(path) or _is_open_elsewhere(path):
        raise _held(path)


def _logs(path: Path) -> list[Path]:
    """Return the logs beside a file that SQLite would read: their first byte is not 0."""
    beside = [path.with_name(path.name + ending) for ending in _LOGS]
    return [each for each in beside if each.is_file() and _first_byte(each) not in (b"", b"\0")]


def _first_byte(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1)


def _is_open_elsewhere(path: Path) -> bool:
    """Whether a process that we may look into has a file open; False where none can be seen.

    An editor that rests holds no lock of SQLite's.
    """
    wanted, own = os.stat(path), str(os.getpid())
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
    except OSError:
        return False
    for process in processes:
        try:
            with os.scandir(f"/proc/{process}/fd") as opened:
                for each in opened:
                    found = os.stat(each.path)
                    if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                        return True
        except OSError:
            continue  # it is another user's, or has ended
    return False


def _held(path: Path) -> LockedError:
    return LockedError(
        f"{path} is open in another program",
        hints=("close it there, then try again; or write to another file",),
    )
