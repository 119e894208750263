"""Writing data files: batches of rows in, immutable Parquet files and their entries out.

Equal rows in equal order give equal bytes, however they were cut into batches: row
groups are cut by count and size here. Beside each file its key cache is written, and
the digests of its columns are summed, while the rows are in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.digest import Digests, HashedRows, hash_rows
from havasu_vc.datasets.havasu.keys import build_key_cache, key_cache_path, write_key_cache
from havasu_vc.datasets.havasu.parquet import read_row_groups
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.statistics import block_columns, block_fields, column_statistics
from havasu_vc.errors import StorageError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.buffers import byte_column
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reason_of
from havasu_vc.store.files import DataFileStore

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from havasu_vc.geo.raster_v1_outlines import Places

__all__ = [
    "GEO",
    "Measures",
    "WrittenFile",
    "cut_row_groups",
    "distinct_files",
    "format_footer",
    "measure_rows",
    "plain_columns",
    "row_sizes",
    "split_offsets",
    "united_areas",
    "united_bounds",
    "write_data_files",
]


GROUP_ROWS = 1 << 16
GROUP_BYTES = 32 * 1024 * 1024
RASTER_GROUP_BYTES = 8 * 1024 * 1024
"""Of a table with rasters, so that a few tiles are read without many others."""
_COPY = "havasu-vc.copy"
_FEW = 4096
_BLOCK = 128


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that is in the store now."""

    entry: Entry
    """Its entry."""
    digests: dict[int, Digest] = field(default_factory=dict)
    """Sums over its rows; empty for a delete file."""


def write_data_files(
    batches: Iterable[pa.RecordBatch],
    layout: FileLayout,
    store: DataFileStore,
    keys: Path | None,
    *,
    origin: Origin,
    copy: int = 0,
) -> Iterator[WrittenFile]:
    """Write rows, in the stored types of the layout's schema, to as many files as they need.

    `keys` is the folder of key caches, None to write none. `copy` makes a file with the
    same rows another file.
    """
    rasters = any(field.raster is not None for field in layout.schema.fields)
    most_bytes = RASTER_GROUP_BYTES if rasters else GROUP_BYTES
    groups = cut_row_groups(batches, most_rows=GROUP_ROWS, most_bytes=most_bytes)
    seen: set[str] = set()
    with ThreadPoolExecutor(2, thread_name_prefix="havasu-hash") as pool:
        first = next(groups, None)
        while first is not None:
            writer = _FileWriter(layout, store, pool, copy)
            try:
                writer.write(first)
                first = None
                for group in groups:
                    if writer.size >= layout.target_bytes:
                        first = group
                        break
                    writer.write(group)
                file = writer.finish(keys, origin)
            except BaseException:
                writer.abandon()
                raise
            file = _unlike(file, seen, layout, store, keys, copy)
            seen.add(file.entry.file)
            yield file


def distinct_files(
    files: Iterable[WrittenFile],
    layout: FileLayout,
    store: DataFileStore,
    keys: Path | None,
    *,
    seen: Iterable[str] = (),
) -> list[WrittenFile]:
    """Return files that were written apart from each other, none twice and none of `seen`.

    Without a key, two runs of equal rows make one file, which must stand twice.
    """
    seen = set(seen)
    found: list[WrittenFile] = []
    for file in files:
        found.append(_unlike(file, seen, layout, store, keys))
        seen.add(found[-1].entry.file)
    return found


def _unlike(
    file: WrittenFile,
    seen: set[str],
    layout: FileLayout,
    store: DataFileStore,
    keys: Path | None,
    copy: int = 0,
) -> WrittenFile:
    """Return a file, or one with the same rows and a greater copy number if it has been seen."""
    twin = file
    whole = replace(layout, target_bytes=1 << 62)
    while twin.entry.file in seen:
        copy += 1
        rows = read_row_groups(str(store.path(file.entry.file)), layout.schema)
        (twin,) = write_data_files(rows, whole, store, keys, origin=file.entry.origin, copy=copy)
    return replace(twin, entry=replace(twin.entry, partition=file.entry.partition))


