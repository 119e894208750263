"""Delete files: which rows of which data files are gone, and what they said.

    file    text     sha256 of a data file; never a path
    pos     long     row in it
    row     struct   the row that was deleted, in the columns of its commit
    large   list     (field id, sha256) of values above 64 KiB, which `row` leaves null

Rows are sorted by file and position. Because they carry what they deleted, a diff
reads nothing else; only a large value is fetched from the data file itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.parquet import Positions, open_parquet, read_rows
from havasu_vc.datasets.havasu.projection import lacks, plan_projection
from havasu_vc.datasets.havasu.writing import GROUP_ROWS, Layout, WrittenFile, split_offsets
from havasu_vc.errors import CorruptDataFileError, StorageError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.model.arrow import FIELD_ID, arrow_schema
from havasu_vc.model.distinct import distinct
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive
from havasu_vc.store.files import DataFileStore

__all__ = [
    "Deletion",
    "read_deleted_keys",
    "read_deleted_rows",
    "read_positions",
    "write_delete_file",
]

LARGE = 64 * 1024
"""Values beyond this are carried as digests."""

_FILE = pa.field("file", pa.string(), nullable=False, metadata={FIELD_ID: b"2147483546"})
_POS = pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: b"2147483545"})
_DIGEST = pa.struct([("field", pa.int32()), ("sha256", pa.binary(32))])
_LARGE = pa.field("large", pa.list_(_DIGEST))


@dataclass(frozen=True, slots=True)
class Deletion:
    """Rows of one data file that go."""

    file: str
    """The data file."""
    positions: Positions
    """Which rows, ascending."""
    rows: pa.RecordBatch
    """What they say, in the same order."""


def write_delete_file(
    deletions: Iterable[Deletion], layout: Layout, store: DataFileStore, *, origin: Origin
) -> WrittenFile | None:
    """Write deletions, in order of data file, to one delete file; None when there are none."""
    # A large value of a required column is null here too.
    physical = [f.with_nullable(True) for f in arrow_schema(layout.schema, physical=True)]
    row = pa.field("row", pa.struct(physical), metadata={FIELD_ID: b"2147483544"})
    schema = pa.schema([_FILE, _POS, row, _LARGE])
    targets: dict[str, int] = {}
    temporary = store.temporary()
    try:
        with (
            pa.OSFile(str(temporary), "wb") as sink,
            pq.ParquetWriter(
                sink,
                schema,
                compression="zstd",
                compression_level=3,
                use_dictionary=_dictionary_columns(schema),
                column_encoding={"pos": "DELTA_BINARY_PACKED"},
                store_schema=False,
            ) as writer,
        ):
            for batch in _cut(_delete_batches(deletions, layout.schema, schema, targets)):
                writer.write_batch(batch, row_group_size=GROUP_ROWS)
        if not targets:
            temporary.unlink()
            return None
        metadata = pq.read_metadata(temporary)
        file, size = store.put(temporary)
    except OSError as error:
        raise StorageError(f"a delete file cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFile(
        Entry(
            file,
            Content.DELETES,
            size,
            metadata.num_rows,
            layout.schema_hash,
            layout.partition_hash,
            layout.sort_hash,
            origin,
            splits=split_offsets(metadata),
            targets=targets,
        )
    )


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    repeating = (pa.types.is_string, pa.types.is_floating)
    fields = schema.field("row").type
    return ["file", *(f"row.{f.name}" for f in fields if any(is_(f.type) for is_ in repeating))]


def _delete_batches(
    deletions: Iterable[Deletion], schema: Schema, target: pa.Schema, targets: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    last = ""
    for deletion in deletions:
        if not len(deletion.positions):
            continue
        if deletion.file < last:
            raise ValueError("deletions are not in order of data file")
        last = deletion.file
        count = len(deletion.positions)
        targets[deletion.file] = targets.get(deletion.file, 0) + count
        rows, large = _set_large_aside(deletion.rows, schema)
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(deletion.file, count),
                pa.array(deletion.positions),
                pa.StructArray.from_arrays(rows.columns, fields=list(target.field("row").type)),
                large,
            ],
            schema=target,
        )


def _cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, so that many targets do not mean many row groups."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= GROUP_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _set_large_aside(rows: pa.RecordBatch, schema: Schema) -> tuple[pa.RecordBatch, pa.ListArray]:
    """Return rows without their large values, and the digests of these."""
    found: dict[int, list[dict[str, object]]] = {}
    columns = list(rows.columns)
    keys = set(schema.identifier_ids)
    for index, field in enumerate(schema.fields):
        if field.type not in (Primitive.STRING, Primitive.BINARY) or field.id in keys:
            continue
        column = columns[index]
        big = pc.fill_null(pc.greater(pc.binary_length(column), LARGE), False)
        if not pc.any(big).as_py():
            continue
        for row in np.flatnonzero(big.to_numpy(zero_copy_only=False)):
            value = column[int(row)].as_py()
            data = value.encode() if isinstance(value, str) else value
            digest = hashlib.sha256(data).digest()
            found.setdefault(int(row), []).append({"field": field.id, "sha256": digest})
        columns[index] = pc.if_else(big, pa.scalar(None, column.type), column)
    if not found:
        return rows, pa.nulls(rows.num_rows, _LARGE.type)
    large = pa.array([found.get(row) for row in range(rows.num_rows)], _LARGE.type)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema), large


@lru_cache(maxsize=256)
def read_positions(path: str) -> Mapping[str, Positions]:
    """Return, by data file, the positions that a delete file takes away."""
    with open_parquet(path) as file:
        pieces: dict[str, list[Positions]] = {}
        for batch in file.iter_batches(columns=["file", "pos"], use_threads=False):
            encoded = batch.column("file").dictionary_encode()
            codes = encoded.indices.to_numpy()
            where = batch.column("pos").to_numpy()
            for code, name in enumerate(encoded.dictionary.to_pylist()):
                pieces.setdefault(name, []).append(where[codes == code])
    return {name: distinct(np.concatenate(parts)) for name, parts in pieces.items()}


def read_deleted_rows(
    path: str, schema: Schema, wanted: Mapping[str, Positions], data: Mapping[str, str]
) -> Iterator[Deletion]:
    """Yield the rows of a delete file at some positions, in the columns of a schema.

    `data` gives the path of each data file, from which large values are fetched, and
    columns that had been dropped when the delete file was written.
    """
    with open_parquet(path) as file:
        if file.schema_arrow.names[:3] != ["file", "pos", "row"]:
            raise CorruptDataFileError(Path(path).name, "it is not a delete file")
        row = file.schema_arrow.field("row")
        carried = pa.schema(list(row.type))
        plan = plan_projection(carried, schema, Path(path).name)
        lacking = lacks(carried, schema)
        for batch in file.iter_batches(GROUP_ROWS, use_threads=False):
            for deletion in _wanted_rows(batch, wanted, plan.apply, data, schema):
                if lacking and lacks(carried, schema, _file_schema(data[deletion.file])):
                    there = read_rows(data[deletion.file], schema, deletion.positions)
                    yield Deletion(deletion.file, deletion.positions, there)
                else:
                    yield deletion


def read_deleted_keys(path: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the keys of all rows of a delete file, and read nothing else of it."""
    keys = schema.select(schema.key.names)
    with open_parquet(path) as file:
        row = file.schema_arrow.field("row").type
        ids = {str(field.id).encode() for field in keys.fields}
        chosen = [field for field in row if (field.metadata or {}).get(FIELD_ID) in ids]
        plan = plan_projection(pa.schema(chosen), keys, Path(path).name)
        columns = [f"row.{field.name}" for field in chosen]
        for batch in file.iter_batches(GROUP_ROWS, columns=columns, use_threads=False):
            yield plan.apply(pa.RecordBatch.from_struct_array(batch.column("row")))


