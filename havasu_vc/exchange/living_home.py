"""Where a living working copy in a GeoPackage is: made as a whole, opened, held.

Whoever opens it to write holds the lock until all is done, so an editor that saves waits, and
one that holds the lock makes us refuse before anything moved.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, LockedError, StorageError
from havasu_vc.exchange.edit_state import table_columns
from havasu_vc.exchange.living_file import LivingFile
from havasu_vc.exchange.living_tables import (
    FEW_PAGES,
    KART,
    OURS,
    FileNames,
    add_functions,
    create_file,
)
from havasu_vc.exchange.ogr_formats import read_only

__all__ = ["GeoPackageHome"]

_PATIENCE = 3.0


class GeoPackageHome:
    """The file that a working copy is, or would be."""

    kind = "gpkg"
    items = frozenset(("title", "description", "crs"))

    def __init__(self, path: Path, *, kart: bool) -> None:
        self._path = path
        self._names = KART if kart else OURS

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self._path.is_file()

    @contextmanager
    def create(self) -> Iterator[LivingFile]:
        """Make it in a block, in the place of one that is there; whole after it, or as before."""
        from havasu_vc.exchange.replacing import replacing

        path = self._path
        if path.suffix.lower() != ".gpkg":
            raise InvalidArgumentError(
                f"{path.name} is not the name of a GeoPackage", hints=("end it in .gpkg",)
            )
        with replacing(path, overwrite=True) as temporary:
            try:
                with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
                    # Rows mostly come in order, and pages that are full are done with.
                    for pragma in (
                        "journal_mode = OFF",
                        "synchronous = OFF",
                        "cache_size = -8192",
                    ):
                        database.execute(f"PRAGMA {pragma}")
                    add_functions(database)
                    create_file(database, self._names)
                    database.execute("BEGIN")
                    file = LivingFile(path, self._names, database)
                    yield file
                    file.commit()
                    database.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.Error as error:
                raise StorageError(f"{path.name} cannot be written: {error}") from error

    @contextmanager
    def open(self, *, write: bool = False) -> Iterator[LivingFile]:
        """Open it; to write, with the lock and in one transaction.

        Raises `InvalidFileError` for a file that is none, and `LockedError` when another program
        holds the lock.
        """
        path = self._path
        where = str(path) if write else read_only(str(path))
        try:
            with closing(
                sqlite3.connect(where, uri=not write, isolation_level=None, timeout=_PATIENCE)
            ) as database:
                # Rows that are counted are read once. Mapping the file would spare 0.02 s of CPU
                # in a million rows, and hold all of it in memory.
                database.execute(FEW_PAGES)
                if write:
                    add_functions(database)
                    database.execute("BEGIN IMMEDIATE")
                _check(database, self._names, str(path))
                file = LivingFile(path, self._names, database)
                yield file
                if database.in_transaction:
                    file.commit()
        except sqlite3.Error as error:
            raise _translated(path, error) from error

    def is_locked(self) -> bool:
        """Whether another program holds the lock, as an editor does that has yet to save."""
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=0)) as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
        except sqlite3.Error as error:
            return "locked" in str(error) or "busy" in str(error)
        return False


def _check(database: sqlite3.Connection, names: FileNames, path: str) -> None:
    """Raise `InvalidFileError` for a file that is no working copy."""
    found = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)",
        (names.state, names.track),
    ).fetchone()
    columns = table_columns(database, names.state)
    if found != (2,) or [each.name for each in columns] != ["table_name", "key", "value"]:
        raise InvalidFileError(
            path,
            "it is no working copy of this repository",
            hints=("`havasu-vc create-workingcopy` makes one; move this file away first",),
        )


def _translated(path: Path, error: sqlite3.Error) -> Exception:
    text = str(error)
    if "locked" in text or "busy" in text:
        return LockedError(
            f"another program, such as QGIS, is writing to {path.name}; nothing is changed",
            hints=("save or drop the edits there, then try again",),
        )
    if isinstance(error, sqlite3.OperationalError) and "disk" in text:
        return StorageError(f"{path.name} cannot be written: {text}")
    if "readonly" in text:
        return StorageError(f"{path.name} cannot be written: it is read-only")
    return InvalidFileError(str(path), f"it cannot be used as a working copy: {text}")
