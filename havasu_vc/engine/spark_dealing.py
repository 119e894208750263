"""Dealing on Spark: pieces of rows go to their owners through Spark's own shuffle.

    pieces           tasks, or a user's data frame, yield few large rows (part, piece)
    repartitionById  partition i is owner i
    outcomes         each owner takes its pieces and yields what its report is

No folder that machines share is needed, no RDD, no broadcast and no accumulator. The task of
an owner travels as one of its rows. Errors that are expected travel as rows as well, since
Spark would try again what would be no better. What was dealt is counted by whoever deals, and
the counts go through the same shuffle, so that a retry counts once: rows that do not arrive
are found out.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from havasu_vc.engine.dealing import OwnedPiece, given_to, held_piece
from havasu_vc.engine.protocol import Batches, checked_batches
from havasu_vc.engine.session import (
    AnySession,
    BareSession,
    cores_of,
    given_up,
    inheriting,
    is_connect,
    setting,
)
from havasu_vc.engine.spill import read
from havasu_vc.engine.worker import parse_error, pickled_error, quick_task
from havasu_vc.errors import EngineError, HavasuError, StorageError
from havasu_vc.model.task import Task, task_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "ERROR",
    "OUTCOME",
    "PIECES",
    "TASKS_A_CORE",
    "Deal",
    "NumberedTasks",
    "RunsTasks",
    "by_part",
    "check_told",
    "collected",
    "collected_by",
    "dealing_frame",
    "large_rows",
    "outcomes_frame",
    "outcomes_of",
    "owned_frame",
    "parse_outcome",
    "pieces_frame",
    "pieces_here",
    "results_of",
    "summed_pieces",
    "task_frame",
]

PIECES = "part int, num_rows bigint, piece binary, kind int"
"""Rows that go to owners, as Spark calls their types."""
_SCHEMA = pa.schema(
    [("part", pa.int32()), ("num_rows", pa.int64()), ("piece", pa.binary()), ("kind", pa.int32())]
)
_PIECE, _OWNER, _DEALT, _TAKEN, ERROR, OUTCOME, _PART = range(7)
"""Rows that were dealt, an owner's task, how many were dealt and taken, an error, what it yields,
and a part of that, of which more comes.

Counts say in `piece` of which shuffle they are, and of which owner.
"""
TASKS_A_CORE = 4
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_GROUP_BYTES = 32 << 20
_RESULT_BYTES = 64 << 20
"""About how many bytes of results one job gives to the driver."""
_POLL_SECONDS = 0.1

Deal: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Turns rows into batches of `part`, `num_rows` and `piece`; must pickle."""
NumberedTasks: TypeAlias = Iterator[tuple[int, Task]]
"""Tasks, each with its number among all."""
RunsTasks: TypeAlias = Callable[[NumberedTasks], Iterator[pa.RecordBatch]]
"""Runs tasks on an executor."""


def dealing_frame(session: SparkSession, tasks: Sequence[Task], owners: int) -> DataFrame:
    """Return a frame of the pieces that tasks deal, for so many owners."""

    def run(tasks: NumberedTasks) -> Iterator[pa.RecordBatch]:
        yield from _counted((b for _, task in tasks for b in checked_batches(task)), owners)

    return task_frame(session, tasks, run, PIECES)


