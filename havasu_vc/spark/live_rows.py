"""Live rows: scans of data files without the rows that delete files take away.

Where each row knows its place, a look into a table of bits says whether it is deleted: the
bits of a file begin at the number that is the file's label. Where a bit for each row would be
many, one is for several rows, and only where it is set the row is looked up among the places
of deleted rows. That costs a fifth of what a join costs, and keeps the scan in one piece.
Where Spark lacks what it takes, or the table would be large, a broadcast join on size and
position leaves the rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from havasu_vc.datasets.havasu.far import far_dataset
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, ValueRange, scan_matching
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles
from havasu_vc.engine.session import is_apart, setting
from havasu_vc.errors import NotYetSupportedError
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.library import Repo
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.spark.java_methods import LABEL, POSITION, is_among, is_set, labelled_scan
from havasu_vc.spark.physical import spark_schema
from havasu_vc.spark.rows import frame_of, shown_rows

__all__ = [
    "apart",
    "far_frame",
    "far_url",
    "havasu_view",
    "in_place",
    "live_rows",
    "parquet",
]

_POSITION_BITS = 33
"""Rows of a file number less than 2^33, so a file's size fits beside a position."""
_SIZES = 1 << 30
_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MOST_TABLE = 8 << 20
"""Bytes of a table up to which it goes with each query."""
_MOST_BITS = 4 << 20
"""Bytes of a table up to which each row has a bit: each task takes a few ms to get them."""
_FEW_FOUND = 64
"""Of how many rows one is looked up among places, at most, where bits are for several rows."""
_MOST_LABELLED = 256
"""Files up to which a scan labels them: each takes the driver half a millisecond."""
_MOST_SCANS = 4
"""Scans up to which files are labelled rather than joined, where folders hold many."""
_MOST_HERE = 100_000
"""Deleted rows up to which the driver looks them up itself."""
_MOST_BROADCAST = 4_000_000
"""Deleted rows up to which they are sent to every executor."""


def apart(files: Sequence[LiveFile], numbers: Sequence[int]) -> list[list[int]]:
    """Return files in groups that can each be one scan: as few as may be.

    A union costs more than a look at each row, so files without deletes go along with those
    that have some, as long as they are few. Folders and sizes tell files of a group apart.
    """
    clean = [number for number in numbers if not files[number].deletes]
    dirty = [number for number in numbers if files[number].deletes]
    groups = _told_apart(files, dirty, _folder_and_size)
    if len(groups) > _MOST_SCANS:
        groups = _told_apart(files, dirty, _size)
    alone = []
    marks = [{mark for n in group for mark in _folder_and_size(files[n])} for group in groups]
    for number in clean:
        own = _folder_and_size(files[number])
        free = next((at for at, there in enumerate(marks) if not own & there), None)
        if free is None or len(groups[free]) >= _MOST_LABELLED:
            alone.append(number)
        else:
            groups[free].append(number)
            marks[free] |= own
    return [*groups, alone] if alone else groups


_Marks: TypeAlias = frozenset[object]


def _size(file: LiveFile) -> _Marks:
    return frozenset({file.entry.size % _SIZES})


def _folder_and_size(file: LiveFile) -> _Marks:
    return frozenset({file.entry.size % _SIZES, Path(file.path).parent})


def _told_apart(
    files: Sequence[LiveFile], numbers: Sequence[int], marks_of: Callable[[LiveFile], _Marks]
) -> list[list[int]]:
    """Return groups in which no two files have a mark in common."""
    groups: list[list[int]] = []
    taken: list[set[object]] = []
    for number in numbers:
        marks = marks_of(files[number])
        at = next((at for at, there in enumerate(taken) if not marks & there), len(groups))
        if at == len(groups):
            groups.append([])
            taken.append(set())
        groups[at].append(number)
        taken[at] |= marks
    return groups


def live_rows(spark: SparkSession, schema: T.StructType, files: Sequence[LiveFile]) -> DataFrame:
    """Return the rows of files that no delete file takes away."""
    if not any(file.deletes for file in files):
        return parquet(spark, schema, [file.path for file in files])
    tested = _tested(spark, schema, files) if len(files) <= _MOST_LABELLED else None
    return _joined(spark, schema, files) if tested is None else tested


@dataclass(frozen=True, slots=True)
class _Table:
    """Which rows of some files are deleted."""

    shift: int
    """A bit is for two to the power of so many rows."""
    firsts: list[int]
    """Where the bits of each file begin."""
    words: npt.NDArray[np.uint64]
    """The bits, set where a row is deleted."""
    places: npt.NDArray[np.int64]
    """The places of deleted rows in order, as if each had a bit; none where each has."""


