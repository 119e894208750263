"""Adding rows up again: the digests and the count of what tasks yield."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from havasu_vc.datasets.digest import Digests, format_digests, hash_rows, parse_digests
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["add_up", "sums"]


def add_up(
    tasks: Sequence[Task], schema: Schema, engine: Engine, *, description: str = "Adding up"
) -> tuple[int, dict[int, Digest]]:
    """Return how many rows some tasks yield, and the digests of each column over them."""
    digests = Digests()
    rows = 0
    adding = [task_of(sums, task, schema) for task in tasks]
    for batch in engine.run(adding, description=description):
        rows += batch.column("rows")[0].as_py()
        digests.add(parse_digests(batch.column("digests")[0].as_py()))
    return rows, digests.of(schema.by_id)


@kernel
def sums(task: Task, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield one row: the count and the digests of what a task yields."""
    digests = Digests()
    rows = 0
    for batch in run_task(task):
        rows += batch.num_rows
        digests.add(hash_rows(batch, schema).digests)
    yield pa.record_batch({"rows": [rows], "digests": [format_digests(digests.sums)]})
