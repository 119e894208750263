"""The one door to GDAL: streams of record batches in and out, errors in one line.

GDAL writes its warnings through Python's and its errors in several lines with the
path in them. Neither reaches a user from here: a warning is dropped (what matters is
checked by who reads or writes), an error becomes one of ours with its cause in short.
Formats are told by their first bytes before GDAL sees a file, because GDAL opens
whatever it recognises, and some formats it knows read other files.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.errors import HavasuError, InvalidFileError, MissingProgramError, StorageError
from havasu_vc.exchange.dbf import refuse_long_rows, text_encoding
from havasu_vc.exchange.ogr_formats import OF_PEOPLE, check_shapefile, read_only

__all__ = [
    "gdal_errors",
    "list_layers",
    "one_line",
    "open_stream",
    "read_info",
    "require_whole",
    "warned_of",
    "write_stream",
]

_NOWHERE = "http://127.0.0.1:9"
_SHAPES = ".shp"
_FULL_TO_SQLITE = ("database or disk is full", "cannot rollback - no transaction is active")
_FULL = 1 << 16
"""So few bytes are free on a disk that is full: what did not fit was more."""
_MEASURED = re.compile(r"Measured \(M\) geometry types .* Original type '([^']+)'")
_NOISE = (
    (re.compile(r"Failed to read GeoJSON data; *"), ""),
    (re.compile(r"; ?It might help to specify the correct driver.*", re.S), ""),
    (re.compile(r"sqlite3_\w+\(.*?\) failed: ", re.S), ""),
    (re.compile(r"'[^']*' not recognized as being in a supported file format\.?"), "not readable"),
)


def _pyogrio() -> Any:
    """Import pyogrio with GDAL's warnings off."""
    try:
        import pyogrio
        import pyogrio.raw
    except ImportError as error:
        raise MissingProgramError(
            "pyogrio is not installed, which reads and writes this format",
            hints=("pip install pyogrio",),
        ) from error
    # FlatGeobuf's own Arrow stream gives null geometries lengths below zero (GDAL 3.12).
    # And no file makes this machine ask a server, as GeoJSON does whose CRS is a link: what
    # GDAL would fetch is asked of a port on which nobody listens.
    pyogrio.set_gdal_config_options(
        {"OGR_FLATGEOBUF_STREAM_BASE_IMPL": "YES", "GDAL_HTTP_PROXY": _NOWHERE}
        | {"GDAL_HTTPS_PROXY": _NOWHERE}
    )
    # Not `catch_warnings`, which is not safe among threads. Warnings that GDAL raises in
    # a stream are said to come from whoever asks for the next batch.
    for module in (r"pyogrio\b", r"havasu_vc\.exchange\b", r"pyarrow\b", r"contextlib$"):
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=module)
        warnings.filterwarnings("ignore", category=UserWarning, module=module)
    return pyogrio


def one_line(error: BaseException, path: str = "") -> str:
    """Return the cause in an error of GDAL's, in one short line.

    >>> one_line(ValueError("sqlite3_step() failed: database disk image is malformed; a; a"))
    'database disk image is malformed'
    """
    text = str(error)
    for pattern, better in _NOISE:
        text = pattern.sub(better, text)
    # GDAL's chain of causes ends with the first thing that went wrong.
    parts = [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]
    line = parts[0] if parts else type(error).__name__
    if path:
        line = line.replace(path, Path(path).name)
    return line[:300].rstrip(". ")


@contextmanager
def gdal_errors(path: str, *, writing: bool = False) -> Iterator[None]:
    """Turn whatever pyogrio, GDAL or Arrow raise into an error of ours."""
    try:
        yield
    except HavasuError:
        raise
    except UnicodeDecodeError as error:
        raise InvalidFileError(
            path,
            "its texts are not encoded as it says that they are",
            hints=("for a shapefile the .cpg file beside it says so: mend it there",),
        ) from error
    except (RuntimeError, ValueError, OSError, IndexError, pa.ArrowException) as error:
        if writing:
            # The path is that of a file on the way to its place.
            raise _not_written(path, one_line(error, path)) from error
        raise InvalidFileError(
            path,
            f"damaged or cut short: {one_line(error, path)}",
            hints=("get the file again from where it came",),
        ) from error


def _not_written(path: str, cause: str) -> StorageError:
    """Return the error for a file that GDAL could not write: it seldom says that a disk is full."""
    full = any(said in cause for said in _FULL_TO_SQLITE)
    if full or shutil.disk_usage(Path(path).parent).free < _FULL:
        cause = "the disk is full"
    return StorageError(f"{Path(path).name} cannot be written: {cause}")


def require_whole(path: str, layer: str, rows: int, *, end: bytes | None) -> None:
    """Raise `StorageError` unless a file that GDAL wrote has so many rows.

    `end` is what a text ends with, of which no rows are counted. On a full disk GDAL goes on
    writing FlatGeobuf, and drops the end of a text, and says nothing.
    """
    found, cause = 0, "it is not there as a whole"
    if end is not None:
        found = rows if _has_end(path, end) else -1
    else:
        how = {"columns": [], "read_geometry": False, "return_fids": True}
        try:
            if path.lower().endswith(_SHAPES):
                refuse_long_rows(path)
                check_shapefile(Path(path))
            with open_stream(path, layer, **how) as reader:
                found = sum(batch.num_rows for batch in reader)
        except InvalidFileError as error:
            raise _not_written(path, cause) from error
    if found != rows:
        raise _not_written(path, cause)


