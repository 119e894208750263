"""A version of a Delta table as a source: its columns by the log, its rows by its files.

The log says what columns there are. A data file may call them otherwise (column
mapping), may lack some that were added later, has none of those that the table is
partitioned by, and may have rows that a deletion vector deletes. Footers are read when
rows are, one task for each file.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import InvalidFileError, UnsupportedTypeError
from havasu_vc.exchange.geoarrow import FoundGeometry
from havasu_vc.exchange.geoparquet import group_boxes, may_meet, sound_box
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    stored_batches,
)
from havasu_vc.exchange.parquet import find_geometries, require_sound_packing, unreadable
from havasu_vc.exchange.source import MOST_BATCH_BYTES, MOST_BATCH_ROWS, Box, SourceOptions
from havasu_vc.formats.delta import (
    DeltaColumn,
    DeltaFile,
    DeltaLog,
    delta_columns,
    parse_corner,
    partition_value,
)
from havasu_vc.formats.roaring import DeletionVector, parse_deleted
from havasu_vc.model.arrow import INT96
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.tables.bucket import BucketTable, bringing
from havasu_vc.tables.table import TableFolders, local_path

__all__ = ["DeltaSource", "conformed", "delta_source", "read_delta_file"]


@dataclass(frozen=True, slots=True)
class _Window:
    """Where rows are wanted, so that row groups can be left out."""

    column: str
    """The geometry column, as files call it."""
    box: Box
    globe: bool
    """Whether its edges run on the globe."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of one file."""

    path: str
    columns: tuple[DeltaColumn, ...]
    """The columns to read, in the order of the layout."""
    layout: SourceLayout
    partition: tuple[tuple[str, pa.Scalar], ...]
    """Values that all rows have, by the name of their column."""
    deleted: DeletionVector | None
    deleted_path: str | None
    """The file that has the deletion vector."""
    window: _Window | None


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """A version of a table."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    layout: SourceLayout
    columns: tuple[DeltaColumn, ...]
    files: tuple[DeltaFile, ...]
    log: DeltaLog
    folder: Path
    bbox: Box | None = None
    version: int = 0
    """Which version of the table it is."""
    notes: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()
    bucket: str | None = None
    """Where the table is; the folder then has copies, which come when tasks are asked for."""
    spread: bool = False
    """Whether tasks run on other machines, and bring files of a bucket themselves."""

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return a task for each data file."""
        layout = self.layout.select(columns)
        by_name = {column.name: column for column in self.columns}
        wanted = tuple(by_name[name] for name in layout.schema.names)
        if self.bucket is not None and not self.spread:
            _bring(self.bucket, self.folder, self.files)
        places = TableFolders([self.folder])
        window = None
        if self.bbox is not None and self.schema.geometries:
            field = self.schema.geometries[0]
            window = _Window(by_name[field.name].physical, self.bbox, field.edges is not None)
        tasks = [
            task_of(read_delta_file, self._reading(file, layout, wanted, places, window))
            for file in self.files
        ]
        if self.bucket is None or not self.spread:
            return tasks
        return [
            bringing(task, self.bucket, {name: name for name in _names([file])}, self.folder)
            for task, file in zip(tasks, self.files, strict=True)
        ]

    def _reading(
        self,
        file: DeltaFile,
        layout: SourceLayout,
        columns: tuple[DeltaColumn, ...],
        places: TableFolders,
        window: _Window | None,
    ) -> _Reading:
        where = f"{self.folder}, file {file.path}"
        given = set(self.log.partition_columns)
        partition = tuple(
            (c.name, partition_value(file.partition.get(c.physical), c.type, where))
            for c in columns
            if c.name in given
        )
        vector_path = None
        if file.deleted is not None and not file.deleted.is_inline:
            vector_path = str(places.file(_absolute(self.folder, file.deleted.place)))
        return _Reading(
            str(places.file(_absolute(self.folder, file.path))),
            columns,
            layout,
            partition,
            file.deleted,
            vector_path,
            window,
        )


def _absolute(folder: Path, path: str) -> str:
    return local_path(path) if ":" in path or path.startswith("/") else str(folder / path)


def _bring(bucket: str, folder: Path, files: Iterable[DeltaFile]) -> None:
    """Bring data files of a table in a bucket, and the deletion vectors of their rows."""
    BucketTable(bucket).bring_all(_names(files), folder)


def _names(files: Iterable[DeltaFile]) -> set[str]:
    """Return the names of data files, and of what has the deletion vectors of their rows."""
    held = tuple(files)
    vectors = (f.deleted.place for f in held if f.deleted and not f.deleted.is_inline)
    return {*(file.path for file in held), *vectors}


