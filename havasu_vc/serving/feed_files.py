"""Data files of feeds: the rows that one commit changed, written once and never changed.

    <data folder>/catalog/feeds/<feed>/data/<commit>.parquet

A file follows from its commit alone. One without rows says that the commit changed none. What
many commits changed is gathered in other files, each with a note about itself.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import UnsupportedError
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.formats.iceberg.native_geometry import with_raster_ids
from havasu_vc.formats.iceberg.single_values import to_single_value
from havasu_vc.formats.iceberg.values import DataFile, TableMetadata
from havasu_vc.history.changelog import CHANGE_TYPE, changelog, rows_as
from havasu_vc.history.diff import row_changes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.evolution import widens
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.documents import number_of
from havasu_vc.serving.metadata import plain
from havasu_vc.store.commits import Commit
from havasu_vc.store.disk import reporting_storage_errors

__all__ = [
    "COMMITS",
    "changed_rows",
    "commit_rows",
    "described",
    "gathered_rows",
    "layout_of",
    "note_of",
    "united",
    "write",
]

COMMIT_ID = "_commit_id"
"""The column with the commit that changed a row."""
COMMIT_TIME = "_commit_timestamp"
"""The column with when that was."""
_FIRST_ID = 2_147_000_000
"""Ids of columns of our own: columns of datasets have lower ones, Iceberg keeps the highest."""
_LAST_ID = _FIRST_ID + 999
"""Columns of our own have no higher ids."""
_KIND = Field(_FIRST_ID, CHANGE_TYPE, Primitive.STRING)
_ID = Field(_FIRST_ID + 1, COMMIT_ID, Primitive.STRING)
_TIME = Field(_FIRST_ID + 2, COMMIT_TIME, Primitive.TIMESTAMPTZ)
COMMITS = Schema(
    (
        Field(1, COMMIT_ID, Primitive.STRING),
        Field(2, COMMIT_TIME, Primitive.TIMESTAMPTZ),
        Field(3, "author", Primitive.STRING),
        Field(4, "author_email", Primitive.STRING),
        Field(5, "author_timestamp", Primitive.TIMESTAMPTZ),
        Field(6, "message", Primitive.STRING),
    )
)
"""The columns of commits."""
_GROUP_BYTES = 32 << 20
_NOTE = b"havasu-vc.feed"


def united(path: str, schemas: Iterable[Schema]) -> Schema:
    """Return the columns of rows of several versions, newest first, after those of the feed.

    A column is what it is in the newest version that has it. One that is gone stays; where
    another has its name now, its id is added to it.
    """
    found: dict[int, Field] = {}
    names = {CHANGE_TYPE, COMMIT_ID, COMMIT_TIME}
    for schema in schemas:
        for column in schema.fields:
            newer = found.get(column.id)
            if newer is not None:
                if not widens(column.type, newer.type):
                    raise UnsupportedError(
                        f"{path}: column {column.name!r} was {column.type} and is {newer.type}, "
                        "so its changes cannot stand in one table"
                    )
                continue
            name = column.name if column.name not in names else f"{column.name}_{column.id}"
            if name in names or column.id >= _FIRST_ID:
                raise UnsupportedError(f"{path}: a table of changes has no room for {name!r}")
            names.add(name)
            found[column.id] = replace(column, name=name, required=False, physical_name=None)
    return Schema((_KIND, _ID, _TIME, *found.values()))


def layout_of(schema: Schema) -> TableMetadata:
    """Return a table's metadata that has just some columns."""
    number = number_of(document_hash(format_schema(schema)))
    specs, orders = {0: PartitionSpec()}, {0: SortOrder()}
    bare = TableMetadata("", "", 0, _LAST_ID, {number: schema}, number, specs, 0, orders, 0)
    return with_raster_ids(bare)


def changed_rows(
    repo: OpenRepo, old: Dataset | None, new: Dataset, commit: Commit, schema: Schema
) -> Iterator[pa.Table]:
    """Yield the rows that a commit changed, in the columns of a feed."""
    row = Schema(schema.fields[3:])
    target = arrow_schema(schema)
    time = commit.committer.time * 1_000_000
    sides = (new if old is None else old).schema, new.schema
    with repo.settings.open_engine(0) as engine:
        for batch in row_changes(old, new, engine):
            kinds, rows = changelog(
                batch, rows_as(batch.old, sides[0], row), rows_as(batch.new, sides[1], row)
            )
            labels = [
                kinds,
                pa.repeat(pa.scalar(commit.id, pa.string()), len(kinds)),
                pa.repeat(pa.scalar(time, pa.timestamp("us", "UTC")), len(kinds)),
            ]
            yield pa.Table.from_arrays([*labels, *rows.columns], schema=target)


def gathered_rows(path: Path, schema: Schema) -> Iterator[pa.Table]:
    """Yield the rows of a data file that is there, in the columns of another."""
    with pq.ParquetFile(path) as file:
        projection = plan_projection(file.schema_arrow, schema, "a feed")
        for batch in file.iter_batches():
            yield pa.Table.from_batches([projection.apply(batch)])


def write(path: Path, tables: Iterable[pa.Table], schema: Schema, note: str = "") -> None:
    """Write a data file, which has its name once it is whole and durable."""
    columns = arrow_schema(schema)
    if note:
        columns = columns.with_metadata({**(columns.metadata or {}), _NOTE: note.encode()})
    with reporting_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                with pq.ParquetWriter(file, columns, compression="zstd") as writer:
                    for table in _gathered(tables):
                        writer.write_table(table)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of as many rows as a row group is to have."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(each.nbytes for each in held) >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def commit_rows(commits: Sequence[Commit]) -> pa.Table:
    """Return commits as rows."""
    authors = [each.author for each in commits]
    columns = [
        [each.id for each in commits],
        [each.committer.time * 1_000_000 for each in commits],
        [plain(each.name) for each in authors],
        [plain(each.email) for each in authors],
        [each.time * 1_000_000 for each in authors],
        [plain(each.message) for each in commits],
    ]
    target = arrow_schema(COMMITS)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, target, strict=True)]
    return pa.Table.from_arrays(arrays, schema=target)


def note_of(path: Path) -> str:
    """Return the note that was written into a data file."""
    note: bytes = (pq.read_metadata(path).metadata or {}).get(_NOTE, b"")
    return note.decode()


def described(path: Path) -> DataFile:
    """Return a data file as manifests describe it, with the commits that its rows are of."""
    footer = pq.read_metadata(path)
    size = path.stat().st_size
    bounds = {field.id: _bounds(footer, field) for field in (_ID, _TIME)}
    found = {number: each for number, each in bounds.items() if each is not None}
    if not found:
        return DataFile(str(path), footer.num_rows, size)
    return DataFile(
        str(path),
        footer.num_rows,
        size,
        value_counts=dict.fromkeys(found, footer.num_rows),
        null_value_counts=dict.fromkeys(found, 0),
        lower_bounds={number: lower for number, (lower, _) in found.items()},
        upper_bounds={number: upper for number, (_, upper) in found.items()},
    )


def _bounds(footer: pq.FileMetaData, field: Field) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest value of a column of ours; None for no rows."""
    place = footer.schema.names.index(field.name)
    groups = (footer.row_group(number).column(place) for number in range(footer.num_row_groups))
    told = [each.statistics for each in groups if each.num_values]
    if not told or not all(each is not None and each.has_min_max for each in told):
        return None
    least, greatest = min(each.min for each in told), max(each.max for each in told)
    return to_single_value(least, field.type), to_single_value(greatest, field.type)
