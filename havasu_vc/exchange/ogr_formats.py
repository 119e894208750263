"""The formats that GDAL reads for us, told by extension and first bytes.

A file is handed to GDAL only when both agree: GDAL by itself would open a file as
whatever it recognises, such as a virtual format that reads other files.

Whether what a GeoPackage works out, in a view or a generated column, ends and stays small.

A view may go on for ever, and one value of it may take gigabytes, both in a file of a few
kilobytes. GDAL asks SQLite for it without a bound: for the first row of each view where it lists
layers, for all where it reads one. So it is asked for once before, in so many steps and with
values of so many bytes as the size of the file allows. What GDAL's SQL knows
and ours does not means nothing here: functions give null, collations compare bytes.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from havasu_vc.errors import InvalidFileError, StorageError
from havasu_vc.exchange.formats import ARCHIVE, BY_EXTENSION, FORMATS, FileFormat
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import zipfile

__all__ = [
    "VectorFile",
    "check_shapefile",
    "find_vector_files",
    "has_feature_ids",
    "refuse_endless",
    "refuse_endless_views",
]


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file to be opened with GDAL, and what it must turn out to be."""

    path: str
    """As GDAL opens it."""
    shown_path: str
    """As the user gave it."""
    driver: str
    """GDAL's name of the format."""
    input_bytes: int
    """Its size, with the files that belong to it."""


_FIRST_LENGTH = 4096
_VIRTUAL = re.compile(rb"\s*create(?:\s|/\*.*?\*/|--[^\n]*\n)+virtual", re.IGNORECASE | re.DOTALL)
_INDEX = re.compile(
    rb"CREATE VIRTUAL TABLE (?:\"(?:[^\"]|\"\")*\"|\w+) USING (?:rtree(?:_i32)?|fts[345])\s*\(",
    re.IGNORECASE,
)


def find_vector_files(path: Path) -> list[VectorFile]:
    """Return what GDAL is to open for a path: itself, or the shapefiles in an archive.

    Raises `InvalidFileError` for a file that is empty or not of the format it is named for.
    """
    try:
        if path.suffix.lower() == ARCHIVE:
            return _archived(path)
        format = BY_EXTENSION[path.suffix.lower()]
        driver = format.driver or ""
        with path.open("rb") as file:
            first = file.read(_FIRST_LENGTH)
        _check_first(first, format, str(path))
        if driver == "ESRI Shapefile":
            check_shapefile(path)
        if driver == "GPKG":
            _refuse_other_files(path)
        return [VectorFile(str(path), str(path), driver, _size(path, driver))]
    except PermissionError as error:
        raise StorageError(f"{path} cannot be read: permission denied") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