def delta_source(
    folder: Path, log: DeltaLog, options: SourceOptions, *, bucket: str | None = None
) -> DeltaSource:
    """Return a version of the table in a folder as a source; of one in a bucket, by its copies."""
    where = str(folder)
    columns = delta_columns(list(log.schema["fields"]), log.mapping, where)
    files = tuple(file for _, file in sorted(log.files.items()))
    places = TableFolders([folder])
    for file in files:
        places.file(_absolute(folder, file.path))  # refused before anything is written
    crs = CrsNames(options.crs)
    if bucket is not None:
        _bring(bucket, folder, files[:1])
    found = {} if log.is_geospatial or not files else _found_in(folder, files[0], columns)
    geometries: dict[str, GeometryColumn] = {}
    for column in columns:
        if column.geometry is not None:
            said = _crs_text(column.geometry.crs, log.configuration, where)
            named = crs.name(said, where)
            geometries[column.name] = GeometryColumn(crs=named, edges=column.geometry.edges)
        elif (geometry := found.get(column.physical)) is not None:
            named = crs.name(geometry.crs, where)
            encoding = geometry.stored_encoding
            shape, edges = geometry.shape, geometry.edges
            geometries[column.name] = GeometryColumn(encoding, named, shape, edges)
    arrow = pa.schema([pa.field(c.name, c.type, c.nullable) for c in columns])
    layout = _commented(lay_out(arrow, geometries, options), columns)
    kept = {field.geometry.crs for field in layout.schema.geometries if field.geometry}
    if options.bbox is not None and layout.schema.geometries:
        files = _within(files, columns, layout.schema.geometries[0], options.bbox)
    return DeltaSource(
        name=folder.name,
        schema=layout.schema,
        crs={name: wkt for name, wkt in crs.wkt.items() if name in kept},
        rows=_rows(files),
        input_bytes=sum(file.size for file in files),
        layout=layout,
        columns=columns,
        files=files,
        log=log,
        folder=folder,
        bbox=options.bbox,
        version=log.version,
        bucket=bucket,
    )


def _commented(layout: SourceLayout, columns: Sequence[DeltaColumn]) -> SourceLayout:
    comments = {column.name: column.comment for column in columns}
    fields = tuple(replace(f, doc=comments[f.name] or f.doc) for f in layout.schema.fields)
    return replace(layout, schema=Schema(fields, layout.schema.identifier_ids))


def _found_in(
    folder: Path, file: DeltaFile, columns: Sequence[DeltaColumn]
) -> dict[str, FoundGeometry]:
    """Return what a data file says of geometries, in a table whose log knows none."""
    if not any(pa.types.is_binary(column.type) for column in columns):
        return {}
    path = TableFolders([folder]).file(_absolute(folder, file.path))
    try:
        with pq.ParquetFile(path) as opened:
            found, _ = find_geometries(opened, str(path))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(str(path), error) from error
    return {
        name: geometry for name, geometry in found.items() if geometry.encoding in ("WKB", "WKT")
    }


def _rows(files: Sequence[DeltaFile]) -> int | None:
    total = 0
    for file in files:
        count = file.statistics.get("numRecords")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            return None
        total += count - (0 if file.deleted is None else file.deleted.rows)
    return total


def _crs_text(said: str, configuration: Mapping[str, str], where: str) -> str | None:
    kind, _, rest = said.partition(":")
    if kind == "projjson":
        if rest not in configuration:
            raise InvalidFileError(
                where,
                f"its coordinate reference system is in the property {rest!r}, which is missing",
                hints=("name one with --crs",),
            )
        return configuration[rest]
    if kind == "srid":
        return None if int(rest) == 0 else f"EPSG:{rest}"
    return said


def _within(
    files: tuple[DeltaFile, ...], columns: Sequence[DeltaColumn], field: Field, box: Box
) -> tuple[DeltaFile, ...]:
    """Return the files that may have rows in a box, as the corners in the log say.

    Corners are those of geometries only where the type of the column says so.
    """
    (column,) = (each for each in columns if each.name == field.name)
    if column.geometry is None:
        return files
    globe = field.edges is not None
    return tuple(each for each in files if may_meet(box, _box(each, column.physical), globe=globe))


def _box(file: DeltaFile, name: str) -> Box | None:
    corners = []
    for kind in ("minValues", "maxValues"):
        values = file.statistics.get(kind)
        corner = parse_corner(values.get(name)) if isinstance(values, dict) else None
        if corner is None:
            return None
        corners.append(corner)
    (low_x, low_y), (high_x, high_y) = corners
    # The proposal says nothing of boxes across the anti-meridian.
    return sound_box(low_x, low_y, high_x, high_y) if low_x <= high_x else None


@kernel
def read_delta_file(reading: _Reading) -> Generator[pa.RecordBatch, None, None]:
    """Yield the live rows of a data file in stored types."""
    yield from stored_batches(_read(reading), reading.layout, reading.path)


def _read(reading: _Reading) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(reading.path, pre_buffer=False, **INT96) as file:
            metadata = file.metadata
            require_sound_packing(metadata, reading.path)
            counts = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
            starts = list(itertools.accumulate(counts, initial=0))
            deleted = _deleted(reading, metadata.num_rows)
            boxes: list[Box | None] = [None] * len(counts)
            if reading.window is not None:
                boxes = group_boxes(metadata, reading.window.column, None)
            for number, (start, box) in enumerate(zip(starts, boxes, strict=False)):
                if reading.window is None or may_meet(
                    reading.window.box, box, globe=reading.window.globe
                ):
                    yield from _read_group(file, number, start, reading, deleted)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(reading.path, error) from error


