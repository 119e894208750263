"""Position delete files: which rows of which data files are gone.

    file_path   text   the data file, spelled byte for byte as its manifest spells it
    pos         long   row in it, from 0

Ours carry no `row` column, which makes Spark's `rewrite_position_delete_files` fail, and
have their hash in their name, since engines remember delete files by path.

Equality delete files: rows that are gone because of what they say.

A row goes when it equals some row of the delete file in the columns that this names,
null being equal to null. Columns are told by field id, also when the table's schema has
dropped them since, and the values of both files are read in the schema's types.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.parquet import Positions, open_parquet, read_row_groups
from havasu_vc.datasets.havasu.projection import Projection, plan_projection
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.formats.roaring import parse_framed_deletion_vector
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import distinct
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct
from havasu_vc.records import dataclass
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.store.system import sync_file
from havasu_vc.tables.other_forms import kept_in_parquet
from havasu_vc.tables.table import (
    damaged,
    location_of,
    missing,
    reading_document,
    reading_table_file,
)

__all__ = [
    "FILE_PATH_ID",
    "POSITION_ID",
    "DeletionVector",
    "EqualRows",
    "Way",
    "columns_at",
    "deletion_vector_of",
    "equality_columns",
    "positions_of",
    "read_deletion_vector",
    "read_equality_deletes",
    "read_position_deletes",
    "write_position_deletes",
]

FILE_PATH_ID = 2147483546
"""The reserved field id of `file_path`."""
POSITION_ID = 2147483545
"""The reserved field id of `pos`."""

_SCHEMA = pa.schema(
    [
        pa.field(name, type_, nullable=False, metadata={FIELD_ID: str(id_).encode()})
        for name, type_, id_ in (
            ("file_path", pa.string(), FILE_PATH_ID),
            ("pos", pa.int64(), POSITION_ID),
        )
    ]
)
_GROUP_ROWS = 1 << 18
_SMALL = 4 << 20
_MOST_ROWS = 1 << 28
"""A file of a few bytes can claim any number; one like this takes 2 GiB of memory."""


def positions_of(path: str, location: str) -> Positions | None:
    """Return the positions that a delete file takes from one data file, None when none."""
    path = kept_in_parquet(path)
    try:
        found = os.stat(path)
    except OSError:
        return read_position_deletes(path, (location,)).get(location)
    if found.st_size > _SMALL:
        return read_position_deletes(path, (location,)).get(location)
    return _remembered(path, found.st_size, found.st_mtime_ns).get(location)


@lru_cache(maxsize=64)
def _remembered(path: str, size: int, mtime_ns: int) -> Mapping[str, Positions]:
    return read_position_deletes(path)


def read_position_deletes(
    path: str | Path, only: Collection[str] | None = None
) -> dict[str, Positions]:
    """Return the positions that a delete file takes away, ascending, by data file.

    With `only`, of those data files alone, from the row groups that may name them.
    """
    pieces: dict[str, list[Positions]] = {}
    with reading_table_file(path), open_parquet(str(path)) as file:
        if file.metadata.num_rows > _MOST_ROWS:
            raise damaged(path, f"{file.metadata.num_rows:,} deletes are more than one can hold")
        names = _columns(file.schema_arrow, path)
        wanted = None if only is None else set(only)
        groups = list(_groups(file, names[0], wanted))
        for batch in file.iter_batches(
            _GROUP_ROWS, row_groups=groups, columns=list(names), use_threads=False
        ):
            _gather(batch.column(names[0]), batch.column(names[1]), wanted, pieces, path)
    return {name: distinct(np.concatenate(parts)) for name, parts in pieces.items()}


def _columns(schema: pa.Schema, path: str | Path) -> tuple[str, str]:
    """Return the names of the two columns: by field id, by name where there are none."""
    ids = {(field.metadata or {}).get(FIELD_ID): field.name for field in schema}
    found = []
    for field in _SCHEMA:
        name = ids.get(field.metadata[FIELD_ID], field.name)
        if name not in schema.names:
            raise damaged(path, "it is not a position delete file")
        found.append(name)
    if not pa.types.is_integer(schema.field(found[1]).type):
        raise damaged(path, "it is not a position delete file")
    return found[0], found[1]


def _groups(file: pq.ParquetFile, name: str, wanted: set[str] | None) -> Iterator[int]:
    index = file.schema_arrow.get_field_index(name)
    flat = len(file.schema_arrow.names) == file.metadata.num_columns
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(index).statistics if flat else None
        if wanted is not None and statistics is not None and statistics.has_min_max:
            least, greatest = statistics.min, statistics.max
            if isinstance(least, str) and not any(least <= path <= greatest for path in wanted):
                continue
        yield group


def _gather(
    paths: pa.Array,
    where: pa.Array,
    wanted: set[str] | None,
    pieces: dict[str, list[Positions]],
    path: str | Path,
) -> None:
    if paths.null_count or where.null_count:
        raise damaged(path, "a delete names no file or no position")
    encoded = paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()
    names = encoded.dictionary.cast(pa.string()).to_pylist()
    codes = encoded.indices.to_numpy()
    positions = where.cast(pa.int64()).to_numpy()
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for code, name in enumerate(names):
        if wanted is None or name in wanted:
            chosen = positions[order[cuts[code] : cuts[code + 1]]]
            if len(chosen):
                pieces.setdefault(name, []).append(chosen)


def write_position_deletes(
    folder: Path,
    deletes: Mapping[str, Positions],
    *,
    partition: Mapping[int, Any] | None = None,
) -> DataFile:
    """Write a delete file into a folder, durably, and return what a manifest says of it.

    `deletes` gives at least one position, by data file as manifests spell it. All of them
    lie in one partition of one spec, as delete files apply nowhere else.
    """
    paths = sorted(path for path, positions in deletes.items() if len(positions))
    if not paths:
        raise ValueError("a delete file without deletes")
    temporary = folder / f".{secrets.token_hex(8)}.parquet"
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            least, greatest, rows = _write(temporary, paths, deletes)
            with temporary.open("rb") as written:
                digest = hashlib.file_digest(written, "sha256").hexdigest()
            sync_file(temporary)
            size = temporary.stat().st_size
            final = folder / f"{digest}-deletes.parquet"
            os.replace(temporary, final)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(folder)
    counts = {FILE_PATH_ID: rows, POSITION_ID: rows}
    return DataFile(
        location_of(final),
        rows,
        size,
        DataFileContent.POSITION_DELETES,
        partition=dict(partition or {}),
        value_counts=counts,
        null_value_counts=dict.fromkeys(counts, 0),
        # Never cut short: equal bounds of the path say that it is the only one.
        lower_bounds={FILE_PATH_ID: paths[0].encode(), POSITION_ID: struct.pack("<q", least)},
        upper_bounds={FILE_PATH_ID: paths[-1].encode(), POSITION_ID: struct.pack("<q", greatest)},
        referenced_data_file=paths[0] if len(paths) == 1 else None,
    )


def _write(path: Path, paths: list[str], deletes: Mapping[str, Positions]) -> tuple[int, int, int]:
    least, greatest, rows = 1 << 62, 0, 0
    with (
        pa.OSFile(str(path), "wb") as sink,
        pq.ParquetWriter(
            sink,
            _SCHEMA,
            compression="zstd",
            compression_level=3,
            use_dictionary=["file_path"],
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
            store_schema=False,
        ) as writer,
    ):
        waiting: list[pa.RecordBatch] = []
        held = 0
        for name in paths:
            positions = distinct(np.asarray(deletes[name], np.int64))
            least = min(least, int(positions[0]))
            greatest = max(greatest, int(positions[-1]))
            rows += len(positions)
            waiting.append(
                pa.RecordBatch.from_arrays(
                    [pa.repeat(name, len(positions)), pa.array(positions)], schema=_SCHEMA
                )
            )
            held += len(positions)
            if held >= _GROUP_ROWS:
                writer.write_batch(pa.concat_batches(waiting), row_group_size=_GROUP_ROWS)
                waiting, held = [], 0
        if waiting:
            writer.write_batch(pa.concat_batches(waiting), row_group_size=_GROUP_ROWS)
    return least, greatest, rows


# Deletion vectors of Iceberg 3: the rows of one data file that are gone, as a bitmap.
#
# Many vectors lie in one Puffin file. A manifest says of each where it begins, how long it
# is, how many rows it takes away and from which data file, so nothing else of the file is
# read. A vector stands for all position deletes of its data file.

_MOST_ROWS_OF_A_VECTOR = 1 << 25
"""More positions are not unpacked: a run of a few bytes stands for as many as it says."""
_LONGEST = 1 << 28
_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where a vector is."""

    path: str
    """The Puffin file on this machine."""
    offset: int
    """Where the vector begins."""
    size: int
    """Its bytes."""
    rows: int
    """How many rows it takes away."""


