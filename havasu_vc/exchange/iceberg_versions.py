"""The next version of a table of Iceberg 3: a snapshot of some files, and of no others.

Documents are written to a folder of this machine, which is the table's own or, for a table in a
bucket, one of copies, and named as the table's places say.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export_columns import OutgoingGeometry
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
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
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table, TableFolders, local_path

__all__ = ["Plan", "known_types", "next_version", "plain_field", "require_same_types"]


@dataclass(frozen=True, slots=True)
class Plan:
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


def plain_field(column: Field) -> Field:
    """Return a column without what only Havasu says of it."""
    type_ = column.type if column.geometry is None else Primitive.BINARY
    return replace(
        column, type=type_, geometry=None, raster=None, extra=(), source_type=None,
        physical_name=None,
    )  # fmt: skip


def next_version(
    folder: Path,
    places: TableFolders,
    location: str,
    old: Table | None,
    plan: Plan,
    files: Sequence[DataFile],
) -> TableMetadata:
    """Write the documents of a snapshot of the files, and return the metadata that names it."""
    metadata = _metadata(location, old, plan)
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
    manifests = _manifests(folder, places, old, plan, files, metadata, bare)
    listed = write_manifest_list(folder, manifests, bare, format_version=3)
    rows = {"added-data-files": len(files), "added-records": added}
    rows |= {"total-data-files": len(files), "total-records": added}
    snapshot = replace(
        bare,
        manifest_list=places.written(listed),
        summary={
            "operation": "append" if before is None else "overwrite",
            **{name: str(count) for name, count in rows.items()},
        },
        others={"first-row-id": first, "added-rows": added},
    )
    return replace(
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


def _manifests(
    folder: Path,
    places: TableFolders,
    old: Table | None,
    plan: Plan,
    files: Sequence[DataFile],
    metadata: TableMetadata,
    snapshot: Snapshot,
) -> list[ManifestFile]:
    """Write what a snapshot adds, and what says that the files before it are gone."""

    def manifest(entries: Sequence[ManifestEntry], spec_id: int) -> ManifestFile:
        written = write_manifest(
            folder,
            entries,
            metadata,
            spec_id=spec_id,
            snapshot=snapshot,
            flavour=Flavour.ICEBERG,
            types=plan.types,
        )
        return replace(written, path=places.written(Path(local_path(written.path))))

    added = sum(file.record_count for file in files)
    manifests: list[ManifestFile] = []
    if files:
        entries = [ManifestEntry(Status.ADDED, file) for file in files]
        written = manifest(entries, metadata.default_spec_id)
        manifests.append(replace(written, first_row_id=metadata.next_row_id))
    for spec_id, entries in () if old is None else _deleted_entries(old, snapshot):
        written = manifest(entries, spec_id)
        is_data = written.content is ManifestContent.DATA
        manifests.append(
            replace(written, first_row_id=metadata.next_row_id + added if is_data else None)
        )
    return manifests


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


def _metadata(location: str, old: Table | None, plan: Plan) -> TableMetadata:
    """Return what the table says before the new snapshot."""
    now = int(time.time() * 1000)
    if old is None:
        return TableMetadata(
            str(uuid.uuid4()),
            location,
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
        number: Schema(tuple(map(plain_field, schema.fields)), schema.identifier_ids)
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


def known_types(old: Table | None) -> dict[int, str]:
    """Return the native types that the columns of a table have."""
    types: dict[int, str] = {}
    for schema in () if old is None else old.metadata.schemas.values():
        for column in schema.geometries:
            crs = (column.geometry.crs if column.geometry else None) or DEFAULT_CRS
            native = NativeGeometry(crs, column.edges)
            types[column.id] = native_type_text(native)
    return types


def require_same_types(old: Table, plan: Plan, place: str) -> None:
    """Refuse what a table cannot become: its older snapshots must still be what they are."""
    known = known_types(old)
    for number, text in plan.types.items():
        before = known.get(number, text)
        if before != text:
            name = plan.schema.by_id[number].name
            raise InvalidArgumentError(
                f"column {name!r} of the table at {place} is {before}, and would be {text}",
                hints=("choose another folder",),
            )
    if old.metadata.defaults or old.metadata.write_defaults:
        raise InvalidArgumentError(
            f"the table at {place} was given default values by others",
            hints=("choose another folder",),
        )