def _tested(
    spark: SparkSession, schema: T.StructType, files: Sequence[LiveFile]
) -> DataFrame | None:
    shift = _fitting_shift(files)
    if shift is None:
        return None
    table = _table(files, shift)
    labels = {file.path: first for file, first in zip(files, table.firsts, strict=True)}
    with _looked_at_here(spark, len(labels)):
        scan = labelled_scan(spark, schema, labels)
    label, position = F.col(LABEL), F.col(POSITION)
    # The number where a file's bits begin has no binary digit in common with those of its rows.
    bit = label.bitwiseOR(F.shiftright(position, shift).cast("int"))
    gone = is_set(spark, table.words, bit)
    if shift and gone is not None:
        place = F.shiftleft(label.cast("long"), shift).bitwiseOR(position)
        among = is_among(spark, table.places, place)
        gone = None if among is None else gone & among
    if scan is None or gone is None:
        return None
    return scan.where(~gone).drop(LABEL, POSITION)


def _fitting_shift(files: Sequence[LiveFile]) -> int | None:
    """Return for how many rows a bit is, as a power of two; None if the table would be large."""
    deleted = sum(file.deleted for file in files)
    if deleted > _MOST_BROADCAST:
        return None
    if _firsts(files, 0)[1] <= _MOST_BITS * 8:
        return 0
    rows = sum(file.entry.rows for file in files if file.deletes)
    shift = max((rows // (max(deleted, 1) * _FEW_FOUND)).bit_length() - 1, 1)
    size = _firsts(files, shift)[1] // 8 + deleted * 8
    return shift if size <= _MOST_TABLE else None


def _firsts(files: Sequence[LiveFile], shift: int) -> tuple[list[int], int]:
    """Return the first bit of each file and the number of all.

    The bits of a file begin at a multiple of a power of two that is no less than their number.
    Files without deletes have bits in common, none of which is set.
    """
    sizes = [-(-max(file.entry.rows, 1) >> shift) for file in files]
    dirty = [number for number, file in enumerate(files) if file.deletes]
    clean = [number for number, file in enumerate(files) if not file.deletes]
    firsts, end = [0] * len(files), 0
    # In this order nothing is lost between files but what a power of two takes.
    for number in sorted(dirty, key=lambda number: -sizes[number]):
        firsts[number] = _aligned(end, sizes[number])
        end = firsts[number] + sizes[number]
    if clean:
        largest = max(sizes[number] for number in clean)
        common = _aligned(end, largest)
        end = common + largest
        for number in clean:
            firsts[number] = common
    return firsts, end


def _aligned(number: int, size: int) -> int:
    """Return the least number from one on that has no bit in common with those below a size.

    >>> _aligned(0, 5), _aligned(3, 5), _aligned(9, 1)
    (0, 8, 9)
    """
    unit = 1 << (size - 1).bit_length()
    return -(-number // unit) * unit


def _table(files: Sequence[LiveFile], shift: int) -> _Table:
    firsts, count = _firsts(files, shift)
    found = [np.empty(0, np.int64)]
    for file, first in zip(files, firsts, strict=True):
        positions = deleted_positions(file.entry.file, file.deletes) if file.deletes else None
        if positions is not None:
            known = positions[(positions >= 0) & (positions < file.entry.rows)]
            found.append(known | (first << shift))
    places = np.sort(np.concatenate(found), kind="stable")
    bits = places >> shift
    words = np.zeros((count >> 6) + 1, np.uint64)
    np.bitwise_or.at(words, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))
    return _Table(shift, firsts, words, places if shift else places[:0])


def _joined(spark: SparkSession, schema: T.StructType, files: Sequence[LiveFile]) -> DataFrame:
    frame = parquet(spark, schema, [file.path for file in files])
    meta = frame.metadataColumn("_metadata")
    place = F.shiftleft(meta.getField("file_size") % _SIZES, _POSITION_BITS)
    key = place.bitwiseOR(meta.getField("row_index"))
    name = "_havasu_place"
    gone = _deleted(spark, [file for file in files if file.deletes], name)
    return frame.withColumn(name, key).join(gone, name, "left_anti").drop(name)


def _deleted(spark: SparkSession, files: Sequence[LiveFile], name: str) -> DataFrame:
    """Return where deleted rows are, one number each.

    A few are read here, which spares a query two jobs. More are read by Spark, from our
    delete files, and many of these are not broadcast.
    """
    count = sum(file.deleted for file in files)
    if count <= _MOST_HERE:
        return F.broadcast(spark.createDataFrame(pa.table({name: _places(files)})))
    paths = sorted({path for file in files for path in file.deletes})
    names = [file.entry.file for file in files]
    sizes = [file.entry.size % _SIZES for file in files]
    size = spark.createDataFrame(pa.table({"file": names, "size": sizes}))
    positions = parquet(spark, "file string, pos long", paths).join(F.broadcast(size), "file")
    found = positions.select(
        F.shiftleft("size", _POSITION_BITS).bitwiseOR(F.col("pos")).alias(name)
    )
    return F.broadcast(found) if count <= _MOST_BROADCAST else found


def _places(files: Sequence[LiveFile]) -> npt.NDArray[np.int64]:
    places = [np.empty(0, np.int64)]
    for file in files:
        positions = deleted_positions(file.entry.file, file.deletes)
        if positions is not None:
            places.append((file.entry.size % _SIZES << _POSITION_BITS) | positions)
    return np.concatenate(places)


def parquet(spark: SparkSession, schema: Any, paths: Sequence[str]) -> DataFrame:
    """Return the rows of Parquet files."""
    with _looked_at_here(spark, len(paths)):
        reader = spark.read.schema(schema).option("__globPaths__", "false")
        return reader.parquet(*(Path(path).as_uri() for path in paths))


@contextmanager
def _looked_at_here(spark: SparkSession, count: int) -> Iterator[None]:
    # The driver looks at the files: a Spark job to do so takes ten times as long.
    with setting(spark, _DISCOVERY, str(max(count, 32))):
        yield


# Reading data files where they are: in a bucket, by the executors, without a jar.
#
# In a clone whose data is at a URL (`havasu.data.url`), a file that is not here is read there,
# by pyarrow and with the credentials of the executors' environment: its footer, then of the row
# groups that may match the columns that a query names. Nothing is kept, and nothing is hashed:
# `havasu-vc data fetch` brings files, checked, and from then on Spark reads them itself.
#
# Pieces of a history that executors work on: tasks, and what their rows are shown as.
#
# A commit's changes are planned where they are read, so that the driver walks commits and
# nothing else. Only what is large is planned in the driver, to be cut into many tasks.


_GROUPS_A_TASK = 4


def in_place(
    repo: Repo, view: Dataset, url: str | None = None, *, session: SparkSession | None = None
) -> Dataset:
    """Return a view that reads in place what is in a bucket and not here, if that is so.

    An executor is told the `url` that the driver found. What is given to a `session` of other
    machines names no file of this one.
    """
    files = view.in_files
    apart = session is not None and is_apart(session)
    far = None if files is None else far_dataset(files, url or far_url(repo), apart=apart)
    return far or view


_found: WeakKeyDictionary[Repo, str | None] = WeakKeyDictionary()


def far_url(repo: Repo) -> str | None:
    """Return the bucket that has the data; None where it is elsewhere or not told."""
    if repo not in _found:
        _found[repo] = repo.far_place()
    return _found[repo]


def far_frame(
    spark: SparkSession,
    files: Sequence[LiveFile],
    schema: Schema,
    ranges: Mapping[int, ValueRange],
    tests: Sequence[SpatialTest],
) -> DataFrame:
    """Return the live rows of files at URLs, as far as they may match."""
    boxes = [
        (test.column, test.window.bounds, test.predicate is SpatialPredicate.CONTAINS)
        for test in tests
        if test.window.bounds is not None
    ]
    tasks = [
        task_of(scan_matching, file.path, schema, file.deletes, (part, parts), dict(ranges), boxes)
        for file in files
        for parts in [max(-(-len(file.entry.splits) // _GROUPS_A_TASK), 1)]
        for part in range(parts)
    ]

    def rows_of(task: Task) -> Iterator[pa.RecordBatch]:
        for batch in run_task(task):
            yield shown_rows(batch, schema)

    return frame_of(spark, tasks, rows_of, spark_schema(schema))


def havasu_view(view: Dataset) -> DatasetInFiles:
    """Return a view that is of a Havasu dataset; raises for other kinds."""
    files = view.in_files
    if files is not None:
        return files
    raise NotYetSupportedError(
        f"{view.path} is no Havasu dataset, and Spark writes no others yet",
        hints=("`Repo.write` and the command line do",),
    )
