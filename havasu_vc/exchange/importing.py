"""Taking in a table: the rows of source tasks become data files, sorted and unique by key.

Rows that already come in key order are written as they come, in one pass. If they turn
out not to, or are to lie along a Hilbert curve, they are sorted on disk first, in runs
and ranges that fit in memory. Nothing is part of the repository until a commit says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.build import Report, parse_report, write, write_ranges
from havasu_vc.datasets.havasu.keys import key_cache_path, open_key_cache
from havasu_vc.datasets.havasu.parquet import read_rows
from havasu_vc.datasets.havasu.partitioning import (
    PLACE,
    RowPartitions,
    numbered,
    partitions,
    with_places,
    write_places,
)
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files
from havasu_vc.datasets.protocol import NewTable, NewTableInFiles, TreeEdit
from havasu_vc.datasets.sorting import (
    HILBERT,
    OutOfOrder,
    SortRange,
    along_curve,
    check_increasing,
    cut_ranges,
    sort_run,
)
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import InvalidArgumentError, KeyViolationError
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "Curve",
    "chunks_of",
    "extent_of",
    "partitions_of",
    "rows_placed",
    "write_new",
    "write_partitioned",
    "write_table",
]

CHUNK_BYTES = 128 * 1024 * 1024
"""About as much input as makes a file or two."""
SOURCES_A_TASK = 4
RANGES_A_TASK = 24
MOST_PARTITIONS = 10_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Curve:
    """A Hilbert curve that rows are to lie along."""

    column: str
    """The geometry column."""
    geometries: tuple[Task, ...] = ()
    """Tasks that yield that column of all rows, where it can be read without the others."""


def write_table(
    tasks: Sequence[Task],
    new: NewTableInFiles,
    storage: Storage,
    engine: Engine,
    *,
    input_bytes: int,
    curve: Curve | None = None,
) -> list[WrittenFile]:
    """Write the rows of tasks to staged files, in key order or along a curve."""
    key = new.schema.key.names
    if curve is None:
        chunks = chunks_of(tasks, input_bytes)
        where = (str(storage.staging.root), str(storage.keys))
        writing = [task_of(write, chunk, new.layout, *where, bool(key)) for chunk in chunks]
        written = engine.run(writing, description="Importing", brief=True)
        reports = [parse_report(batch) for batch in written]
        if not key or _in_order(reports):
            files = [file for report in reports for file in report.files]
            return distinct_files(files, new.layout, storage.staging, storage.keys)
        return _sorted(tasks, key, new, storage, engine)
    extent = extent_of(tasks, curve, new.schema, engine)
    placed = along_curve(tasks, new.schema, curve.column, extent)
    files = _sorted(placed, (HILBERT, *key), new, storage, engine)
    if key and files:
        _check_unique(files, new.schema, storage)
    return files


def write_new(
    new: NewTable,
    tasks: Sequence[Task],
    storage: Storage,
    engine: Engine,
    *,
    input_bytes: int,
    curve: Curve | None = None,
) -> TreeEdit:
    """Return the edit that makes a new dataset of the rows of tasks, written as its kind has them.

    Tasks whose rows are written here run one by one, none read ahead: writing objects takes
    longer than reading.
    """
    files = new.files
    if files is None:
        for task in tasks:
            new.write(engine.run([task]))
        return new.finish()
    return files.edit(
        write_table(tasks, files, storage, engine, input_bytes=input_bytes, curve=curve)
    )


def write_partitioned(
    tasks: Sequence[Task],
    new: NewTableInFiles,
    spec: PartitionSpec,
    storage: Storage,
    engine: Engine,
    *,
    curve: Curve | None = None,
) -> list[WrittenFile]:
    """Write the rows of tasks to staged files by a partition spec, none for two partitions.

    Within a partition rows lie along the curve, or as they come.
    """
    schema = new.schema
    along = None if curve is None else (curve.column, extent_of(tasks, curve, schema, engine))
    places = partitions_of(tasks, schema, spec, engine, along=along)
    if places is None:
        return []
    placed = rows_placed(tasks, places)
    names = (PLACE, *new.schema.key.names)
    with _sorted_runs(placed, names, storage, engine) as (runs, ranges):
        where = (str(storage.staging.root), str(storage.keys))
        writing = [
            task_of(write_places, runs, part, names, new.layout, places, where)
            for part in _halved(ranges, RANGES_A_TASK)
        ]
        batches = engine.run(writing, description="Writing", brief=True)
        files = [file for batch in batches for file in parse_report(batch).files]
    return distinct_files(files, new.layout, storage.staging, storage.keys)


def partitions_of(
    tasks: Sequence[Task],
    schema: Schema,
    spec: PartitionSpec,
    engine: Engine,
    *,
    along: tuple[str, Bounds] | None,
    anywhere: bool = False,
) -> RowPartitions | None:
    """Return which partitions the rows of tasks lie in; None where there are no rows.

    In each they are to lie `along` the curve of a column and its extent.
    """
    finding = [task_of(partitions, task, schema, spec) for task in tasks]
    what = "Looking for partitions"
    values = numbered(engine.run(finding, description=what, anywhere=anywhere, brief=True))
    if values is None:
        return None
    if values.num_rows > MOST_PARTITIONS:
        raise InvalidArgumentError(
            f"the rows lie in {values.num_rows:,} partitions, and {MOST_PARTITIONS:,} are the most",
            hints=("choose transforms that give fewer, such as bucket(16, …) or months(…)",),
        )
    return RowPartitions(schema, spec, values, *(along or (None, None)))


def rows_placed(tasks: Sequence[Task], places: RowPartitions) -> list[Task]:
    """Return tasks whose rows have their places among partitions."""
    return [task_of(with_places, task, number, places) for number, task in enumerate(tasks)]


def chunks_of(tasks: Sequence[Task], input_bytes: int) -> list[list[Task]]:
    """Return the tasks in a few runs, by size alone: the same input gives the same files.

    Their number is even, as the number of those who work on them mostly is.
    """
    count = max(min(2 * max(-(-input_bytes // (2 * CHUNK_BYTES)), 1), len(tasks)), 1)
    cuts = [round(i * len(tasks) / count) for i in range(count + 1)]
    return [list(tasks[a:b]) for a, b in pairwise(cuts) if b > a]


def _halved(items: Sequence[_T], most: int) -> list[list[_T]]:
    """Return items in parts of at most so many, in two at least: the same on every machine."""
    size = max(min(most, -(-len(items) // 2)), 1)
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _in_order(reports: Sequence[Report]) -> bool:
    """Whether each chunk is in key order and begins after the one before."""
    if not all(report.in_order for report in reports):
        return False
    edges = [report.edges for report in reports if report.edges is not None]
    if len(edges) < 2:
        return True
    # One row alone is both first and last; it stands once.
    rows = [
        edge.slice(0, 1) if edge.slice(0, 1).equals(edge.slice(1, 1)) else edge for edge in edges
    ]
    try:
        check_increasing(pa.concat_batches(rows))
    except OutOfOrder:
        return False
    return True


def _sorted(
    tasks: Sequence[Task],
    names: tuple[str, ...],
    new: NewTableInFiles,
    storage: Storage,
    engine: Engine,
) -> list[WrittenFile]:
    key = new.schema.key.names
    checked = [task_of(without_null_keys, task, key) for task in tasks]
    with _sorted_runs(checked, names, storage, engine) as (runs, ranges):
        where = (str(storage.staging.root), str(storage.keys))
        writing = [
            task_of(write_ranges, runs, part, names, new.layout, *where)
            for part in _halved(ranges, RANGES_A_TASK)
        ]
        batches = engine.run(writing, description="Writing", brief=True)
        files = [file for batch in batches for file in parse_report(batch).files]
        return distinct_files(files, new.layout, storage.staging, storage.keys)


@contextmanager
def _sorted_runs(
    tasks: Sequence[Task], names: tuple[str, ...], storage: Storage, engine: Engine
) -> Iterator[tuple[tuple[str, ...], tuple[SortRange, ...]]]:
    """Yield the rows of tasks as sorted runs, and ranges of them; they go with the block."""
    folder = storage.staging.scratch / f"runs-{uuid.uuid4().hex}"
    try:
        sorting = [
            task_of(sort_run, part, names, str(folder)) for part in _halved(tasks, SOURCES_A_TASK)
        ]
        reports = [r for r in engine.run(sorting, description="Sorting", brief=True) if r.num_rows]
        yield cut_ranges(reports) if reports else ((), ())
    finally:
        for path in folder.glob("*") if folder.exists() else ():
            path.unlink(missing_ok=True)
        if folder.exists():
            folder.rmdir()


@kernel
def without_null_keys(task: Task, key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task; raises if one has a null in its key."""
    for batch in run_task(task):
        for name in key:
            if batch.column(name).null_count:
                raise KeyViolationError(
                    f"a row has no value in its key column {name!r}",
                    hints=("choose other columns with --primary-key",),
                )
        yield batch