def deletion_vector_of(file: DataFile, path: Path) -> DeletionVector:
    """Return where the vector is that a manifest describes; `path` is where its file is."""
    offset, size = file.content_offset, file.content_size
    if offset is None or size is None or file.referenced_data_file is None:
        raise damaged(
            path, "a manifest does not say where the deletion vector is, or of which file"
        )
    if offset < 0 or not 0 <= size <= _LONGEST or file.record_count > _MOST_ROWS_OF_A_VECTOR:
        raise damaged(path, "a deletion vector of this size cannot be")
    return DeletionVector(str(path), offset, size, file.record_count)


@lru_cache(maxsize=_REMEMBERED)
def read_deletion_vector(vector: DeletionVector) -> Positions:
    """Return the positions that a vector takes away, ascending."""
    with reading_document(Path(vector.path)), open(vector.path, "rb") as file:
        file.seek(vector.offset)
        data = file.read(vector.size)
    try:
        positions = parse_framed_deletion_vector(data, most=vector.rows)
    except ValueError as error:
        raise damaged(vector.path, str(error)) from error
    if len(positions) != vector.rows:
        raise damaged(
            vector.path,
            f"a deletion vector has {len(positions)} rows and should have {vector.rows}",
        )
    positions.setflags(write=False)
    return positions


