"""A dataset as a table of Iceberg 3: geometries of native types, rows that have ids.

The data files hold ISO WKB in columns of Parquet's GEOMETRY and GEOGRAPHY types, and the
manifests their bounds. A table that is there gets another snapshot, whatever was written
to it since; the rows of that are new ones, since a dataset knows keys and not row ids.
"""

from __future__ import annotations

import os
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.owners import report_batch
from havasu_vc.datasets.havasu.statistics import column_statistics
from havasu_vc.datasets.havasu.writing import split_offsets
from havasu_vc.errors import ConcurrentChangeError, InvalidArgumentError
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.export_columns import Notes, OutgoingGeometry, outgoing_geometry
from havasu_vc.exchange.export_marks import TAKEN, take_left
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
    require_arrived,
    require_seen,
    rows_of,
)
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.formats.iceberg.entries import data_file_of
from havasu_vc.formats.iceberg.metadata import corner_of
from havasu_vc.formats.iceberg.native_geometry import DEFAULT_CRS, NativeGeometry, native_type_text
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFile,
    Flavour,
    LogEntry,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table, local_path, location_of, read_table, table_exists

__all__ = ["write_iceberg_3"]

_GLOBE = Bounds(-180, -90, 180, 90)
_TRIES = 5


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
    old = _table_there(folder, overwrite=overwrite)
    plan = _plan(header, notes)
    if old is not None:
        _require_same_types(old, plan, folder)
    data = folder / "data"
    with reporting_storage_errors(folder):
        with keeping(folder, _version_at, "data") as (run, kept):
            if isinstance(rows, Parts):
                files = _written_by_tasks(data, header, rows, run, notes)
            else:
                files = _write_files(data, plan, rows, f"00000-{run}")
            _commit(folder, old, plan, files, overwrite=overwrite)
            kept |= {Path(local_path(file.path)).name for file in files}
    return Written(sum(file.record_count for file in files), tuple(notes.lines))


def _version_at(folder: Path) -> int:
    """Return the version of the table in a folder; -1 where there is none."""
    return read_table(folder).version if table_exists(folder) else -1


def _table_there(folder: Path, *, overwrite: bool) -> Table | None:
    if not table_stands(folder, table_exists, overwrite=overwrite):
        return None
    table = read_table(folder)
    if table.metadata.format_version < 3:
        raise InvalidArgumentError(
            f"the table at {folder} is of Iceberg {table.metadata.format_version}",
            hints=("choose another folder, or write --to iceberg",),
        )
    return table


@dataclass(frozen=True, slots=True)
class _Plan:
    """The form of a table, decided before a row is written."""

    schema: Schema
    """Its columns, geometries as plain bytes."""
    geometries: Mapping[str, OutgoingGeometry]
    """The columns of geometries, by name."""
    types: Mapping[int, str]
    """Their types in version 3, by name."""
    properties: Mapping[str, str]
    """The properties that those types name."""
    arrow: pa.Schema
    """The columns of data files."""
    globe: frozenset[str] = frozenset()
    """Geometries whose edges run on the globe."""


def _plan(header: DatasetHeader, notes: Notes) -> _Plan:
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
    fields = tuple(_plain(column) for column in header.schema.fields)
    arrow = [
        arrow_field(column).with_type(logical[column.name])
        if column.name in geometries
        else arrow_field(column)
        for column in fields
    ]
    return _Plan(
        Schema(fields, header.schema.identifier_ids),
        geometries,
        types,
        properties,
        pa.schema(arrow),
        frozenset(name for name, geometry in geometries.items() if edges_of(geometry)),
    )


def _plain(column: Field) -> Field:
    """Return a column without what only Havasu says of it."""
    type_ = column.type if column.geometry is None else Primitive.BINARY
    return replace(
        column, type=type_, geometry=None, raster=None, extra=(), source_type=None,
        physical_name=None,
    )  # fmt: skip


@dataclass
class _Seen:
    """Measures of the geometries of one file."""

    plan: _Plan
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
    data: Path, header: DatasetHeader, parts: Parts, run: str, notes: Notes
) -> list[DataFile]:
    def writing(tasks: tuple[Task, ...], number: int) -> Task:
        return task_of(write_part, tasks, number, header, str(data), run)

    files: list[DataFile] = []
    for written, lines in parts.written(writing, f"Writing {header.path}"):
        for file in written:
            require_arrived(Path(local_path(file.path)), file.file_size)
        files += written
        for line in lines:
            notes.say(line)
    return files


@kernel
def write_part(
    tasks: tuple[Task, ...], number: int, header: DatasetHeader, data: str, run: str
) -> Iterator[pa.RecordBatch]:
    """Write the rows of tasks to data files, and report these and notes."""
    folder = Path(data)
    require_seen(folder, folder.parent)
    batches = rows_of(tasks, number)
    if batches is None:
        return
    notes = Notes()
    files = _write_files(folder, _plan(header, notes), batches, f"{number:05}-{run}")
    yield report_batch((files, tuple(notes.lines)))


def _write_files(
    data: Path, plan: _Plan, batches: Iterator[pa.RecordBatch], name: str
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
    folder: Path, old: Table | None, plan: _Plan, files: list[DataFile], *, overwrite: bool
) -> None:
    """Publish a snapshot of the files; once more on top of what others published meanwhile.

    Data files stay what they are then, and so does their manifest: its entries inherit
    whatever the list says of it.
    """
    for last in (*[False] * (_TRIES - 1), True):
        try:
            _publish(folder, old, plan, files)
        except ConcurrentChangeError:
            if last:
                raise
            old = _table_there(folder, overwrite=overwrite)
            if old is not None:
                _require_same_types(old, plan, folder)
        else:
            return