def _refuse_other_files(path: Path) -> None:
    """Refuse a database with virtual tables, by which SQLite reads other files.

    GDAL's SQLite knows some that read any file which a table names (`VirtualText`, ...). Of
    the program's own are only the indexes that every GeoPackage may have.
    """
    try:
        with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:
            database.text_factory = bytes
            said = database.execute("SELECT name, sql FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return  # GDAL tells what is wrong with a file that cannot be read
    for name, sql in said:
        if isinstance(sql, bytes) and _VIRTUAL.match(sql) and not _INDEX.match(sql):
            shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            raise InvalidFileError(
                str(path),
                f"its table {shown[:80]!r} is a virtual one, which may read other files",
                hints=("copy what it shows to an ordinary table, or drop it",),
            )


def _check_first(first: bytes, format: FileFormat, shown: str) -> None:
    if not first:
        raise InvalidFileError(
            shown, "the file is empty", hints=("get the file again from where it came",)
        )
    if format.first_bytes is not None and not format.first_bytes.match(first):
        known = next(
            (
                f"; it looks like {each.title or each.driver}"
                for each in FORMATS
                if each.first_bytes is not None and each.first_bytes.match(first)
            ),
            "",
        )
        raise InvalidFileError(
            shown,
            f"not a {format.title or format.driver} file as its name says{known}",
            hints=("give the file the extension of what it is",),
        )


def cut_short(path: str, reason: str) -> InvalidFileError:
    """Return the error for a file whose end is missing."""
    return InvalidFileError(
        path, f"cut short: {reason}", hints=("get the file again from where it came",)
    )


def check_shapefile(path: Path) -> None:
    """Refuse a shapefile of which a part is shorter than it says, or has other rows."""
    with path.open("rb") as file:
        _check_shapes(file.read(_FIRST_LENGTH), path.stat().st_size, str(path))
    _check_attributes(path)


def _check_shapes(first: bytes, size: int, shown: str) -> None:
    """Refuse a .shp that is shorter than it says; GDAL reads what is there."""
    said = struct.unpack(">i", first[24:28])[0] * 2 if len(first) >= 100 else 100
    if size < said:
        raise cut_short(shown, f"{size} bytes of {said} are there")


def _check_attributes(path: Path) -> None:
    """Refuse a .dbf that is shorter than it says, and shapes without one."""
    found = next(
        (table for end in (".dbf", ".DBF") if (table := path.with_suffix(end)).exists()), None
    )
    if found is None:
        raise _without(path, ".dbf")
    with found.open("rb") as file:
        head = file.read(32)
    if len(head) < 32:
        raise cut_short(str(found), "its header is not there")
    rows, header, row = struct.unpack("<IHH", head[4:12])
    if found.stat().st_size < header + rows * row:
        raise cut_short(str(found), f"it should have {rows} rows of {row} bytes")
    shapes = next(
        (index for end in (".shx", ".SHX") if (index := path.with_suffix(end)).exists()), None
    )
    if shapes is None:
        raise _without(path, ".shx")
    if (count := (shapes.stat().st_size - 100) // 8) != rows:
        raise InvalidFileError(
            str(path),
            f"it has {count} shapes, and {rows} rows of attributes",
            hints=("get its .shp, .shx and .dbf file again from where they came",),
        )


def _without(path: Path, end: str) -> InvalidFileError:
    return InvalidFileError(
        str(path),
        f"the {end} file that belongs to it is not beside it",
        hints=("a shapefile is at least a .shp, a .shx and a .dbf file",),
    )


def require_all_records(file: VectorFile, features: int) -> None:
    """Refuse a sequence of GeoJSON of which GDAL read less than there is.

    It passes over a line that it does not understand.
    """
    records, last = 0, b""
    with open(file.path, "rb") as lines:
        marked = lines.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"\x1e")
        lines.seek(0)
        for record in _marked(lines) if marked else lines:
            if record.strip():
                records, last = records + 1, record
    try:
        json.loads(last.decode("utf-8-sig", errors="replace") or "{}")
    except (ValueError, RecursionError):
        # Of the last record GDAL takes what is there.
        raise cut_short(file.shown_path, f"its last record, {records}, does not end") from None
    if features < records:
        missing = records - features
        raise InvalidFileError(
            file.shown_path,
            f"damaged or cut short: {missing} of its {records} records cannot be read",
            hints=("each line must hold one GeoJSON feature",),
        )


def _marked(file: BinaryIO) -> Iterator[bytes]:
    """Yield the records of a file in which each begins with a record separator."""
    rest = b""
    while block := file.read(1 << 20):
        *whole, rest = (rest + block).split(b"\x1e")
        yield from whole
    yield rest


def _size(path: Path, driver: str) -> int:
    if driver != "ESRI Shapefile":
        return path.stat().st_size
    return sum(
        part.stat().st_size
        for part in (path, path.with_suffix(".dbf"), path.with_suffix(".DBF"))
        if part.exists()
    )


def _archived(path: Path) -> list[VectorFile]:
    """Return the shapefiles in a zip archive."""
    import zipfile

    if not path.stat().st_size:
        raise InvalidFileError(str(path), "the file is empty")
    try:
        with zipfile.ZipFile(path) as archive:
            names = {
                info.filename: info.file_size for info in archive.infolist() if not info.is_dir()
            }
            shapes = sorted(name for name in names if name.lower().endswith(".shp"))
            for name in shapes:
                _check_sums(archive, name)
                with archive.open(name) as member:
                    first = member.read(_FIRST_LENGTH)
                _check_first(first, BY_EXTENSION[".shp"], f"{path}/{name}")
                _check_shapes(first, names[name], f"{path}/{name}")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        cause = str(error).splitlines()[0] if str(error) else "damaged"
        raise InvalidFileError(
            str(path),
            f"not a readable zip archive: {cause}",
            hints=("get the file again from where it came",),
        ) from error
    if not shapes:
        raise InvalidFileError(
            str(path),
            "there is no shapefile in this archive",
            hints=("unpack it and import what is inside",),
        )
    return [
        VectorFile(
            f"/vsizip/{path.absolute()}/{name}",
            f"{path}/{name}",
            "ESRI Shapefile",
            sum(size for other, size in names.items() if other[:-4] == name[:-4]),
        )
        for name in shapes
    ]


def _check_sums(archive: zipfile.ZipFile, shapes: str) -> None:
    """Refuse parts of a shapefile whose checksums in the archive are others; GDAL does not look."""
    for name in archive.namelist():
        if name[:-4] == shapes[:-4]:
            with archive.open(name) as member:
                while member.read(1 << 20):
                    pass


def has_feature_ids(file: VectorFile) -> bool:
    """Whether a GeoJSON file's features have whole numbers as ids, by its first feature.

    GDAL numbers features that have none, and does not say which it did.
    """
    if file.driver not in ("GeoJSON", "GeoJSONSeq"):
        return False
    with open(file.path, encoding="utf-8-sig", errors="replace") as text:
        for size in (1 << 16, 1 << 20, 1 << 24):
            text.seek(0)
            feature = _first_feature(text.read(size), file.driver)
            if feature is not None:
                identifier = feature.get("id")
                return isinstance(identifier, int) and not isinstance(identifier, bool)
    return False


def _first_feature(text: str, driver: str) -> dict[str, object] | None:
    start = 0
    if driver == "GeoJSON":
        match = re.search(r'"features"\s*:\s*\[\s*', text)
        start = match.end() if match else len(text) - len(text.lstrip())
    else:
        start = len(text) - len(text.lstrip("\x1e \t\r\n"))
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


OF_PEOPLE = (
    "name != 'ogr_empty_table' AND "
    "NOT (name GLOB 'sqlite_*' OR name GLOB 'gpkg_*' OR name GLOB 'rtree_*')"
)
"""In SQL, of a table in a GeoPackage's `sqlite_master`: whether it is no part of the format."""


def read_only(path: str) -> str:
    """Return the address by which SQLite opens a GeoPackage without writing to it."""
    return f"{Path(path).absolute().as_uri()}?mode=ro"


_STEPS, _STEPS_PER_BYTE = 20_000_000, 20
"""Steps of SQLite's machine that working out all values may take."""
_LENGTH, _LENGTH_PER_BYTE = 20_000_000, 1
"""Bytes that one value may have."""
_MOST_LENGTH = 1_000_000_000
_AT_ONCE = 100_000
_UNKNOWN = re.compile(r"no such (function|collation sequence): (.+)")
_MOST_UNKNOWN = 100
_GENERATED = (2, 3)


def refuse_endless_views(path: str, size: int) -> None:
    """Raise `InvalidFileError` for a file with a view whose first row does not come."""
    views: list[tuple[str]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only(path), uri=True)) as database:
        query = "SELECT name FROM sqlite_master WHERE type = 'view'"
        views = database.execute(query).fetchall()
    for (name,) in views:
        refuse_endless(path, name, size, rows=" LIMIT 1")


