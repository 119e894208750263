"""Where to cut keys that are not known yet: a few of them stand for all.

A task keeps every so-many-th row of a column, more rarely the more rows it has, so that any
source gives a bounded number, and the same one gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.task import Task, kernel, run_task

__all__ = ["cuts_between", "sample"]

MOST = 2048
"""How many values stand for a task's."""


@kernel
def sample(pieces: tuple[()], task: Task, name: str) -> Iterator[pa.RecordBatch]:
    """Yield some values of a column of a task's rows, each with how many rows it stands for.

    It is run as an owner is, to whom nothing was dealt.
    """
    kept: list[pa.Array] = []
    step, seen = 1, 0
    for batch in run_task(task):
        column = batch.column(name)
        chosen = np.arange((-seen) % step, len(column), step)
        seen += len(column)
        kept.append(pc.take(column, arrow_array(chosen)))
        while sum(map(len, kept)) > MOST:
            values = pa.concat_arrays(kept)
            kept = [pc.take(values, arrow_array(np.arange(0, len(values), 2)))]
            step *= 2
    if kept:
        values = pa.concat_arrays(kept)
        weights = np.full(len(values), step, np.int64)
        yield pa.RecordBatch.from_arrays([values, arrow_array(weights)], ["value", "rows"])


def cuts_between(samples: Iterable[pa.RecordBatch], parts: int) -> Sequence[Any]:
    """Return values that cut what samples stand for into so many parts of about as many rows."""
    batches = [batch for batch in samples if batch.num_rows]
    if not batches or parts < 2:
        return ()
    table = pc.drop_null(pa.Table.from_batches(batches))
    table = pc.take(table, pc.sort_indices(table, sort_keys=[("value", "ascending")]))
    ends = np.cumsum(table.column("rows").to_numpy())
    if not len(ends):
        return ()
    wanted = ends[-1] * np.arange(1, parts) // parts
    values = pc.take(table.column("value"), arrow_array(np.searchsorted(ends, wanted, "right")))
    first = table.column("value")[0].as_py()
    return tuple(v for v in dict.fromkeys(values.to_pylist()) if v is not None and v > first)