@kernel
def bounds(task: Task, name: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield one row: the bounds of a geometry column over the rows of a task."""
    geometry = schema.by_name[name].geometry
    if geometry is None:
        raise ValueError(f"{name!r} is no geometry column")
    found = Bounds.of(bounds_of(batch.column(name), geometry.encoding) for batch in run_task(task))
    corners = [] if found is None else [found.xmin, found.ymin, found.xmax, found.ymax]
    yield pa.RecordBatch.from_arrays([pa.array([corners], pa.list_(pa.float64()))], ["corners"])


def extent_of(
    tasks: Sequence[Task],
    curve: Curve,
    schema: Schema,
    engine: Engine,
    *,
    anywhere: bool = False,
) -> Bounds:
    """Return the bounds of what is to lie along a curve."""
    found: Bounds | None = None
    reading = curve.geometries or tasks
    measuring = [task_of(bounds, task, curve.column, schema) for task in reading]
    for batch in engine.run(measuring, description="Measuring", anywhere=anywhere, brief=True):
        corners = batch.column(0)[0].as_py()
        if corners:
            part = Bounds(*corners)
            found = part if found is None else found.union(part)
    return found if found is not None else Bounds(0, 0, 0, 0)


def _check_unique(files: Sequence[WrittenFile], schema: Schema, storage: Storage) -> None:
    """Raise if a key stands twice in files that are not in key order.

    Key caches hold the hashes of keys in order, so equal ones are found interval by
    interval; only where hashes agree are rows read.
    """
    caches = [
        (file.entry.file, open_key_cache(key_cache_path(storage.keys, file.entry.file, schema)))
        for file in files
    ]
    parts = max(sum(file.entry.rows for file in files) >> 20, 1)
    edges = [int(i * (1 << 64) / parts) for i in range(parts)] + [(1 << 64) - 1]
    for low, high in pairwise(edges):
        side: Literal["left", "right"] = "right" if high == edges[-1] else "left"
        found = []
        for index, (_, cache) in enumerate(caches):
            if cache is None:
                raise ValueError("a file was written without its key cache")
            start = int(np.searchsorted(cache.keys, np.uint64(low), "left"))
            end = int(np.searchsorted(cache.keys, np.uint64(high), side))
            found.append((index, cache.keys[start:end], cache.positions[start:end]))
        keys = np.concatenate([part for _, part, _ in found])
        order = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if len(twice):
            which = np.concatenate([np.full(len(part), index) for index, part, _ in found])
            where = np.concatenate([positions for _, _, positions in found])
            for at in twice:
                pair = order[at : at + 2]
                _refuse_equal(
                    [(caches[int(which[i])][0], int(where[i])) for i in pair], schema, storage
                )


def _refuse_equal(places: list[tuple[str, int]], schema: Schema, storage: Storage) -> None:
    keys = schema.select(schema.key.names)
    rows = [
        read_rows(str(storage.path(file)), keys, np.array([position])) for file, position in places
    ]
    if rows[0].equals(rows[1]):
        key = ",".join(str(column[0].as_py()) for column in rows[0].columns)
        raise KeyViolationError(
            f"the key {key} is there twice",
            hints=("choose other columns with --primary-key, or import without a key",),
        )
