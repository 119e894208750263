"""GeoParquet and Parquet files as sources: one file, a folder of them, or a pattern.

The files of a folder are one table and must have the same columns; folders named
`column=value` are columns too. A geometry column is one that the `geo` document, a
GEOMETRY or GEOGRAPHY logical type, or a GeoArrow extension type says is one. Every
other column is kept in its own type. Only footers are read to open a source; tasks
are runs of row groups.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import InvalidFileError, StorageError, UnsupportedTypeError
from havasu_vc.exchange.far import SourceFile, opened, parts_below, shown, size_of
from havasu_vc.exchange.geoarrow import (
    NATIVE,
    NATIVE_ENCODINGS,
    FoundGeometry,
    extension_geometry,
    native_dimensions,
    to_wkb,
)
from havasu_vc.exchange.geoparquet import (
    COVERING,
    DEFAULT_CRS,
    group_boxes,
    may_meet,
    parse_geo,
    shape_of,
)
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    listed,
    stored_batches,
)
from havasu_vc.exchange.native_tables import CRS_TEXT
from havasu_vc.exchange.source import (
    MOST_BATCH_BYTES,
    MOST_BATCH_ROWS,
    TASK_BYTES,
    Box,
    SourceOptions,
)
from havasu_vc.formats.iceberg.native_geometry import EDGES, NO_CRS
from havasu_vc.model.arrow import INT96
from havasu_vc.model.names import repeated
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.object_systems import reporting_store_errors
from havasu_vc.store.object_urls import is_url, shown_url

__all__ = [
    "ParquetSource",
    "find_geometries",
    "open_parquet",
    "require_sound_packing",
    "unreadable",
]


MOST_UNPACKED = 64 << 20
"""Bytes of memory that a column of a row group may take, however few it has in the file."""
MOST_PACKED = 500
"""How many times its bytes in the file it may take beyond that."""
_LARGE_GROUP = 256 * 1024 * 1024
"""Column chunks of row groups above this are streamed rather than read at once."""
_PARTITION = re.compile(r"([^=/]+)=(.*)")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class _File:
    """One file: what of its footer is needed later."""

    path: str
    schema: pa.Schema
    found: Mapping[str, FoundGeometry]
    covering: frozenset[str]
    groups: tuple[tuple[int, int], ...]
    """Rows and uncompressed bytes of each row group."""
    partition: tuple[tuple[str, str | None], ...]
    """Columns that the folders' names give, with their values."""
    boxes: Mapping[str, tuple[Box | None, ...]]
    """Where the rows of each row group lie by each geometry column, where that is asked."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of one file."""

    path: str
    columns: tuple[str, ...]
    layout: SourceLayout
    natives: tuple[tuple[str, str], ...]
    """Geometry columns in a native encoding, and which."""
    constants: tuple[tuple[str, object, str], ...]
    """Columns that are not in the file: name, value, Arrow type."""
    spread: bool = False
    """Whether it is read on another machine, which may have other files."""


@dataclass(frozen=True)
class ParquetSource:
    """A table of Parquet files."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    layout: SourceLayout
    files: tuple[_File, ...]
    partition_types: Mapping[str, pa.DataType]
    notes: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()
    spread: bool = False
    """Whether tasks run on other machines, which start in folders of their own."""

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return one task for each run of row groups of about 64 MiB."""
        layout = self.layout.select(columns)
        parts = [(file, run) for file in self.files for run in _runs(file.groups)]
        tasks = []
        for file, run in parts:
            largest = max(file.groups[index][1] for index in run)
            # Tasks run side by side; what is one task has its columns read side by side.
            how = (_batch_rows(file.groups, run), largest > _LARGE_GROUP, len(parts) == 1)
            tasks.append(task_of(read_row_groups, self._reading(file, layout), run, *how))
        return tasks

    def _reading(self, file: _File, layout: SourceLayout) -> _Reading:
        constants = tuple(
            (
                name,
                _partition_value(value, self.partition_types[name]),
                str(self.partition_types[name]),
            )
            for name, value in file.partition
            if name in layout.schema.by_name
        )
        given = {name for name, _, _ in constants}
        columns = tuple(name for name in layout.schema.names if name not in given)
        natives = tuple(
            (name, found.encoding)
            for name, found in file.found.items()
            if found.encoding in NATIVE_ENCODINGS and name in columns
        )
        path = file.path if is_url(file.path) or not self.spread else os.path.abspath(file.path)
        return _Reading(path, columns, layout, natives, constants, self.spread)