def _publish(folder: Path, old: Table | None, plan: _Plan, files: list[DataFile]) -> None:
    """Make a snapshot of the files, and of no others, the table's current one."""
    metadata = _metadata(folder, old, plan)
    before = metadata.snapshot
    first, added = metadata.next_row_id, sum(file.record_count for file in files)
    bare = Snapshot(
        secrets.randbits(62) + 1,
        metadata.last_sequence_number + 1,
        metadata.last_updated_ms,
        None,
        parent_id=None if before is None else before.snapshot_id,
        schema_id=metadata.current_schema_id,
    )
    manifests: list[ManifestFile] = []
    if files:
        entries = [ManifestEntry(Status.ADDED, file) for file in files]
        written = _manifest(folder, entries, metadata, bare, plan, metadata.default_spec_id)
        manifests.append(replace(written, first_row_id=first))
    for spec_id, entries in () if old is None else _deleted_entries(old, bare):
        written = _manifest(folder, entries, metadata, bare, plan, spec_id)
        is_data = written.content is ManifestContent.DATA
        manifests.append(replace(written, first_row_id=first + added if is_data else None))
    listed = write_manifest_list(folder, manifests, bare, format_version=3)
    rows = {"added-data-files": len(files), "added-records": added}
    rows |= {"total-data-files": len(files), "total-records": added}
    snapshot = replace(
        bare,
        manifest_list=location_of(listed),
        summary={
            "operation": "append" if before is None else "overwrite",
            **{name: str(count) for name, count in rows.items()},
        },
        others={"first-row-id": first, "added-rows": added},
    )
    made = replace(
        metadata,
        last_sequence_number=snapshot.sequence_number,
        current_snapshot_id=snapshot.snapshot_id,
        snapshots={**metadata.snapshots, snapshot.snapshot_id: snapshot},
        references={**metadata.references, MAIN: Reference(snapshot.snapshot_id)},
        snapshot_log=(
            *metadata.snapshot_log,
            LogEntry(snapshot.timestamp_ms, snapshot.snapshot_id),
        ),
        next_row_id=first + added,
    )
    publish(old, folder, made, types={**_known_types(old), **plan.types})


def _manifest(
    folder: Path,
    entries: Sequence[ManifestEntry],
    metadata: TableMetadata,
    snapshot: Snapshot,
    plan: _Plan,
    spec_id: int,
) -> ManifestFile:
    return write_manifest(
        folder,
        entries,
        metadata,
        spec_id=spec_id,
        snapshot=snapshot,
        flavour=Flavour.ICEBERG,
        types=plan.types,
    )


def _deleted_entries(old: Table, snapshot: Snapshot) -> Iterator[tuple[int, list[ManifestEntry]]]:
    """Yield what says that the files of the snapshot before are gone."""
    for manifest in manifests_of(old, old.metadata.snapshot):
        entries = [
            replace(each, status=Status.DELETED, snapshot_id=snapshot.snapshot_id)
            for each in read_manifest(old, manifest)
            if each.status is not Status.DELETED
        ]
        if entries:
            yield manifest.spec_id, entries


def _metadata(folder: Path, old: Table | None, plan: _Plan) -> TableMetadata:
    """Return what the table says before the new snapshot."""
    now = int(time.time() * 1000)
    if old is None:
        return TableMetadata(
            str(uuid.uuid4()),
            location_of(folder),
            now,
            plan.schema.last_id,
            {0: plan.schema},
            0,
            {0: PartitionSpec()},
            0,
            {0: SortOrder()},
            0,
            format_version=3,
            properties=dict(plan.properties),
        )
    known = old.metadata
    schemas = {
        number: Schema(tuple(map(_plain, schema.fields)), schema.identifier_ids)
        for number, schema in known.schemas.items()
    }
    same = [number for number, schema in schemas.items() if schema == plan.schema]
    schema_id = same[-1] if same else max(schemas) + 1
    specs = dict(known.partition_specs)
    free = [number for number, spec in specs.items() if not spec.fields]
    spec_id = free[0] if free else max(specs) + 1
    specs.setdefault(spec_id, PartitionSpec((), spec_id))
    return replace(
        known,
        last_updated_ms=max(now, known.last_updated_ms + 1),
        last_column_id=max(plan.schema.last_id, known.last_column_id),
        schemas={**schemas, schema_id: plan.schema},
        current_schema_id=schema_id,
        partition_specs=specs,
        default_spec_id=spec_id,
        properties={**known.properties, **plan.properties},
    )


def _known_types(old: Table | None) -> dict[int, str]:
    """Return the native types that the columns of a table have."""
    types: dict[int, str] = {}
    for schema in () if old is None else old.metadata.schemas.values():
        for column in schema.geometries:
            crs = (column.geometry.crs if column.geometry else None) or DEFAULT_CRS
            native = NativeGeometry(crs, column.edges)
            types[column.id] = native_type_text(native)
    return types


def _require_same_types(old: Table, plan: _Plan, folder: Path) -> None:
    """Refuse what a table cannot become: its older snapshots must still be what they are."""
    known = _known_types(old)
    for number, text in plan.types.items():
        before = known.get(number, text)
        if before != text:
            name = plan.schema.by_id[number].name
            raise InvalidArgumentError(
                f"column {name!r} of the table at {folder} is {before}, and would be {text}",
                hints=("choose another folder",),
            )
    if old.metadata.defaults or old.metadata.write_defaults:
        raise InvalidArgumentError(
            f"the table at {folder} was given default values by others",
            hints=("choose another folder",),
        )
