"""Iceberg tables as sources: what PyIceberg, Spark and others wrote, by folder or metadata file.

Rows are those of one snapshot, deletes applied. Columns are those that the table has now,
which may have changed since its last snapshot; a snapshot that is named has those of then.
They keep their ids, and geometries are known by what Havasu's field properties or the types
of Iceberg 3 say of them, and rasters by the former; any other binary column stays one. The
key is the table's identifier fields.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, SourceNotFoundError
from havasu_vc.exchange.geoparquet import may_meet, sound_box
from havasu_vc.exchange.layout import (
    CrsNames,
    SourceLayout,
    kept_names,
    key_field,
    require_names,
    stored_batches,
)
from havasu_vc.exchange.source import Box, SourceOptions
from havasu_vc.formats.iceberg.entries import point_of
from havasu_vc.formats.iceberg.metadata import parse_corner
from havasu_vc.formats.iceberg.native_geometry import CRS_WKT, NO_CRS
from havasu_vc.formats.iceberg.values import MAIN, DataFile, Reference, Snapshot
from havasu_vc.geo.bounds import globe_box
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.rasters import with_blocks
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Encoding, Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import in_bucket, shown_url
from havasu_vc.tables.bucket import BucketPlaces, BucketTable, folder_of_copies
from havasu_vc.tables.scanning import bringing_tasks, scan_tasks, schema_of
from havasu_vc.tables.snapshots import SnapshotFile, live_files, snapshot_of
from havasu_vc.tables.table import METADATA, Table, read_table

__all__ = [
    "IcebergSource",
    "open_iceberg",
    "snapshot_history",
    "table_references",
    "time_of_newer_columns",
]


@dataclass(frozen=True)
class IcebergSource:
    """One snapshot of a table."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    table: Table
    layout: SourceLayout
    files: tuple[SnapshotFile, ...]
    stored: Schema
    """The columns to read, as the table has them."""
    notes: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()
    snapshot_id: int | None = None
    """Which snapshot; None in a table that has none."""
    spread: bool = False
    """Whether tasks run on other machines, and bring files of a bucket themselves."""

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return a task for each data file, or part of a large one."""
        layout = self.layout.select(columns)
        stored = self.stored.select(layout.schema.names)
        places = self.table.places
        if self.spread and isinstance(places, BucketPlaces):
            tasks = bringing_tasks(self.table, places, stored, self.files)
        else:
            tasks = scan_tasks(self.table, schema=stored, files=self.files)
        return [task_of(read_rows, task, layout, str(self.table.location)) for task in tasks]


@kernel
def read_rows(task: Task, layout: SourceLayout, where: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in the types and encodings of a layout."""
    yield from stored_batches(run_task(task), layout, where)


def open_iceberg(place: str, options: SourceOptions) -> IcebergSource:
    """Open the table in a folder, in a bucket, or of a metadata file."""
    table = _table_at(place, allowed=map(Path, options.allowed))
    snapshot = snapshot_of(table, options.snapshot)
    known = schema_of(table, None if options.columns_of_now else options.snapshot)
    files = () if snapshot is None else live_files(table, snapshot.snapshot_id, parquet=False)
    names = tuple(kept_names(known.names, options))
    key = options.primary_key
    if key is None:
        hint = known.key.names
        key = hint if set(hint) <= set(names) else ()
    require_names(key, names, "key column")
    if len(set(key)) != len(key):
        raise InvalidArgumentError(f"the key names a column twice: {', '.join(key)}")
    # A raster that says nothing of its parts' ids gets some that no column ever had.
    ids = itertools.count(max(known.last_id, table.metadata.last_column_id) + 1)
    chosen = (with_blocks(field, lambda: next(ids)) for field in known.select(names).fields)
    stored = Schema(tuple(chosen))
    if options.bbox is not None and stored.geometries:
        files = _within(files, stored.geometries[0], options.bbox, table)
    crs = CrsNames(options.crs)
    fields = tuple(_field(field, options, crs, table) for field in stored.fields)
    fields = tuple(key_field(field) if field.name in key else field for field in fields)
    schema = Schema(fields, tuple(field.id for field in fields if field.name in key))
    encodings = tuple(
        (field.name, field.geometry.encoding) for field in stored.geometries if field.geometry
    )
    deletes = [each for each in files if not each.is_data]
    rows = sum(each.file.record_count for each in files)
    return IcebergSource(
        name=table.location.name,
        schema=schema,
        crs=dict(crs.wkt),
        rows=None if deletes else rows,
        input_bytes=sum(each.file.file_size for each in files),
        table=table,
        layout=SourceLayout(schema, encodings),
        files=files,
        stored=stored,
        notes=_notes(table),
        description=table.metadata.properties.get("comment"),
        key_hint=known.key.names,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
    )


