"""Sorting rows that do not fit in memory: sorted runs on disk, merged range by range.

`sort_run` sorts the rows of some tasks into files and reports samples of the sort
column; from the samples `cut_ranges` draws ranges of about equal size; `RunReader`
gathers one range from all runs at a time. Ranges are drawn on the first sort column,
so rows that agree in it are sorted in memory together. While one run is sorted and
written the next is read.

Rows put aside until they are needed: in memory while they are few, then in a file.
"""

from __future__ import annotations

import tempfile
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import KeyViolationError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import Floats, Ints
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import gathered
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "HILBERT",
    "LAST",
    "OrderCheck",
    "OutOfOrder",
    "RunReader",
    "SortRange",
    "Spool",
    "along_curve",
    "cut_ranges",
    "first_beyond",
    "first_from",
    "hilbert_index",
    "order_of",
    "sort_run",
    "with_hilbert",
]

RUN_BYTES = 32 * 1024 * 1024
RANGE_BYTES = 24 * 1024 * 1024
_SAMPLE = 1 << 12
_HINT = "choose other columns with --primary-key, or import without a key"
_BATCH = 1 << 16


class OutOfOrder(Exception):
    """Rows that were hoped to be in key order are not."""


class OrderCheck:
    """Watches a stream of batches for keys that are null, twice there, or out of order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.first: pa.RecordBatch | None = None
        """The first row's key."""
        self.last: pa.RecordBatch | None = None
        """The last row's key so far."""

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they are; raises `OutOfOrder` or `KeyViolationError`."""
        for batch in batches:
            if batch.num_rows:
                self._check(batch.select(self._names))
            yield batch

    def _check(self, keys: pa.RecordBatch) -> None:
        for name in self._names:
            if keys.column(name).null_count:
                raise KeyViolationError(
                    f"a row has no value in its key column {name!r}",
                    hints=("choose other columns with --primary-key",),
                )
        whole = keys if self.last is None else pa.concat_batches([self.last, keys])
        check_increasing(whole)
        if self.first is None:
            self.first = keys.slice(0, 1)
        self.last = keys.slice(keys.num_rows - 1, 1)


def check_increasing(keys: pa.RecordBatch, *, hint: str = _HINT) -> None:
    """Raise unless each key is greater than the one before; `hint` says what to do of a twin."""
    count = keys.num_rows - 1
    if count < 1:
        return
    equal = np.ones(count, bool)
    for column in keys.columns:
        before, after = column.slice(0, count), column.slice(1, count)
        if bool((equal & pc.greater(before, after).to_numpy(zero_copy_only=False)).any()):
            raise OutOfOrder
        equal &= pc.equal(before, after).to_numpy(zero_copy_only=False)
        if not equal.any():
            return
    where = int(np.flatnonzero(equal)[0])
    key = ",".join(str(column[where].as_py()) for column in keys.columns)
    raise KeyViolationError(
        f"the key {key} is there twice",
        hints=(hint,),
    )


@kernel
def sort_run(
    sources: Sequence[Task], names: tuple[str, ...], folder: str
) -> Iterator[pa.RecordBatch]:
    """Sort the rows of some tasks into runs; yield where they are and samples of them."""
    with ThreadPoolExecutor(1, thread_name_prefix="havasu-sort") as pool:
        writing: Future[pa.RecordBatch] | None = None
        for rows in _run_sized(sources):
            # One run waits to be written at a time, so that memory holds two and no more.
            if writing is not None:
                yield writing.result()
            writing = pool.submit(_write_run, rows, names, Path(folder))
            del rows
        if writing is not None:
            yield writing.result()


def _run_sized(sources: Sequence[Task]) -> Iterator[list[pa.RecordBatch]]:
    """Return the rows of some tasks by as many as are sorted at once."""
    batches = chain.from_iterable(map(run_task, sources))
    return gathered(batches, RUN_BYTES, lambda batch: batch.nbytes)


def _write_run(
    waiting: list[pa.RecordBatch], names: tuple[str, ...], folder: Path
) -> pa.RecordBatch:
    table = pa.Table.from_batches(waiting)
    waiting.clear()
    table = pc.take(table, order_of(table, names))
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"run-{uuid.uuid4().hex}.arrows"
    temporary = final.with_suffix(".tmp")
    # A writer does not close what it opened itself, and nobody renames an open file on Windows.
    with (
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=_BATCH)
    temporary.replace(final)
    sample = pc.take(table.column(names[0]), arrow_array(np.arange(0, table.num_rows, _SAMPLE)))
    sample = sample.combine_chunks()
    count = len(sample)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(str(final), count),
            pa.repeat(table.num_rows, count),
            pa.repeat(table.nbytes, count),
            sample,
        ],
        ["path", "rows", "bytes", "sample"],
    )


@dataclass(frozen=True, slots=True)
class SortRange:
    """Values of the first sort column from `low` on and below `high`."""

    low: Any | None
    """The least, None for no limit."""
    high: Any | None
    """The first beyond, None for no limit."""


def cut_ranges(reports: Sequence[pa.RecordBatch]) -> tuple[tuple[str, ...], tuple[SortRange, ...]]:
    """Return the runs that `sort_run` reported, and ranges that each fit in memory."""
    runs: dict[str, tuple[int, int]] = {}
    for report in reports:
        runs[report.column("path")[0].as_py()] = (
            report.column("rows")[0].as_py(),
            report.column("bytes")[0].as_py(),
        )
    samples = pa.concat_arrays([report.column("sample") for report in reports])
    samples = pc.take(samples, pc.sort_indices(samples))
    rows = sum(count for count, _ in runs.values())
    size = sum(count for _, count in runs.values())
    wanted = max(rows * RANGE_BYTES // max(size, 1), 1)
    step = max(wanted // _SAMPLE, 1)
    cuts: list[Any] = []
    for index in range(step, len(samples), step):
        value = samples[index].as_py()
        if not cuts or value != cuts[-1]:
            cuts.append(value)
    edges = [None, *cuts, None]
    ranges = tuple(SortRange(low, high) for low, high in pairwise(edges))
    return tuple(sorted(runs)), ranges


class RunReader:
    """Reads ranges from sorted runs, in order.

    A run is mapped only while a range is gathered from it: pages that stay mapped count as
    memory of the process, and in the end that would be the whole table.
    """

    def __init__(self, runs: Sequence[str], names: tuple[str, ...]) -> None:
        self._runs = [(run, _edges(run, names[0])) for run in runs]
        self._names = names

    def rows(self, range_: SortRange) -> pa.RecordBatch | None:
        """Return the rows of one range, sorted; None when there are none."""
        pieces: list[pa.RecordBatch] = []
        for run, edges in self._runs:
            pieces += self._pieces(run, edges, range_)
        if not pieces:
            return None
        table = pa.Table.from_batches(pieces)
        ordered = pc.take(table, order_of(table, self._names)).combine_chunks()
        return ordered.to_batches()[0]

    def _pieces(
        self, run: str, edges: Sequence[tuple[Any, Any]], range_: SortRange
    ) -> Iterator[pa.RecordBatch]:
        low, high = range_.low, range_.high
        wanted = [
            index
            for index, (first, last) in enumerate(edges)
            if (high is None or first < high) and (low is None or last >= low)
        ]
        if not wanted:
            return
        # What is yielded keeps the map open for as long as it lives itself.
        with pa.memory_map(run) as file:
            reader = pa.ipc.open_file(file)
            for index in wanted:
                batch = reader.get_batch(index)
                column = batch.column(self._names[0])
                start = 0 if low is None else first_from(column, low)
                end = len(column) if high is None else first_from(column, high)
                if end > start:
                    yield batch.slice(start, end - start)


def first_from(column: pa.Array, value: Any) -> int:
    """Return where values that are not below `value` begin, in a column in order."""
    return bisect_left(range(len(column)), value, key=lambda index: column[index].as_py())


def first_beyond(column: pa.Array, value: Any) -> int:
    """Return where values above `value` begin, in a column in order."""
    return bisect_right(range(len(column)), value, key=lambda index: column[index].as_py())


def order_of(table: pa.Table, names: tuple[str, ...]) -> Any:
    """Return the places of rows in order of some columns."""
    keys = [(name, "ascending") for name in names]
    first = table.column(names[0])
    if not pa.types.is_integer(first.type) or first.null_count:
        return pc.sort_indices(table, sort_keys=keys)
    numbers = first.to_numpy()
    # Rows of sorted runs one after another: a stable sort finds the runs and merges them.
    order = np.argsort(numbers, kind="stable")
    if len(names) > 1:
        placed = numbers[order]
        alike = np.zeros(len(order) + 1, bool)
        alike[1:-1] = placed[1:] == placed[:-1]
        spots = np.flatnonzero(alike[1:] | alike[:-1])
        rows = order[spots]
        some = pc.take(table.select(list(names)), pa.array(rows))
        order[spots] = rows[pc.sort_indices(some, sort_keys=keys).to_numpy()]
    return arrow_array(order)


def _edges(run: str, name: str) -> list[tuple[Any, Any]]:
    """Return the first and the last value of a column in each batch of a run."""
    with pa.memory_map(run) as file:
        reader = pa.ipc.open_file(file)
        columns = (reader.get_batch(n).column(name) for n in range(reader.num_record_batches))
        return [(column[0].as_py(), column[-1].as_py()) for column in columns]


MOST_BYTES = 64 * 1024 * 1024


class Spool:
    """Batches of one schema, kept in order. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self.rows = 0
        """Rows put aside so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    @property
    def spilled(self) -> bool:
        """Whether there are too many to keep in memory."""
        return self._path is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Put a batch aside."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._bytes > MOST_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=self._folder, prefix="spool-", suffix=".arrows", delete=False
            ) as file:
                self._path = Path(file.name)
            self._writer = pa.ipc.new_file(str(self._path), self._waiting[0].schema)
        for batch in self._waiting:
            self._writer.write_batch(batch)
        self._waiting, self._bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what was put aside; nothing may be added after."""
        if self._writer is not None:
            self._spill()
            self._writer.close()
            self._writer = None
        if self._path is not None:
            # Not mapped: pages that are read would count as memory of the process.
            with pa.OSFile(str(self._path)) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)
        yield from self._waiting


