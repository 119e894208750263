"""Matching on Spark: rows of two sides told apart by hashes, and only those that differ fetched.

    slots        tasks add hashes up, by key; where few sums are unlike, their rows are proposed,
                 and neither of the next two is needed; very few are fetched at once, and paired
                 by the driver, which has an interval of them in memory and no more
    hashes       tasks deal them out, those of every row of either side
    places       owners of hashes keep where rows are that one side has and the other has not
    fetched      owners of files read these rows and deal them out by key
    changes      owners of intervals of keys pair them
    the driver   takes one interval after the other, so that changes come in key order

Neither the table nor more than an interval of what differs is ever in one process. Where rows
are is kept on the disks of executors meanwhile, as it is needed twice: for the cuts between
intervals, which are drawn from samples of the keys that differ, and for fetching.

Spark's own sort-merge join of the hashes took twice as long: each row of numbers passed
through the JVM for itself, where a piece is one value.
"""

from __future__ import annotations

import pickle
import queue
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.places import samples_of
from havasu_vc.datasets.slots import MOST_SHARE, slots_for
from havasu_vc.engine.dealing import given_to
from havasu_vc.engine.protocol import Batches, checked_batches
from havasu_vc.engine.session import cores_of, given_up
from havasu_vc.engine.spark_dealing import (
    ERROR,
    OUTCOME,
    TASKS_A_CORE,
    by_part,
    check_told,
    collected,
    dealing_frame,
    large_rows,
    outcomes_of,
    owned_frame,
    parse_outcome,
    pieces_here,
    summed_pieces,
)
from havasu_vc.engine.worker import parse_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from havasu_vc.datasets.matching import Comparison
    from havasu_vc.datasets.slots import Slots

__all__ = ["Matched", "changes_in", "matched"]

FEW_ROWS = 1 << 20
"""Fewer rows of both sides have their hashes compared at once, in one job less."""
_ADDING_A_CORE = 2
"""Tasks that add hashes up, for each core: all sums of each pass through the JVM."""
_WAITING = 4
"""Batches that wait for the consumer, besides those of the interval after."""
_POLL_SECONDS = 0.1


def matched(session: SparkSession, comparison: Comparison) -> Batches:
    """Yield the changes between two sides, in key order."""
    with Matched(session, comparison) as found:
        if found.changes is not None:
            yield from _streamed(found.changes, found.owners)
        yield from found.few


class Matched:
    """The rows that differ between two sides, as far as an executor keeps where it is.

    Use it as a context manager, or call `close` when the changes are no longer needed.
    """

    def __init__(self, session: SparkSession, comparison: Comparison) -> None:
        self.changes: DataFrame | None = None
        """Rows of `spark_dealing.PIECES`: batches of changes, counts and errors."""
        self.few: list[pa.RecordBatch] = []
        """The changes themselves instead, where they are very few."""
        self.owners: list[int] = []
        """How many owners took part in each shuffle."""
        self._places: DataFrame | None = None
        slots = _unlike_slots(session, comparison)
        if slots is not None and not len(slots):
            return
        try:
            self._plan(session, comparison, slots)
        except BaseException:
            self.close()
            raise

    def _plan(self, session: SparkSession, comparison: Comparison, slots: Slots | None) -> None:
        from pyspark import StorageLevel

        picking = None if slots is None else comparison.picking(_tasks(session), slots)
        if picking is not None:
            (pair,) = comparison.pairing(())
            paired = checked_batches(given_to(pair, pieces_here(session, picking)))
            self.few = [batch for batch in paired if batch.num_rows]
            return
        groups = len(comparison.fetching(()))
        if slots is None:
            dealing, matching = comparison.hashing()
            hashes = dealing_frame(session, dealing, len(matching))
            places = owned_frame(hashes, matching, deals_to=groups)
            before = [len(matching)]
        else:
            places = dealing_frame(session, comparison.proposing(_tasks(session), slots), groups)
            before = []
        self._places = places.persist(StorageLevel.DISK_ONLY)
        told = collected(summed_pieces(self._places, _sum_of_places))
        check_told([row for row in told if row.kind != OUTCOME], before)
        sums = [pickle.loads(row.piece) for row in told if row.kind == OUTCOME]
        count = sum(count for count, _ in sums)
        if not count:
            return
        cuts = comparison.cuts([sample for _, samples in sums for sample in samples], count)
        fetching, pairing = comparison.fetching(cuts), comparison.pairing(cuts)
        self.owners = [*before, len(fetching), len(pairing)]
        hop = len(before)
        fetched = owned_frame(self._places, fetching, hop=hop, deals_to=len(pairing))
        self.changes = owned_frame(fetched, pairing, hop=hop + 1)

    def close(self) -> None:
        """Forget where rows are."""
        if self._places is not None:
            with suppress(Exception):
                self._places.unpersist()

    def __enter__(self) -> Matched:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _unlike_slots(session: SparkSession, comparison: Comparison) -> Slots | None:
    """Return the slots of keys in which rows differ; None if hashes must be compared one by one.

    That is where rows have no key, where they are few, and where many of them differ.
    """
    if not comparison.keyed or comparison.count < FEW_ROWS:
        return None
    owners = cores_of(session)
    adding, adding_up = comparison.adding(_ADDING_A_CORE * owners, owners)
    sums = dealing_frame(session, adding, owners)
    found = [batch.column("slot").to_numpy() for batch in outcomes_of(sums, adding_up)]
    slots = np.sort(np.concatenate(found))
    return slots if len(slots) * MOST_SHARE <= 1 << slots_for(comparison.count) else None


def _tasks(session: SparkSession) -> int:
    """Return how many tasks look at rows: so few that what each holds comes to little."""
    return TASKS_A_CORE * cores_of(session)


def _sum_of_places(piece: bytes) -> bytes:
    """Return how many rows are at the places of a piece, and the samples of their keys."""
    return pickle.dumps(samples_of(pa.Table.from_batches(parse_outcome(piece))))


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
