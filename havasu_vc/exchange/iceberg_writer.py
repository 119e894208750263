"""A dataset as a table of Iceberg 3: geometries of native types, rows that have ids.

The data files hold ISO WKB in columns of Parquet's GEOMETRY and GEOGRAPHY types, and the
manifests their bounds. A table that is there gets another snapshot, whatever was written
to it since; the rows of that are new ones, since a dataset knows keys and not row ids.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.owners import report_batch
from havasu_vc.datasets.havasu.statistics import column_statistics
from havasu_vc.datasets.havasu.writing import split_offsets
from havasu_vc.errors import ConcurrentChangeError, HavasuError, InvalidArgumentError
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
from havasu_vc.exchange.export_marks import TAKEN, Mark, take_left
from havasu_vc.exchange.iceberg_versions import (
    Plan,
    known_types,
    next_version,
    plain_field,
    require_same_types,
)
from havasu_vc.exchange.native_tables import (
    Boxes,
    edges_of,
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
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.iceberg.entries import data_file_of
from havasu_vc.formats.iceberg.metadata import corner_of
from havasu_vc.formats.iceberg.native_geometry import NativeTypes, native_type_text
from havasu_vc.formats.iceberg.values import DataFile, Flavour, TableMetadata
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_urls import shown_url, with_endpoint
from havasu_vc.tables.bucket import BucketPlaces, BucketTable, folder_of_copies
from havasu_vc.tables.publishing import logged, publish
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import (
    Table,
    TableFolders,
    local_path,
    location_of,
    read_table,
    table_exists,
)

__all__ = ["write_iceberg_3", "write_iceberg_3_objects"]

_GLOBE = Bounds(-180, -90, 180, 90)
_TRIES = 5
_DATA = "data"
"""The folder of a table's data files."""


def write_iceberg_3(
    folder: Path,
    header: DatasetHeader,
    rows: Iterator[pa.RecordBatch] | Parts,
    *,
    overwrite: bool = False,
) -> Written:
    """Write rows, which come in stored types, as a table or as the next snapshot of one."""
    notes = Notes()
    folder = Path(os.path.abspath(folder))
    if take_left(folder, _version_at, overwrite=overwrite):
        notes.say(TAKEN)
    home = _InFolder(folder, overwrite)
    old = home.newest()
    plan = _plan(header, notes)
    if old is not None:
        require_same_types(old, plan, home.said)
    with reporting_storage_errors(folder):
        with keeping(folder, _version_at, _DATA) as (run, kept):
            if isinstance(rows, Parts):
                files = _written_by_tasks(str(folder), header, rows, run, notes)
            else:
                files = _write_files(folder / _DATA, plan, rows, f"00000-{run}")
            with last_step():
                _commit(home, old, plan, files)
            kept |= {Path(local_path(file.path)).name for file in files}
    return Written(sum(file.record_count for file in files), tuple(notes.lines))


def write_iceberg_3_objects(
    url: str, header: DatasetHeader, parts: Parts, *, overwrite: bool = False
) -> Written:
    """Write the rows of each part to a bucket, then the version of a table there that has them."""
    notes, home = Notes(), _InBucket(url)
    url = with_endpoint(url, os.environ)
    names = objects_below(url)
    left = left_behind(url, names, overwrite=overwrite)
    old = home.newest()
    version = -1 if old is None else old.version
    by_left = left is not None and old is not None and _made_it(left, old)
    left = take_over(url, names, left, version, by_left=by_left, overwrite=overwrite)
    if left is not None:
        notes.say(TAKEN)
    plan = _plan(header, notes)
    if old is not None:
        require_same_types(old, plan, home.said)
    run = uuid.uuid4().hex[:12]
    with keeping_objects(url, run, before=version, left=left, as_table=True) as kept:
        written = _written_by_tasks(url, header, parts, run, notes)
        names = [f"{_DATA}/{Path(local_path(file.path)).name}" for file in written]
        at = f"{home.location}/"
        files = [replace(file, path=at + name) for file, name in zip(written, names, strict=True)]
        require_marked(url, run)
        kept |= {*names}
        try:
            with last_step():
                _commit(home, old, plan, files)
        except ConcurrentChangeError:
            kept.clear()
            raise
    return Written(sum(file.record_count for file in files), tuple(notes.lines))


