"""Rows dealt out to who owns their keys, and what an owner takes in again in key order.

Keys are cut into intervals by the first key column, so that rows which agree in it stay
together. Whoever reads rows deals them out: some are collected, sorted by key, and each
interval's share is a *piece*, an Arrow stream in a few bytes that any engine can move. An
owner has a number of pieces, each in key order, and walks through them side by side.

Where to cut keys that are not known yet: a few of them stand for all.

A task keeps every so-many-th row of a column, more rarely the more rows it has, so that any
source gives a bounded number, and the same one gives the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.sorting import first_from, order_of
from havasu_vc.errors import KeyViolationError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import gathered
from havasu_vc.model.task import RunsEach, Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "DEALT",
    "Cuts",
    "SortedPieces",
    "cuts_between",
    "cuts_by_sample",
    "deal",
    "dealt",
    "piece_of",
    "repeated_keys",
    "sample",
]

DEALT = pa.schema([("part", pa.int32()), ("num_rows", pa.int64()), ("piece", pa.binary())])
"""The yield of dealing: for which interval, how many rows, and the rows."""
FLUSH_BYTES = 32 << 20
"""Rows that are collected before they are dealt out, so that pieces do not get tiny."""
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where keys are cut into intervals."""

    names: tuple[str, ...]
    """The key columns."""
    values: tuple[Any, ...]
    """Where each interval but the first begins, ascending, by the first key column."""

    def span(self, low: Any | None, high: Any | None) -> tuple[int, int]:
        """Return the first and the last interval that hold keys between two; None is unknown."""
        first = 0 if low is None else bisect_right(self.values, low)
        return first, len(self.values) if high is None else bisect_right(self.values, high)


@kernel
def deal(task: Task, cuts: Cuts) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as pieces, one a batch."""
    yield from dealt(run_task(task), cuts)


def dealt(batches: Iterable[pa.RecordBatch], cuts: Cuts) -> Iterator[pa.RecordBatch]:
    """Yield rows as pieces, one a batch; raises if one has a null in its key."""
    rows = _with_keys(batches, cuts.names)
    for waiting in gathered(rows, FLUSH_BYTES, lambda batch: batch.nbytes):
        yield from _pieces(waiting, cuts)
        del waiting  # or it stays while as many more come


def _with_keys(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches that have rows; raises if one has a null in its key."""
    for batch in batches:
        if batch.num_rows:
            _check_keys(batch, names)
            yield batch


def _check_keys(batch: pa.RecordBatch, names: Sequence[str]) -> None:
    for name in names:
        if batch.column(name).null_count:
            raise KeyViolationError(
                f"a row has no value in its key column {name!r}",
                hints=("choose other columns with --primary-key",),
            )


def _pieces(waiting: list[pa.RecordBatch], cuts: Cuts) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(waiting)
    table = _in_order(table, cuts.names)
    column = table.column(cuts.names[0]).combine_chunks()
    edges = [0, *(first_from(column, value) for value in cuts.values), table.num_rows]
    for part, (start, end) in enumerate(pairwise(edges)):
        if end > start:
            yield piece_of(table.slice(start, end - start), part)


def piece_of(
    rows: pa.Table, part: int, options: pa.ipc.IpcWriteOptions | None = None
) -> pa.RecordBatch:
    """Return rows as a piece for one part."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=BATCH_ROWS)
    columns = ([part], [rows.num_rows], [sink.getvalue().to_pybytes()])
    return pa.RecordBatch.from_arrays(
        [pa.array(each, type_) for each, type_ in zip(columns, DEALT.types, strict=True)],
        schema=DEALT,
    )


def _in_order(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """Return rows in order of some columns, not copied where they are."""
    order = order_of(table, names).to_numpy()
    return table if bool((order[1:] > order[:-1]).all()) else pc.take(table, arrow_array(order))


class SortedPieces:
    """Streams of rows, each in key order, walked through side by side.

    Of each stream a share is in memory at a time.
    """

    def __init__(self, streams: Iterable[Iterator[pa.RecordBatch]], names: Sequence[str]) -> None:
        self._heads = [_Head(stream, names[0]) for stream in streams]
        self._names = tuple(names)
        self._share = max((1 << 19) // max(len(self._heads), 1), 1)
        self.num_rows = 0
        """Rows that were taken so far."""

    def below(self, limit: Any | None) -> Iterator[tuple[Any | None, pa.RecordBatch | None]]:
        """Yield the rows below a limit, sorted, in steps: each with where it ends.

        The last step ends at the limit, and may have no rows. None is no limit.
        """
        while True:
            bound, last = limit, True
            for head in self._heads:
                greatest = head.fill(self._share)
                if greatest is not None and (bound is None or greatest < bound):
                    bound, last = greatest, False
            pieces = [piece for head in self._heads for piece in head.take(bound)]
            rows = self._sorted(pieces)
            if rows is None and not last:
                # All that is in memory of a stream is one value, and there is more of it.
                self._share *= 2
                continue
            yield bound, rows
            if last:
                return

    def _sorted(self, pieces: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        if not pieces:
            return None
        table = pa.Table.from_batches(pieces)
        if len(pieces) > 1:
            table = _in_order(table, self._names)
        self.num_rows += table.num_rows
        (batch,) = table.combine_chunks().to_batches()
        return batch


class _Head:
    """The part of one stream that is in memory."""

    def __init__(self, stream: Iterator[pa.RecordBatch], name: str) -> None:
        self._stream = stream
        self._name = name
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._done = False

    def fill(self, wanted: int) -> Any | None:
        """Have so many rows in memory; return the key of the last, None if no others follow."""
        while self._rows < wanted and not self._done:
            batch = next(self._stream, None)
            if batch is None:
                self._done = True
            elif batch.num_rows:
                self._batches.append(batch)
                self._rows += batch.num_rows
        return None if self._done else self._batches[-1].column(self._name)[-1].as_py()

    def take(self, bound: Any | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in memory that are below a bound, and let go of them."""
        firsts = [batch.column(self._name)[0].as_py() for batch in self._batches]
        whole = len(firsts) if bound is None else bisect_right(firsts, bound)
        rest: list[pa.RecordBatch] = []
        for batch in self._batches[:whole]:
            end = len(batch) if bound is None else first_from(batch.column(self._name), bound)
            if end:
                self._rows -= end
                yield batch.slice(0, end)
            if end < len(batch):
                rest.append(batch.slice(end))
        self._batches = rest + self._batches[whole:]