class _FileWriter:
    """One Parquet file while it is written."""

    def __init__(
        self, layout: FileLayout, store: DataFileStore, pool: ThreadPoolExecutor, copy: int
    ) -> None:
        self._layout = layout
        self._store = store
        self._pool = pool
        self._copy = copy
        self._physical = arrow_schema(layout.schema, physical=True)
        self._geometries = bool(layout.schema.geometries)
        self._blocks: int | None = None
        self._temporary = store.temporary()
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._hashing: list[Future[Measures]] = []
        self._plain: list[frozenset[int]] = []

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell()) if self._sink is not None else 0

    def write(self, group: pa.RecordBatch) -> None:
        """Write one row group, hashing it on the side."""
        self._hashing.append(self._pool.submit(measure_rows, group, self._layout.schema))
        if self._geometries:
            self._plain.append(plain_columns(group, self._layout.schema))
        try:
            if self._writer is None:
                self._sink = pa.OSFile(str(self._temporary), "wb")
                self._lay_out(group)
                sample = self._stored(group)
                self._writer = _parquet_writer(self._sink, self._physical, sample, self._copy)
            self._writer.write_batch(self._stored(group), row_group_size=GROUP_ROWS)
        except OSError as error:
            raise StorageError(f"a data file cannot be written: {reason_of(error)}") from error
        # Keeps at most a few row groups waiting for their hashes.
        for waiting in self._hashing[-3:-2]:
            waiting.result()

    def _lay_out(self, first: pa.RecordBatch) -> None:
        """Choose the file's columns: bounds of blocks too, where they tell anything apart."""
        if self._layout.clustered is not None and first.num_rows == GROUP_ROWS:
            self._blocks = self._layout.clustered
            for field in block_fields(self._blocks):
                self._physical = self._physical.append(field)

    def _stored(self, group: pa.RecordBatch) -> pa.RecordBatch:
        columns = list(group.columns)
        if self._blocks is not None:
            columns += block_columns(group, self._layout.schema, self._blocks)
        columns = [without_gaps(*each) for each in zip(columns, self._physical, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._physical)

    def finish(self, keys: Path | None, origin: Origin) -> WrittenFile:
        """Close the file, put it in the store and return what is known of it."""
        assert self._writer is not None and self._sink is not None
        import pyarrow.parquet as pq

        geo = format_footer(self._layout.schema, self._plain) if self._plain else None
        try:
            if geo is not None:
                self._writer.add_key_value_metadata({GEO: geo})
            self._writer.close()
            self._sink.close()
        except OSError as error:
            raise StorageError(f"a data file cannot be written: {reason_of(error)}") from error
        metadata = pq.read_metadata(self._temporary)
        putting = self._pool.submit(self._store.put, self._temporary)
        parts = [waiting.result() for waiting in self._hashing]
        digests, nans = Digests(), dict[int, int]()
        for part in parts:
            digests.add(part.hashed.digests)
            for number, count in part.nans.items():
                nans[number] = nans.get(number, 0) + count
        cache = build_key_cache(
            np.concatenate([part.hashed.keys for part in parts]),
            np.concatenate([part.hashed.rows for part in parts]),
        )
        file, size = putting.result()
        if keys is not None:
            write_key_cache(key_cache_path(keys, file, self._layout.schema), cache)
        entry = Entry(
            file,
            Content.DATA,
            size,
            metadata.num_rows,
            self._layout.schema_hash,
            self._layout.partition_hash,
            self._layout.sort_hash,
            origin,
            statistics=column_statistics(metadata, self._layout.schema.fields, nans),
            bounds=united_bounds(parts),
            splits=split_offsets(metadata),
            areas=united_areas(parts),
        )
        return WrittenFile(entry, digests.sums)

    def abandon(self) -> None:
        """Leave nothing behind."""
        for waiting in self._hashing:
            waiting.cancel()
        if self._writer is not None:
            # Else it would try to write its footer when it is forgotten, and complain aloud.
            self._writer.is_open = False
        if self._sink is not None and not self._sink.closed:
            self._sink.close()
        self._temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of some rows of a file."""

    hashed: HashedRows
    """Their hashes."""
    bounds: Mapping[int, Bounds | None]
    """Of each geometry column."""
    areas: Mapping[int, Places]
    """Of each raster column."""
    nans: Mapping[int, int]
    """How many values of each column are not a number."""


def measure_rows(group: pa.RecordBatch, schema: Schema) -> Measures:
    """Return the hashes of rows, where they are and how many NaNs there are.

    Raises `GeometryError` for a geometry or a raster that is not sound.
    """
    bounds = {
        column.id: bounds_of(group.column(column.name), column.geometry.encoding)
        for column in schema.fields
        if column.geometry is not None
    }
    nans = {
        column.id: pc.sum(pc.is_nan(group.column(column.name))).as_py() or 0
        for column in schema.fields
        if column.type in (Primitive.FLOAT, Primitive.DOUBLE)
    }
    return Measures(hash_rows(group, schema), bounds, _areas(group, schema), nans)


def _areas(group: pa.RecordBatch, schema: Schema) -> dict[int, Places]:
    columns = [column for column in schema.fields if column.raster is not None]
    if not columns:
        return {}
    from havasu_vc.geo.raster_v1_checks import check_rasters
    from havasu_vc.geo.raster_v1_outlines import places_of_rasters

    return {c.id: places_of_rasters(check_rasters(group.column(c.name))) for c in columns}


def united_areas(parts: Sequence[Measures]) -> dict[int, GeographicBounds]:
    """Return where the rasters of each column are over all parts, where that is known."""
    numbers = parts[0].areas if parts else ()
    if not numbers:
        return {}
    from havasu_vc.geo.raster_v1_outlines import united_places

    found = {number: united_places(part.areas[number] for part in parts) for number in numbers}
    return {number: area for number, area in found.items() if area is not None}


def united_bounds(parts: Sequence[Measures]) -> dict[int, Bounds]:
    """Return the bounds of each geometry column over all parts, where they can be written."""
    united = {}
    for number in parts[0].bounds if parts else ():
        bounds = Bounds.of(part.bounds[number] for part in parts)
        if bounds is not None and bounds.finite:
            united[number] = bounds
    return united


def split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Return where each row group begins in a file."""
    offsets = []
    for group in range(metadata.num_row_groups):
        first = metadata.row_group(group).column(0)
        dictionary = first.dictionary_page_offset
        offsets.append(first.data_page_offset if dictionary is None else dictionary)
    return tuple(offsets)


def _parquet_writer(
    sink: pa.NativeFile, physical: pa.Schema, sample: pa.RecordBatch, copy: int
) -> pq.ParquetWriter:
    """Open a writer with the encodings that suit the first row group."""
    import pyarrow.parquet as pq  # with it come clients of all stores: 35 ms and 8 MB

    encodings, dictionaries = choose_encodings(physical, sample)
    writer = pq.ParquetWriter(
        sink,
        physical,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionaries,
        column_encoding=encodings or None,
        store_schema=False,
        write_page_index=sample.num_rows == GROUP_ROWS,
    )
    if copy:
        writer.add_key_value_metadata({_COPY: str(copy)})
    return writer


def choose_encodings(
    physical: pa.Schema, sample: pa.RecordBatch
) -> tuple[dict[str, str], list[str] | bool]:
    """Return the encodings of columns that a dictionary would not suit, and the others.

    Only encodings that every reader knows.
    """
    encodings: dict[str, str] = {}
    dictionaries: list[str] = []
    for column, values in zip(physical, sample.columns, strict=True):
        encoding = _encoding_without_dictionary(column.type, values)
        if encoding is not None:
            encodings[column.name] = encoding
        else:
            dictionaries.extend(_leaf_paths(column))
    return encodings, dictionaries


def _encoding_without_dictionary(type_: pa.DataType, values: pa.Array) -> str | None:
    """Return the encoding that suits a column better than a dictionary; None for a dictionary."""
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        return None if _dictionary_beats_deltas(values) else "DELTA_BINARY_PACKED"
    if pa.types.is_floating(type_):
        # Byte streams split would be smaller by a tenth, but Spark's own reader has no such thing.
        return "PLAIN" if _mostly_different(values) else None
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return "PLAIN" if _mostly_different(values) else None
    if pa.types.is_fixed_size_binary(type_) and not pa.types.is_decimal(type_):
        return "PLAIN" if _mostly_different(values) else None
    return None


def _mostly_different(values: pa.Array) -> bool:
    # Where a few repeat, all do; where they do not, all may still.
    for part in (values.slice(0, _FEW), values):
        different: int = pc.count_distinct(part).as_py()
        if different * 2 <= len(part):
            return False
        if different == len(part):
            return True
    return True


def _dictionary_beats_deltas(values: pa.Array) -> bool:
    """Whether few different numbers, in no order, take fewer bits than their differences."""
    numbers = pc.drop_null(values)
    if len(numbers) < _FEW or pc.count_distinct(numbers.slice(0, _FEW)).as_py() * 4 > _FEW:
        return False
    width = numbers.type.bit_width
    plain = numbers.view(pa.int64() if width == 64 else pa.int32()) if width >= 32 else numbers
    steps = np.diff(plain.to_numpy().astype(np.int64))
    steps = steps[: len(steps) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    ranges = np.ptp(steps.astype(np.float64), axis=1)
    deltas = float(np.log2(ranges + 1).mean())
    different = int(pc.count_distinct(numbers).as_py())
    entries = math.log2(different) + different * width / len(numbers)
    return bool(entries < deltas)


def _leaf_paths(column: pa.Field) -> list[str]:
    if pa.types.is_nested(column.type):
        return []
    return [] if pa.types.is_boolean(column.type) else [column.name]


# Where row groups end: after so many rows, or before so many bytes.
#
# A row counts with the bytes of its values alone, so the cuts do not depend on how the
# rows were dealt out to batches, and equal rows give equal files.

Sizes = npt.NDArray[np.int64]


def cut_row_groups(
    batches: Iterable[pa.RecordBatch], *, most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows cut where row groups end; a single row may be larger than a group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        ends = np.cumsum(row_sizes(batch))
        at = 0
        while at < batch.num_rows:
            before = int(ends[at - 1]) if at else 0
            fitting = int(np.searchsorted(ends, before + most_bytes - size, "right")) - at
            count = min(max(fitting, 0 if rows else 1), most_rows - rows)
            if count:
                waiting.append(batch.slice(at, count))
                at += count
                rows += count
                size += int(ends[at - 1]) - before
            if rows == most_rows or at < batch.num_rows:
                yield pa.concat_batches(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def row_sizes(batch: pa.RecordBatch) -> Sizes:
    """Return about how many bytes each row takes in memory."""
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        total += _sizes(column)
    return total


def _sizes(column: pa.Array) -> Sizes:
    type_ = column.type
    if pa.types.is_struct(type_):
        found = np.zeros(len(column), np.int64)
        for child in column.flatten():
            found += _sizes(child)
        return found
    if pa.types.is_map(type_):
        return _of_lists(column, (column.keys, column.items))
    if pa.types.is_list(type_):
        return _of_lists(column, (column.values,))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        lengths: Sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        return lengths + 4
    return np.full(len(column), max(type_.bit_width // 8, 1), np.int64)


def _of_lists(column: pa.Array, parts: tuple[pa.Array, ...]) -> Sizes:
    offsets = column.offsets.to_numpy().astype(np.int64)
    found = np.full(len(column), 4, np.int64)
    for part in parts:
        sums = np.concatenate([[0], np.cumsum(_sizes(part))])
        found += sums[offsets[1:]] - sums[offsets[:-1]]
    if column.null_count:
        # What a null spans depends on how it was made.
        found[~pc.is_valid(column).to_numpy(zero_copy_only=False)] = 4
    return found


# The `geo` document of GeoParquet in the footer of our data files.
#
#     {"version":"1.0.0","primary_column":"geom",
#      "columns":{"geom":{"encoding":"WKB","geometry_types":[],"crs":null}}}
#
# With it GeoPandas, DuckDB and GDAL take the column for geometries. It says no more than
# holds for all files of a column: CRS and types are the dataset's to say, and null and an
# empty list say that they are not known. A column stands in it only if its values are WKB
# as the standard has it, without an SRID in any.

GEO = "geo"
"""The key in the footer."""

_WKB = (Encoding.EWKB, Encoding.WKB)
_MARKS = 0xE0
"""Flags of EWKB in the highest byte of a type: Z, M, SRID."""


def plain_columns(group: pa.RecordBatch, schema: Schema) -> frozenset[int]:
    """Return the ids of geometry columns whose values are all WKB without marks of EWKB."""
    return frozenset(
        field.id
        for field in schema.fields
        if field.geometry is not None
        and field.geometry.encoding in _WKB
        and _is_plain(group.column(field.name))
    )


def _is_plain(values: pa.Array) -> bool:
    column = byte_column(values)
    if not len(column.rows):
        return True
    if int(column.lengths.min()) < 5:
        return False
    order = column.data[column.starts]
    highest = column.data[column.starts + np.where(order == 1, 4, 1)]
    return not (highest & _MARKS).any()


def format_footer(schema: Schema, plain: Iterable[frozenset[int]]) -> str | None:
    """Return the document for a file whose row groups have these columns; None without any."""
    wanted = frozenset.intersection(*plain)
    names = [field.stored_name for field in schema.fields if field.id in wanted]
    if not names:
        return None
    described: dict[str, object] = {"encoding": "WKB", "geometry_types": [], "crs": None}
    document = {
        "version": "1.0.0",
        "primary_column": names[0],
        "columns": dict.fromkeys(names, described),
    }
    return json.dumps(document, separators=(",", ":"))
