"""Staged frames: the rows of a data frame as files, known from what Spark's tasks report.

Each task writes a file under a name of its own and reports, as the one row that it gives
to Spark, how many rows are in it and how large it is. Spark takes the report of one attempt
of each task, so a file that a failed or a slower attempt left behind is named by no report
and counts for nothing. A report whose file is not in the driver's folder as it says comes
from a machine that has another folder there: then nothing is taken at all.
"""

from __future__ import annotations

import itertools
import platform
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from havasu_vc.engine.session import ensure_package, setting
from havasu_vc.engine.worker import forget_archives
from havasu_vc.errors import EngineError
from havasu_vc.model.arrow import gathered
from havasu_vc.records import dataclass

__all__ = ["StagedFile", "stage"]

_REPORT = "part int, host string, name string, num_rows bigint, size bigint, reason string"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_GROUP_BYTES = 32 << 20
_SHARED = "the repository must be in a folder that all machines of the cluster share under one path"
_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task wrote and that is here as the task said."""

    path: Path
    """Where it is."""
    num_rows: int
    """Its rows."""
    size: int
    """Its bytes."""


def stage(frame: DataFrame, folder: Path) -> list[StagedFile]:
    """Write a frame's rows to files of a new folder, and return these in the frame's order.

    Raises EngineError when what a task wrote is not in the folder.
    """
    spark = frame.sparkSession
    ensure_package(spark)
    folder.mkdir(parents=True)
    place = str(folder)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        forget_archives()
        context = TaskContext.get()
        yield written(batches, place, 0 if context is None else context.partitionId())

    # A batch passes to a task's Python as a whole, however wide its rows are.
    with setting(spark, _BATCH_ROWS, "4096"), setting(spark, _BATCH_BYTES, str(_GROUP_BYTES)):
        reports = frame.mapInArrow(run, _REPORT).collect()
    return [_checked(folder, row) for row in sorted(reports) if row.num_rows or row.reason]


def written(batches: Iterable[pa.RecordBatch], place: str, part: int) -> pa.RecordBatch:
    """Write the rows of a task to a file of its own, and return the report of it.

    What goes wrong is reported as well: tried again, it would be no better.
    """
    name = f"{part:06}-{uuid.uuid4().hex}.parquet"
    path = Path(place, name)
    try:
        rows = _write(batches, path)
        return _report(part, name, rows, path.stat().st_size if rows else 0, None)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        absent = not Path(place).is_dir()
        return _report(part, name, 0, 0, _ABSENT if absent else error.strerror or str(error))


def _report(part: int, name: str, rows: int, size: int, reason: str | None) -> pa.RecordBatch:
    values = (part, platform.node(), name, rows, size, reason)
    types = (pa.int32(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
    names = [each.split()[0] for each in _REPORT.split(", ")]
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names)


def _write(batches: Iterable[pa.RecordBatch], path: Path) -> int:
    """Write batches to a file, which is made with the first row; return their rows."""
    groups = _groups(batches)
    first = next(groups, None)
    if first is None:
        return 0
    count = 0
    # Opened here and not by Parquet, so that a folder that is not there is one.
    with path.open("xb") as file, pq.ParquetWriter(file, first.schema) as writer:
        for group in itertools.chain((first,), groups):
            writer.write_table(group)
            count += group.num_rows
    return count


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    rows = (batch for batch in batches if batch.num_rows)
    yield from map(pa.Table.from_batches, gathered(rows, _GROUP_BYTES, lambda batch: batch.nbytes))


def _checked(folder: Path, report: Sequence[object]) -> StagedFile:
    """Return the file that a task reported; raises unless it is here as the task said."""
    _, host, name, num_rows, size, reason = report
    assert isinstance(num_rows, int) and isinstance(size, int)
    path = folder / str(name)
    if reason is None:
        found = _found(path)
        if found == (num_rows, size):
            return StagedFile(path, num_rows, size)
        what = "is not here" if found is None else "is not here as it was written"
        raise _unreachable(f"what the worker on {host} wrote {what}: {path}")
    if reason == _ABSENT:
        raise _unreachable(f"the worker on {host} does not see the folder {folder}")
    raise EngineError(
        f"the worker on {host} cannot write to {folder}: {reason}",
        hints=("nothing was committed",),
    )


def _found(path: Path) -> tuple[int, int] | None:
    """Return how many rows and bytes a file has; None if it is not here."""
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as parquet:
            return parquet.metadata.num_rows, path.stat().st_size
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowInvalid):
        return -1, -1


def _unreachable(message: str) -> EngineError:
    return EngineError(message, hints=("nothing was committed", _SHARED))
