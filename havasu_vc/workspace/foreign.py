"""Data files that another engine wrote into a table, as entries of ours.

Such a file stays as it is. What an entry says beside it is taken from its footer and
from one pass over its rows: statistics, bounds of geometries, sums of columns, and its
key cache. The columns are told by field id; the schema that an entry names is the one
that the file has, in its own order and under its own names. What was found is kept
beside the key caches by the file's identity, so that looking again reads nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.keys import build_key_cache, key_cache_path, write_key_cache
from havasu_vc.datasets.havasu.parquet import open_parquet, read_row_groups
from havasu_vc.datasets.havasu.plan import Layout
from havasu_vc.datasets.havasu.statistics import column_statistics
from havasu_vc.datasets.havasu.writing import (
    Measures,
    measure_rows,
    split_offsets,
    united_areas,
    united_bounds,
)
from havasu_vc.errors import GeometryError, KeyViolationError, SchemaViolationError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin, format_entry, parse_entry
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore
from havasu_vc.tables.damage import missing, reading_table_file
from havasu_vc.workspace.file_schemas import FileSchema

__all__ = ["Measured", "hash_file", "measure", "parse_measured", "recall", "stage_file"]

_FIRST_ROW = "the geometry in row 0 cannot be used: "
_FIRST_RASTER = "the raster in row 0 cannot be used: "
_FIELDS = pa.schema([("entry", pa.binary()), ("digests", pa.string())])


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a file after a look at all of its rows."""

    entry: Entry
    """Its entry."""
    digests: Mapping[int, Digest]
    """The sums of its columns, rows that are deleted again included."""


