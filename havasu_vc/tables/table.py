"""A table on a file system: which metadata file is its newest, and what that says.

    <location>/
      metadata/v<N>.metadata.json     one per version; `.gz.metadata.json` when compressed
      metadata/version-hint.text      N, or a number that was N some time ago
      metadata/*.avro                 manifest lists and manifests
      data/…                          data files and delete files

A version is published by the name of its metadata file coming to be, so the hint is
only where the search for the newest begins. Without a hint the folder is listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from havasu_vc.errors import CorruptionError, SourceNotFoundError
from havasu_vc.formats.iceberg.metadata import parse_metadata
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.records import dataclass
from havasu_vc.tables.locations import TableFolders, damaged, local_path, missing, reading_document

__all__ = [
    "HINT",
    "LARGEST_METADATA",
    "METADATA",
    "Table",
    "metadata_versions",
    "read_table",
    "table_exists",
]

METADATA = "metadata"
"""The folder of a table's documents."""
HINT = "version-hint.text"
"""The file that says where the search for the newest version begins."""

LARGEST_METADATA = 64 << 20
"""No metadata file of more bytes is parsed."""
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION = re.compile(r"v(\d{1,18})(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_CATALOG = re.compile(r"(\d{1,18})-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json")


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table."""

    location: Path
    """Its folder, absolute."""
    version: int
    """The number in the name of its metadata file."""
    metadata: TableMetadata
    """The metadata in that file."""
    metadata_file: Path
    """The file."""
    places: TableFolders = field(compare=False)
    """Where its files may be."""

    @property
    def moved_from(self) -> str | None:
        """Return where the table says that it is, None when that is where it is."""
        location = self.metadata.location
        return None if self.places.is_home(location, self.location) else location


def table_exists(location: Path) -> bool:
    """Whether a folder holds some version of a table."""
    return any(True for _ in metadata_versions(location))


def read_table(
    location: Path | str, *, version: int | None = None, allowed: Iterable[Path] = ()
) -> Table:
    """Return the newest version of the table in a folder, or the one that is named.

    `location` may also be a metadata file. Files of the table are read from its folder
    and from the folders in `allowed`, and from nowhere else.
    """
    path = Path(os.path.abspath(local_path(str(location)) if ":" in str(location) else location))
    if path.name.endswith((".metadata.json", ".metadata.json.gz")):
        folder, found, file = path.parent.parent, _version_of(path.name), path
    else:
        folder = path
        found, file = _named(folder, version) if version is not None else _newest(folder)
    places = TableFolders([folder, *allowed])
    metadata = _read_metadata(file)
    return Table(folder, found, metadata, file, places)


def metadata_versions(location: Path) -> Iterator[tuple[int, Path]]:
    """Yield the versions of a table that are there and their metadata files, in no order."""
    try:
        names = os.listdir(location / METADATA)
    except OSError:
        return
    for name in names:
        if match := _VERSION.fullmatch(name):
            yield int(match[1]), location / METADATA / name


def _version_of(name: str) -> int:
    match = _VERSION.fullmatch(name) or _CATALOG.fullmatch(name)
    return int(match[1]) if match else 0


def _named(folder: Path, version: int) -> tuple[int, Path]:
    file = _file_of(folder, version)
    if file is None:
        raise SourceNotFoundError(f"the table at {folder} has no version {version}")
    return version, file


def _newest(folder: Path) -> tuple[int, Path]:
    version = _hint(folder)
    file = _file_of(folder, version) if version is not None else None
    if file is None:
        # No hint, or one that names a file that is gone.
        found = max(metadata_versions(folder), default=None, key=lambda each: each[0])
        if found is None:
            raise _no_table(folder)
        version = found[0]
        file = _file_of(folder, version) or found[1]
    assert version is not None
    while (following := _file_of(folder, version + 1)) is not None:
        version, file = version + 1, following
    return version, file


def _hint(folder: Path) -> int | None:
    hint = folder / METADATA / HINT
    if not _is_own(folder, hint):
        return None
    try:
        with open(hint, "rb") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text) <= 18 else None


def _file_of(folder: Path, version: int) -> Path | None:
    for suffix in _SUFFIXES:
        path = folder / METADATA / f"v{version}{suffix}"
        if _is_own(folder, path):
            return path
    return None


def _is_own(folder: Path, path: Path) -> bool:
    """Whether a document of a table is there, a file and no link to outside of the table."""
    if not path.is_file():
        return False
    if not TableFolders([folder]).holds(path):
        raise damaged(path, "it leads to a file that is outside of the table")
    return True


def _no_table(folder: Path) -> SourceNotFoundError | CorruptionError:
    if not folder.is_dir():
        return SourceNotFoundError(f"there is no table at {folder}: no such folder")
    documents = folder / METADATA
    if (folder / "_delta_log").is_dir():
        return SourceNotFoundError(f"{folder} is a Delta table, not an Iceberg table")
    if not documents.is_dir():
        return SourceNotFoundError(
            f"there is no table at {folder}: it has no folder {METADATA!r}",
            hints=("a table of a Hadoop catalog is at <warehouse>/<namespace>/<table>",),
        )
    if any(_CATALOG.fullmatch(name) for name in os.listdir(documents)):
        return SourceNotFoundError(
            f"the table at {folder} belongs to a catalog, which alone knows its newest version",
            hints=("give the metadata file that the catalog names instead of the folder",),
        )
    return damaged(documents, "it holds no v<N>.metadata.json")


def _read_metadata(file: Path) -> TableMetadata:
    with reading_document(file):
        if not file.is_file():
            raise missing(file)
        if file.stat().st_size > LARGEST_METADATA:
            raise damaged(file, "it is larger than a metadata file can be")
        data = file.read_bytes()
        if not data.strip():
            raise damaged(file, "it is empty")
        return parse_metadata(data, str(file))
