"""Matching on Spark: rows of two sides joined by hashes, and only those that differ fetched.

    hashes       tasks tell them of every row of either side
    places       Spark's sort-merge join, which spills, keeps where rows are that differ
    fetched      owners of files read these rows and deal them out by key
    changes      owners of intervals of keys pair them
    the driver   takes one interval after the other, so that changes come in key order

Neither the table nor what differs is ever in one process. Where rows are is kept on the
disks of executors meanwhile, as it is needed twice: for the cuts between intervals, which are
drawn from samples of the keys that differ, and for fetching.
"""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.dealing import DEALT
from havasu_vc.datasets.matching import HASHES, PLACES
from havasu_vc.engine.protocol import Batches, checked_batches
from havasu_vc.engine.session import given_up
from havasu_vc.engine.spark_dealing import (
    ERROR,
    OUTCOME,
    NumberedTasks,
    by_part,
    check_told,
    collected,
    large_rows,
    owned_frame,
    parse_outcome,
    pieces_frame,
    task_frame,
)
from havasu_vc.engine.worker import parse_error, pickled_error
from havasu_vc.errors import HavasuError
from havasu_vc.model.arrow import gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from havasu_vc.datasets.matching import Comparison

__all__ = ["Matched", "changes_in", "matched"]

_HASHES = "key bigint, row bigint, source int, pos bigint, sample binary"
_FLUSH_ROWS = 1 << 20
"""Places that are collected before they are dealt out."""
_JOINED_ROWS = 1 << 19
"""About how many rows of both sides are joined by one task: 20 MB of hashes and places."""
_WAITING = 4
"""Batches that wait for the consumer, besides those of the interval after."""
_POLL_SECONDS = 0.1
_FAILED = -1
"""The source of a row that is an error."""


def matched(session: SparkSession, comparison: Comparison) -> Batches:
    """Yield the changes between two sides, in key order."""
    with Matched(session, comparison) as found:
        if found.changes is not None:
            yield from _streamed(found.changes, found.owners)


