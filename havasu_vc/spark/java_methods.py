"""Columns and scans that SQL has no function for, in the code that Spark generates.

A call of a method of Java's or Spark's own classes is an expression inside of Spark, of which
datasets of the JVM are made. Nothing of this is API: where Spark is made otherwise `ABSENT` is
raised, and whoever wanted the column does without.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, leading_bytes
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store.object_urls import is_url

__all__ = [
    "ABSENT",
    "LABEL",
    "POSITION",
    "called",
    "called_static",
    "is_among",
    "is_set",
    "java_longs",
    "java_object",
    "java_type",
    "labelled_scan",
    "points_inside",
]


ABSENT = (AttributeError, TypeError, Py4JError)
"""Errors that are raised where this Spark lacks something."""


def called(
    spark: SparkSession,
    target: Column,
    method: str,
    returned: T.DataType,
    *arguments: Column,
    nulls: bool = False,
) -> Column:
    """Return what a method of an object gives; with `nulls`, null for a null."""
    jvm: Any = spark.sparkContext._jvm
    given = (*_given(jvm, arguments), nulls, nulls, True)
    objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
    made = objects.Invoke(_expression(jvm, target), method, java_type(spark, returned), *given)
    return _column(jvm, made)


def called_static(
    spark: SparkSession,
    place: str,
    method: str,
    returned: T.DataType | str,
    *arguments: Column,
    nulls: bool = False,
) -> Column:
    """Return what a method of a class gives: a value of a type, or an object of a class by name."""
    jvm: Any = spark.sparkContext._jvm
    for_name = jvm.java.lang.Class.forName
    if isinstance(returned, str):
        type_ = jvm.org.apache.spark.sql.types.ObjectType(for_name(returned))
    else:
        type_ = java_type(spark, returned)
    given = (*_given(jvm, arguments), nulls, nulls, True, jvm.scala.Option.apply(None))
    objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
    return _column(jvm, objects.StaticInvoke(for_name(place), type_, method, *given))


def java_object(spark: SparkSession, thing: Any) -> Column:
    """Return a column that is one and the same object of Java's in each row."""
    jvm: Any = spark.sparkContext._jvm
    type_ = jvm.org.apache.spark.sql.types.ObjectType(thing.getClass())
    return _column(jvm, jvm.org.apache.spark.sql.catalyst.expressions.Literal(thing, type_))


def java_longs(spark: SparkSession, numbers: npt.NDArray[Any]) -> Any:
    """Return whole numbers of eight bytes as a buffer of Java's, sent in one message."""
    jvm: Any = spark.sparkContext._jvm
    content = numbers.astype(">u8" if numbers.dtype == np.uint64 else ">i8").tobytes()
    return jvm.java.nio.ByteBuffer.wrap(content).asLongBuffer()


def java_type(spark: SparkSession, type_: T.DataType) -> Any:
    """Return a type as the JVM has it."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.types.DataType.fromJson(type_.json())


def _given(jvm: Any, arguments: tuple[Column, ...]) -> tuple[Any, Any]:
    """Return arguments, and the types that they are to be turned into first: none."""
    sequence = jvm.PythonUtils.toSeq
    return sequence([_expression(jvm, each) for each in arguments]), sequence([])


def _expression(jvm: Any, column: Column) -> Any:
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)


def _column(jvm: Any, expression: Any) -> Column:
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


# Scans whose rows know where they are, and looks into tables, from inside of Spark.
#
# `_metadata` tells the file and the position of a row too, in a struct that is made for every
# row: that costs more than the scan of a column. Spark's reader has the position as a column
# of its own, and a number for each file can be what a partition's directory else gives.
# Nothing of this is API: where Spark is made otherwise there is no such scan, and whoever
# asked for one does with `_metadata`.

POSITION = "_tmp_metadata_row_index"
"""The column that holds a row's position in its file, as Spark's reader calls it."""
LABEL = "_havasu_label"
"""The column that holds the number of a row's file."""


def labelled_scan(
    spark: SparkSession, schema: T.StructType, labels: Mapping[str, int]
) -> DataFrame | None:
    """Return the rows of Parquet files with their positions, and their files' labels.

    Each file must be in a folder of its own. None where this Spark cannot do it.
    """
    folders = {Path(path).parent for path in labels}
    if len(folders) < len(labels) or {POSITION, LABEL} & set(schema.names):
        return None
    try:
        return _labelled(spark, copy.deepcopy(schema).add(POSITION, T.LongType()), labels)
    except ABSENT:
        return None


