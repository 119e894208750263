"""Scans whose rows know where they are, and looks into tables, from inside of Spark.

`_metadata` tells the file and the position of a row too, in a struct that is made for every
row: that costs more than the scan of a column. Spark's reader has the position as a column
of its own, and a number for each file can be what a partition's directory else gives.
Nothing of this is API: where Spark is made otherwise there is no such scan, and whoever
asked for one does with `_metadata`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

from havasu_vc.spark.java_methods import (
    ABSENT,
    called,
    called_static,
    java_longs,
    java_object,
    java_type,
)

__all__ = ["LABEL", "POSITION", "is_among", "is_set", "labelled_scan"]

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
