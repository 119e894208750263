"""Rows that no file order pairs, dealt out into parts by a hash of their key.

Written once over `Engine.run`, so that the same key lands in the same part on every
engine and in every call. The hash of a row combines its key columns in the order
given, each in its stored type (`model.arrow`), so that widths do not matter:

    h = 0;  for column i:  h = mix(h + mix(value_i + (i + 1) * STEP))

with `model.hashing`, a constant for null, and zero for both floating-point zeros.
The part is h modulo the number of parts. Within a part, rows keep their order.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.engine.spill import Segment, SpillFile, read
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import schema_from_arrow, to_stored
from havasu_vc.model.hashing import NULL, STEP, Hashes, hash_values, mix
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["key_hashes", "partition_tasks", "split"]

FLUSH_BYTES = 32 << 20
"""Input that is collected before it is split, so that pieces do not get tiny."""

_SUMMARY = pa.schema(
    [
        ("part", pa.int32()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
    ]
)


def partition_tasks(
    engine: Engine, tasks: Sequence[Task], key: Sequence[str], parts: int, *, folder: Path
) -> list[Task]:
    """Run the tasks on an engine, spill their rows to `folder`, return a task for each part."""
    if parts < 1:
        raise ValueError(f"cannot deal rows out into {parts} parts")
    if not key:
        raise ValueError("rows are dealt out by at least one key column")
    splits = [task_of(split, task, tuple(key), parts, str(folder)) for task in tasks]
    segments: list[list[Segment]] = [[] for _ in range(parts)]
    for summary in engine.run(splits, description="Dealing rows out", brief=True):
        numbers, *columns = (column.to_pylist() for column in summary.columns)
        for part, segment in zip(numbers, zip(*columns, strict=True), strict=True):
            segments[part].append(segment)
    return [task_of(read, tuple(part)) for part in segments]


@kernel
def split(task: Task, key: tuple[str, ...], parts: int, folder: str) -> Batches:
    """Run a task, write its rows part by part into one file, yield where each part is."""
    extents: list[tuple[int, int, int]] = []
    with SpillFile(Path(folder)) as spill:
        for rows in _collected(run_task(task)):
            for part, piece in _pieces(rows, key, parts):
                spill.write(piece)
                extents.extend((part, *extent) for extent in spill.cut())
        path = spill.finish()
    if path is not None:
        numbers, offsets, lengths = zip(*extents, strict=True)
        yield pa.record_batch([numbers, [path] * len(extents), offsets, lengths], schema=_SUMMARY)


def key_hashes(rows: pa.RecordBatch, key: Sequence[str]) -> Hashes:
    """Return the hash of each row's key; equal keys have equal hashes."""
    combined = np.zeros(rows.num_rows, np.uint64)
    if not rows.num_rows:
        return combined
    columns = rows.select(list(key))
    schema = schema_from_arrow(columns.schema)
    stored = to_stored(columns, schema)
    for field, column in zip(schema.fields, stored.columns, strict=True):
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0, column.type))  # makes -0.0 a plain zero
        hashes = hash_values(column, field)
        if column.null_count:
            hashes[column.is_null().to_numpy(zero_copy_only=False)] = NULL
        shift = np.uint64(field.id * int(STEP) & 0xFFFFFFFFFFFFFFFF)
        combined = mix(combined + mix(hashes + shift))
    return combined


def _collected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of about FLUSH_BYTES, each of one schema."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and (size >= FLUSH_BYTES or batch.schema != waiting[0].schema):
            yield _joined(waiting)
            waiting, size = [], 0
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(
    rows: pa.RecordBatch, key: tuple[str, ...], parts: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    dealt: npt.NDArray[np.int64] = (key_hashes(rows, key) % np.uint64(parts)).astype(np.int64)
    order = np.argsort(dealt, kind="stable")
    ends = np.cumsum(np.bincount(dealt, minlength=parts))
    start = 0
    for part, end in enumerate(ends.tolist()):
        if end > start:
            # Taken part by part: a whole copy at once could pass 2 GiB of text.
            yield part, rows.take(pa.array(order[start:end]))
        start = end