def _made_it(mark: Mark, table: Table) -> bool:
    """Whether a table is the one that an export made, which was killed right after."""
    if mark.before >= 0 or table.version != 1 or table.metadata.snapshot is None:
        return False
    files = live_files(table, table.metadata.snapshot.snapshot_id)
    names = [table.places.name(each.file.path) for each in files]
    return bool(names) and all(map(mark.made, names))


class _InFolder:
    """A table in a folder of this machine."""

    def __init__(self, folder: Path, overwrite: bool) -> None:
        self.folder = folder
        self.said = str(folder)
        self.location = location_of(folder)
        self.places = TableFolders([folder])
        self._overwrite = overwrite

    def newest(self) -> Table | None:
        """Return the table as it is now; None where there is none."""
        if not table_stands(self.folder, table_exists, overwrite=self._overwrite):
            return None
        return _of_version_3(read_table(self.folder), self.said)

    def publish(self, old: Table | None, new: TableMetadata, types: NativeTypes) -> None:
        """Make metadata the version after another."""
        publish(old, self.folder, new, types=types)


class _InBucket:
    """A table in a bucket, whose documents are made in a folder of copies."""

    def __init__(self, url: str) -> None:
        self._table = BucketTable(url)
        self.folder = folder_of_copies(self._table.url)
        self.location = self._table.url
        self.said = shown_url(self.location)
        self.places = BucketPlaces(self._table, self.folder)

    def newest(self) -> Table | None:
        """Return the table as it is now; None where there is none."""
        if not self._table.versions():
            return None
        return _of_version_3(self._table.read(self.folder), self.said)

    def publish(self, old: Table | None, new: TableMetadata, types: NativeTypes) -> None:
        """Send what was written for a version, then make metadata the one after another."""
        sent = self.places.unsent
        try:
            self.places.send_written()
            if old is not None:
                new = logged(new, old)
            version = 1 if old is None else old.version + 1
            self._table.publish(new, version, Flavour.ICEBERG, types)
        except ConcurrentChangeError:
            with suppress(HavasuError):
                self._table.remove(sent)
            raise


def _of_version_3(table: Table, said: str) -> Table:
    if table.metadata.format_version < 3:
        raise InvalidArgumentError(
            f"the table at {said} is of Iceberg {table.metadata.format_version}",
            hints=("choose another folder, or write --to iceberg",),
        )
    return table


def _version_at(folder: Path) -> int:
    """Return the version of the table in a folder; -1 where there is none."""
    return read_table(folder).version if table_exists(folder) else -1


def _plan(header: DatasetHeader, notes: Notes) -> Plan:
    geometries = {
        each.name: outgoing_geometry(each, header.crs, None, notes)
        for each in header.schema.geometries
    }
    properties: dict[str, str] = {}
    types: dict[int, str] = {}
    logical: dict[str, pa.DataType] = {}
    for name, geometry in geometries.items():
        native = native_geometry(geometry, properties, notes)
        types[geometry.field.id] = native_type_text(native)
        logical[name] = logical_type(geometry, native.crs)
    if any(column.raster is not None for column in header.schema.fields):
        notes.say("rasters are written as structs; no reader knows them for rasters")
    fields = tuple(plain_field(column) for column in header.schema.fields)
    arrow = [
        arrow_field(column).with_type(logical[column.name])
        if column.name in geometries
        else arrow_field(column)
        for column in fields
    ]
    return Plan(
        Schema(fields, header.schema.identifier_ids),
        geometries,
        types,
        properties,
        pa.schema(arrow),
        frozenset(name for name, geometry in geometries.items() if edges_of(geometry)),
    )


