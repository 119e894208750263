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
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import (
    BATCH_ROWS,
    NOWHERE,
    Positions,
    file_name,
    open_parquet,
    read_rows,
)
from havasu_vc.datasets.havasu.projection import lacks, plan_projection
from havasu_vc.errors import CorruptDataFileError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import among, arrow_array, distinct
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from hashlib import _Hash

    import pyarrow.parquet as pq

__all__ = [
    "LARGE",
    "Deletion",
    "are_large",
    "can_be_large",
    "deleted_places",
    "large_digest",
    "needs_data_files",
    "needs_originals",
    "read_deleted_keys",
    "read_deleted_rows",
    "read_positions",
]


Kept: TypeAlias = Callable[[pa.RecordBatch], "pa.BooleanArray | None"]
"""Tells which rows of a batch are wanted, None for all; large values are null."""
SHARE_BYTES = 16 << 20
"""Bytes of large values that are put back at a time."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Rows of one data file that go."""

    file: str
    """The data file."""
    positions: Positions
    """Which rows, ascending."""
    rows: pa.RecordBatch
    """Their rows, in the same order."""
    large: pa.ListArray | None = None
    """Digests of the large values that `rows` leaves null; None where none was set aside."""


@lru_cache(maxsize=256)
def read_positions(path: str) -> Mapping[str, Positions]:
    """Return, by data file, the positions that a delete file takes away."""
    with open_parquet(path) as file:
        pieces: dict[str, list[Positions]] = {}
        for batch in file.iter_batches(columns=["file", "pos"], use_threads=False):
            encoded = pc.dictionary_encode(batch.column("file"))
            codes = encoded.indices.to_numpy()
            where = batch.column("pos").to_numpy()
            for code, name in enumerate(encoded.dictionary.to_pylist()):
                pieces.setdefault(name, []).append(where[codes == code])
    return {name: distinct(np.concatenate(parts)) for name, parts in pieces.items()}


def read_deleted_rows(
    path: str,
    schema: Schema,
    wanted: Mapping[str, Positions | None],
    data: Mapping[str, str],
    *,
    kept: Kept | None = None,
    groups: Sequence[int] | None = None,
) -> Iterator[Deletion]:
    """Yield the rows of a delete file at some positions, in the columns of a schema.

    They are positions in data files, None for all that it takes away from one.
    `data` gives the path of each data file, from which large values are fetched, and
    columns that had been dropped when the delete file was written. `kept` tells by their
    keys which rows are wanted, `groups` in which row groups they may be.
    """
    with open_parquet(path) as file:
        if file.schema_arrow.names[:3] != ["file", "pos", "row"]:
            raise CorruptDataFileError(file_name(path), "it is not a delete file")
        row = file.schema_arrow.field("row")
        carried = pa.schema(list(row.type))
        plan = plan_projection(carried, schema, file_name(path))
        lacking = lacks(carried, schema)
        some = range(file.num_row_groups) if groups is None else groups
        chosen = [group for group in some if _may_have(file.metadata.row_group(group), wanted)]
        for batch in file.iter_batches(BATCH_ROWS, row_groups=chosen, use_threads=False):
            for deletion in _wanted_rows(batch, wanted, (plan.apply, kept), data, schema):
                if lacking and lacks(carried, schema, _file_schema(data[deletion.file])):
                    there = read_rows(data[deletion.file], schema, deletion.positions)
                    yield Deletion(deletion.file, deletion.positions, there)
                else:
                    yield deletion


def _may_have(group: pq.RowGroupMetaData, wanted: Mapping[str, Positions | None]) -> bool:
    """Whether a row group of a delete file may have some of the rows that are wanted."""
    file, pos = group.column(0).statistics, group.column(1).statistics
    if file is None or pos is None or not (file.has_min_max and pos.has_min_max):
        return True
    if file.min != file.max:
        return True
    found = wanted.get(file.min, NOWHERE)
    if found is None:
        return True
    return bool(np.searchsorted(found, pos.min) < np.searchsorted(found, pos.max, "right"))


def needs_data_files(path: str, schema: Schema) -> bool:
    """Return whether what a delete file carries is not all of its rows in the columns of a schema.

    It leaves large values to the data files, and does not know columns that came later.
    """
    with open_parquet(path) as file:
        if lacks(pa.schema(list(file.schema_arrow.field("row").type)), schema):
            return True
    return needs_originals(path)


def needs_originals(path: str) -> bool:
    """Return whether a delete file leaves large values to the data files."""
    with open_parquet(path) as file:
        return any(_leaves_values(file, group) for group in range(file.num_row_groups))


def _leaves_values(file: pq.ParquetFile, group: int) -> bool:
    """Return whether a row group of a delete file leaves values to the data files.

    Statistics tell it of most; a plan need not read what grows with rows.
    """
    digests = file.metadata.row_group(group).column(file.metadata.num_columns - 1)
    statistics = digests.statistics
    if statistics is not None and statistics.has_null_count:
        return bool(statistics.null_count < digests.num_values)
    large = file.read_row_group(group, columns=["large"], use_threads=False).column(0)
    return bool(large.null_count < len(large))


