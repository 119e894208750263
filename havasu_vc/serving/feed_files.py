"""Data files of feeds: the rows that one commit changed, written once and never changed.

    <data folder>/catalog/feeds/<feed>/data/<commit>.parquet

A file follows from its commit alone. One without rows says that the commit changed none.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import UnsupportedError
from havasu_vc.formats.iceberg.single_values import to_single_value
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.history.changelog import CHANGE_TYPE, changelog, rows_as
from havasu_vc.history.diff import row_changes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.evolution import widens
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.metadata import plain
from havasu_vc.store.commits import Commit
from havasu_vc.store.durability import reporting_storage_errors

__all__ = [
    "COMMITS",
    "LAST_ID",
    "changed_rows",
    "commit_rows",
    "described",
    "united",
    "write",
]

COMMIT_ID = "_commit_id"
"""The column with the commit that changed a row."""
COMMIT_TIME = "_commit_timestamp"
"""The column with when that was."""
_FIRST_ID = 2_147_000_000
"""Ids of columns of our own: columns of datasets have lower ones, Iceberg keeps the highest."""
LAST_ID = _FIRST_ID + 999
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


def write(path: Path, tables: Iterable[pa.Table], schema: Schema) -> None:
    """Write a data file, which has its name once it is whole and durable."""
    with reporting_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                with pq.ParquetWriter(file, arrow_schema(schema), compression="zstd") as writer:
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


def described(path: Path, commit: Commit | None = None) -> DataFile:
    """Return a data file as manifests describe it; all its rows may be of one commit."""
    footer = pq.read_metadata(path)
    size = path.stat().st_size
    if commit is None:
        return DataFile(str(path), footer.num_rows, size)
    when = datetime.fromtimestamp(commit.committer.time, UTC)
    same = {
        _ID.id: to_single_value(commit.id, _ID.type),
        _TIME.id: to_single_value(when, _TIME.type),
    }
    return DataFile(
        str(path),
        footer.num_rows,
        size,
        value_counts=dict.fromkeys(same, footer.num_rows),
        null_value_counts=dict.fromkeys(same, 0),
        lower_bounds=same,
        upper_bounds=same,
    )
