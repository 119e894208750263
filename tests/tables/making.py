"""Iceberg tables made by our own codec, a commit at a time."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFile,
    DataFileContent,
    LogEntry,
    ManifestContent,
    ManifestEntry,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of
from havasu_vc.tables.table import Table


@dataclass
class TableMaker:
    """A table in a folder, and commits to it."""

    location: Path
    schema: Schema
    specs: tuple[PartitionSpec, ...] = (PartitionSpec(),)
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 2
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        metadata = TableMetadata(
            str(uuid.uuid4()),
            str(self.location),
            _now(),
            self.schema.last_id,
            {0: self.schema},
            0,
            {spec.spec_id: spec for spec in self.specs},
            self.specs[-1].spec_id,
            {0: SortOrder()},
            0,
            last_partition_id=max(
                (part.field_id for spec in self.specs for part in spec.fields), default=999
            ),
            format_version=self.format_version,
            properties=self.properties,
        )
        self.table = publish(None, self.location, metadata)

    def data(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        schema: pa.Schema | None = None,
        partition: Mapping[int, Any] | None = None,
        group: int = 3,
    ) -> DataFile:
        """Write a data file, in the table's schema or any other."""
        path = self.location / "data" / f"{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(exist_ok=True)
        arrow = arrow_schema(self.schema) if schema is None else schema
        rows_there = pa.Table.from_pylist(list(rows), schema=arrow)
        pq.write_table(rows_there, path, row_group_size=group)
        groups = -(-len(rows) // group)
        return DataFile(
            str(path),
            len(rows),
            path.stat().st_size,
            partition=partition or {},
            split_offsets=tuple(range(groups)),
        )

    def deletes(self, **wanted: Any) -> DataFile:
        """Write position deletes: `at={file: [positions]}`, `partition={…}`."""
        at = {file.path: np.array(rows, np.int64) for file, rows in wanted["at"]}
        return write_position_deletes(self.location / "data", at, partition=wanted.get("partition"))

    def equal(
        self,
        rows: Sequence[Mapping[str, Any]],
        ids: tuple[int, ...],
        *,
        schema: Schema | None = None,
        partition: Mapping[int, Any] | None = None,
    ) -> DataFile:
        """Write equality deletes of rows."""
        known = self.schema if schema is None else schema
        columns = Schema(tuple(known.by_id[number] for number in ids))
        written = self.data(rows, schema=arrow_schema(columns), partition=partition)
        return replace(written, content=DataFileContent.EQUALITY_DELETES, equality_ids=ids)

    def commit(
        self,
        *added: DataFile,
        removed: Sequence[str] = (),
        spec_id: int | None = None,
        keep: bool = True,
    ) -> int:
        """Add files and remove others, in a snapshot of its own; return its id."""
        metadata = self.table.metadata
        parent = metadata.snapshot
        number = metadata.last_sequence_number + 1 if self.format_version > 1 else 0
        new = Snapshot(
            uuid.uuid4().int >> 65,
            number,
            _now(),
            None,
            {"operation": "overwrite"},
            None if parent is None else parent.snapshot_id,
            metadata.current_schema_id,
        )
        manifests = list(self._kept(parent, removed, new)) if keep else []
        spec = metadata.default_spec_id if spec_id is None else spec_id
        for content in ManifestContent:
            files = [f for f in added if (f.content is not DataFileContent.DATA) == bool(content)]
            if files:
                entries = [ManifestEntry(Status.ADDED, f, new.snapshot_id) for f in files]
                manifests.append(
                    write_manifest(self.location, entries, metadata, spec_id=spec, snapshot=new)
                )
        path = write_manifest_list(
            self.location, manifests, new, format_version=self.format_version
        )
        self.publish(replace(new, manifest_list=str(path)))
        return new.snapshot_id

    def _kept(self, parent: Snapshot | None, removed: Sequence[str], new: Snapshot) -> Any:
        from havasu_vc.tables.snapshots import read_manifest

        for manifest in manifests_of(self.table, parent):
            entries = list(read_manifest(self.table, manifest))
            live = [each for each in entries if each.status is not Status.DELETED]
            if not any(each.file.path in removed for each in live):
                yield manifest
                continue
            yield write_manifest(
                self.location,
                [
                    replace(each, status=Status.DELETED, snapshot_id=new.snapshot_id)
                    if each.file.path in removed
                    else replace(each, status=Status.EXISTING)
                    for each in live
                ],
                self.table.metadata,
                spec_id=manifest.spec_id,
                snapshot=new,
            )

    def publish(self, new: Snapshot) -> None:
        metadata = self.table.metadata
        snapshots = {**metadata.snapshots, new.snapshot_id: new}
        self.change(
            snapshots=snapshots,
            current_snapshot_id=new.snapshot_id,
            last_sequence_number=max(metadata.last_sequence_number, new.sequence_number),
            references={**metadata.references, MAIN: Reference(new.snapshot_id)},
            snapshot_log=(*metadata.snapshot_log, LogEntry(new.timestamp_ms, new.snapshot_id)),
        )

    def change(self, **parts: Any) -> None:
        """Publish metadata with other parts."""
        metadata = replace(self.table.metadata, last_updated_ms=_now(), **parts)
        self.table = publish(self.table, self.location, metadata)

    def evolve(self, schema: Schema) -> None:
        """Make another schema the current one."""
        known = self.table.metadata.schemas
        number = max(known) + 1
        self.schema = schema
        self.change(
            schemas={**known, number: schema},
            current_schema_id=number,
            last_column_id=max(schema.last_id, self.table.metadata.last_column_id),
        )


def _now() -> int:
    return int(time.time() * 1000)
