"""Kernels for the tests of engines: small ones that yield, fail, wait or crash as told.

They are here and not beside the tests because a task finds only kernels of this
package, on executors too.
"""

import os
import time
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc import errors
from havasu_vc.model.task import Task, kernel, run_task

__all__ = [
    "crash_once",
    "dictionaries",
    "fail",
    "fail_unexpectedly",
    "given_rows",
    "nothing",
    "numbers",
    "rows",
    "taken",
    "tick",
    "volume",
]

Batches = Generator[pa.RecordBatch, None, None]


@kernel
def numbers(start: int, count: int, batches: int = 1) -> Batches:
    """Yield `batches` batches of `count` integers each, counting up from `start`."""
    for index in range(batches):
        first = start + index * count
        yield pa.record_batch({"number": np.arange(first, first + count, dtype=np.int64)})


@kernel
def rows(seed: int, count: int) -> Batches:
    """Yield rows with keys that repeat, nulls and zeros of both signs, the same for a seed."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, max(count // 2, 1), count)
    names = pa.array([None if key % 7 == 0 else f"name {key}" for key in keys.tolist()])
    yield pa.record_batch(
        {
            "id": pa.array(keys),
            "name": names,
            "height": pa.array(np.where(np.arange(count) % 2 == 0, 0.0, -0.0)),
            "serial": pa.array(np.arange(count) + seed * 1_000_000),
        }
    )


@kernel
def given_rows(batch: pa.RecordBatch) -> Batches:
    """Yield a batch as it is."""
    yield batch


@kernel
def dictionaries(values: tuple[str, ...]) -> Batches:
    """Yield a batch for each value, each with a dictionary of its own."""
    for value in values:
        yield pa.record_batch({"value": pa.array([value, None, value]).dictionary_encode()})


@kernel
def nothing() -> Batches:
    """Yield no batch."""
    yield from ()


@kernel
def volume(batch_bytes: int, batches: int) -> Batches:
    """Yield batches of so many bytes, all different and none shared."""
    for index in range(batches):
        yield pa.record_batch({"byte": np.full(batch_bytes // 8, index, dtype=np.int64)})


@kernel
def fail(kind: str, arguments: tuple[object, ...], hints: tuple[str, ...], after: int) -> Batches:
    """Yield some batches, then raise an error of the tree by the name of its class."""
    yield from numbers(0, 3, after)
    error: errors.HavasuError = getattr(errors, kind)(*arguments)
    error.hints = hints or error.hints
    raise error


@kernel
def fail_unexpectedly(text: str) -> Batches:
    """Raise an exception that no kernel should."""
    yield from ()
    raise RuntimeError(text)


@kernel
def tick(path: str, steps: int, seconds: float) -> Batches:
    """Add a byte to a file and yield a batch, again and again with a pause."""
    for index in range(steps):
        with Path(path).open("ab") as file:
            file.write(b".")
        yield pa.record_batch({"number": [index]})
        time.sleep(seconds)


@kernel
def crash_once(marker: str, count: int) -> Batches:
    """End the whole process the first time, half way; yield numbers the second time."""
    yield from numbers(0, count)
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    yield from numbers(count, count)


@kernel
def taken(pieces: tuple[tuple[int, Task], ...], number: int) -> Batches:
    """Yield what an owner was given: how many rows it was told of, and all of them, sorted.

    A negative one fails.
    """
    if number < 0:
        raise errors.NotFoundError("this owner is gone")
    found = sorted(
        value
        for _, piece in pieces
        for batch in run_task(piece)
        for value in batch.column("number").to_pylist()
    )
    told = sum(count for count, _ in pieces)
    yield pa.record_batch({"owner": [number], "told": [told], "numbers": [found]})