def task_frame(
    session: SparkSession,
    tasks: Sequence[Task],
    run: RunsTasks,
    columns: str,
    *,
    most: int | None = None,
) -> DataFrame:
    """Return a frame of what a function, which must pickle, yields of tasks.

    It has at most so many partitions, a few for each core if nobody says.
    """
    if not tasks:
        return session.createDataFrame([], columns)
    parts = max(min(len(tasks), most or TASKS_A_CORE * cores_of(session)), 1)
    given = pa.table(
        {
            "part": pa.array([n * parts // len(tasks) for n in range(len(tasks))], pa.int32()),
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickle.dumps(task) for task in tasks], pa.binary()),
        }
    )

    def run_given(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with quick_task():
            # A shuffle gives the rows of a partition in any order.
            held = sorted(
                (number.as_py(), task.as_py())
                for batch in batches
                for number, task in zip(batch.column("number"), batch.column("task"), strict=True)
            )
            yield from run((number, pickle.loads(task)) for number, task in held)

    return by_part(session.createDataFrame(given), parts).mapInArrow(run_given, columns)


def by_part(frame: DataFrame, count: int) -> DataFrame:
    """Return a frame in so many partitions, each row in that which its column `part` says."""
    import pyspark

    if not pyspark.__version__.startswith("4.0."):
        return frame.repartitionById(count, "part")
    # Spark 4.0 goes by hashes alone: for each partition a number whose hash falls there.
    from pyspark.sql import functions as F

    numbers: dict[int, int] = {}
    tried = 32 * count
    while len(numbers) < count:
        hashes = frame.sparkSession.range(0, tried)
        place = F.pmod(F.hash("id"), F.lit(count)).alias("part")
        found = hashes.groupBy(place).agg(F.min("id").alias("number")).collect()
        numbers = {row["part"]: row["number"] for row in found}
        tried *= 8
    every = F.array(*(F.lit(numbers[part]).cast("bigint") for part in range(count)))
    return frame.repartition(count, F.element_at(every, F.col("part") + 1))


def pieces_frame(frame: DataFrame, deal: Deal, owners: int) -> DataFrame:
    """Return a frame of the pieces that the rows of another are dealt out in."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with quick_task():
            yield from _counted(deal(iter(batches)), owners)

    return frame.mapInArrow(run, PIECES)


def owned_frame(
    pieces: DataFrame, owners: Sequence[Task], *, hop: int = 0, deals_to: int | None = None
) -> DataFrame:
    """Return a frame of what owners yield of the pieces that are theirs.

    Where they deal rows out themselves, to so many owners, what they yield are pieces for
    those, and this is hop 0 of more.
    """
    session = pieces.sparkSession
    plan = pa.table(
        [
            pa.array(range(len(owners)), pa.int32()),
            pa.array([0] * len(owners), pa.int64()),
            pa.array([pickle.dumps(owner) for owner in owners], pa.binary()),
            pa.array([_OWNER] * len(owners), pa.int32()),
        ],
        schema=_SCHEMA,
    )
    every = pieces.union(session.createDataFrame(plan))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with quick_task():
            yield from _own_parts(batches, hop, deals_to)

    # One partition more takes the counts, and errors of those who deal.
    return by_part(every, len(owners) + 1).mapInArrow(run, PIECES)


def summed_pieces(pieces: DataFrame, total: Callable[[bytes], bytes]) -> DataFrame:
    """Return a frame with, for each piece, what a function says of it; the other rows stay."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with quick_task():
            for batch in batches:
                for part, count, piece, kind in zip(*batch.to_pydict().values(), strict=True):
                    if kind == _PIECE:
                        yield _row(part, count, total(piece), OUTCOME)
                    else:
                        yield _row(part, count, piece, kind)

    return pieces.mapInArrow(run, PIECES)


def outcomes_of(pieces: DataFrame, owners: Sequence[Task]) -> Batches:
    """Give owners their pieces, run them as one Spark job, and yield what they yield."""
    with large_rows(pieces.sparkSession):
        rows = collected(owned_frame(pieces, owners))
    check_told([row for row in rows if row.kind != OUTCOME], [len(owners)])
    outcomes = [row for row in rows if row.kind == OUTCOME]
    for row in sorted(outcomes, key=lambda row: (row.part, row.num_rows)):
        yield from parse_outcome(row.piece)


def pieces_here(session: SparkSession, tasks: Sequence[Task]) -> list[OwnedPiece]:
    """Run tasks that deal rows out to one owner, which is this process, and return its pieces."""
    with large_rows(session):
        rows = collected(dealing_frame(session, tasks, 1))
    check_told([row for row in rows if row.kind != _PIECE], ())
    pieces = [row for row in rows if row.kind == _PIECE]
    dealt = sum(row.num_rows for row in rows if row.kind == _DEALT)
    if (taken := sum(row.num_rows for row in pieces)) != dealt:
        raise _lost(taken, dealt)
    return [(row.num_rows, task_of(held_piece, bytes(row.piece))) for row in pieces]


def outcomes_frame(session: SparkSession, batches: Sequence[pa.RecordBatch]) -> DataFrame:
    """Return a frame of what was yielded here, as one that owners yielded is."""
    rows = [_row(0, n, _outcome_bytes(batch), OUTCOME) for n, batch in enumerate(batches)]
    return session.createDataFrame(pa.Table.from_batches(rows, _SCHEMA))


def _outcome_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an outcome."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def parse_outcome(piece: bytes | bytearray) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an outcome."""
    with pa.ipc.open_stream(bytes(piece)) as stream:
        yield from stream


@contextmanager
def large_rows(session: SparkSession) -> Iterator[None]:
    """Have a session give Python's workers few rows at a time, as pieces are large."""
    with setting(session, _BATCH_ROWS, "4096"), setting(session, _BATCH_BYTES, str(_GROUP_BYTES)):
        yield


def check_told(rows: Sequence[Any], owners: Sequence[int]) -> None:
    """Raise what went wrong, or unless all rows arrived at each of some shuffles.

    `rows` are those that are no outcomes; `owners` how many took part in each.
    """
    errors = sorted((r.num_rows, r.part, r.piece) for r in rows if r.kind == ERROR)
    if errors:
        # What went wrong while rows were dealt comes before what its lack made go wrong.
        raise parse_error(errors[0][2])
    dealt, taken = Counter[int](), Counter[int]()
    done = set()
    for row in rows:
        hop, owner = pickle.loads(bytes(row.piece))
        if row.kind == _DEALT:
            dealt[hop] += row.num_rows
        elif row.kind == _TAKEN:
            taken[hop] += row.num_rows
            done.add((hop, owner))
    for hop, count in enumerate(owners):
        if dealt[hop] != taken[hop] or not done >= {(hop, owner) for owner in range(count)}:
            raise _lost(taken[hop], dealt[hop])


def _lost(taken: int, dealt: int) -> EngineError:
    return EngineError(
        f"{taken:,} of {dealt:,} rows came through Spark's shuffle",
        hints=("nothing was committed; run again",),
    )


def _counted(batches: Iterable[pa.RecordBatch], owners: int) -> Iterator[pa.RecordBatch]:
    """Yield pieces, then how many rows were in them, or what went wrong."""
    count = 0
    try:
        for batch in batches:
            count += sum(batch.column("num_rows").to_pylist())
            yield batch.append_column("kind", pa.array([_PIECE] * len(batch), pa.int32()))
    except HavasuError as error:
        yield _row(owners, 0, pickled_error(error), ERROR)
        return
    yield _row(owners, count, pickle.dumps((0, None)), _DEALT)


def _row(part: int, num_rows: int, piece: bytes, kind: int) -> pa.RecordBatch:
    """Return a row of `PIECES`."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([value], field.type)
            for value, field in zip((part, num_rows, piece, kind), _SCHEMA, strict=True)
        ],
        schema=_SCHEMA,
    )


def _own_parts(
    batches: Iterable[pa.RecordBatch], hop: int, deals_to: int | None
) -> Iterator[pa.RecordBatch]:
    """Run the owners of a Spark partition, which waits for all of its rows on the local disk."""
    folder = Path(tempfile.mkdtemp(prefix="havasu-vc-"))
    try:
        owners: dict[int, Task] = {}
        pieces: dict[int, list[OwnedPiece]] = {}
        with (folder / "pieces").open("xb") as sink:
            for batch in batches:
                for part, count, piece, kind in zip(*batch.columns, strict=True):
                    number, data = part.as_py(), piece.as_buffer()
                    if kind.as_py() == _PIECE:
                        sink.write(b"\0" * (-sink.tell() % 64))
                        segment = (sink.name, sink.tell(), data.size)
                        sink.write(data)
                        found = (count.as_py(), task_of(read, (segment,)))
                        pieces.setdefault(number, []).append(found)
                    elif kind.as_py() == _OWNER:
                        owners[number] = pickle.loads(data)
                    else:
                        to = number if deals_to is None else deals_to
                        yield _row(to, count.as_py(), data.to_pybytes(), kind.as_py())
        for number, owner in sorted(owners.items()):
            yield from _outcome((hop, number), owner, pieces.get(number, []), deals_to)
    except OSError as error:
        if isinstance(error, HavasuError):
            raise
        full = StorageError(
            f"rows that wait in {folder} cannot be kept: {error.strerror or error}",
            hints=("make room there, and run again",),
        )
        yield _row(deals_to or 0, 2 * hop + 1, pickled_error(full), ERROR)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(
    place: tuple[int, int], owner: Task, pieces: list[OwnedPiece], deals_to: int | None
) -> Iterator[pa.RecordBatch]:
    hop, number = place
    to = number if deals_to is None else deals_to
    count = 0
    try:
        with closing(checked_batches(given_to(owner, pieces))) as batches:
            for batch in batches:
                if deals_to is not None:
                    count += sum(batch.column("num_rows").to_pylist())
                    yield batch.append_column("kind", pa.array([_PIECE] * len(batch), pa.int32()))
                    continue
                yield _row(number, count, _outcome_bytes(batch), OUTCOME)
                count += 1
    except HavasuError as error:
        yield _row(to, 2 * hop + 1, pickled_error(error), ERROR)
    taken = sum(count for count, _ in pieces)
    yield _row(to, taken, pickle.dumps(place), _TAKEN)
    if deals_to is not None:
        yield _row(to, count, pickle.dumps((hop + 1, None)), _DEALT)


def results_of(
    session: SparkSession, tasks: Sequence[Task], *, brief: bool = False
) -> Generator[tuple[int, Iterator[pa.RecordBatch]], None, None]:
    """Yield what tasks yield, in their order, each batch with its task's number.

    As many tasks are one job as give what a driver may hold, going by those before; where each
    gives little that is all of them.
    """
    first, size = 0, len(tasks) if brief else cores_of(session)
    while first < len(tasks):
        some = tasks[first : first + size]
        most = None if brief else size
        with large_rows(session):
            rows = collected(task_frame(session, some, _told, PIECES, most=most), "the tasks")
        held: list[bytes] = []
        given = 0
        rows.reverse()
        while rows:
            row = rows.pop()
            if row.kind == ERROR:
                raise parse_error(row.piece)
            given += len(row.piece)
            held.append(row.piece)
            if row.kind == OUTCOME:
                yield first + row.part, parse_outcome(b"".join(held))
                held.clear()
        first += len(some)
        size = min(max(len(some) * _RESULT_BYTES // max(given, 1), 1), size * 4)


def _told(tasks: NumberedTasks) -> Iterator[pa.RecordBatch]:
    for number, task in tasks:
        try:
            for batch in checked_batches(task):
                outcome = _outcome_bytes(batch)
                # Spark has a row in memory as a whole, more than once.
                for start in range(0, len(outcome), _GROUP_BYTES):
                    piece = outcome[start : start + _GROUP_BYTES]
                    last = start + len(piece) == len(outcome)
                    yield _row(number, batch.num_rows, piece, OUTCOME if last else _PART)
        except HavasuError as error:
            yield _row(number, 0, pickled_error(error), ERROR)
            return


def collected(frame: DataFrame, what: str = "the edit") -> list[Any]:
    """Run a job in a thread of its own, so that Ctrl-C stops it, and return its rows."""
    return collected_by(frame.sparkSession, frame.collect, what)


def collected_by(session: AnySession, collect: Callable[[], list[Any]], what: str) -> list[Any]:
    """Run what collects the rows of a frame or an RDD, in the same way."""
    context = None if is_connect(session) else session.sparkContext
    tag = f"havasu-vc-{uuid.uuid4().hex}"
    found: list[Any] = []
    failed: list[Exception] = []
    done = threading.Event()

    def run() -> None:
        try:
            if not isinstance(session, BareSession):
                session.addTag(tag)
            if context is not None:  # elsewhere Python is stopped in any case
                context.addJobTag(tag)
                context.setInterruptOnCancel(True)
            found.extend(collect())
        except Exception as error:
            failed.append(error)
        finally:
            done.set()

    target = inheriting(session, run)
    threading.Thread(target=target, name="havasu-vc-spark", daemon=True).start()
    try:
        while not done.wait(_POLL_SECONDS):
            pass
    except BaseException:
        with suppress(Exception):
            if not isinstance(session, BareSession):
                session.interruptTag(tag)
            if context is not None:
                context.cancelJobsWithTag(tag)
        done.wait(10)
        raise
    if failed:
        raise given_up(
            what,
            failed[0],
            "nothing was committed",
            "run again, with more memory for the executors",
        ) from failed[0]
    return found
