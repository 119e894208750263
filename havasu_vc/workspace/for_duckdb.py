"""A checked-out table once more, as DuckDB reads its geometries.

DuckDB takes columns of WKB in GeoParquet for geometries whatever a table says, and then fails
where the table says bytes. Iceberg 3 has a type for them, which other engines refuse as yet. So
beside the table's own metadata lies a document that names the same manifests and files under
that type: `iceberg_scan('TABLE/metadata/duckdb.metadata.json')`. It is of the checkout: what
others write to the table later is in the table's own metadata alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.havasu.native_types import native_types
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.iceberg.metadata import format_metadata_3
from havasu_vc.formats.iceberg.values import MAIN, TableMetadata
from havasu_vc.model.schema import Schema
from havasu_vc.store.disk import replace_file, reporting_storage_errors
from havasu_vc.tables.table import METADATA

__all__ = ["NAME", "show_to_duckdb"]

NAME = "duckdb.metadata.json"
"""What the document is called."""


def show_to_duckdb(view: HavasuDataset, metadata: TableMetadata, folder: Path) -> None:
    """Have the document of a table there, or none where its files call nothing a geometry."""
    types = native_types(view)
    snapshot = metadata.snapshot
    place = folder / METADATA / NAME
    if not types or snapshot is None:
        with reporting_storage_errors(place):
            place.unlink(missing_ok=True)
        return
    rows = {"first-row-id": 0, "added-rows": view.rows}
    schemas = {
        number: Schema(
            tuple(
                replace(column, geometry=None, extra=()) if column.id in types else column
                for column in schema.fields
            )
        )
        for number, schema in metadata.schemas.items()
    }
    shown = replace(
        metadata,
        schemas=schemas,
        snapshots={snapshot.snapshot_id: replace(snapshot, parent_id=None, others=rows)},
        references={MAIN: metadata.references[MAIN]},
        snapshot_log=metadata.snapshot_log[-1:],
        metadata_log=(),
        next_row_id=view.rows,
    )
    replace_file(place, format_metadata_3(shown, types))
