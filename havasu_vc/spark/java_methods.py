"""Methods of Java as columns: what SQL has no function for, in the code that Spark generates.

A call of a method of Java's or Spark's own classes is an expression inside of Spark, of which
datasets of the JVM are made. Nothing of this is API: where Spark is made otherwise `ABSENT` is
raised, and whoever wanted the column does without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession
from pyspark.sql import types as T

__all__ = ["ABSENT", "called", "called_static", "java_longs", "java_object", "java_type"]

ABSENT = (AttributeError, TypeError, Py4JError)
"""What is raised where this Spark lacks something."""


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