class Matched:
    """The rows that differ between two sides, as far as an executor keeps where it is.

    Use it as a context manager, or call `close` when the changes are no longer needed.
    """

    def __init__(self, session: SparkSession, comparison: Comparison) -> None:
        from pyspark import StorageLevel

        self._places = _places(session, comparison).persist(StorageLevel.DISK_ONLY)
        self.changes: DataFrame | None = None
        """Rows of `spark_dealing.PIECES`: batches of changes, counts and errors."""
        self.owners: list[int] = []
        """How many owners took part in each shuffle."""
        try:
            self._plan(comparison)
        except BaseException:
            self.close()
            raise

    def _plan(self, comparison: Comparison) -> None:
        from pyspark.sql import functions as F

        told = collected(self._places.where("sample IS NOT NULL").select("source", "sample"))
        for row in told:
            if row.source == _FAILED:
                raise parse_error(row.sample)
        ((count,),) = collected(self._places.agg(F.count("*")))
        if not count:
            return
        cuts = comparison.cuts([bytes(row.sample) for row in told], count)
        groups, fetching = comparison.fetching(cuts)
        pairing = comparison.pairing(cuts)
        self.owners = [len(fetching), len(pairing)]
        dealing = partial(_dealt_places, groups=np.array(groups, np.int32))
        places = pieces_frame(self._places.select("source", "pos"), dealing, len(fetching))
        fetched = owned_frame(places, fetching, deals_to=len(pairing))
        self.changes = owned_frame(fetched, pairing, hop=1)

    def close(self) -> None:
        """Forget where rows are."""
        with suppress(Exception):
            self._places.unpersist()

    def __enter__(self) -> Matched:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _places(session: SparkSession, comparison: Comparison) -> DataFrame:
    """Return where rows are that differ, with a sample of their keys."""
    old, new = (
        task_frame(session, comparison.hashing(is_new), _told_hashes, _HASHES)
        for is_new in (False, True)
    )
    # By size: Spark's own 200 parts are as many tasks in each step after it, however small.
    rows = sum(each.count for each in (*comparison.old, *comparison.new))
    join = _by_key if comparison.keyed else _by_row
    return join(old, new, rows // _JOINED_ROWS + 1).select("source", "pos", "sample")


def _by_key(old: DataFrame, new: DataFrame, parts: int) -> DataFrame:
    from pyspark.sql import functions as F

    names = ("row", "source", "pos", "sample")
    befores = old.toDF("key", *(f"old_{name}" for name in names)).repartition(parts, "key")
    afters = new.toDF("key", *(f"new_{name}" for name in names)).repartition(parts, "key")
    joined = befores.hint("merge").join(afters, "key", "full_outer")
    differ = joined.where("old_row IS NULL OR new_row IS NULL OR old_row <> new_row")
    sides = [
        F.struct(*(F.col(f"{side}_{name}").alias(name) for name in names[1:]))
        for side in ("old", "new")
    ]
    either = differ.select(F.explode(F.array(*sides)).alias("place")).select("place.*")
    return either.where("source IS NOT NULL")


def _by_row(old: DataFrame, new: DataFrame, parts: int) -> DataFrame:
    """Return the places of rows of which one side has more; errors have no key and stay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    every = old.withColumn("side", F.lit(0)).union(new.withColumn("side", F.lit(1)))
    alike = Window.partitionBy("key", "row", "side").orderBy("source", "pos")
    numbered = every.repartition(parts, "key").withColumn("number", F.row_number().over(alike))
    found = numbered.groupBy("key", "row", "number").agg(
        F.count("*").alias("sides"),
        F.first(F.struct("source", "pos", "sample")).alias("place"),
    )
    return found.where("sides = 1 OR key IS NULL").select("place.*")


def _told_hashes(tasks: NumberedTasks) -> Iterator[pa.RecordBatch]:
    try:
        for _, task in tasks:
            yield from checked_batches(task)
    except HavasuError as error:
        row = {"source": _FAILED, "pos": 0, "sample": pickled_error(error)}
        yield pa.RecordBatch.from_pylist([row], schema=HASHES)


def _dealt_places(
    batches: Iterator[pa.RecordBatch], groups: np.ndarray[Any, np.dtype[np.int32]]
) -> Iterator[pa.RecordBatch]:
    """Yield places as pieces for the tasks that fetch what is there."""
    places = (batch for batch in batches if batch.num_rows)
    for waiting in gathered(places, _FLUSH_ROWS, lambda batch: batch.num_rows):
        yield from _place_pieces(waiting, groups)


def _place_pieces(
    waiting: Sequence[pa.RecordBatch], groups: np.ndarray[Any, np.dtype[np.int32]]
) -> Iterator[pa.RecordBatch]:
    places = pa.Table.from_batches(waiting).cast(PLACES).combine_chunks()
    numbers = groups[places.column("source").to_numpy()]
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    ordered = places.take(pa.array(order))
    for group, start, end in zip(found, starts, [*starts[1:], len(order)], strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, PLACES) as writer:
            writer.write_table(ordered.slice(start, end - start))
        columns = [[int(group)], [int(end - start)], [sink.getvalue().to_pybytes()]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, DEALT, strict=True)], schema=DEALT
        )


def _streamed(changes: DataFrame, owners: Sequence[int]) -> Batches:
    """Yield the changes of one interval after another; what was told of all comes first."""
    from pyspark.sql import functions as F

    part = F.when(F.col("kind") == OUTCOME, F.col("part") + 1).otherwise(0)
    ordered = by_part(changes.withColumn("part", part), owners[-1] + 1)
    told: list[Any] | None = []
    rows = _Rows(ordered)
    try:
        for row in rows:
            if told is not None and row.part:
                check_told(told, owners)
                told = None
            if told is not None:
                told.append(row)
            else:
                yield from parse_outcome(row.piece)
        if told is not None:
            check_told(told, owners)
    finally:
        rows.close()


def changes_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the changes that are among rows of a frame, or raise what went wrong."""
    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] == ERROR:
                raise parse_error(row["piece"])
            if row["kind"] == OUTCOME:
                yield from parse_outcome(row["piece"])


class _Rows:
    """The rows of a frame, partition by partition, taken in a thread that Ctrl-C leaves alone."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark import inheritable_thread_target

        self._session = frame.sparkSession
        self._frame = frame
        self._tag = f"havasu-vc-{uuid.uuid4().hex}"
        self._rows: queue.Queue[Any] = queue.Queue(_WAITING)
        self._stopping = threading.Event()
        target = inheritable_thread_target(self._session)(self._take)
        self._thread = threading.Thread(target=target, name="havasu-vc-spark", daemon=True)

    def __iter__(self) -> Iterator[Any]:
        with large_rows(self._session):
            self._thread.start()
            row = self._next()  # the plan is made by then
        while row is not None:
            if isinstance(row, Exception):
                more = "run again, with more memory for the executors"
                raise given_up("the comparison", row, more) from row
            yield row
            row = self._next()

    def close(self) -> None:
        """Cancel what runs."""
        self._stopping.set()
        if self._thread.is_alive():
            with suppress(Exception):
                self._session.interruptTag(self._tag)
            self._thread.join(10)

    def _next(self) -> Any:
        while True:  # in steps, so that Ctrl-C is heard
            with suppress(queue.Empty):
                return self._rows.get(timeout=_POLL_SECONDS)

    def _take(self) -> None:
        try:
            self._session.addTag(self._tag)
            for row in self._frame.toLocalIterator(prefetchPartitions=True):
                if not self._put(row):
                    return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, row: Any) -> bool:
        while not self._stopping.is_set():
            with suppress(queue.Full):
                self._rows.put(row, timeout=_POLL_SECONDS)
                return True
        return False