def refuse_endless(path: str, layer: str, size: int, *, rows: str = "") -> None:
    """Raise `InvalidFileError` for a layer that is worked out and that does not end."""
    left = (_STEPS + _STEPS_PER_BYTE * size) // _AT_ONCE

    def another() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    most = min(_LENGTH + _LENGTH_PER_BYTE * size, _MOST_LENGTH)
    # GDAL tells what is wrong with a file that cannot be read.
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only(path), uri=True)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
        database.set_progress_handler(another, _AT_ONCE)
        for _ in range(_MOST_UNKNOWN):
            try:
                _work_out(database, layer, rows)
            except sqlite3.DataError:
                raise _refusal(path, layer, f"gives a value of more than {most:,} bytes") from None
            except sqlite3.OperationalError as error:
                if left < 0:
                    raise _refusal(path, layer, "takes too long for a file of its size") from None
                _make_known(database, error)
            else:
                return
        raise _refusal(path, layer, "names very many functions that are unknown")


def _work_out(database: sqlite3.Connection, layer: str, rows: str) -> None:
    """Ask for the length of every value of a view, or of the generated columns of a table."""
    found = database.execute(
        "SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (layer,)
    ).fetchone()
    if found is None:
        return
    columns = database.execute(f"PRAGMA table_xinfo({quoted(layer)})").fetchall()
    lengths = ", ".join(
        f"total(length({quoted(str(name))}))"
        for _, name, *_, hidden in columns
        if found[0] == "view" or hidden in _GENERATED
    )
    if lengths:
        database.execute(f"SELECT {lengths} FROM (SELECT * FROM {quoted(layer)}{rows})").fetchone()


def _make_known(database: sqlite3.Connection, error: sqlite3.OperationalError) -> None:
    """Let what GDAL may know mean nothing."""
    unknown = _UNKNOWN.fullmatch(str(error))
    if unknown is None:
        raise error
    if unknown[1] == "function":
        database.create_function(unknown[2], -1, lambda *_: None)
    else:
        database.create_collation(unknown[2], lambda one, two: (one > two) - (one < two))


def _refusal(path: str, layer: str, what: str) -> InvalidFileError:
    return InvalidFileError(
        path,
        f"its layer {layer[:80]!r}, worked out by a query, {what}",
        hints=("copy what it shows to an ordinary table",),
    )