def recall(path: Path, file: FileSchema, layout: Layout, keys: Path) -> Measured | None:
    """Return what was found out about a file before, None when nothing was or it changed."""
    try:
        value = json.loads(_memory(path, file, layout, keys).read_bytes())
        entry = parse_entry(value["entry"].encode(), value["file"], str(path))
        return Measured(entry, {int(n): (a, b) for n, (a, b) in value["digests"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _memory(path: Path, file: FileSchema, layout: Layout, keys: Path) -> Path:
    """Return where it is kept what was found out about a file as it is now."""
    status = os.stat(path)
    identity = (os.fspath(path), status.st_ino, status.st_size, status.st_mtime_ns)
    text = repr((identity, file.name, layout.schema_hash, layout.partition_hash, layout.sort_hash))
    return keys / f"{hashlib.sha256(text.encode()).hexdigest()}-measured"


@kernel
def measure(
    path: str, file: FileSchema, layout: Layout, keys: str, where: str
) -> Iterator[pa.RecordBatch]:
    """Look at all rows of a file and yield one row: its entry, and the sums of its columns.

    `layout` names what the entry is to say of schema, partition and order, but for the
    file's own schema; its schema is the dataset's.
    """
    schema = file.shared(layout.schema)
    with reading_table_file(path):
        name, size = hash_file(Path(path))
        parts = _measured_rows(path, schema, where)
        with open_parquet(path) as parquet:
            metadata = parquet.metadata
            _check_required(file, layout.schema, metadata.num_rows, where)
    nans: dict[int, int] = {}
    digests = Digests()
    for part in parts:
        digests.add(part.hashed.digests)
        for number, count in part.nans.items():
            nans[number] = nans.get(number, 0) + count
    nothing = np.empty(0, np.uint64)
    cache = build_key_cache(
        np.concatenate([nothing, *(part.hashed.keys for part in parts)]),
        np.concatenate([nothing, *(part.hashed.rows for part in parts)]),
    )
    with suppress(OSError):  # it only spares work next time
        write_key_cache(key_cache_path(Path(keys), name, schema), cache)
    statistics = column_statistics(metadata, file.leaves, nans)
    entry = Entry(
        name,
        Content.DATA,
        size,
        metadata.num_rows,
        file.name,
        layout.partition_hash,
        layout.sort_hash,
        Origin.FOREIGN,
        statistics={n: known for n, known in statistics.items() if n in file.known},
        bounds=united_bounds(parts),
        splits=split_offsets(metadata),
        areas=united_areas(parts),
    )
    document = format_entry(entry)
    sums = {str(number): list(lanes) for number, lanes in digests.sums.items()}
    kept = {"file": name, "entry": document.decode(), "digests": sums}
    with suppress(OSError):
        _remember(_memory(Path(path), file, layout, Path(keys)), json.dumps(kept))
    yield pa.RecordBatch.from_arrays(
        [pa.array([document], pa.binary()), pa.array([json.dumps(kept)])], schema=_FIELDS
    )


def _remember(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".tmp-{place.name}-{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, place)


def parse_measured(batch: pa.RecordBatch) -> Measured:
    """Return what `measure` found."""
    value = json.loads(batch.column("digests")[0].as_py())
    entry = parse_entry(batch.column("entry")[0].as_py(), value["file"], value["file"])
    return Measured(entry, {int(n): (a, b) for n, (a, b) in value["digests"].items()})


def _measured_rows(path: str, schema: Schema, where: str) -> list[Measures]:
    """Measure the rows of a file batch by batch, two batches at a time."""
    parts: list[Measures] = []
    waiting: deque[tuple[pa.RecordBatch, Future[Measures]]] = deque()

    def take() -> None:
        rows, future = waiting.popleft()
        try:
            parts.append(future.result())
        except GeometryError as error:
            raise _bad_geometry(rows, schema, where, error) from error

    with ThreadPoolExecutor(2, thread_name_prefix="havasu-measure") as pool:
        for rows in read_row_groups(path, schema):
            _check_nulls(rows, schema, where)
            waiting.append((rows, pool.submit(measure_rows, rows, schema)))
            if len(waiting) > 3:
                take()
        while waiting:
            take()
    return parts


def _check_required(file: FileSchema, schema: Schema, rows: int, where: str) -> None:
    """Raise when a file lacks a column that must have values."""
    for field in schema.fields:
        if field.required and field.id not in file.known and rows:
            raise SchemaViolationError(f"{where}: rows came without the column {field.name!r}")


def _check_nulls(rows: pa.RecordBatch, schema: Schema, where: str) -> None:
    keys = set(schema.identifier_ids)
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if not field.required or not column.null_count:
            continue
        if field.id in keys:
            raise KeyViolationError(
                f"{where}: a row has no value in its key column {field.name!r}",
                hints=(f"DELETE FROM the table the rows WHERE {field.name} IS NULL",),
            )
        raise SchemaViolationError(
            f"{where}: a row has no value in the required column {field.name!r}",
            hints=(f"UPDATE the rows of the table WHERE {field.name} IS NULL",),
        )


def _bad_geometry(
    rows: pa.RecordBatch, schema: Schema, where: str, error: GeometryError
) -> GeometryError:
    """Return an error that names the row; found by halving, as it is looked for only once."""
    low, high = 0, rows.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            measure_rows(rows.slice(low, middle - low), schema)
        except GeometryError:
            high = middle
        else:
            low = middle
    names = schema.key.names or schema.names[:1]
    key = ",".join(str(rows.column(name)[low].as_py()) for name in names)
    try:
        measure_rows(rows.slice(low, 1), schema)
    except GeometryError as found:
        error = found
    kind = "raster" if error.message.startswith(_FIRST_RASTER) else "geometry"
    reason = error.message.removeprefix(_FIRST_ROW).removeprefix(_FIRST_RASTER)
    return GeometryError(
        f"{where}: the {kind} of row {key} cannot be read: {reason}",
        hints=("UPDATE or DELETE the row in the table",),
    )


def hash_file(path: Path) -> tuple[str, int]:
    """Return the sha256 and the size of a file."""
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise missing(path) from None


def stage_file(path: Path, file: str, staging: DataFileStore, *, own: bool = True) -> None:
    """Give a file of a table a second name among staged files, or copy it where that cannot be.

    One that is not the table's `own` is always copied: what is staged is made read-only.
    Its bytes are hashed again on the way, so that what is staged is what its name says.
    """
    if staging.has(file):
        return
    temporary = staging.temporary()
    try:
        if not own:
            shutil.copyfile(path, temporary)
        else:
            _linked(path, temporary)
    except FileNotFoundError:
        raise missing(path) from None
    found, _ = staging.put(temporary)
    if found != file:
        raise SchemaViolationError(
            f"{path} changed while it was read", hints=("let the engine finish, then try again",)
        )


def _linked(path: Path, temporary: Path) -> None:
    try:
        os.link(path, temporary)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, temporary)
