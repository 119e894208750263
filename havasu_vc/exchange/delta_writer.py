"""A dataset as a Delta table: data files, then the commit that names them.

Geometries are ISO WKB in columns of Parquet's GEOMETRY and GEOGRAPHY types, or, plain,
of binary, which any reader opens. A table that is there gets another version.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.datasets.havasu.owners import report_batch
from havasu_vc.errors import GeometryError, InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.delta import (
    LOG,
    is_delta_table,
    log_in_bucket,
    new_table_id,
    now_ms,
    publish_commit,
    read_log,
)
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.export_columns import Notes, OutgoingGeometry, outgoing_geometry, uuid_text
from havasu_vc.exchange.export_marks import TAKEN, Mark, take_left
from havasu_vc.exchange.native_tables import (
    Boxes,
    logical_type,
    native_geometry,
    table_stands,
    write_data_file,
)
from havasu_vc.exchange.parquet_writer import row_groups_of
from havasu_vc.exchange.side_by_side import (
    Parts,
    keeping,
    keeping_objects,
    left_behind,
    objects_below,
    put_written,
    require_marked,
    require_written,
    rows_of,
    take_over,
    writing_to,
)
from havasu_vc.formats.delta import (
    GEOSPATIAL,
    TIMESTAMP_NTZ,
    DeltaFile,
    DeltaLog,
    file_statistics,
    format_commit,
)
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import (
    TYPES,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    is_whole,
)
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_urls import shown_url, with_endpoint
from havasu_vc.tables.bucket import BucketTable

__all__ = [
    "NullCounts",
    "add_nulls",
    "delta_type",
    "delta_values",
    "write_delta",
    "write_delta_objects",
]


def write_delta(
    folder: Path,
    header: DatasetHeader,
    rows: Iterator[pa.RecordBatch] | Parts,
    *,
    plain: bool = False,
    overwrite: bool = False,
) -> Written:
    """Write rows, which come in stored types, as a table or as the next version of one."""
    notes = Notes()
    if take_left(folder, _version_at, overwrite=overwrite):
        notes.say(TAKEN)
    old = _table_there(folder, overwrite=overwrite)
    table, schema = _planned(header, notes, plain=plain)
    with keeping(folder, _version_at) as (run, kept):
        if isinstance(rows, Parts):
            count, files = _written_by_tasks(str(folder), table, rows, run)
        else:
            count, files = _write_files(folder, table, rows, f"00000-{run}")
        new, commit = _next(old, table, schema, files)
        with last_step():
            publish_commit(folder, new.version, commit)
            kept |= {file.path for file in files}
    return Written(count, tuple(notes.lines))


def write_delta_objects(
    url: str,
    header: DatasetHeader,
    parts: Parts,
    *,
    plain: bool = False,
    overwrite: bool = False,
) -> Written:
    """Write the rows of each part to a bucket, then the version of a table there that has them."""
    notes, place = Notes(), url
    url = with_endpoint(url, os.environ)
    names = objects_below(url)
    left = left_behind(url, names, overwrite=overwrite)
    stands = any(name.startswith(f"{LOG}/") for name in names)
    old = _writable(log_in_bucket(place), shown_url(url)) if stands else DeltaLog()
    by_left = left is not None and _made_it(left, old)
    left = take_over(url, names, left, old.version, by_left=by_left, overwrite=overwrite)
    if left is not None:
        notes.say(TAKEN)
    table, schema = _planned(header, notes, plain=plain)
    run = uuid.uuid4().hex[:12]
    with keeping_objects(url, run, before=old.version, left=left, as_table=True) as kept:
        count, files = _written_by_tasks(url, table, parts, run)
        new, commit = _next(old, table, schema, files)
        require_marked(url, run)
        kept |= {file.path for file in files}
        with last_step():
            made = BucketTable(place).create(f"{LOG}/{new.version:020}.json", commit)
        if not made:
            kept.clear()
            raise InvalidArgumentError(
                f"another process wrote version {new.version} of the table at {shown_url(url)}",
                hints=("export again",),
            )
    return Written(count, tuple(notes.lines))


def _made_it(mark: Mark, log: DeltaLog) -> bool:
    """Whether a table is the one that an export made, which was killed right after."""
    first = mark.before < 0 and log.version == 0
    return first and bool(log.files) and all(map(mark.made, log.files))


def _planned(header: DatasetHeader, notes: Notes, *, plain: bool) -> tuple[_Table, dict[str, Any]]:
    """Return the form of a table, and its schema."""
    geometries = {
        each.name: outgoing_geometry(each, header.crs, None, notes)
        for each in header.schema.geometries
    }
    table = _Table(header, geometries, plain, notes)
    columns = [table.column(each) for each in header.schema.fields]
    return table, {"type": "struct", "fields": columns}


def _next(
    old: DeltaLog, table: _Table, schema: dict[str, Any], files: list[DeltaFile]
) -> tuple[DeltaLog, bytes]:
    """Return the version of a table after another, and the commit that makes it."""
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
    return new, format_commit(old, new, now_ms=now_ms(), operation=operation)


def _version_at(folder: Path) -> int:
    """Return the version of the table in a folder; -1 where none has its name yet."""
    log = folder / LOG
    begun = log.is_dir() and any(not name.startswith(".") for name in os.listdir(log))
    return read_log(folder).version if begun else -1


def _table_there(folder: Path, *, overwrite: bool) -> DeltaLog:
    if not table_stands(folder, is_delta_table, overwrite=overwrite):
        return DeltaLog()
    return _writable(read_log(folder), str(folder))


def _writable(log: DeltaLog, place: str) -> DeltaLog:
    if log.mapping != "none":
        raise InvalidArgumentError(
            f"the table at {place} finds columns by other names, which is not written",
            hints=("choose another folder",),
        )
    return log


@dataclass
class _Table:
    """The form of a table, decided before a row is written."""

    header: DatasetHeader
    geometries: Mapping[str, OutgoingGeometry]
    plain: bool
    notes: Notes
    features: set[str] = field(default_factory=set)
    configuration: dict[str, str] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    """How the types of geometries say their coordinate reference systems."""

    def column(self, column: Field) -> dict[str, Any]:
        """Return a column as the schema has it."""
        if column.name in self.geometries and not self.plain:
            self.features.add(GEOSPATIAL)
            self.notes.say("geometries of Delta tables are a proposal, which few readers know yet")
            geometry = self.geometries[column.name]
            native = native_geometry(geometry, self.configuration, self.notes)
            self.systems[column.name] = native.crs
            type_: Any = str(native)
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

    def _type(self, type_: Type, name: str) -> Any:
        """Return a type as the schema has it."""
        match type_:
            case Primitive() if (spelt := TYPES[type_].delta) is not None:
                if type_ is Primitive.TIMESTAMP:
                    self.features.add(TIMESTAMP_NTZ)
                return spelt
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
        type_ = delta_type(column.type, arrow_type(column.type))
        if column.name in self.geometries:
            type_ = pa.binary()
            if not self.plain:
                geometry = self.geometries[column.name]
                type_ = logical_type(geometry, self.systems[column.name])
        return pa.field(column.name, type_, nullable=not column.required)


class _Seen:
    """Measures of the rows of one file."""

    def __init__(self, table: _Table, arrow: pa.Schema) -> None:
        self.table = table
        self.arrow = arrow
        self.rows = 0
        self.nulls: NullCounts = {}
        nothing = arrow_schema(table.header.schema).empty_table()
        for column in table.header.schema.fields:
            add_nulls(self.nulls, column, nothing[column.name].combine_chunks())
        self.ranges: dict[str, tuple[Any, Any]] = {}
        self.unordered: set[str] = set()
        self.boxes = Boxes()

    def converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch as it is written, having looked at it."""
        self.rows += batch.num_rows
        columns = []
        for column, wanted in zip(self.table.header.schema.fields, self.arrow, strict=True):
            values = batch.column(column.name)
            add_nulls(self.nulls, column, values)
            if column.name in self.table.geometries:
                values = self._geometry(column.name, values)
            else:
                values = delta_values(values, column.type)
                if is_whole(column.type) or column.type in _RANGED:
                    self._range(column.name, values)
            if isinstance(wanted.type, pa.BaseExtensionType):
                values = pa.ExtensionArray.from_storage(wanted.type, values)
            elif values.type != wanted.type:
                values = values.cast(wanted.type)
            columns.append(without_gaps(values, wanted))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _geometry(self, name: str, values: pa.Array) -> pa.Array:
        geometry = self.table.geometries[name]
        _require_one_srid(geometry, values)
        wkb = geometry.canonical(values)
        if not self.table.plain:
            self.boxes.add(geometry, wkb)
        return wkb

    def _range(self, name: str, values: pa.Array) -> None:
        if pa.types.is_date32(values.type):
            values = values.view(pa.int32())  # Python has no days beyond its years
        elif pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            self.unordered.add(name)  # readers differ on whether it is the greatest
        found = pc.min_max(values).as_py()
        if found["min"] is not None:
            low, high = self.ranges.get(name, (found["min"], found["max"]))
            self.ranges[name] = (min(low, found["min"]), max(high, found["max"]))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the file."""
        ranges = {}
        for column in self.table.header.schema.fields:
            if column.name in self.ranges and column.name not in self.unordered:
                spelled = _range_json(column.type, *self.ranges[column.name])
                if spelled is not None:
                    ranges[column.name] = spelled
        return file_statistics(self.rows, self.nulls, ranges, self.boxes.sound())


_RANGED = (Primitive.DATE, Primitive.DOUBLE, Primitive.FLOAT, Primitive.STRING)
_LETTERS = 32
"""Letters of a text that statistics have, as Delta's own have."""
_LAST = "\U0010ffff"
"""The greatest letter."""