def _has_end(path: str, end: bytes) -> bool:
    """Whether a text ends as GDAL ends it, and there was room for more."""
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - len(end)))
        return file.read().endswith(end) and shutil.disk_usage(Path(path).parent).free > 0


def list_layers(path: str) -> list[str]:
    """Return the names of a file's layers."""
    module = _pyogrio()
    with gdal_errors(path):
        listed = [str(name) for name in module.list_layers(path)[:, 0]]
    return listed + _unlisted(path, listed)


_TABLES = f"""
SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND {OF_PEOPLE}
AND lower(name) NOT IN (SELECT lower(table_name) FROM gpkg_contents)
"""


def _unlisted(path: str, listed: Sequence[str]) -> list[str]:
    """Return the tables that a GeoPackage does not list.

    GDAL passes over them where it lists one without geometries, and else does not.
    """
    if not _is_geopackage(path):
        return []
    try:
        with closing(sqlite3.connect(read_only(path), uri=True)) as database:
            found = [str(name) for (name,) in database.execute(_TABLES)]
    except sqlite3.Error:
        return []
    return [name for name in found if name not in listed]


def read_info(path: str, layer: str) -> dict[str, Any]:
    """Return what pyogrio knows of a layer without reading its rows.

    Where a shapefile does not say how its texts are encoded, `assumed` is what they are taken for.
    """
    module = _pyogrio()
    # pyogrio leaves an M out of the geometry type, and warns that it does.
    with gdal_errors(path), warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        info: dict[str, Any] = module.read_info(path, layer=layer, **_opening(path))
        assumed = _assumed_encoding(path, info)
        if assumed is not None:
            info = module.read_info(path, layer=layer, encoding=assumed) | {"assumed": assumed}
    for warning in raised:
        if match := _MEASURED.search(str(warning.message)):
            info["geometry_type"] = match[1]
    return info


def _is_geopackage(path: str) -> bool:
    """Whether a file is one by its name."""
    return path.lower().endswith(".gpkg")


def _opening(path: str) -> dict[str, str]:
    """Return GDAL's options by which each table of a file can be opened."""
    return {"LIST_ALL_TABLES": "YES"} if _is_geopackage(path) else {}


def _assumed_encoding(path: str, info: Mapping[str, Any]) -> str | None:
    """Return what a file's texts are taken for, where GDAL does not know and hands over bytes."""
    if info["driver"] != "ESRI Shapefile" or info["encoding"] == "UTF-8":
        return None
    return text_encoding(path)


@contextmanager
def open_stream(path: str, layer: str, **how: Any) -> Iterator[pa.RecordBatchReader]:
    """Open a layer as a stream of record batches; `how` as in `pyogrio.raw.open_arrow`."""
    module = _pyogrio()
    with gdal_errors(path):
        if _SHAPES in path.lower():
            how["encoding"] = read_info(path, layer).get("assumed")
        how |= _opening(path)
        with module.raw.open_arrow(path, layer=layer, use_pyarrow=True, **how) as (_, reader):
            yield reader


def warned_of(path: str, layer: str, **how: Any) -> list[str]:
    """Return what GDAL warns of where a layer is read; `how` as in `open_stream`."""
    module = _pyogrio()
    with gdal_errors(path), warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        with module.raw.open_arrow(path, layer=layer, use_pyarrow=True, **how) as (_, reader):
            for _ in reader:
                pass
    return [str(one.message) for one in raised if issubclass(one.category, RuntimeWarning)]


def write_stream(
    path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], how: Mapping[str, Any]
) -> list[str]:
    """Write a layer from a stream of record batches, and return what GDAL warned of.

    `how` is as in `pyogrio.raw.write_arrow`.
    """
    module = _pyogrio()
    failed: list[BaseException] = []

    def kept() -> Iterator[pa.RecordBatch]:
        # An exception that crosses Arrow's C interface keeps its text only.
        try:
            yield from batches
        except BaseException as error:
            failed.append(error)
            raise

    reader = pa.RecordBatchReader.from_batches(schema, kept())
    how, later = _apart(how)
    try:
        with gdal_errors(path, writing=True), warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            module.raw.write_arrow(reader, path, **how)
    except HavasuError as error:
        if failed and not isinstance(failed[0], GeneratorExit):
            raise failed[0] from error
        raise
    if later:
        _describe(path, how["layer"], later)
    told = [one for one in raised if issubclass(one.category, RuntimeWarning)]
    return [str(one.message).replace(path, Path(path).name) for one in told]


# Long titles and descriptions of a GeoPackage's layers: GDAL has many copies of each in memory.

_LONG = 1 << 16


def _apart(how: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return how a layer is written, and long texts of it that are written by themselves."""
    options = dict(how.get("layer_options") or {})
    # No two layers have one title: what stands for it is of no other.
    short = {"IDENTIFIER": uuid.uuid4().hex, "DESCRIPTION": ""}
    later = {name: options[name] for name in short if len(options.get(name, "")) > _LONG}
    if how["driver"] != "GPKG" or not later:
        return dict(how), {}
    return {**how, "layer_options": options | {name: short[name] for name in later}}, later


def _describe(path: str, layer: str, texts: Mapping[str, str]) -> None:
    """Write texts of a layer into a GeoPackage that is there."""
    columns = ", ".join(f"{name.lower()} = ?" for name in texts)
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(
                f"UPDATE gpkg_contents SET {columns} WHERE table_name = ?",
                (*texts.values(), layer),
            )
    except sqlite3.Error as error:
        raise StorageError(f"{Path(path).name} cannot be written: {error}") from error
