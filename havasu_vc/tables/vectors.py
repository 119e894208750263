"""Deletion vectors of Iceberg 3: the rows of one data file that are gone, as a bitmap.

Many vectors lie in one Puffin file. A manifest says of each where it begins, how long it
is, how many rows it takes away and from which data file, so nothing else of the file is
read. A vector stands for all position deletes of its data file.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.formats.roaring import parse_framed_deletion_vector
from havasu_vc.records import dataclass
from havasu_vc.tables.damage import damaged, reading_document

__all__ = ["DeletionVector", "deletion_vector_of", "read_deletion_vector"]

_MOST_ROWS = 1 << 25
"""More positions are not unpacked: a run of a few bytes stands for as many as it says."""
_LONGEST = 1 << 28
_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where a vector is."""

    path: str
    """The Puffin file on this machine."""
    offset: int
    """Where the vector begins."""
    size: int
    """Its bytes."""
    rows: int
    """How many rows it takes away."""


def deletion_vector_of(file: DataFile, path: Path) -> DeletionVector:
    """Return where the vector is that a manifest describes; `path` is where its file is."""
    offset, size = file.content_offset, file.content_size
    if offset is None or size is None or file.referenced_data_file is None:
        raise damaged(
            path, "a manifest does not say where the deletion vector is, or of which file"
        )
    if offset < 0 or not 0 <= size <= _LONGEST or file.record_count > _MOST_ROWS:
        raise damaged(path, "a deletion vector of this size cannot be")
    return DeletionVector(str(path), offset, size, file.record_count)


@lru_cache(maxsize=_REMEMBERED)
def read_deletion_vector(vector: DeletionVector) -> Positions:
    """Return the positions that a vector takes away, ascending."""
    with reading_document(Path(vector.path)), open(vector.path, "rb") as file:
        file.seek(vector.offset)
        data = file.read(vector.size)
    try:
        positions = parse_framed_deletion_vector(data, most=vector.rows)
    except ValueError as error:
        raise damaged(vector.path, str(error)) from error
    if len(positions) != vector.rows:
        raise damaged(
            vector.path,
            f"a deletion vector has {len(positions)} rows and should have {vector.rows}",
        )
    positions.setflags(write=False)
    return positions