def _range_json(type_: Type, least: Any, greatest: Any) -> tuple[Any, Any] | None:
    """Return the ends of a column as statistics spell them; None where they cannot."""
    if type_ == Primitive.DATE:
        days = (least + _EPOCH_DAY, greatest + _EPOCH_DAY)
        if not 1 <= days[0] <= days[1] <= dt.date.max.toordinal():
            return None
        low, high = map(dt.date.fromordinal, days)
        return low.isoformat(), high.isoformat()
    if type_ == Primitive.STRING:
        cut = greatest[:_LETTERS]
        if len(greatest) > _LETTERS:
            cut = f"{cut}{_LAST}"
        return (least[:_LETTERS], cut) if greatest <= cut else None
    if isinstance(least, float) and not (math.isfinite(least) and math.isfinite(greatest)):
        return None
    return least, greatest


_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


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


def _written_by_tasks(
    place: str, table: _Table, parts: Parts, run: str
) -> tuple[int, list[DeltaFile]]:
    header = table.header

    def writing(tasks: tuple[Task, ...], number: int) -> Task:
        return task_of(write_part, tasks, number, header, table.plain, place, run)

    count = 0
    files: list[DeltaFile] = []
    for rows, written, lines in parts.written(writing, f"Writing {header.path}"):
        for file in written:
            require_written(place, file.path, file.size)
        if rows and not count:
            files = []  # that of a part without rows says nothing any more
        count += rows
        files += written
        for line in lines:
            table.notes.say(line)
    return count, files