def open_parquet(
    paths: Sequence[SourceFile], name: str, options: SourceOptions, *, root: Path | None = None
) -> ParquetSource:
    """Open files as one table; `root` is the folder below which names may be partitions."""
    files = [_read_footer(path, root, boxes=options.bbox is not None) for path in paths]
    first = files[0]
    for file in files[1:]:
        _require_same(first, file)
    types = _partition_types(files)
    arrow = first.schema
    for column, type_ in types.items():
        arrow = arrow.append(pa.field(column, type_))
    # A column of boxes that is asked for by name is a column like any other.
    asked_for = set(options.columns or ()) & first.covering
    covering = first.covering - asked_for
    arrow = pa.schema([field for field in arrow if field.name not in covering])
    crs = CrsNames(options.crs)
    geometries = {
        column: GeometryColumn(
            found.stored_encoding,
            crs.name(found.crs, shown(first.path)),
            _common_shape([file.found[column].shape for file in files]),
            found.edges,
            tuple((n, v) for n, v in found.properties if n != COVERING or v not in asked_for),
        )
        for column, found in first.found.items()
    }
    layout = lay_out(arrow, geometries, options)
    kept = {field.geometry.crs for field in layout.schema.geometries if field.geometry}
    if options.bbox is not None and layout.schema.geometries:
        column = layout.schema.geometries[0].name
        globe = layout.schema.geometries[0].edges is not None
        files = [_within(file, column, options.bbox, globe=globe) for file in files]
    return ParquetSource(
        name=name,
        schema=layout.schema,
        crs={identifier: wkt for identifier, wkt in crs.wkt.items() if identifier in kept},
        rows=sum(rows for file in files for rows, _ in file.groups),
        input_bytes=sum(map(size_of, paths)),
        layout=layout,
        files=tuple(files),
        partition_types=types,
        notes=tuple(
            f"column {column!r} is left out: it repeats the bounds of the geometries"
            for column in sorted(covering)
        ),
    )


def _within(file: _File, column: str, box: Box, *, globe: bool) -> _File:
    """Return a file without the row groups that cannot have rows in a box."""
    boxes = file.boxes.get(column, (None,) * len(file.groups))
    groups = tuple(
        (rows if may_meet(box, there, globe=globe) else 0, size)
        for (rows, size), there in zip(file.groups, boxes, strict=True)
    )
    return replace(file, groups=groups)


