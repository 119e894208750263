"""Whether delete files say the truth about the rows they delete.

Delete files carry old rows so that a diff reads nothing else. Those that this
repository wrote itself are known to be right. One that came from elsewhere is
compared with the data files once, before any of its rows is shown, and a mark beside
the key caches remembers it. Where the data is not here, that is said.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.datasets.havasu.deletes import read_deleted_rows, read_positions
from havasu_vc.datasets.havasu.parquet import read_rows
from havasu_vc.datasets.pairing import equal_rows
from havasu_vc.errors import CorruptDataFileError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model.schema import Schema

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["mark_verified", "verify_delete_file", "verify_deleted_rows", "verify_deletes"]


def mark_verified(folder: Path, file: str) -> None:
    """Remember that a delete file is right, where that can be written down."""
    # Else it is compared again the next time.
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _mark(folder, file).touch()


def _mark(folder: Path, file: str) -> Path:
    return folder / f"{file}-verified"


def verify_deletes(
    view: DatasetInFiles, deletes: Iterable[Entry], wanted: Container[str]
) -> list[str]:
    """Check the delete files that a diff rests on; return those that could not be checked.

    A diff rests on those that take rows from data files that are `wanted`.
    """
    unchecked = []
    for entry in deletes:
        if not any(file in wanted for file in entry.targets):
            continue
        if _mark(view.storage.keys, entry.file).exists():
            continue
        if all(view.storage.location(file).exists() for file in entry.targets):
            verify_delete_file(view, entry)
            mark_verified(view.storage.keys, entry.file)
        else:
            unchecked.append(entry.file)
    return unchecked


def verify_delete_file(view: DatasetInFiles, entry: Entry) -> None:
    """Raise `CorruptDataFileError` unless a delete file carries the rows that it deletes."""
    known = view.entries
    data = {
        file: view.file_path(known[file]) if file in known else str(view.storage.path(file))
        for file in entry.targets
    }
    verify_deleted_rows(view.file_path(entry), entry, view.past_schema(entry.schema), data)


def verify_deleted_rows(path: str, entry: Entry, schema: Schema, data: Mapping[str, str]) -> None:
    """Raise `CorruptDataFileError` unless a file carries the rows that it deletes from others.

    `data` are the places of those, by name.
    """
    positions = read_positions(path)
    counts = {file: len(found) for file, found in positions.items()}
    if counts != dict(entry.targets):
        raise CorruptDataFileError(entry.file, "it deletes other rows than its entry says")
    for deletion in read_deleted_rows(path, schema, positions, data):
        there = read_rows(data[deletion.file], schema, deletion.positions)
        if not equal_rows(there, deletion.rows, schema, schema).all():
            raise CorruptDataFileError(entry.file, "the rows it carries are not those it deletes")