@kernel
def write_part(
    tasks: tuple[Task, ...],
    number: int,
    header: DatasetHeader,
    plain: bool,
    place: str,
    run: str,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of tasks to data files, and report how many they are, the files and notes."""
    with writing_to(place) as folder:
        batches = rows_of(tasks, number)
        if batches is None:
            return
        notes = Notes()
        table, _ = _planned(header, notes, plain=plain)
        rows, files = _write_files(folder, table, batches, f"{number:05}-{run}")
        put_written(folder, place, run)
    yield report_batch((rows, files, tuple(notes.lines)))


def _write_files(
    folder: Path, table: _Table, batches: Iterator[pa.RecordBatch], name: str
) -> tuple[int, list[DeltaFile]]:
    arrow = table.arrow()
    groups = row_groups_of(batches)
    files: list[DeltaFile] = []
    rows = 0
    with reporting_storage_errors(folder):
        group = next(groups, [])
        while group or not files:
            path = folder / f"part-{name}-{uuid.uuid4()}.zstd.parquet"
            seen = _Seen(table, arrow)
            group = write_data_file(path, arrow, table.configuration, group, groups, seen.converted)
            rows += seen.rows
            files.append(DeltaFile(path.name, path.stat().st_size, now_ms(), seen.statistics()))
    return rows, files


# Values as the data files of a Delta table have them, and the nulls that its log counts.
#
# Delta has neither UUIDs nor bytes of one length, so these become text and plain bytes,
# inside of structs, lists and maps too.

NullCounts = dict[str, Any]
"""How many values are null, by column: of a struct, the same of each of its parts."""


def delta_type(type_: Type, arrow: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a column in data files, given that of its stored values."""
    match type_:
        case Primitive.UUID:
            return pa.string()
        case Fixed():
            return pa.binary()
        case Struct(fields):
            parts = [_field(part, arrow.field(n)) for n, part in enumerate(fields)]
            return pa.struct(parts)
        case List(element):
            return pa.list_(_field(element, arrow.value_field))
        case Map(key, value):
            return pa.map_(_field(key, arrow.key_field), _field(value, arrow.item_field))
        case _:
            return arrow


def _field(part: Field, arrow: pa.Field) -> pa.Field:
    return arrow.with_type(delta_type(part.type, arrow.type))


def delta_values(values: pa.Array, type_: Type) -> pa.Array:
    """Return stored values of a column as data files have them."""
    wanted = delta_type(type_, values.type)
    if wanted == values.type:
        return values
    if type_ is Primitive.UUID:
        return uuid_text(values)
    if isinstance(type_, Fixed):
        return values.cast(wanted)
    if values.offset:
        values = values.take(pa.array(np.arange(len(values))))
    mask = values.is_null()
    match type_:
        case Struct(fields):
            parts = [delta_values(values.field(n), part.type) for n, part in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)
        case List(element):
            inner = delta_values(values.values, element.type)
            return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=mask)
        case Map(key, value):
            keys, items = (
                delta_values(values.keys, key.type),
                delta_values(values.items, value.type),
            )
            return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=mask)
    raise ValueError(f"{type_} is stored as it is")


def add_nulls(counts: NullCounts, field: Field, values: pa.Array) -> None:
    """Add the nulls of a column; a part of a struct is null where the struct is."""
    if not isinstance(field.type, Struct):
        counts[field.name] = counts.get(field.name, 0) + values.null_count
        return
    inner = counts.setdefault(field.name, {})
    for part, column in zip(field.type.fields, values.flatten(), strict=True):
        add_nulls(inner, part, column)
