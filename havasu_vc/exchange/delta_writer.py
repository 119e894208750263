"""A dataset as a Delta table: data files, then the commit that names them.

Geometries are ISO WKB in columns of Parquet's GEOMETRY and GEOGRAPHY types, or, plain,
of binary, which any reader opens. A table that is there gets another version.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from havasu_vc.errors import (
    GeometryError,
    InvalidArgumentError,
    StorageError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.delta import LOG, new_table_id, now_ms, publish_commit, read_log
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.export_columns import Notes, uuid_text
from havasu_vc.exchange.export_geometry import (
    OutgoingGeometry,
    geometry_codes,
    outgoing_geometry,
)
from havasu_vc.exchange.parquet_writer import logical_type, projjson, row_groups_of
from havasu_vc.formats.delta import (
    GEOSPATIAL,
    TIMESTAMP_NTZ,
    DeltaFile,
    DeltaLog,
    file_statistics,
    format_commit,
)
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.crs import Crs
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.required_parts import without_gaps
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct, Type

__all__ = ["write_delta"]

_FILE_BYTES = 128 << 20
_TYPES = {
    Primitive.BOOLEAN: "boolean",
    Primitive.INT: "integer",
    Primitive.LONG: "long",
    Primitive.FLOAT: "float",
    Primitive.DOUBLE: "double",
    Primitive.DATE: "date",
    Primitive.TIMESTAMP: "timestamp_ntz",
    Primitive.TIMESTAMPTZ: "timestamp",
    Primitive.STRING: "string",
    Primitive.BINARY: "binary",
    Primitive.UUID: "string",
}
_COUNTED = (Primitive.INT, Primitive.LONG)


def write_delta(
    folder: Path,
    header: DatasetHeader,
    batches: Iterator[pa.RecordBatch],
    *,
    plain: bool = False,
    overwrite: bool = False,
) -> Written:
    """Write rows, which come in stored types, as a table or as the next version of one."""
    notes = Notes()
    old = _table_there(folder, overwrite=overwrite)
    geometries = {
        each.name: outgoing_geometry(each, header.crs, None, notes)
        for each in header.schema.geometries
    }
    table = _Table(header, geometries, plain, notes)
    schema = {"type": "struct", "fields": [table.column(each) for each in header.schema.fields]}
    rows, files = _write_files(folder, table, batches)
    new = DeltaLog(
        old.version + 1,
        old.table_id or new_table_id(),
        # A feature that a table has stays, whatever this version of it needs.
        tuple(sorted(table.features | set(old.features))),
        schema=schema,
        configuration=table.configuration,
        files={file.path: file for file in files},
    )
    operation = "CREATE TABLE AS SELECT" if old.version < 0 else "WRITE"
    commit = format_commit(old, new, now_ms=now_ms(), operation=operation)
    publish_commit(folder, new.version, commit)
    return Written(rows, tuple(notes.lines))


def _table_there(folder: Path, *, overwrite: bool) -> DeltaLog:
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is a file; a table needs a folder")
    if not folder.is_dir() or not os.listdir(folder):
        return DeltaLog()
    if not (folder / LOG).is_dir():
        raise InvalidArgumentError(
            f"something else is at {folder}", hints=("choose another folder",)
        )
    if not overwrite:
        raise InvalidArgumentError(
            f"there is a table at {folder} already",
            hints=("--overwrite makes another version of it",),
        )
    log = read_log(folder)
    if log.mapping != "none":
        raise InvalidArgumentError(
            f"the table at {folder} finds columns by other names, which is not written",
            hints=("choose another folder",),
        )
    return log


@dataclass
class _Table:
    """What is decided of a table before a row is written."""

    header: DatasetHeader
    geometries: Mapping[str, OutgoingGeometry]
    plain: bool
    notes: Notes
    features: set[str] = field(default_factory=set)
    configuration: dict[str, str] = field(default_factory=dict)

    def column(self, column: Field) -> dict[str, Any]:
        """Return a column as the schema has it."""
        if column.name in self.geometries and not self.plain:
            self.features.add(GEOSPATIAL)
            self.notes.say("geometries of Delta tables are a proposal, which few readers know yet")
            type_: Any = str(self._native(self.geometries[column.name]))
        elif column.name in self.geometries:
            self.notes.say(f"column {column.name!r} is written as binary: WKB")
            type_ = "binary"
        else:
            type_ = self._type(column.type, column.name)
        metadata = {} if column.doc is None else {"comment": column.doc}
        return {
            "name": column.name,
            "type": type_,
            "nullable": not column.required,
            "metadata": metadata,
        }

    def _native(self, geometry: OutgoingGeometry) -> NativeGeometry:
        edges = dict(geometry.field.extra).get("edges")
        return NativeGeometry(self._crs(geometry.target, geometry.field.name), edges)

    def _crs(self, crs: Crs | None, name: str) -> str:
        if crs is None:
            self.notes.say(f"column {name!r} has no coordinate reference system: srid:0")
            return "srid:0"
        authority, _, code = crs.identifier.partition(":")
        if authority in ("EPSG", "OGC", "ESRI", "IAU") and code:
            return crs.identifier
        key = f"havasu-vc.crs.{name}"
        self.configuration[key] = json.dumps(projjson(crs))
        return f"projjson:{key}"

    def _type(self, type_: Type, name: str) -> Any:
        """Return a type as the schema has it."""
        match type_:
            case Primitive() if type_ in _TYPES:
                if type_ is Primitive.TIMESTAMP:
                    self.features.add(TIMESTAMP_NTZ)
                return _TYPES[type_]
            case Decimal(precision, scale):
                return f"decimal({precision},{scale})"
            case Fixed():
                return "binary"
            case Struct(fields) if fields:
                parts = [
                    {
                        "name": each.name,
                        "type": self._type(each.type, name),
                        "nullable": not each.required,
                        "metadata": {},
                    }
                    for each in fields
                ]
                return {"type": "struct", "fields": parts}
            case List(element):
                return {
                    "type": "array",
                    "elementType": self._type(element.type, name),
                    "containsNull": not element.required,
                }
            case Map(key, value):
                return {
                    "type": "map",
                    "keyType": self._type(key.type, name),
                    "valueType": self._type(value.type, name),
                    "valueContainsNull": not value.required,
                }
            case _:
                what = "rasters" if type_ == Struct(()) else f"values of type {type_}"
                raise UnsupportedTypeError(
                    name,
                    f"a Delta table cannot hold {what}",
                    hints=("leave the column out: --columns names those to write",),
                )

    def arrow(self) -> pa.Schema:
        """Return the columns of data files."""
        return pa.schema([self._arrow_field(each) for each in self.header.schema.fields])

    def _arrow_field(self, column: Field) -> pa.Field:
        type_ = arrow_type(column.type)
        if column.name in self.geometries:
            type_ = pa.binary() if self.plain else logical_type(self.geometries[column.name])
        elif column.type is Primitive.UUID:
            type_ = pa.string()
        elif isinstance(column.type, Fixed):
            type_ = pa.binary()
        return pa.field(column.name, type_, nullable=not column.required)


class _Seen:
    """What was seen of the rows of one file."""

    def __init__(self, table: _Table) -> None:
        self.table = table
        self.rows = 0
        self.nulls = {each.name: 0 for each in table.header.schema.fields}
        self.ranges: dict[str, tuple[Any, Any]] = {}
        self.boxes: dict[str, Bounds | None] = dict.fromkeys(
            () if table.plain else table.geometries
        )
        self.curved: set[str] = set()

    def converted(self, batch: pa.RecordBatch, arrow: pa.Schema) -> pa.RecordBatch:
        """Return a batch as it is written, having looked at it."""
        self.rows += batch.num_rows
        columns = []
        for column, wanted in zip(self.table.header.schema.fields, arrow, strict=True):
            values = batch.column(column.name)
            self.nulls[column.name] += values.null_count
            if column.name in self.table.geometries:
                values = self._geometry(column.name, values)
            elif column.type is Primitive.UUID:
                values = uuid_text(values)
            elif column.type in _COUNTED:
                self._range(column.name, values)
            if isinstance(wanted.type, pa.BaseExtensionType):
                values = pa.ExtensionArray.from_storage(wanted.type, values)
            elif values.type != wanted.type:
                values = values.cast(wanted.type)
            columns.append(without_gaps(values, wanted))
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _geometry(self, name: str, values: pa.Array) -> pa.Array:
        geometry = self.table.geometries[name]
        _require_one_srid(geometry, values)
        wkb = geometry.canonical(values)
        if name in self.boxes:
            if dict(geometry.field.extra).get("edges") and geometry_codes(wkb) - _POINTS:
                self.curved.add(name)
            found, known = bounds_of(wkb, "wkb"), self.boxes[name]
            if found is not None:
                self.boxes[name] = found if known is None else known.union(found)
        return wkb

    def _range(self, name: str, values: pa.Array) -> None:
        found = pc.min_max(values).as_py()
        if found["min"] is not None:
            low, high = self.ranges.get(name, (found["min"], found["max"]))
            self.ranges[name] = (min(low, found["min"]), max(high, found["max"]))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the file."""
        # Edges on the globe leave the box of their ends, so only points have one there.
        boxes = {name: box for name, box in self.boxes.items() if name not in self.curved}
        return file_statistics(self.rows, self.nulls, self.ranges, boxes)


