"""Our Parquet files: how they are read, a row group or a few rows at a time.

Files come from git's store or from a stranger; whatever pyarrow says of a damaged
one becomes `CorruptDataFileError` naming it. Deleted positions are left out here, so
that nobody above has to think of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.havasu.projection import Projection, plan_projection, rows_only
from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, StorageError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, distinct
from havasu_vc.model.arrow import FIELD_ID, INT96
from havasu_vc.model.schema import Schema
from havasu_vc.store.object_systems import object_system
from havasu_vc.store.object_urls import is_url, shown_url

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "NOWHERE",
    "Positions",
    "file_name",
    "open_parquet",
    "read_row_groups",
    "read_rows",
    "row_group_starts",
    "splits_streams",
]

Positions = npt.NDArray[np.int64]
"""Rows of one file, counted from 0, ascending."""
NOWHERE: Positions = np.empty(0, np.int64)
"""None of them."""

BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20
"""Bytes that a batch has about, at most."""
_TEXTS = (pa.string(), pa.binary())
MOST_THREADS = 8
"""Row groups that are in memory at once when they are read side by side."""


def file_name(path: str) -> str:
    """Return what a file is called, given by its path or its URL.

    >>> file_name("/srv/objects/ab"), file_name("s3://bucket/objects/ab?region=x")
    ('ab', 'ab')
    >>> file_name("s3://bucket/table/data/00000.parquet?region=x#ab")
    'ab'
    """
    if not is_url(path):
        return Path(path).name
    place, _, name = path.partition("#")
    return name or Path(place.partition("?")[0]).name


@contextmanager
def open_parquet(
    path: str,
    *,
    mapped: bool = True,
    metadata: pq.FileMetaData | None = None,
    coded: Sequence[str] = (),
) -> Iterator[pq.ParquetFile]:
    """Open a data file; errors inside the block that pyarrow raises name the file.

    To read whole row groups, reading costs a little less than mapping page by page. Of a
    file at a URL what is read together is asked for together. `metadata` is the file's, where it
    was read already; the columns `coded` come as dictionaries.
    """
    import pyarrow.parquet as pq  # with it come clients of all stores: 35 ms and 8 MB

    name = file_name(path)
    far = is_url(path)
    try:
        source = _at_url(path) if far else path
        mapped = mapped and not far
        with pq.ParquetFile(
            source,
            metadata=metadata,
            memory_map=mapped,
            pre_buffer=far,
            read_dictionary=list(coded),
            **INT96,
        ) as file:
            yield file
    except FileNotFoundError:
        raise DataFileNotFoundError(name) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if type(error).__module__.startswith("havasu_vc"):
            raise
        if far and isinstance(error, OSError) and not isinstance(error, pa.ArrowInvalid):
            line = str(error).splitlines()[0][:300]
            raise StorageError(
                f"{shown_url(path)} cannot be read: {line}",
                hints=("check the network, and the credentials in the environment",),
            ) from error
        raise CorruptDataFileError(name, str(error).splitlines()[0]) from error


def _at_url(url: str) -> Any:
    system, path = object_system(url.partition("#")[0])
    return system.open_input_file(path)


def row_group_starts(file: pq.ParquetFile) -> Positions:
    """Return the position of each row group's first row, and at the end the count of rows."""
    counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def splits_streams(path: str) -> bool:
    """Whether columns of a file are encoded as `BYTE_STREAM_SPLIT`, told by its first row group."""
    with open_parquet(path) as file:
        if not file.num_row_groups:
            return False
        group = file.metadata.row_group(0)
        return any(
            "BYTE_STREAM_SPLIT" in group.column(index).encodings
            for index in range(group.num_columns)
        )