@kernel
def read_row_groups(
    reading: _Reading, groups: tuple[int, ...], batch_rows: int, streamed: bool, alone: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of some row groups in stored types."""
    batches = _read(reading, groups, batch_rows, streamed, alone)
    first = 1 if groups == tuple(range(len(groups))) else None
    yield from stored_batches(batches, reading.layout, shown(reading.path), first_row=first)


def _read(
    reading: _Reading, groups: tuple[int, ...], batch_rows: int, streamed: bool, alone: bool
) -> Iterator[pa.RecordBatch]:
    try:
        far = is_url(reading.path)
        with pq.ParquetFile(
            opened(reading.path), pre_buffer=far, buffer_size=1 << 20 if streamed else 0, **INT96
        ) as file:
            batches = file.iter_batches(
                batch_rows,
                row_groups=list(groups),
                columns=list(reading.columns),
                use_threads=alone,
            )
            for batch in batches:
                yield _completed(batch, reading)
    except FileNotFoundError as error:
        if reading.spread and not is_url(reading.path):
            raise StorageError(
                f"the worker on {platform.node()} does not see {reading.path}",
                hints=(
                    "put it into a folder that all machines share under one path, or a bucket",
                    "or import it with `--engine local`",
                ),
            ) from error
        raise unreadable(reading.path, error) from error
    except (pa.ArrowException, OSError) as error:
        raise unreadable(reading.path, error) from error


def _completed(batch: pa.RecordBatch, reading: _Reading) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in reading.columns}
    for name, encoding in reading.natives:
        columns[name] = to_wkb(columns[name], encoding, name)
    for name, value, type_ in reading.constants:
        scalar = pa.scalar(value, pa.int64() if type_ == "int64" else pa.string())
        columns[name] = pa.repeat(scalar, batch.num_rows)
    names = reading.layout.schema.names
    return pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))


def _read_footer(path: SourceFile, root: Path | None, *, boxes: bool) -> _File:
    where = shown(str(path))
    try:
        with pq.ParquetFile(opened(str(path)), **INT96) as file:
            arrow, metadata = file.schema_arrow, file.metadata
            twice = repeated(arrow.names)
            if twice:
                raise InvalidFileError(where, f"two columns are called {twice[0]!r}")
            require_sound_packing(metadata, where)
            found, covering = find_geometries(file, where)
            groups = tuple(
                (metadata.row_group(index).num_rows, metadata.row_group(index).total_byte_size)
                for index in range(metadata.num_row_groups)
            )
            places = {
                name: tuple(group_boxes(metadata, name, _covering(each)))
                for name, each in found.items()
                if boxes
            }
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTypeError("?", str(error).splitlines()[0]) from error
    except (pa.ArrowException, OSError) as error:
        raise unreadable(str(path), error) from error
    return _File(str(path), arrow, found, covering, groups, _partition_of(path, root), places)


def _covering(found: FoundGeometry) -> str | None:
    """Return the column of boxes that tells where rows lie.

    On the globe boxes may be those of vertices alone, and the least of those that cross the
    antimeridian says nothing.
    """
    return dict(found.properties).get(COVERING) if found.edges is None else None


def require_sound_packing(metadata: pq.FileMetaData, path: str) -> None:
    """Refuse a column that takes far more memory than its bytes in the file can be worth.

    A file of 13 kB may hold a text of 400 MB, as zstd packs what repeats 30,000 to 1. Tables
    that repeat themselves have dictionaries, and nobody's are like that but to fill a memory.
    """
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        if group.total_byte_size <= MOST_UNPACKED:
            continue
        for column in map(group.column, range(group.num_columns)):
            unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
            if unpacked > MOST_UNPACKED and unpacked > MOST_PACKED * max(packed, 1):
                raise InvalidFileError(
                    path,
                    f"column {column.path_in_schema!r} would take {unpacked >> 20:,} MB of memory "
                    f"for {-(-packed >> 10):,} kB in the file",
                    hints=("if that is right, write the file again, packed by snappy",),
                )


def unreadable(path: str, error: Exception) -> InvalidFileError | StorageError:
    """Return the error for a file that Arrow cannot read."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if is_url(path):
        if not isinstance(error, pa.ArrowException):
            with reporting_store_errors(shown_url(path), "read"):
                raise error
        path = shown_url(path)
    if isinstance(error, PermissionError):
        return StorageError(f"{path} cannot be read: permission denied")
    if "magic bytes" in reason:
        reason = "not a Parquet file, or cut short"
    elif "file size is 0 bytes" in reason:
        reason = "the file is empty"
    else:
        reason = f"not a readable Parquet file: {reason}"
    return InvalidFileError(path, reason, hints=("get the file again from where it came",))


def _require_same(first: _File, other: _File) -> None:
    """Refuse a folder whose files are not one table."""
    one, path = shown(first.path), shown(other.path)
    here = {field.name: field.type for field in first.schema}
    there = {field.name: field.type for field in other.schema}
    hints = ("import the files one by one",)
    if set(here) != set(there):
        different = sorted(set(here) ^ set(there))
        raise InvalidFileError(
            path, f"its columns differ from {one}: {listed(different)}", hints=hints
        )
    for name, type_ in here.items():
        if there[name] != type_:
            reason = f"column {name!r} is {there[name]} but {type_} in {one}"
            raise InvalidFileError(path, reason, hints=hints)
    alike = {name: replace(found, shape=None) for name, found in first.found.items()}
    if {name: replace(found, shape=None) for name, found in other.found.items()} != alike:
        reason = f"its geometry columns are not described as in {one}"
        raise InvalidFileError(path, reason, hints=hints)
    if [name for name, _ in first.partition] != [name for name, _ in other.partition]:
        reason = f"its folders name other columns than those of {one}"
        raise InvalidFileError(path, reason, hints=hints)


def _common_shape(shapes: Sequence[str | None]) -> str | None:
    return shapes[0] if len(set(shapes)) == 1 else None


def _runs(groups: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    run: list[int] = []
    size = 0
    for index, (rows, uncompressed) in enumerate(groups):
        if run and size + uncompressed > TASK_BYTES:
            yield tuple(run)
            run, size = [], 0
        if rows:
            run.append(index)
            size += uncompressed
    if run:
        yield tuple(run)


def _batch_rows(groups: Sequence[tuple[int, int]], run: Sequence[int]) -> int:
    rows = sum(groups[index][0] for index in run)
    size = sum(groups[index][1] for index in run)
    return max(1, min(MOST_BATCH_ROWS, MOST_BATCH_BYTES * rows // max(size, 1)))


def _partition_of(path: SourceFile, root: Path | None) -> tuple[tuple[str, str | None], ...]:
    found: dict[str, str | None] = {}
    for part in parts_below(path, root):
        if match := _PARTITION.fullmatch(part):
            value = None if match[2] == _NULL_PARTITION else unquote(match[2])
            found[unquote(match[1])] = value
    return tuple(found.items())


def _partition_types(files: Sequence[_File]) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    present = set(files[0].schema.names)
    for name, _ in files[0].partition:
        if name in present:
            continue  # the file says it itself
        values = [dict(file.partition)[name] for file in files]
        whole = all(value is None or re.fullmatch(r"0|-?[1-9]\d{0,17}", value) for value in values)
        types[name] = pa.int64() if whole and any(values) else pa.string()
    return types


def _partition_value(value: str | None, type_: pa.DataType) -> object:
    return int(value) if value is not None and pa.types.is_integer(type_) else value


# Which columns of a Parquet file hold geometries, by the three ways a file can say so.
#
# First the `geo` document of GeoParquet, then Parquet's own GEOMETRY and GEOGRAPHY
# logical types, then GeoArrow extension types. Where a file says it twice the earlier
# one counts.

_SRID = re.compile(r"srid:[1-9]\d{0,8}")


def find_geometries(
    file: pq.ParquetFile, path: str
) -> tuple[dict[str, FoundGeometry], frozenset[str]]:
    """Return geometry columns by name, and columns that only repeat their bounds.

    Raises `InvalidFileError` when the file's own description is wrong.
    """
    arrow = file.schema_arrow
    metadata: Mapping[bytes, bytes] = file.metadata.metadata or {}
    found: dict[str, FoundGeometry] = {}
    for field in arrow:
        if (geometry := extension_geometry(field)) is not None:
            found[field.name] = geometry
    found |= _logical_geometries(file, metadata, path)
    covering = set()
    if b"geo" in metadata:
        try:
            columns = parse_geo(metadata[b"geo"])
        except ValueError as error:
            raise InvalidFileError(path, str(error)) from error
        for name, column in columns.items():
            if name not in arrow.names:
                raise InvalidFileError(
                    path, f"its geo metadata names a column {name!r}, which is not there"
                )
            properties = column.properties
            if column.covering in arrow.names:
                covering.add(column.covering)
            else:
                properties.pop(COVERING, None)
            dimensions = native_dimensions(arrow.field(name).type)
            if column.encoding in NATIVE_ENCODINGS and dimensions is not None:
                properties[NATIVE] = f"{column.encoding} {dimensions}"
            found[name] = FoundGeometry(
                column.encoding,
                column.crs,
                shape_of(column.geometry_types),
                column.edges,
                tuple(properties.items()),
            )
    for name, geometry in found.items():
        if geometry.encoding == "WKB" and not _is_binary(arrow.field(name).type):
            raise InvalidFileError(
                path, f"geometry column {name!r} holds no bytes but {arrow.field(name).type}"
            )
    named = {name: found[name] for name in arrow.names if name in found}
    return named, frozenset(str(name) for name in covering if name not in named)


def _logical_geometries(
    file: pq.ParquetFile, metadata: Mapping[bytes, bytes], path: str
) -> dict[str, FoundGeometry]:
    found = {}
    for index in range(len(file.schema)):
        column = file.schema.column(index)
        kind = column.logical_type.type
        if kind not in ("GEOMETRY", "GEOGRAPHY") or "." in column.path:
            continue  # a geometry inside a struct stays bytes
        said = json.loads(column.logical_type.to_json())
        edges = logical_edges(said.get("algorithm"), path) if kind == "GEOGRAPHY" else None
        crs = said.get("crs")
        properties = ((CRS_TEXT, crs),) if _SRID.fullmatch(crs or "") and crs != NO_CRS else ()
        found[column.path] = FoundGeometry(
            "WKB", _logical_crs(crs, metadata), None, edges, properties
        )
    return found


def logical_edges(algorithm: str | None, path: str) -> str:
    """Return the way of edges of a GEOGRAPHY; raises `InvalidFileError` for an unknown one."""
    edges = (algorithm or EDGES[0]).lower()
    if edges not in EDGES:
        raise InvalidFileError(
            path,
            f"its edges run by {algorithm!r}, which is unknown",
            hints=(f"known are {', '.join(EDGES)}",),
        )
    return edges


def _logical_crs(said: str | None, metadata: Mapping[bytes, bytes]) -> str | None:
    """Return what a logical type's crs stands for; None for no system at all."""
    if not said:
        return DEFAULT_CRS
    if said == NO_CRS:
        return None
    kind, _, rest = said.partition(":")
    if kind == "projjson":
        return metadata.get(rest.encode(), said.encode()).decode(errors="replace")
    # A number is an EPSG code by the custom of every database that has them.
    return f"EPSG:{rest}" if kind == "srid" and rest.isdigit() else said


def _is_binary(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
    )