@dataclass
class _Seen:
    """Measures of the geometries of one file."""

    plan: Plan
    rows: int = 0
    boxes: Boxes = field(default_factory=Boxes)

    def converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch as it is written, having looked at it."""
        self.rows += batch.num_rows
        columns = []
        for wanted in self.plan.arrow:
            values = batch.column(wanted.name)
            if wanted.name in self.plan.geometries:
                geometry = self.plan.geometries[wanted.name]
                wkb = geometry.canonical(values)
                self.boxes.add(geometry, wkb)
                values = pa.ExtensionArray.from_storage(wanted.type, wkb)
            elif values.type != wanted.type:
                values = values.cast(wanted.type)
            columns.append(without_gaps(values, wanted))
        return pa.RecordBatch.from_arrays(columns, schema=self.plan.arrow)

    def corners(self) -> Iterator[tuple[int, Bounds]]:
        """Yield the bounds of geometries that have some, by field id."""
        for name, box in self.boxes.sound().items():
            if name not in self.plan.globe or _GLOBE.covers(box):
                yield self.plan.geometries[name].field.id, box


def _written_by_tasks(
    place: str, header: DatasetHeader, parts: Parts, run: str, notes: Notes
) -> list[DataFile]:
    def writing(tasks: tuple[Task, ...], number: int) -> Task:
        return task_of(write_part, tasks, number, header, place, run)

    files: list[DataFile] = []
    for written, lines in parts.written(writing, f"Writing {header.path}"):
        for file in written:
            name = Path(local_path(file.path)).name
            require_written(place, f"{_DATA}/{name}", file.file_size)
        files += written
        for line in lines:
            notes.say(line)
    return files


@kernel
def write_part(
    tasks: tuple[Task, ...], number: int, header: DatasetHeader, place: str, run: str
) -> Iterator[pa.RecordBatch]:
    """Write the rows of tasks to data files, and report these and notes."""
    with writing_to(place, _DATA) as folder:
        batches = rows_of(tasks, number)
        if batches is None:
            return
        notes = Notes()
        files = _write_files(folder, _plan(header, notes), batches, f"{number:05}-{run}")
        put_written(folder, place, run, _DATA)
    yield report_batch((files, tuple(notes.lines)))


def _write_files(
    data: Path, plan: Plan, batches: Iterator[pa.RecordBatch], name: str
) -> list[DataFile]:
    groups = row_groups_of(batches)
    files: list[DataFile] = []
    with reporting_storage_errors(data):
        group = next(groups, [])
        while group:
            path = data / f"{name}-{uuid.uuid4()}.parquet"
            seen = _Seen(plan)
            properties = plan.properties
            group = write_data_file(path, plan.arrow, properties, group, groups, seen.converted)
            files.append(_described(path, seen))
    return files


def _described(path: Path, seen: _Seen) -> DataFile:
    """Return a file as a manifest describes it."""
    metadata = pq.read_metadata(path)
    schema = seen.plan.schema
    entry = Entry(
        "0" * 64,
        Content.DATA,
        path.stat().st_size,
        seen.rows,
        "",
        "",
        "",
        Origin.IMPORT,
        statistics=column_statistics(metadata, schema.fields, {}),
        splits=split_offsets(metadata),
    )
    file = data_file_of(entry, location_of(path), schema=schema, flavour=Flavour.ICEBERG)
    boxes = dict(seen.corners())
    native = seen.plan.types.keys()
    lower = {n: b for n, b in (file.lower_bounds or {}).items() if n not in native}
    upper = {n: b for n, b in (file.upper_bounds or {}).items() if n not in native}
    return replace(
        file,
        lower_bounds=lower | {n: corner_of(box.xmin, box.ymin) for n, box in boxes.items()},
        upper_bounds=upper | {n: corner_of(box.xmax, box.ymax) for n, box in boxes.items()},
    )


def _commit(
    home: _InFolder | _InBucket, old: Table | None, plan: Plan, files: list[DataFile]
) -> None:
    """Publish a snapshot of the files; once more on top of what others published meanwhile.

    Data files stay what they are then, and so does their manifest: its entries inherit
    whatever the list says of it.
    """
    for last in (*[False] * (_TRIES - 1), True):
        try:
            _publish(home, old, plan, files)
        except ConcurrentChangeError:
            if last:
                raise
            old = home.newest()
            if old is not None:
                require_same_types(old, plan, home.said)
        else:
            return


def _publish(
    home: _InFolder | _InBucket, old: Table | None, plan: Plan, files: list[DataFile]
) -> None:
    """Make a snapshot of the files, and of no others, the table's current one."""
    new = next_version(home.folder, home.places, home.location, old, plan, files)
    home.publish(old, new, {**known_types(old), **plan.types})
