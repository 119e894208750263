"""Tables that edits cannot be taken in from, and what to do about each.

A table may have lost files, been rolled back by hand, been replaced by another, or be
written in a newer format; linked files may have been written into. Each is said in one
line with the next step. Nothing is deleted and nothing is mended here: what is in a
table stays there until its owner decides.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptionError,
    HavasuError,
    SourceNotFoundError,
    StateError,
    UnsupportedVersionError,
)
from havasu_vc.store.files import DataFileStore
from havasu_vc.tables.table import Table
from havasu_vc.workspace.foreign import hash_file
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.state import TableState, identify

__all__ = ["check_linked", "open_checked_out"]

NEWEST_FORMAT = 2
"""The newest version of Iceberg's format that edits are taken in from."""


def open_checked_out(place: TablePlace, known: TableState, table_uuid: str) -> Table:
    """Return the table of a dataset, once it is sure that it comes of its checkout."""
    anew = f"`havasu-vc restore {known.path}` makes the table anew from its commit"
    if not place.exists():
        raise CorruptionError(
            f"{known.path}: its table at {place.location} is gone",
            hints=(f"{anew}; put it back first if it holds edits",),
        )
    try:
        table = place.read()
    except SourceNotFoundError as error:
        raise CorruptionError(
            f"{known.path}: {error.message}",
            hints=(f"put its metadata back, or {anew}, without the edits that it held",),
        ) from error
    except HavasuError as error:
        raise type_of(error)(f"{known.path}: {error.message}", hints=(anew,)) from error
    metadata = table.metadata
    if metadata.table_uuid != table_uuid:
        raise StateError(
            f"{known.path}: the table at {place.location} is another one ({metadata.table_uuid})",
            hints=(f"move it away, then {anew}",),
        )
    if metadata.format_version > NEWEST_FORMAT:
        raise UnsupportedVersionError(
            f"{known.path}: its table was upgraded to Iceberg's format {metadata.format_version}, "
            f"and edits are taken in from version {NEWEST_FORMAT}",
            hints=(
                "copy the rows that changed into another table; "
                f"{anew}, then write them there again",
            ),
        )
    back = table.version < known.version
    if back or known.snapshot_id not in metadata.snapshots:
        # Engines go back by another version, never by an older one: that is a folder from a
        # backup, and what it lacks is no edit of anybody's.
        what = (
            f"was rolled back to before its checkout, to v{table.version}"
            if back
            else f"has another history: the snapshot that was checked out ({known.snapshot_id}) "
            "is not in it"
        )
        raise StateError(
            f"{known.path}: its table {what}",
            hints=(
                f"put its metadata files back, newest v{known.version}.metadata.json; or {anew}, "
                "without the edits that it held",
            ),
        )
    return table


def type_of(error: HavasuError) -> type[HavasuError]:
    """Return the class to say the same with, of those that take a message alone."""
    return type(error) if isinstance(error, UnsupportedVersionError) else CorruptionError


def check_linked(location: Path, known: TableState, store: DataFileStore) -> None:
    """Raise when a data file that is linked into a table is gone, or was written into since.

    One that only looks different (it was copied, or touched) is read once more to be sure.
    """
    for file, was in known.files.items():
        path = location / "data" / f"{file}.parquet"
        try:
            found = identify(path)
        except FileNotFoundError:
            raise CorruptionError(
                f"{known.path}: its table lacks {path}",
                hints=(f"`cp {store.location(file)} {path}` puts it back; edits stay as they are",),
            ) from None
        if found == was or (found.size == was.size and hash_file(path)[0] == file):
            continue
        raise CorruptDataFileError(
            file,
            f"{path} was changed in place, which no engine does; if it is a hard link, "
            "the repository's own file has changed as well",
        )