Way = tuple[int, ...]
"""The place of a column of a schema: its index, and that of each field inside."""
Codes = npt.NDArray[np.int64]
_MOST_EQUALITY_ROWS = 1 << 26


def equality_columns(
    ids: Sequence[int], schemas: Iterable[Schema], where: str
) -> tuple[Schema, tuple[Way, ...]]:
    """Return the columns to read for an equality delete, and where in these its own are.

    `schemas` are the table's, newest first: a column may have been dropped since.
    """
    known = tuple(schemas)
    tops: dict[int, Field] = {}
    ways: list[Way] = []
    for wanted in ids:
        found = next((way for each in known if (way := _way(each.fields, wanted))), None)
        if found is None:
            raise damaged(where, f"it deletes by a column {wanted} that the table never had")
        top, *inside = found
        # Of several schemas, so names may be equal.
        tops.setdefault(top[1].id, replace(top[1], name=f"column {top[1].id}", required=False))
        place = list(tops).index(top[1].id)
        ways.append((place, *(index for index, _ in inside)))
    return Schema(tuple(tops.values())), tuple(ways)


def _way(fields: tuple[Field, ...], wanted: int) -> tuple[tuple[int, Field], ...] | None:
    """Return the indices and fields that lead to a column, through structs only."""
    for index, field in enumerate(fields):
        if field.id == wanted and not isinstance(field.type, Struct | List | Map):
            return ((index, field),)
        if isinstance(field.type, Struct):
            inner = _way(field.type.fields, wanted)
            if inner is not None:
                return ((index, field), *inner)
    return None


def columns_at(batch: pa.RecordBatch, ways: Iterable[Way]) -> list[pa.Array]:
    """Return the columns at some places of a batch, null where what holds them is."""
    columns = []
    for top, *inside in ways:
        column = batch.column(top)
        for index in inside:
            column = column.flatten()[index]
        columns.append(column)
    return columns


class EqualRows:
    """Rows of some columns, and whether other rows are equal to one of them."""

    __slots__ = ("_steps", "count")

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Take the rows in; all columns are of one length."""
        self.count = len(columns[0]) if columns else 0
        """How many rows there are."""
        self._steps: list[tuple[pa.Array, Codes]] = []
        state = np.zeros(self.count, np.int64)
        for column in map(_comparable, columns):
            values = pc.unique(column)
            # A group is what rows have in common so far; there are no more than rows.
            combined = state * len(values) + _codes(column, values)
            groups = distinct(combined)
            state = np.searchsorted(groups, combined).astype(np.int64)
            self._steps.append((values, groups))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Return for each row of other columns whether it is here."""
        found = np.full(len(columns[0]) if columns else 0, self.count > 0)
        if not self.count:
            return found
        state = np.zeros(len(found), np.int64)
        for column, (values, groups) in zip(map(_comparable, columns), self._steps, strict=True):
            codes = _codes(column, values)
            combined = state * len(values) + codes
            state = np.searchsorted(groups, combined).astype(np.int64)
            state[state == len(groups)] = 0
            found &= (codes >= 0) & (groups[state] == combined)
        return found


def _codes(column: pa.Array, values: pa.Array) -> Codes:
    """Return the place of each value among others, null like any; -1 where there is none."""
    places = pc.index_in(column, value_set=values, skip_nulls=False)
    codes: Codes = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    return codes


def _comparable(column: pa.Array) -> pa.Array:
    """Return what is equal exactly when Iceberg says so: not a number is, zero has a sign."""
    if not pa.types.is_floating(column.type):
        return column
    bits = pa.int64() if column.type == pa.float64() else pa.int32()
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, column).view(bits)


def read_equality_deletes(path: str, schema: Schema, ways: tuple[Way, ...]) -> EqualRows:
    """Return the rows of an equality delete file, in the columns at some places of a schema."""
    path = kept_in_parquet(path)
    try:
        found = os.stat(path)
    except OSError:
        raise missing(path) from None
    return _remembered_keys(path, schema, ways, (found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=16)
def _remembered_keys(
    path: str, schema: Schema, ways: tuple[Way, ...], identity: tuple[int, int]
) -> EqualRows:
    with reading_table_file(path):
        with open_parquet(path) as file:
            if file.metadata.num_rows > _MOST_EQUALITY_ROWS:
                raise damaged(path, f"{file.metadata.num_rows:,} rows are more than it can hold")
        batches = read_row_groups(path, schema, planned=lambda found: _whole(found, schema, path))
        pieces = [columns_at(batch, ways) for batch in batches]
    if not pieces:
        return EqualRows([])
    return EqualRows([pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)])


def _whole(found: pa.Schema, schema: Schema, path: str) -> Projection:
    """Return how to read a delete file, which must have the columns that it compares."""
    plan = plan_projection(found, schema, path)
    if any(step is None for step in plan.steps):
        raise damaged(path, "it lacks a column that it deletes by")
    return plan
