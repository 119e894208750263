"""Sources in a store of objects, as `s3://bucket/parcels/`: their files, and opening them.

Whoever runs a task opens the file where it is, by a URL that says where its server is, with
credentials of its own. Nothing is copied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from havasu_vc.errors import InvalidFileError, SourceNotFoundError
from havasu_vc.exchange.formats import table_documents
from havasu_vc.records import dataclass
from havasu_vc.store.object_systems import object_system, reporting_store_errors
from havasu_vc.store.object_urls import is_url, shown_url, with_endpoint

__all__ = [
    "EXTENSIONS",
    "FarFile",
    "SourceFile",
    "extension_of",
    "opened",
    "parts_below",
    "shown",
    "size_of",
    "stored_files",
]

EXTENSIONS = (".parquet", ".geoparquet", ".pq", ".parq")
"""Files that are read where they are, also many files as one table."""
TEXTS = (".csv", ".tsv", ".tab", ".txt")
"""Texts that are read where they are, one file as a table."""
_MAGIC = re.compile(r"[*\[]")


@dataclass(frozen=True, slots=True)
class FarFile:
    """A file in a store of objects."""

    url: str
    """Where it is, its server included."""
    size: int
    """How many bytes it has."""
    folder: str = ""
    """The folder that it is in, below the one that was named."""

    def __str__(self) -> str:
        return self.url


SourceFile = Path | FarFile


def size_of(file: SourceFile) -> int:
    """Return how many bytes a file has."""
    return file.size if isinstance(file, FarFile) else file.stat().st_size


def extension_of(file: SourceFile) -> str:
    """Return what the name of a file ends with, in small letters."""
    path = urlsplit(file.url).path if isinstance(file, FarFile) else str(file)
    return PurePosixPath(path).suffix.lower()


def parts_below(file: SourceFile, root: Path | None) -> tuple[str, ...]:
    """Return the names of the folders that a file is in, below what was named."""
    if isinstance(file, FarFile):
        return PurePosixPath(file.folder).parts
    return () if root is None else file.relative_to(root).parts[:-1]


def opened(path: str) -> Any:
    """Return what pyarrow reads a file from, given by its path or its URL."""
    if not is_url(path):
        return path
    system, name = object_system(path)
    return system.open_input_file(name)


def shown(path: str) -> str:
    """Return how people call a file, given by its path or its URL."""
    return shown_url(path) if is_url(path) else path


def stored_files(location: str) -> tuple[str, Sequence[FarFile]]:
    """Return the name of a table in a store, and its files: one, a folder's, or a pattern's.

    Files and folders whose names begin with `_` or `.` are an engine's own.
    """
    from pyarrow import fs  # with it come the clients of all stores, which few imports need

    url = urlsplit(with_endpoint(location, os.environ))
    # What stands after a question mark says where the server is, so it is no pattern.
    magic = _MAGIC.search(url.path)
    start = url.path if magic is None else url.path[: url.path.rindex("/", 0, magic.start()) + 1]
    system, base = object_system(urlunsplit(url._replace(path=start)))
    with reporting_store_errors(shown_url(location), "looked into"):
        there = system.get_file_info(base)
        if there.type is fs.FileType.File and magic is None:
            _require_readable(location, PurePosixPath(base).suffix.lower())
            return PurePosixPath(base).stem, [_file(url, base, there, base)]
        found = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
        if (table := table_documents(each.path for each in found)) is not None and magic is None:
            where, format_ = table
            inside = urlunsplit(url._replace(path="/" + where.partition("/")[2]))
            raise InvalidFileError(
                shown_url(location),
                f"{shown_url(inside)} is a table of {format_.label}, "
                "whose files are more than its rows",
                hints=(f"import it by its format: {format_.table}:{shown_url(inside)}",),
            )
    wanted = None if magic is None else _pattern(url.path[len(start) :])
    files = sorted(
        (
            _file(url, base, each, each.path)
            for each in found
            if each.type is fs.FileType.File
            and _is_wanted(PurePosixPath(each.path).relative_to(base), wanted)
        ),
        key=lambda file: file.url,
    )
    if not files:
        raise SourceNotFoundError(
            f"there is no Parquet file at {shown_url(location)}",
            hints=(
                "a folder or a pattern is of Parquet files, and a CSV file is named by itself: "
                "get others as files first",
            ),
        )
    if len(files) == 1 and magic is not None:
        return PurePosixPath(urlsplit(files[0].url).path).stem, files
    return PurePosixPath(start).name or url.netloc.rpartition("@")[2], files


def _file(url: Any, base: str, found: Any, path: str) -> FarFile:
    below = PurePosixPath(path).relative_to(base) if path != base else PurePosixPath()
    # A path in a store begins with its bucket.
    inside = "/" + path.partition("/")[2]
    place = urlunsplit(url._replace(path=inside))
    if set("?#\t\r\n") & set(inside):
        said = "a name with ?, # or a line feed cannot be read where it is"
        raise InvalidFileError(shown_url(place), said)
    return FarFile(place, found.size, str(below.parent) if below.parts else "")


def _is_wanted(below: PurePosixPath, wanted: re.Pattern[str] | None) -> bool:
    if below.suffix.lower() not in EXTENSIONS:
        return False
    if wanted is not None:
        return wanted.fullmatch(str(below)) is not None
    return not any(part.startswith(("_", ".")) for part in below.parts)


def _require_readable(location: str, extension: str) -> None:
    if extension not in (*EXTENSIONS, *TEXTS):
        said = f"files of type {extension} are" if extension else "a file without extension is"
        raise InvalidFileError(
            shown_url(location),
            f"{said} not read in a bucket",
            hints=(f"get it as a file first; what is read: {', '.join((*EXTENSIONS, *TEXTS))}",),
        )


def _pattern(text: str) -> re.Pattern[str]:
    """Return what matches as a shell's pattern does: `**/` is any number of folders."""

    def parts() -> Iterator[str]:
        for part in re.split(r"(\*\*/|\*|\[[^]]*\])", text):
            match part:
                case "**/":
                    yield "(?:.*/)?"
                case "*":
                    yield "[^/]*"
                case _:
                    yield part if part.startswith("[") else re.escape(part)

    return re.compile("".join(parts()))
