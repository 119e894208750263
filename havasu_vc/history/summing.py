"""Adding up what tasks yield: the digests and the count of rows, or the counts of changes.

Each task reports its share, which needs no folder that machines share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from havasu_vc.datasets.digest import Digests, format_digests, hash_rows, parse_digests
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.history.diff import are_apart, row_changes
from havasu_vc.model.changes import ChangeBatch, count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["add_up", "changes_counted", "sums"]


def add_up(
    tasks: Sequence[Task],
    schema: Schema,
    engine: Engine,
    *,
    description: str = "Adding up",
    anywhere: bool = True,
) -> tuple[int, dict[int, Digest]]:
    """Return how many rows some tasks yield, and the digests of each column over them."""
    digests = Digests()
    rows = 0
    adding = [task_of(sums, (), task, schema) for task in tasks]
    for batch in engine.run_dealt([], adding, description=description, anywhere=anywhere):
        rows += batch.column("rows")[0].as_py()
        digests.add(parse_digests(batch.column("digests")[0].as_py()))
    return rows, digests.of(schema.by_id)


@kernel
def sums(pieces: tuple[()], task: Task, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield one row: the count and the digests of what a task yields; nothing is dealt to it."""
    digests = Digests()
    rows = 0
    for batch in run_task(task):
        rows += batch.num_rows
        digests.add(hash_rows(batch, schema).digests)
    yield pa.record_batch({"rows": [rows], "digests": [format_digests(digests.sums)]})


def changes_counted(old: Dataset, new: Dataset, engine: Engine) -> ChangeCounts:
    """Return how many rows differ from one version to another."""
    plan = old.compare(new)
    if plan is None or plan.dealt:
        return count_changes(row_changes(old, new, engine))
    counting = [task_of(counts, (), task) for task in plan.tasks()]
    found = ChangeCounts()
    anywhere = not engine.apart or not new.storage.on_demand or are_apart(old, new)
    what = f"Comparing {new.path}"
    for batch in engine.run_dealt([], counting, description=what, anywhere=anywhere):
        found += ChangeCounts(*(batch.column(name)[0].as_py() for name in _COUNTS))
    return found


@kernel
def counts(pieces: tuple[()], task: Task) -> Iterator[pa.RecordBatch]:
    """Yield one row: how many changes of each kind a task yields; nothing is dealt to it."""
    changes = (ChangeBatch(batch) for batch in run_task(task) if batch.num_rows)
    found = count_changes(changes)
    yield pa.record_batch({name: [getattr(found, name)] for name in _COUNTS})


_COUNTS = ("inserts", "updates", "deletes")