def _deleted(reading: _Reading, rows: int) -> npt.NDArray[np.int64]:
    vector = reading.deleted
    if vector is None:
        return np.empty(0, np.int64)
    data = None
    if reading.deleted_path is not None:
        with open(reading.deleted_path, "rb") as file:
            file.seek(vector.offset)
            data = file.read(vector.stored_size)
    return parse_deleted(vector, data, rows, reading.deleted_path or reading.path)


def _read_group(
    file: pq.ParquetFile,
    number: int,
    start: int,
    reading: _Reading,
    deleted: npt.NDArray[np.int64],
) -> Iterator[pa.RecordBatch]:
    group = file.metadata.row_group(number)
    there = _matched(file.schema_arrow, reading)
    rows = max(
        1, min(MOST_BATCH_ROWS, MOST_BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1))
    )
    names = sorted(set(there.values()))
    place = start
    for batch in file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False):
        end = place + batch.num_rows
        gone = deleted[np.searchsorted(deleted, place) : np.searchsorted(deleted, end)]
        found = _completed(batch, there, reading)
        if len(gone):
            live = np.ones(batch.num_rows, np.bool_)
            live[gone - place] = False
            found = found.filter(pa.array(live))
        place = end
        yield found


def _matched(schema: pa.Schema, reading: _Reading) -> dict[str, str]:
    """Return what a file calls the columns that it has, by the names of the table."""
    given = {name for name, _ in reading.partition}
    ids = {(field.metadata or {}).get(b"PARQUET:field_id"): field.name for field in schema}
    found = {}
    for column in reading.columns:
        if column.name in given:
            continue
        if column.id is not None:
            name = ids.get(str(column.id).encode())
        else:
            name = column.physical if column.physical in schema.names else None
        if name is not None:
            found[column.name] = name
    return found


def _completed(
    batch: pa.RecordBatch, there: Mapping[str, str], reading: _Reading
) -> pa.RecordBatch:
    """Return a batch with the columns of the table, in their types."""
    given = dict(reading.partition)
    columns: list[pa.Array] = []
    for column in reading.columns:
        if column.name in given:
            columns.append(pa.repeat(given[column.name], batch.num_rows))
        elif column.name in there:
            columns.append(_conformed(batch.column(there[column.name]), column))
        else:
            columns.append(pa.nulls(batch.num_rows, column.type))
    fields: list[Any] = [
        pa.field(c.name, a.type) for c, a in zip(reading.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _conformed(values: pa.Array, column: DeltaColumn) -> pa.Array:
    try:
        return conformed(values, column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UnsupportedTypeError(
            column.name, f"a file has {values.type} where the table says {column.type}"
        ) from error


# Columns of a Delta data file in the types and names that the table's log says.
#
# Inside of structs, lists and maps too: parts are found as columns are, what a file does
# not have is null, and what the table does not have any more is left out.


def conformed(values: pa.Array, column: DeltaColumn) -> pa.Array:
    """Return values of a file as the table has them; raises Arrow's errors where they cannot be."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if values.type == column.type:
        return values
    if not column.parts:
        # Sub-microsecond digits are what Delta leaves out too.
        return values.cast(column.type, safe=not pa.types.is_timestamp(column.type))
    if values.offset:
        values = values.take(pa.array(range(len(values))))
    if pa.types.is_struct(column.type):
        return _struct(values, column)
    if pa.types.is_map(column.type):
        return _map(values, column)
    return _list(values, column)


def _struct(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if not pa.types.is_struct(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no struct")
    names = [values.type.field(n).name for n in range(values.type.num_fields)]
    ids = {
        (values.type.field(n).metadata or {}).get(b"PARQUET:field_id"): n for n in range(len(names))
    }
    parts = []
    for part in column.parts:
        if part.id is not None:
            index = ids.get(str(part.id).encode())
        else:
            index = names.index(part.physical) if part.physical in names else None
        if index is None:
            parts.append(pa.nulls(len(values), part.type))
        else:
            parts.append(conformed(values.field(index), part))
    fields = [pa.field(part.name, part.type) for part in column.parts]
    made = pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    return made.cast(column.type)


def _list(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if pa.types.is_large_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    if not pa.types.is_list(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no list")
    elements = conformed(values.values, column.parts[0])
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(values.offsets, elements, mask=mask).cast(column.type)


def _map(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if not pa.types.is_map(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no map")
    keys, items = conformed(values.keys, column.parts[0]), conformed(values.items, column.parts[1])
    mask = values.is_null() if values.null_count else None
    return pa.MapArray.from_arrays(values.offsets, keys, items, mask=mask).cast(column.type)
