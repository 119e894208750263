"""Scans whose rows know where they are, and constants that are arrays, from inside of Spark.

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
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

__all__ = ["LABEL", "POSITION", "constant_array", "labelled_scan"]

POSITION = "_tmp_metadata_row_index"
"""The column that holds a row's position in its file, as Spark's reader calls it."""
LABEL = "_havasu_label"
"""The column that holds the number of a row's file."""

_ABSENT = (AttributeError, TypeError, Py4JError)


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
    except _ABSENT:
        return None


def _labelled(spark: SparkSession, schema: T.StructType, labels: Mapping[str, int]) -> DataFrame:
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    sources = jvm.org.apache.spark.sql.execution.datasources
    session = spark._jsparkSession
    empty, nothing = jvm.PythonUtils.toScalaMap({}), jvm.scala.Option.apply(None)
    columns = _java_type(jvm, schema)
    partition = _java_type(jvm, T.StructType().add(LABEL, T.IntegerType()))
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


def _java_type(jvm: Any, schema: T.StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def constant_array(
    spark: SparkSession, values: npt.NDArray[np.int32] | npt.NDArray[np.int64]
) -> Column | None:
    """Return a constant that holds whole numbers and of which a plan does not print each.

    None where this Spark cannot have it.
    """
    try:
        jvm: Any = spark.sparkContext._jvm
        gateway: Any = spark.sparkContext._gateway
        wide = values.dtype == np.int64
        array = gateway.new_array(jvm.long if wide else jvm.int, len(values))
        given = jvm.java.nio.ByteBuffer.wrap(values.astype(">i8" if wide else ">i4").tobytes())
        (given.asLongBuffer() if wide else given.asIntBuffer()).get(array)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        element = T.LongType() if wide else T.IntegerType()
        type_ = T.ArrayType(element, containsNull=False)
        constant = expressions.Literal(
            expressions.UnsafeArrayData.fromPrimitiveArray(array),
            jvm.org.apache.spark.sql.types.DataType.fromJson(type_.json()),
        )
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(constant))
    except _ABSENT:
        return None
