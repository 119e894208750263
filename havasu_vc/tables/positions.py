"""Position delete files: which rows of which data files are gone.

    file_path   text   the data file, spelled byte for byte as its manifest spells it
    pos         long   row in it, from 0

Ours carry no `row` column, which makes Spark's `rewrite_position_delete_files` fail, and
have their hash in their name, since engines remember delete files by path.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.parquet import Positions, open_parquet
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.formats.roaring import parse_framed_deletion_vector
from havasu_vc.model.arrays import distinct
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.records import dataclass
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors
from havasu_vc.tables.locations import damaged, reading_document, reading_table_file

__all__ = [
    "FILE_PATH_ID",
    "POSITION_ID",
    "DeletionVector",
    "deletion_vector_of",
    "positions_of",
    "read_deletion_vector",
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
                os.fsync(written.fileno())
            size = temporary.stat().st_size
            final = folder / f"{digest}-deletes.parquet"
            os.replace(temporary, final)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(folder)
    counts = {FILE_PATH_ID: rows, POSITION_ID: rows}
    return DataFile(
        str(final),
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