def read_deleted_keys(path: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the keys of the rows of a delete file, in their order there."""
    keys = schema.select(schema.key.names)
    with open_parquet(path) as file:
        row = file.schema_arrow.field("row").type
        ids = {str(field.id).encode() for field in keys.fields}
        chosen = [field for field in row if (field.metadata or {}).get(FIELD_ID) in ids]
        plan = plan_projection(pa.schema(chosen), keys, file_name(path))
        columns = [f"row.{field.name}" for field in chosen]
        for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
            yield plan.apply(pa.RecordBatch.from_struct_array(batch.column("row")))


def deleted_places(path: str, rows: Positions) -> list[tuple[str, int]]:
    """Return the data file and the position of some rows of a delete file."""
    with open_parquet(path) as file:
        places = pc.take(file.read(columns=["file", "pos"], use_threads=False), arrow_array(rows))
    return list(zip(*(column.to_pylist() for column in places.columns), strict=True))


@lru_cache(maxsize=256)
def _file_schema(path: str) -> pa.Schema:
    with open_parquet(path) as file:
        return file.schema_arrow


def _wanted_rows(
    batch: pa.RecordBatch,
    wanted: Mapping[str, Positions | None],
    how: tuple[Callable[[pa.RecordBatch], pa.RecordBatch], Kept | None],
    data: Mapping[str, str],
    schema: Schema,
) -> Iterator[Deletion]:
    project, kept = how
    encoded = pc.dictionary_encode(batch.column("file"))
    codes = encoded.indices.to_numpy()
    where = batch.column("pos").to_numpy()
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in wanted:
            continue
        positions = wanted[name]
        there = codes == code
        chosen = np.flatnonzero(there if positions is None else there & among(where, positions))
        if not len(chosen):
            continue
        if kept is not None:
            row = pc.take(batch.column("row"), arrow_array(chosen))
            mask = kept(project(pa.RecordBatch.from_struct_array(row)))
            if mask is not None:
                chosen = chosen[mask.to_numpy(zero_copy_only=False)]
        for some in _shares(chosen, batch.column("large"), data.get(name)):
            part = pc.take(batch, arrow_array(some))
            rows = project(pa.RecordBatch.from_struct_array(part.column("row")))
            rows = _with_large(rows, part.column("large"), where[some], data.get(name), schema)
            yield Deletion(name, where[some], rows)


def _shares(
    chosen: npt.NDArray[np.int64], large: pa.ListArray, path: str | None
) -> Iterator[npt.NDArray[np.int64]]:
    """Cut rows into shares that fit in memory once their large values are put back."""
    if large.null_count == len(large) or path is None:
        yield chosen
        return
    with open_parquet(path) as file:
        groups = range(file.num_row_groups)
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        most = max(SHARE_BYTES * max(file.metadata.num_rows, 1) // max(size, 1), 1)
    for start in range(0, len(chosen), most):
        yield chosen[start : start + most]


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
    there = np.flatnonzero(pc.is_valid(large).to_numpy(zero_copy_only=False))
    originals = read_rows(path, schema, positions[there])
    columns = list(rows.columns)
    digests = pc.take(large, arrow_array(there)).to_pylist()
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
        given = np.zeros(rows.num_rows, np.int64)
        given[there[chosen]] = chosen
        values = pc.take(originals.column(index), arrow_array(given, absent=~mask))
        columns[index] = pc.if_else(arrow_array(mask), values, columns[index])
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _check_large(value: Any, digests: list[dict[str, object]], field_id: int, path: str) -> None:
    wanted = next(item["sha256"] for item in digests if item["field"] == field_id)
    if large_digest(value) != wanted:
        raise CorruptDataFileError(file_name(path), "a deleted value is not the one recorded")


# Values too large to be carried by a delete file, and the digests that stand for them.
#
# The data file that holds such a value stays as long as the row may be shown. The digest is
# sha256 of the value's bytes, text as UTF-8. A raster is the bytes of its parts, one after
# the other in the order of `model.rasters`: whole numbers and doubles as 8 bytes, little
# endian; bytes and text after their length as 8 bytes; a list after its count; and what is
# null as 8 bytes of ones.

LARGE = 64 * 1024
"""Values of more bytes are carried as digests."""

_NULL = b"\xff" * 8


def can_be_large(field: Field) -> bool:
    """Whether a column may hold values of any length."""
    return field.raster is not None or field.type in (Primitive.STRING, Primitive.BINARY)


def are_large(column: pa.Array, field: Field) -> npt.NDArray[np.bool_]:
    """Return which values have too many bytes."""
    sizes = _raster_sizes(column) if field.raster is not None else _lengths(column)
    return sizes > LARGE


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.cast(
        pc.fill_null(pc.binary_length(column), 0), pa.int64()
    ).to_numpy(zero_copy_only=False)
    return found


def _raster_sizes(column: pa.StructArray) -> npt.NDArray[np.int64]:
    """Return how many bytes of pixels each raster has."""
    parts = dict(zip((part.name for part in column.type), column.flatten(), strict=True))
    sizes = np.zeros(len(column), np.int64)
    for name in ("band_1", "band_2", "band_3", "band_4"):
        sizes += _lengths(pc.struct_field(parts[name], "data"))
    bands = parts["bands"]
    owners = pc.list_parent_indices(bands).to_numpy(zero_copy_only=False)
    np.add.at(sizes, owners, _lengths(pc.struct_field(bands.flatten(), "data")))
    return sizes


def large_digest(value: Any) -> bytes:
    """Return the digest of a value.

    >>> large_digest("a") == large_digest(b"a")
    True
    """
    digest = hashlib.sha256()
    if isinstance(value, dict):
        _feed(digest, value)
    else:
        digest.update(value.encode() if isinstance(value, str) else value or b"")
    return digest.digest()


def _feed(digest: _Hash, value: Any) -> None:
    match value:
        case None:
            digest.update(_NULL)
        case dict():
            for part in value.values():
                _feed(digest, part)
        case list():
            digest.update(struct.pack("<q", len(value)))
            for part in value:
                _feed(digest, part)
        case float():
            digest.update(struct.pack("<d", value))
        case int():
            digest.update(struct.pack("<q", value))
        case _:
            data = value.encode() if isinstance(value, str) else value
            digest.update(struct.pack("<q", len(data)))
            digest.update(data)