_POINTS = frozenset(kind + dimensions for kind in (1, 4) for dimensions in (0, 1000, 2000, 3000))


def _require_one_srid(geometry: OutgoingGeometry, values: pa.Array) -> None:
    """Refuse values that say another system than their column."""
    known = geometry.field.geometry
    if known is None or known.encoding.value != "ewkb":
        return
    _, srids = to_canonical(values, "ewkb")
    if srids is None:
        return
    said = set(np.unique(srids[np.asarray(values.is_valid())]).tolist())
    own = {0} if geometry.source is None else {0, geometry.source.srid}
    if said - own:
        listed = ", ".join(str(each) for each in sorted(said))
        raise GeometryError(
            f"column {geometry.field.name!r} has values of several systems (SRID {listed}), "
            "and a column of a Delta table has one",
            hints=("transform the values to one system first",),
        )


def _write_files(
    folder: Path, table: _Table, batches: Iterator[pa.RecordBatch]
) -> tuple[int, list[DeltaFile]]:
    arrow = table.arrow()
    groups = row_groups_of(batches)
    files: list[DeltaFile] = []
    written: list[Path] = []
    rows = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        group = next(groups, [])
        while group or not files:
            path = folder / f"part-{len(files):05}-{uuid.uuid4()}.zstd.parquet"
            written.append(path)
            seen = _Seen(table)
            with pq.ParquetWriter(path, arrow, compression="zstd", store_schema=False) as writer:
                while group and (not path.exists() or path.stat().st_size < _FILE_BYTES):
                    parts = [seen.converted(batch, arrow) for batch in group]
                    writer.write_table(pa.Table.from_batches(parts, arrow))
                    group = next(groups, [])
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            rows += seen.rows
            files.append(DeltaFile(path.name, path.stat().st_size, now_ms(), seen.statistics()))
        return rows, files
    except OSError as error:
        _remove(written)
        raise StorageError(f"{folder} cannot be written: {error.strerror or error}") from error
    except BaseException:
        _remove(written)
        raise


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
