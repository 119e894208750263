"""What must hold between the parts of table metadata, whoever wrote them."""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.formats.iceberg.rasters import raster_ids
from havasu_vc.formats.iceberg.values import MAIN, TableMetadata
from havasu_vc.model.types import descendants

__all__ = ["check", "raised"]


def check(metadata: TableMetadata) -> None:
    """Raise ValueError where one part names what another does not have."""
    if metadata.current_schema_id not in metadata.schemas:
        raise ValueError(f"it has no schema {metadata.current_schema_id}, its current one")
    if metadata.default_spec_id not in metadata.partition_specs:
        raise ValueError(f"it has no partition spec {metadata.default_spec_id}, its default")
    if metadata.default_sort_order_id not in metadata.sort_orders:
        raise ValueError(f"it has no sort order {metadata.default_sort_order_id}, its default")
    current = metadata.current_snapshot_id
    if current is not None and current not in metadata.snapshots:
        raise ValueError(f"it has no snapshot {current}, its current one")
    for name, reference in metadata.references.items():
        if reference.snapshot_id not in metadata.snapshots:
            raise ValueError(f"it has no snapshot {reference.snapshot_id}, which {name!r} names")
    main = metadata.references.get(MAIN)
    if main is not None and main.snapshot_id != current:
        raise ValueError("branch main is not at the current snapshot")
    newest = max((each.sequence_number for each in metadata.snapshots.values()), default=0)
    if newest > metadata.last_sequence_number:
        raise ValueError(f"a snapshot has number {newest}, beyond the last")
    _check_partitions(metadata)


def _check_partitions(metadata: TableMetadata) -> None:
    """Refuse partitions by columns whose values have no order but a place."""
    columns = {f.id: f for each in metadata.schemas.values() for f in descendants(each.fields)}
    for spec in metadata.partition_specs.values():
        for part in spec.fields:
            column = columns.get(part.source_id)
            if column is None or part.transform == "void":
                continue
            if column.geometry is not None or column.raster is not None:
                held = "geometries" if column.raster is None else "rasters"
                raise ValueError(f"it is partitioned by {column.name!r}, which holds {held}")


def raised(metadata: TableMetadata) -> TableMetadata:
    """Return metadata whose last ids are not below any that is in use."""
    last = metadata.last_column_id
    for schema in metadata.schemas.values():
        for field in descendants(schema.fields):
            last = max(last, field.id, *(raster_ids(field) or ()))
    parts = [part.field_id for spec in metadata.partition_specs.values() for part in spec.fields]
    last_part = max((metadata.last_partition_id, *parts))
    if (last, last_part) == (metadata.last_column_id, metadata.last_partition_id):
        return metadata
    return replace(metadata, last_column_id=last, last_partition_id=last_part)
