"""Live rows: scans of data files without the rows that delete files take away.

Where each row knows its place, a look into a table of bits says whether it is deleted. The
table has pages, and only those with a deleted row exist, so that it stays small; a file's
pages begin at the number that is the file's label. That costs a third of what a join
costs, and keeps the scan in one piece. Where Spark lacks what it takes, or the table would
be large, a broadcast join on size and position leaves the rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.live import LiveFile
from havasu_vc.records import dataclass
from havasu_vc.spark.labelled import LABEL, POSITION, constant_array, labelled_scan

__all__ = ["apart", "live_rows", "parquet", "setting"]

_POSITION_BITS = 33
"""Rows of a file number less than 2^33, so a file's size fits beside a position."""
_SIZES = 1 << 30
_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MOST_TABLE = 8 << 20
"""Bytes of a table of bits up to which it goes with each query."""
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
class _Bits:
    """Which rows of some files are deleted."""

    shift: int
    """A page is for two to the power of so many rows."""
    firsts: list[int]
    """The first page of each file, -1 for one without deletes."""
    pages: npt.NDArray[np.int32]
    """Where the words of each page begin, 0 for a page without deleted rows."""
    words: npt.NDArray[np.int64]
    """A bit for each row of the other pages."""

    @property
    def size(self) -> int:
        """Bytes of the table."""
        return self.pages.nbytes + self.words.nbytes


def _tested(
    spark: SparkSession, schema: T.StructType, files: Sequence[LiveFile]
) -> DataFrame | None:
    shift = _best_shift(files)
    if shift is None:
        return None
    bits = _bits(files, shift)
    pages, words = constant_array(spark, bits.pages), constant_array(spark, bits.words)
    labels = {file.path: first for file, first in zip(files, bits.firsts, strict=True)}
    with _looked_at_here(spark, len(labels)):
        scan = labelled_scan(spark, schema, labels)
    if scan is None or pages is None or words is None:
        return None
    label, position = F.col(LABEL), F.col(POSITION)
    begin = F.get(pages, label + F.shiftright(position, bits.shift).cast("int"))
    inside = F.shiftright(position, 6).bitwiseAND((1 << bits.shift - 6) - 1).cast("int")
    bit = F.getbit(F.get(words, begin + inside), position.bitwiseAND(63).cast("int"))
    alive = F.when((label < 0) | (begin == 0), True).otherwise(bit == 0)
    return scan.where(alive).drop(LABEL, POSITION)


def _best_shift(files: Sequence[LiveFile]) -> int | None:
    """Return the size of a page with which the table is smallest, None if none is small."""
    dirty = [file for file in files if file.deletes]
    rows, deleted = sum(f.entry.rows for f in dirty), sum(f.deleted for f in dirty)
    if deleted > _MOST_BROADCAST:
        return None
    sizes = {}
    for shift in range(6, 17):
        pages = rows >> shift
        sizes[shift] = 4 * pages + (min(deleted, pages) + 1) * (1 << shift - 3)
    best = min(sizes, key=lambda shift: sizes[shift])
    return best if sizes[best] <= _MOST_TABLE else None


def _bits(files: Sequence[LiveFile], shift: int) -> _Bits:
    firsts, places, count = [], [], 0
    for file in files:
        if not file.deletes:
            firsts.append(-1)
            continue
        firsts.append(count)
        positions = deleted_positions(file.entry.file, file.deletes)
        if positions is not None:
            places.append(positions + (count << shift))
        count += -(-max(file.entry.rows, 1) >> shift)
    place = np.concatenate(places) if places else np.empty(0, np.int64)
    touched = np.unique(place >> shift)
    length = 1 << shift - 6
    pages = np.zeros(count, np.int32)
    pages[touched] = np.arange(1, len(touched) + 1) * length
    words = np.zeros((len(touched) + 1) * length, np.uint64)
    at = pages[place >> shift] + ((place >> 6) & (length - 1))
    np.bitwise_or.at(words, at, np.uint64(1) << (place & 63).astype(np.uint64))
    return _Bits(shift, firsts, pages, words.view(np.int64))


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


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Have a session work with a setting for a while."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