MOST = 2048
"""How many values stand for a task's."""


@kernel
def sample(pieces: tuple[()], task: Task, name: str) -> Iterator[pa.RecordBatch]:
    """Yield some values of a column of a task's rows, each with how many rows it stands for.

    It is run as an owner is, to whom nothing was dealt.
    """
    kept: list[pa.Array] = []
    step, seen = 1, 0
    for batch in run_task(task):
        column = batch.column(name)
        chosen = np.arange((-seen) % step, len(column), step)
        seen += len(column)
        kept.append(pc.take(column, arrow_array(chosen)))
        while sum(map(len, kept)) > MOST:
            values = pa.concat_arrays(kept)
            kept = [pc.take(values, arrow_array(np.arange(0, len(values), 2)))]
            step *= 2
    if kept:
        values = pa.concat_arrays(kept)
        weights = np.full(len(values), step, np.int64)
        yield pa.RecordBatch.from_arrays([values, arrow_array(weights)], ["value", "rows"])


def cuts_between(samples: Iterable[pa.RecordBatch], parts: int) -> Sequence[Any]:
    """Return values that cut what samples stand for into so many parts of about as many rows."""
    batches = [batch for batch in samples if batch.num_rows]
    if not batches or parts < 2:
        return ()
    table = pc.drop_null(pa.Table.from_batches(batches))
    table = pc.take(table, pc.sort_indices(table, sort_keys=[("value", "ascending")]))
    ends = np.cumsum(table.column("rows").to_numpy())
    if not len(ends):
        return ()
    wanted = ends[-1] * np.arange(1, parts) // parts
    values = pc.take(table.column("value"), arrow_array(np.searchsorted(ends, wanted, "right")))
    first = table.column("value")[0].as_py()
    return tuple(v for v in dict.fromkeys(values.to_pylist()) if v is not None and v > first)


def cuts_by_sample(
    engine: RunsEach,
    keys: Sequence[Task],
    names: tuple[str, ...],
    parts: int,
    *,
    anywhere: bool = True,
) -> Cuts:
    """Return where to cut keys that some tasks yield into so many intervals of about as many."""
    sampling = [task_of(sample, (), task, names[0]) for task in keys]
    found = engine.run_dealt([], sampling, description="Looking for keys", anywhere=anywhere)
    return Cuts(names, tuple(cuts_between(found, parts)))


def repeated_keys(
    engine: RunsEach, keys: Sequence[Task], names: tuple[str, ...], rows: int | None, most: int
) -> Iterator[pa.RecordBatch]:
    """Yield keys that stand more than once in what some tasks yield, with a column `times`.

    Rows that lack a part of their key are no matter. Of each interval at most so many are named.
    """
    keys = [task_of(whole_keys, task, names) for task in keys]
    parts = max((rows or 0) // _ROWS_A_PART, len(keys) if rows is None else 1, 1)
    cuts = cuts_by_sample(engine, keys, names, parts)
    owners = [task_of(own_repeated, (), names, most) for _ in range(len(cuts.values) + 1)]
    dealing = [task_of(deal, task, cuts) for task in keys]
    yield from engine.run_dealt(dealing, owners, description="Comparing keys")


_ROWS_A_PART = 1 << 20


@kernel
def whole_keys(task: Task, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the key columns of a task's rows, where none of them is null."""
    for batch in run_task(task):
        yield batch.select(list(names)).drop_null()


@kernel
def own_repeated(
    pieces: tuple[tuple[int, Task], ...], names: tuple[str, ...], most: int
) -> Iterator[pa.RecordBatch]:
    """Yield keys that were dealt more than once, each with how often, at most so many."""
    given = SortedPieces([run_task(task) for _, task in pieces], names)
    for _, batch in given.below(None):
        if batch is None or not most:
            continue
        counted = (
            pa.Table.from_batches([batch]).group_by(list(names)).aggregate([([], "count_all")])
        )
        twice = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, most)
        for each in twice.rename_columns([*names, "times"]).combine_chunks().to_batches():
            most -= each.num_rows
            yield each