def _labelled(spark: SparkSession, schema: T.StructType, labels: Mapping[str, int]) -> DataFrame:
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    sources = jvm.org.apache.spark.sql.execution.datasources
    session = spark._jsparkSession
    empty, nothing = jvm.PythonUtils.toScalaMap({}), jvm.scala.Option.apply(None)
    columns = java_type(spark, schema)
    partition = java_type(spark, T.StructType().add(LABEL, T.IntegerType()))
    paths, parts = [], []
    for path, label in labels.items():
        paths.append(jvm.org.apache.hadoop.fs.Path(Path(path).as_uri()))
        value = gateway.new_array(jvm.java.lang.Object, 1)
        value[0] = label
        row = jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(value)
        parts.append(sources.PartitionPath(row, paths[-1].getParent()))
    index = sources.InMemoryFileIndex(
        session,
        jvm.PythonUtils.toSeq(paths),
        empty,
        jvm.scala.Some(columns),
        getattr(getattr(sources, "NoopCache$"), "MODULE$"),
        jvm.scala.Some(sources.PartitionSpec(partition, jvm.PythonUtils.toSeq(parts))),
        nothing,
    )
    reader = sources.parquet.ParquetFileFormat()
    relation = sources.HadoopFsRelation(index, partition, columns, nothing, reader, empty, session)
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def is_set(spark: SparkSession, words: npt.NDArray[np.uint64], index: Column) -> Column | None:
    """Return whether the bit at an index is set, in a table that goes with the plan.

    The table is Spark's own set of bits: a plan prints its class and not each bit, and a look
    becomes a few instructions of the code that Spark generates. An array of SQL is read in a
    way that keeps the compiler from everything else, and costs as much as the column's scan.
    None where this Spark has no such set.
    """
    try:
        jvm: Any = spark.sparkContext._jvm
        bits = jvm.org.apache.spark.util.collection.BitSet(64 * len(words))
        inside = bits.getClass().getDeclaredField("words")
        inside.setAccessible(True)
        java_longs(spark, words).get(inside.get(bits))
        if bits.cardinality() != int.from_bytes(words.tobytes(), "little").bit_count():
            return None
        return called(spark, java_object(spark, bits), "get", T.BooleanType(), index)
    except ABSENT:
        return None


def is_among(spark: SparkSession, numbers: npt.NDArray[np.int64], wanted: Column) -> Column | None:
    """Return whether a number is one of many, which are in order and go with the plan.

    None where this Spark cannot tell.
    """
    try:
        jvm: Any = spark.sparkContext._jvm
        gateway: Any = spark.sparkContext._gateway
        array = gateway.new_array(jvm.long, len(numbers))
        java_longs(spark, numbers).get(array)
        looked = ("java.util.Arrays", "binarySearch", T.IntegerType())
        return called_static(spark, *looked, java_object(spark, array), wanted) >= 0
    except ABSENT:
        return None


# Points in rectangles, told in the code that Spark generates, without a Python worker.
#
# Most windows are rectangles and most large tables hold points, whose coordinates stand at fixed
# bytes. Where footers prove that all values of the files are such points, a comparison of four
# numbers is exact, and spares the rows their way through Python, which takes longer than reading
# them. Everything else is compared geometry by geometry (`reading`).

_MOST_FILES = 64
"""Files up to which footers are read to know: each takes the driver a millisecond."""
_HEADER = 5
_HAS_SRID = 0x20000000
_POINTS = (1, 1001, 2001, 3001)
"""A point in two to four dimensions, as WKB numbers it; EWKB has flags for these."""


def points_inside(
    frame: DataFrame, files: Sequence[LiveFile], column: Field, test: SpatialTest
) -> DataFrame | None:
    """Return the rows of files that pass a test; None where it takes more than numbers to tell."""
    if not files:
        return frame
    bounds = test.window.bounds
    if bounds is None or test.predicate is SpatialPredicate.CONTAINS or column.geometry is None:
        return None
    if not (column.geometry.encoding.is_binary and column.type is Primitive.BINARY):
        return None
    if not (test.window.is_rectangle and bounds.xmin < bounds.xmax and bounds.ymin < bounds.ymax):
        return None
    first = _first_coordinate(files, column)
    if first is None:
        return None
    geometry = F.col("`" + column.name.replace("`", "``") + "`")
    try:
        x = _double_at(frame.sparkSession, geometry, first)
        y = _double_at(frame.sparkSession, geometry, first + 8)
    except ABSENT:
        return None
    # A point without coordinates has NaN, which Spark holds for greater than any number.
    if test.predicate is SpatialPredicate.WITHIN:
        inside = (x > bounds.xmin) & (x < bounds.xmax) & (y > bounds.ymin) & (y < bounds.ymax)
    else:
        inside = (x >= bounds.xmin) & (x <= bounds.xmax) & (y >= bounds.ymin) & (y <= bounds.ymax)
    return frame.where(inside)


def _first_coordinate(files: Sequence[LiveFile], column: Field) -> int | None:
    """Return at which byte of all geometries the coordinates of a point begin, if that is so."""
    if len(files) > _MOST_FILES or any(is_url(file.path) for file in files):
        return None
    found: set[bytes] = set()
    for file in files:
        headers = leading_bytes(file.path, column.id, _HEADER)
        if headers is None:
            return None
        found |= headers
    places = {_coordinates_after(header) for header in found}
    return places.pop() if len(places) == 1 else None


def _coordinates_after(header: bytes) -> int | None:
    """Return where coordinates begin behind a header of WKB, if it is one of a point.

    >>> [_coordinates_after(bytes.fromhex(header)) for header in ("0101000000", "0101000020")]
    [5, 9]
    """
    if header[:1] != b"\1":
        return None
    type_ = int.from_bytes(header[1:], "little")
    if type_ & 0x1FFFFFFF not in _POINTS:
        return None
    return _HEADER + 4 if type_ & _HAS_SRID else _HEADER


def _double_at(spark: SparkSession, value: Column, place: int) -> Column:
    """Return the number at a byte of a value, low byte first."""
    buffer = "java.nio.ByteBuffer"
    wrapped = called_static(spark, buffer, "wrap", buffer, value, nulls=True)
    bits = called(spark, wrapped, "getLong", T.LongType(), F.lit(place), nulls=True)
    turned = called_static(spark, "java.lang.Long", "reverseBytes", T.LongType(), bits, nulls=True)
    longs = ("java.lang.Double", "longBitsToDouble", T.DoubleType())
    return called_static(spark, *longs, turned, nulls=True)