@lru_cache(maxsize=256)
def _file_schema(path: str) -> pa.Schema:
    with open_parquet(path) as file:
        return file.schema_arrow


def _wanted_rows(
    batch: pa.RecordBatch,
    wanted: Mapping[str, Positions],
    project: Callable[[pa.RecordBatch], pa.RecordBatch],
    data: Mapping[str, str],
    schema: Schema,
) -> Iterator[Deletion]:
    encoded = batch.column("file").dictionary_encode()
    codes = encoded.indices.to_numpy()
    where = batch.column("pos").to_numpy()
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        positions = wanted.get(name)
        if positions is None:
            continue
        chosen = np.flatnonzero((codes == code) & np.isin(where, positions))
        if not len(chosen):
            continue
        part = batch.take(pa.array(chosen))
        rows = project(pa.RecordBatch.from_struct_array(part.column("row")))
        rows = _with_large(rows, part.column("large"), where[chosen], data.get(name), schema)
        yield Deletion(name, where[chosen], rows)


def _with_large(
    rows: pa.RecordBatch,
    large: pa.ListArray,
    positions: Positions,
    path: str | None,
    schema: Schema,
) -> pa.RecordBatch:
    """Put large values back, from the data file that holds them."""
    if large.null_count == len(large):
        return rows
    if path is None:
        raise CorruptDataFileError("?", "a large deleted value has no data file to come from")
    there = np.flatnonzero(large.is_valid().to_numpy(zero_copy_only=False))
    originals = read_rows(path, schema, positions[there])
    columns = list(rows.columns)
    digests = large.take(pa.array(there)).to_pylist()
    for index, field in enumerate(schema.fields):
        chosen = [
            n for n, items in enumerate(digests) if any(i["field"] == field.id for i in items)
        ]
        if not chosen:
            continue
        for number in chosen:
            _check_large(originals.column(index)[number].as_py(), digests[number], field.id, path)
        mask = np.zeros(rows.num_rows, bool)
        mask[there[chosen]] = True
        columns[index] = pc.replace_with_mask(
            columns[index], pa.array(mask), originals.column(index).take(pa.array(chosen))
        )
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _check_large(
    value: str | bytes | None, digests: list[dict[str, object]], field_id: int, path: str
) -> None:
    data = value.encode() if isinstance(value, str) else (value or b"")
    wanted = next(item["sha256"] for item in digests if item["field"] == field_id)
    if hashlib.sha256(data).digest() != wanted:
        raise CorruptDataFileError(Path(path).name, "a deleted value is not the one recorded")