def _table_at(place: str, *, allowed: Iterable[Path] = ()) -> Table:
    """Return the table in a folder, in a bucket or of a metadata file."""
    if not in_bucket(place):
        return read_table(place, allowed=allowed)
    url, document = _in_bucket(place)
    copies = folder_of_copies(url)
    table = BucketTable(url)
    if document is not None:
        return table.read_document(copies, document)
    if not table.versions() and any(
        info.base_name.endswith(".json") for info in table.files(METADATA)
    ):
        raise SourceNotFoundError(
            f"the table at {shown_url(url)} belongs to a catalog, "
            "which alone knows its newest version",
            hints=("give the metadata file that the catalog names instead of the folder",),
        )
    return table.read(copies)


def _in_bucket(place: str) -> tuple[str, str | None]:
    """Return where a table in a bucket is, and the name of its document where that was given."""
    folder, _, name = place.rpartition("/")
    if name.endswith((".metadata.json", ".metadata.json.gz")) and folder.endswith(f"/{METADATA}"):
        return folder.removesuffix(f"/{METADATA}"), name
    return place.rstrip("/"), None


def _within(
    files: tuple[SnapshotFile, ...], column: Field, window: Box, table: Table
) -> tuple[SnapshotFile, ...]:
    """Return the files but data files that manifests say to lie outside of a window."""
    native = table.metadata.format_version > 2
    globe = column.edges is not None
    return tuple(
        each
        for each in files
        if not each.is_data
        or may_meet(window, _box_of(each.file, column.id, native, globe), globe=globe)
    )


def _box_of(file: DataFile, number: int, native: bool, globe: bool) -> Box | None:
    """Return where a data file lies, None where that is not known."""
    parse = parse_corner if native else point_of
    lower = file.lower_bounds if native else file.geometry_lower
    upper = file.upper_bounds if native else file.geometry_upper
    least = parse((lower or {}).get(number, b""))
    most = parse((upper or {}).get(number, b""))
    if least is None or most is None or (least[0] > most[0] and not (globe and native)):
        return None
    box = sound_box(*least, *most)
    if box is None or native or not globe:
        return box
    reach = globe_box(Bounds(*box))  # Havasu's are of vertices alone
    return reach.xmin, reach.ymin, reach.xmax, reach.ymax


def _field(field: Field, options: SourceOptions, crs: CrsNames, table: Table) -> Field:
    """Return a column of a table as a dataset is to have it."""
    if field.geometry is None:
        return field
    encoding = field.geometry.encoding if options.keep_encoding else options.geometry_encoding
    named = crs.name(_crs_text(field.geometry.crs, table), str(table.location))
    return replace(
        field,
        type=Primitive.BINARY if encoding.is_binary else Primitive.STRING,
        geometry=replace(field.geometry, encoding=Encoding(encoding), crs=named),
    )


def _crs_text(said: str | None, table: Table) -> str | None:
    """Return what a type's system stands for: a property of the table, or itself."""
    kind, _, rest = (said or "").partition(":")
    if kind == "projjson":
        return table.metadata.properties.get(rest, said)
    if said == NO_CRS:
        return None
    if (defined := table.metadata.properties.get(f"{CRS_WKT}{said}")) is not None:
        return defined
    return f"EPSG:{rest}" if kind == "srid" and rest.isdigit() else said


def _notes(table: Table) -> tuple[str, ...]:
    specs = table.metadata.partition_specs[table.metadata.default_spec_id].fields
    if not any(part.transform != "void" for part in specs):
        return ()
    return ("the table is partitioned, which the dataset is not; queries skip files by key",)


def snapshot_history(place: str, snapshot_id: int | None = None) -> tuple[Snapshot, ...]:
    """Return a snapshot of a table and those before it that are there, oldest first.

    The current one when none is named. What was rolled back is not before it.
    """
    table = _table_at(place)
    found: list[Snapshot] = []
    number = table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    while number is not None and (one := table.metadata.snapshots.get(number)) is not None:
        if one in found:
            break
        found.append(one)
        number = one.parent_id
    return tuple(reversed(found))


def time_of_newer_columns(place: str, snapshot_id: int) -> int | None:
    """Return when a table was last changed, in ms, if its columns are not those of a snapshot."""
    table = _table_at(place)
    same = schema_of(table, snapshot_id) == table.metadata.schema
    return None if same else table.metadata.last_updated_ms


def table_references(place: str) -> dict[str, Reference]:
    """Return the branches and tags of a table but its main branch, by name."""
    found = _table_at(place).metadata.references
    return {name: found[name] for name in sorted(found) if name != MAIN}
