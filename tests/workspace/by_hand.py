"""An engine of a few lines that writes Iceberg snapshots, for tests without Spark."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    LogEntry,
    ManifestEntry,
    Reference,
    Snapshot,
    Status,
)
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table, read_table

Rows = list[dict[str, Any]]


def data_file(table: Table, rows: Rows | pa.Table, schema: Schema | None = None) -> DataFile:
    """Write rows as an engine would: field ids, its own file name, types of the table."""
    columns = arrow_schema(schema or table.metadata.schema)
    found = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=columns)
    found = found.cast(pa.schema([f.with_nullable(True) for f in columns]))
    path = table.location / "data" / f"00000-{secrets.token_hex(8)}-00001.parquet"
    pq.write_table(found, path, compression="zstd", store_schema=False)
    return DataFile(str(path), found.num_rows, path.stat().st_size)


def equality_deletes(table: Table, rows: Rows, names: Sequence[str]) -> DataFile:
    """Write an equality delete file over some columns."""
    schema = table.metadata.schema.select(tuple(names))
    written = data_file(table, rows, schema)
    ids = tuple(field.id for field in schema.fields)
    return replace(written, content=DataFileContent.EQUALITY_DELETES, equality_ids=ids)


def position_deletes(table: Table, positions: Mapping[str, Iterable[int]]) -> DataFile:
    """Write a position delete file, by data file as manifests spell it."""
    found = {path: np.array(sorted(at), np.int64) for path, at in positions.items()}
    return write_position_deletes(table.location / "data", found)


def live_paths(table: Table) -> list[str]:
    """Return the data files of the current snapshot."""
    return [
        entry.file.path
        for manifest in manifests_of(table, table.metadata.snapshot)
        for entry in read_manifest(table, manifest)
        if entry.status is not Status.DELETED and entry.file.content is DataFileContent.DATA
    ]


def write_snapshot(
    location: Path, *, come: Sequence[DataFile] = (), go: Sequence[str] = ()
) -> Table:
    """Publish a snapshot with files that come and without files that go."""
    table = read_table(location)
    metadata = table.metadata
    number, parent = metadata.last_sequence_number + 1, metadata.snapshot
    snapshot = Snapshot(
        secrets.randbits(60),
        number,
        metadata.last_updated_ms + 1,
        None,
        {"operation": "overwrite"},
        None if parent is None else parent.snapshot_id,
        metadata.current_schema_id,
    )
    manifests = []
    for manifest in manifests_of(table, parent):
        entries = [e for e in read_manifest(table, manifest) if e.status is not Status.DELETED]
        if not any(entry.file.path in go for entry in entries):
            manifests.append(manifest)
            continue
        changed = [
            replace(e, status=Status.DELETED if e.file.path in go else Status.EXISTING)
            for e in entries
        ]
        manifests.append(
            write_manifest(location, changed, metadata, spec_id=manifest.spec_id, snapshot=snapshot)
        )
    for data in (True, False):
        files = [file for file in come if (file.content is DataFileContent.DATA) is data]
        if files:
            new = [ManifestEntry(Status.ADDED, file) for file in files]
            manifests.append(write_manifest(location, new, metadata, spec_id=0, snapshot=snapshot))
    listed = write_manifest_list(location, manifests, snapshot)
    snapshot = replace(snapshot, manifest_list=str(listed))
    return publish(
        table,
        location,
        replace(
            metadata,
            last_updated_ms=snapshot.timestamp_ms,
            last_sequence_number=number,
            snapshots={**metadata.snapshots, snapshot.snapshot_id: snapshot},
            current_snapshot_id=snapshot.snapshot_id,
            references={**metadata.references, "main": Reference(snapshot.snapshot_id)},
            snapshot_log=(
                *metadata.snapshot_log,
                LogEntry(snapshot.timestamp_ms, snapshot.snapshot_id),
            ),
        ),
    )


def insert(location: Path, rows: Rows) -> Table:
    """Append rows."""
    return write_snapshot(location, come=[data_file(read_table(location), rows)])


def delete(location: Path, positions: Mapping[int, Iterable[int]] | Iterable[int]) -> Table:
    """Delete rows by position, of the first data file or of several by number."""
    table = read_table(location)
    paths = live_paths(table)
    chosen = positions if isinstance(positions, Mapping) else {0: positions}
    deletes = position_deletes(table, {paths[number]: at for number, at in chosen.items()})
    return write_snapshot(location, come=[deletes])


def alter(location: Path, fields: Sequence[Field]) -> Table:
    """Give a table other columns."""
    table = read_table(location)
    metadata = table.metadata
    number = max(metadata.schemas) + 1
    schema = Schema(tuple(fields), metadata.schema.identifier_ids)
    altered = replace(
        metadata,
        last_updated_ms=metadata.last_updated_ms + 1,
        schemas={**metadata.schemas, number: schema},
        current_schema_id=number,
        last_column_id=max(metadata.last_column_id, *(field.id for field in fields)),
    )
    return publish(table, location, altered)


def rewrite(location: Path, rows: Rows) -> Table:
    """Replace all files by one with these rows, as copy-on-write and compactions do."""
    table = read_table(location)
    paths = [
        entry.file.path
        for manifest in manifests_of(table, table.metadata.snapshot)
        for entry in read_manifest(table, manifest)
    ]
    return write_snapshot(location, come=[data_file(table, rows)], go=paths)


__all__ = [
    "Rows",
    "alter",
    "data_file",
    "delete",
    "equality_deletes",
    "insert",
    "live_paths",
    "position_deletes",
    "rewrite",
    "write_snapshot",
]