def read_row_groups(
    path: str,
    schema: Schema,
    *,
    groups: Sequence[int] | None = None,
    deleted: Positions | None = None,
    positions: bool = False,
    planned: Callable[[pa.Schema], Projection] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a file, or of some row groups, in the columns of a schema.

    With `positions`, a last column `_pos` says where in the file each row is. `planned`
    says how columns are found where that is not by the field ids in the file alone.
    """
    # Pages of a mapped file count as memory of the process, and rasters are many.
    rasters = any(field.raster is not None for field in schema.fields)
    with open_parquet(path, mapped=not rasters) as file:
        found = file.schema_arrow
        plan = planned(found) if planned else plan_projection(found, schema, file_name(path))
        starts = row_group_starts(file)
        for group in range(file.num_row_groups) if groups is None else groups:
            at = int(starts[group])
            for batch in _batches(file, group, plan.names):
                count = batch.num_rows
                rows = plan.apply(batch)
                keep = _live(at, count, deleted)
                if positions:
                    where = np.arange(at, at + count, dtype=np.int64)
                    rows = rows.append_column("_pos", arrow_array(where))
                at += count
                yield rows if keep is None else pc.filter(rows, keep)


def _batches(file: pq.ParquetFile, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if names:
        # Others write row groups of any size; rows may be rasters.
        there = file.metadata.row_group(group)
        fitting = BATCH_BYTES * there.num_rows // max(there.total_byte_size, 1)
        yield from file.iter_batches(
            max(min(BATCH_ROWS, fitting), 1),
            row_groups=[group],
            columns=list(names),
            use_threads=False,
        )
        return
    # Of no columns pyarrow gives no rows either.
    left = file.metadata.row_group(group).num_rows
    while left > 0:
        yield rows_only(min(left, BATCH_ROWS))
        left -= BATCH_ROWS


def _live(start: int, count: int, deleted: Positions | None) -> pa.BooleanArray | None:
    if deleted is None or not len(deleted):
        return None
    first, last = np.searchsorted(deleted, [start, start + count])
    if first == last:
        return None
    keep = np.ones(count, bool)
    keep[deleted[first:last] - start] = False
    return arrow_array(keep)


def read_rows(
    path: str, schema: Schema, positions: Positions, *, threads: bool = False
) -> pa.RecordBatch:
    """Return rows by position (ascending), reading only the row groups that hold them.

    `threads` reads row groups side by side, for callers that are not one of many tasks.
    """
    with open_parquet(path) as file:
        plan = plan_projection(file.schema_arrow, schema, file_name(path))
        starts = row_group_starts(file)
        metadata, coded = file.metadata, _coded(file)
    if len(positions) and (positions[0] < 0 or positions[-1] >= starts[-1]):
        raise CorruptDataFileError(file_name(path), "a position is outside the file")
    if not plan.names:
        # Of no columns pyarrow gives no rows either.
        return plan.apply(rows_only(len(positions)))
    groups = np.searchsorted(starts, positions, "right") - 1
    chosen = distinct(groups)

    def read(some: npt.NDArray[np.int64]) -> list[pa.RecordBatch]:
        pieces: list[pa.RecordBatch] = []
        with open_parquet(path, mapped=False, metadata=metadata, coded=coded) as file:
            for group in some.tolist():
                table = file.read_row_group(group, columns=list(plan.names), use_threads=False)
                wanted = positions[groups == group] - starts[group]
                taken = _written_out(pc.take(table, arrow_array(wanted))).combine_chunks()
                pieces.extend(plan.apply(batch) for batch in taken.to_batches())
        return pieces

    count = min(pa.cpu_count(), MOST_THREADS, len(chosen)) if threads else 1
    if count <= 1:
        pieces = read(chosen)
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(count) as pool:
            shares = pool.map(read, np.array_split(chosen, count))
            pieces = [piece for share in shares for piece in share]
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=plan.target)
    return one_batch(pieces)


def _coded(file: pq.ParquetFile) -> list[str]:
    """Return the columns of texts and bytes of which a file has a dictionary and numbers in it.

    Whoever wants a few of the rows need not have the texts of the others written out.
    """
    if not file.num_row_groups:
        return []
    group = file.metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    # Where texts stand beside a dictionary that grew too large, each has four bytes and more.
    found = {
        chunk.path_in_schema
        for chunk in chunks
        if chunk.has_dictionary_page and chunk.total_uncompressed_size < 4 * chunk.num_values
    }
    # What has a dot may be the path of a part of another column.
    return [
        field.name
        for field in file.schema_arrow
        if field.name in found and field.type in _TEXTS and "." not in field.name
    ]


def _written_out(table: pa.Table) -> pa.Table:
    """Return rows with their values in the place of numbers in dictionaries."""
    columns = [
        pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, table.column_names)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several batches of one schema as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches)


def key_ranges(path: str, field_id: int) -> list[tuple[Any, Any] | None]:
    """Return the least and greatest value of a column in each row group, where known."""
    return [found for (found,) in column_ranges(path, [field_id])]


def column_ranges(path: str, ids: Sequence[int]) -> list[list[tuple[Any, Any] | None]]:
    """Return the least and greatest value of some columns in each row group, where known."""
    with open_parquet(path) as file:
        leaves = [_leaf_index(file, each) for each in ids]
        groups = (file.metadata.row_group(group) for group in range(file.num_row_groups))
        return [[_range_of(group, leaf) for leaf in leaves] for group in groups]


def _range_of(group: pq.RowGroupMetaData, leaf: int | None) -> tuple[Any, Any] | None:
    statistics = None if leaf is None else group.column(leaf).statistics
    if statistics is not None and statistics.has_min_max:
        with suppress(OverflowError, ValueError):  # a date beyond what Python knows
            return statistics.min, statistics.max
    return None


def group_bytes(path: str) -> list[tuple[int, int]]:
    """Return the rows of each row group, and its bytes in memory."""
    with open_parquet(path) as file:
        groups = (file.metadata.row_group(index) for index in range(file.num_row_groups))
        return [(group.num_rows, group.total_byte_size) for group in groups]


def _leaf_index(file: pq.ParquetFile, field_id: int) -> int | None:
    """Return which of the file's columns a field is, None if it is none or nested itself.

    Delete files have the fields of rows within a struct.
    """
    index = 0
    fields = list(file.schema_arrow)
    while fields:
        field = fields.pop(0)
        if (field.metadata or {}).get(FIELD_ID) == str(field_id).encode():
            return None if pa.types.is_nested(field.type) else index
        if pa.types.is_struct(field.type):
            fields[:0] = list(field.type)
            continue
        index += _leaf_count(field.type)
    return None


def _leaf_count(type_: pa.DataType) -> int:
    if not pa.types.is_nested(type_):
        return 1
    return sum(_leaf_count(type_.field(index).type) for index in range(type_.num_fields))
