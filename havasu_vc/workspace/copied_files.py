"""Files of a table that cannot be taken in as they are, written anew as files that can.

Columns without field ids are known by the table's name mapping alone, and what a file
leaves to its partition or to a default value is told by the table: neither stands in the
file, so a copy says both. A copy has the rows of its file in their order, or the live ones
alone. It is kept beside the key caches under the file's identity, and goes as these do.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.parquet import Positions, open_parquet
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.model.arrow import FIELD_ID, arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.store.durability import reporting_storage_errors
from havasu_vc.tables.damage import reading_table_file
from havasu_vc.tables.scanning import RowSource, read_source

__all__ = ["copy_rows", "says_all"]

_GROUP_ROWS = 1 << 16


def says_all(source: RowSource, schema: Schema) -> bool:
    """Whether a file's own columns say all that the table says of it."""
    with reading_table_file(source.path), open_parquet(source.path) as file:
        found = [(field.metadata or {}).get(FIELD_ID) for field in file.schema_arrow]
    ids = {int(number) for number in found if number is not None}
    return len(ids) == len(found) and not _given(source, schema.by_id.keys() - ids)


def _given(source: RowSource, lacking: Collection[int]) -> bool:
    return any(number in lacking and value is not None for number, value in source.values)


def copy_rows(
    source: RowSource, schema: Schema, folder: Path, *, deleted: Positions | None = None
) -> Path:
    """Return a file with the rows of a source in the columns of a schema.

    Deletes of the source do not count. Without `deleted` it has all rows, so positions stay
    what they are; with it, those that are not at these positions.
    """
    place = folder / f"{_identity(source, schema, deleted)}-copied.parquet"
    if place.exists():
        return place
    whole = replace(source, position_deletes=(), equality_deletes=(), vector=None)
    temporary = folder / f".tmp-{secrets.token_hex(8)}"
    # Whether a live row lacks a value that it must have is asked of the copy.
    arrow = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetWriter(
                temporary, arrow, compression="zstd", compression_level=3, store_schema=False
            ) as writer:
                before = 0
                for batch in read_source(whole, schema):
                    rows = pa.RecordBatch.from_arrays(batch.columns, schema=arrow)
                    kept = rows if deleted is None else _without(rows, before, deleted)
                    before += rows.num_rows
                    if kept.num_rows:
                        writer.write_batch(kept, row_group_size=_GROUP_ROWS)
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)
    return place


def _without(rows: pa.RecordBatch, first: int, deleted: Positions) -> pa.RecordBatch:
    """Return rows but those at some positions of the file; the first is at `first`."""
    low, high = np.searchsorted(deleted, (first, first + rows.num_rows))
    inside = deleted[low:high]
    mask = np.ones(rows.num_rows, bool)
    mask[inside - first] = False
    return rows.filter(pa.array(mask))


def _identity(source: RowSource, schema: Schema, deleted: Positions | None) -> str:
    """Return what tells a copy from one of other bytes or under another schema."""
    with reading_table_file(source.path):
        status = os.stat(source.path)
    facts = (source.path, status.st_ino, status.st_size, status.st_mtime_ns)
    said = (source.values, source.naming, document_hash(format_schema(schema)))
    digest = hashlib.sha256(repr((facts, said)).encode())
    if deleted is not None:
        digest.update(deleted.tobytes())
    return digest.hexdigest()
