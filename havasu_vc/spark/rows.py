"""Rows of ours as Spark shows them: the same columns as a read gives, batch by batch.

A UUID is text, a time of day a number of microseconds, bytes of one length are bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from havasu_vc.engine.session import cores_of, is_connect
from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.worker import forget_archives
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Fixed, List, Map, Primitive, Struct, Type
from havasu_vc.records import dataclass

__all__ = ["frame_of", "shown_rows", "shown_schema"]


_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)
_DASHES = (8, 12, 16, 20)
_UUID_LENGTH = 36


def shown_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of the rows that Spark gets."""
    return pa.schema([pa.field(field.name, shown_type(field.type)) for field in schema.fields])


def shown_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of the values that Spark gets."""
    match type_:
        case Primitive.UUID:
            return pa.string()
        case Primitive.TIME:
            return pa.int64()
        case Fixed():
            return pa.binary()
        case Struct(fields):
            return pa.struct([pa.field(f.name, shown_type(f.type)) for f in fields])
        case List(element):
            return pa.list_(pa.field("element", shown_type(element.type)))
        case Map(key, value):
            return pa.map_(
                pa.field("key", shown_type(key.type), nullable=False),
                pa.field("value", shown_type(value.type)),
            )
        case _:
            return arrow_type(type_)


def shown_rows(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return stored rows as Spark gets them, in the order of the schema."""
    target = shown_schema(schema)
    columns = [_shown(batch.column(index), field.type) for index, field in enumerate(schema.fields)]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _shown(column: pa.Array, type_: Type) -> pa.Array:
    wanted = shown_type(type_)
    mask = pc.is_null(column) if column.null_count else None
    match type_:
        case Primitive.UUID:
            return _uuid_texts(column)
        case Struct(fields):
            parts = [_shown(p, f.type) for p, f in zip(column.flatten(), fields, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)
        case List(element):
            first, length = _span(column)
            values = _shown(column.values.slice(first, length), element.type)
            offsets = pc.subtract(column.offsets, first)
            return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)
        case Map(key, value):
            first, length = _span(column)
            keys = _shown(column.keys.slice(first, length), key.type)
            items = _shown(column.items.slice(first, length), value.type)
            offsets = pc.subtract(column.offsets, first)
            return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=mask)
        case _:
            return column if column.type == wanted else column.cast(wanted)


def _span(column: pa.Array) -> tuple[int, int]:
    first = column.offsets[0].as_py()
    return first, column.offsets[-1].as_py() - first


def _uuid_texts(column: pa.FixedSizeBinaryArray) -> pa.StringArray:
    count = len(column)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    data = np.zeros((count, 16), np.uint8)
    present = column.drop_null()
    if len(present):
        start = present.offset * 16
        values = np.frombuffer(present.buffers()[1], np.uint8)[start : start + len(present) * 16]
        data[there] = values.reshape(-1, 16)
    digits = _HEX.reshape(256, 2)[data].reshape(count, 32)
    texts = np.insert(digits, _DASHES, ord("-"), axis=1)
    offsets = np.arange(count + 1, dtype=np.int32) * _UUID_LENGTH
    made = pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts))
    )
    return made if there.all() else pc.if_else(column.is_valid(), made, None)


# Data frames whose rows our own tasks make, in Spark's Python workers.
#
# The tasks travel by a broadcast where there is one, a few Spark partitions share them, and
# each gives its rows to Spark batch by batch: no row passes through the driver. Spark matches
# what comes back by position and does not check it, so whoever shapes batches has them in the
# frame's order.

Item = TypeVar("Item")

_PARTITIONS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class _Told:
    """Tasks that travel with the function that runs them: Spark Connect has no broadcast."""

    value: list[bytes]
    """The tasks, pickled."""


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
    pickled = [pickle.dumps(item) for item in items]
    given = _Told(pickled) if is_connect(spark) else spark.sparkContext.broadcast(pickled)
    parts = min(len(items), _PARTITIONS_PER_CORE * cores_of(spark))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows_of(pickle.loads(given.value[number]))

    return spark.range(0, len(items), 1, parts).mapInArrow(run, shown)
