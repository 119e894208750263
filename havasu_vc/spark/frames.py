"""Data frames whose rows our own tasks make, in Spark's Python workers.

The tasks travel by a broadcast, a few Spark partitions share them, and each gives its rows
to Spark batch by batch: no row passes through the driver. Spark matches what comes back
by position and does not check it, so whoever shapes batches has them in the frame's order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from havasu_vc.engine.session import ensure_package
from havasu_vc.engine.worker import forget_archives

__all__ = ["frame_of"]

Item = TypeVar("Item")

_PARTITIONS_PER_CORE = 4


def frame_of(
    spark: SparkSession,
    items: Sequence[Item],
    rows_of: Callable[[Item], Iterator[pa.RecordBatch]],
    shown: T.StructType,
) -> DataFrame:
    """Return a frame of the rows that `rows_of` gives for each item; both must pickle."""
    if not items:
        return spark.createDataFrame([], shown)
    ensure_package(spark)
    context = spark.sparkContext
    given = context.broadcast([pickle.dumps(item) for item in items])
    parts = min(len(items), _PARTITIONS_PER_CORE * max(context.defaultParallelism, 1))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows_of(pickle.loads(given.value[number]))

    return spark.range(0, len(items), 1, parts).mapInArrow(run, shown)