# Where rows lie along a Hilbert curve: rows that are near each other get near numbers.


HILBERT = "_hilbert"
"""The name of the column that holds a row's place."""


def along_curve(tasks: Iterable[Task], schema: Schema, name: str, extent: Bounds) -> list[Task]:
    """Return tasks whose rows have their place along the curve of a column of geometries."""
    return [task_of(with_hilbert, task, schema, name, extent) for task in tasks]


@kernel
def with_hilbert(task: Task, schema: Schema, name: str, extent: Bounds) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with their place along a Hilbert curve in a last column."""
    geometry = schema.by_name[name].geometry
    if geometry is None:
        raise ValueError(f"{name!r} is no geometry column")
    for batch in run_task(task):
        corners = row_bounds(batch.column(name), geometry.encoding)
        xs, ys = (corners[:, 0] + corners[:, 2]) / 2, (corners[:, 1] + corners[:, 3]) / 2
        places = hilbert_index(xs, ys, extent)
        yield batch.append_column(HILBERT, pa.array(places))


# Positions along a Hilbert curve, for rows that lie together to be stored together.
#
# The plane's bounds are cut into 2^order by 2^order cells and the curve visits each
# once, neighbours after neighbours. Four bits of x and y are looked up at a time in
# a table that is made once.

LAST: Final = np.uint64(2**64 - 1)
"""The index of what is nowhere: it sorts behind all else."""

# Per orientation of the curve, for the quadrants (x, y) = (0,0) (0,1) (1,0) (1,1):
# when the quadrant is visited, and how the curve lies in it.
_VISITED: Final = ((0, 1, 3, 2), (0, 3, 1, 2), (2, 1, 3, 0), (2, 3, 1, 0))
_INSIDE: Final = ((1, 0, 2, 0), (0, 3, 1, 1), (2, 2, 0, 3), (3, 1, 3, 2))
_STEP: Final = 4


def hilbert_index(
    xs: Floats, ys: Floats, bounds: Bounds, order: Literal[16, 32] = 16
) -> npt.NDArray[np.uint64]:
    """Return where each point lies along the curve through `bounds`.

    Points outside count as on the edge, points with NaN as `LAST`.
    """
    nowhere = np.isnan(xs) | np.isnan(ys)
    x = _cells(xs, bounds.xmin, bounds.xmax, order, nowhere)
    y = _cells(ys, bounds.ymin, bounds.ymax, order, nowhere)
    visited, inside = _tables()
    orientation = np.zeros(len(x), np.uint64)
    index = np.zeros(len(x), np.uint64)
    mask = np.uint64(2**_STEP - 1)
    for shift in range(order - _STEP, -1, -_STEP):
        cell = (orientation << np.uint64(2 * _STEP)) | (
            (x >> np.uint64(shift) & mask) << np.uint64(_STEP)
        )
        cell |= y >> np.uint64(shift) & mask
        index = (index << np.uint64(2 * _STEP)) | visited[cell]
        orientation = inside[cell]
    index[nowhere] = LAST
    return index


def _cells(
    values: Floats, least: float, most: float, order: int, nowhere: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint64]:
    extent = most - least
    if not extent > 0 or not np.isfinite(extent):
        return np.zeros(len(values), np.uint64)
    scaled = np.where(nowhere, 0.0, (values - least) / extent)
    cells: Floats = np.floor(np.clip(scaled, 0.0, 1.0) * 2.0**order)
    return np.minimum(cells, 2.0**order - 1).astype(np.uint64)


@cache
def _tables() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return for orientation, x and y of `_STEP` bits: the index, and the next orientation."""
    size = 2**_STEP
    start, x, y = np.meshgrid(np.arange(4), np.arange(size), np.arange(size), indexing="ij")
    visited, inside = np.array(_VISITED), np.array(_INSIDE)
    orientation: Ints = start.copy()
    index: Ints = np.zeros_like(start)
    for bit in range(_STEP - 1, -1, -1):
        quadrant = 2 * (x >> bit & 1) + (y >> bit & 1)
        index = 4 * index + visited[orientation, quadrant]
        orientation = inside[orientation, quadrant]
    return index.ravel().astype(np.uint64), orientation.ravel().astype(np.uint64)
