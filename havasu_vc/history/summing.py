"""Adding up what tasks yield: digests and counts of rows, what changes touch.

Each task reports its share, which needs no folder that machines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from havasu_vc.datasets.digest import Digests, format_digests, hash_rows, parse_digests
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.history.conflicts import dropped_and_edited, dropped_columns
from havasu_vc.history.diff import are_apart, looked_at_changes, row_changes, seen_by
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["add_up", "edited_columns", "sums"]


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


def edited_columns(
    base: Dataset, dropping: Schema, other: Dataset, open_engine: Callable[[int], Engine]
) -> frozenset[int]:
    """Return the columns and parts, by id, that a side dropped and whose values the other changed.

    Tasks look at the changes where they find them, and report columns alone. Only those between
    versions with different keys pass through here, a batch at a time.
    """
    wanted = dropped_columns(base.schema, dropping, other.schema)
    if not wanted:
        return wanted
    found: frozenset[int] = frozenset()
    with open_engine(other.size) as engine:
        base, other = seen_by(engine, base), seen_by(engine, other)
        schemas = (base.schema, dropping, other.schema)
        plan = base.compare(other)
        if plan is None:
            return dropped_and_edited(*schemas, lambda: row_changes(base, other, engine))
        if plan.dealt:
            look = task_of(edits_of_dropped, plan.pair([], [], []), *schemas)
            told = looked_at_changes(plan, look, engine)
        else:
            looking = [task_of(edits_of_dropped, task, *schemas) for task in plan.tasks()]
            anywhere = engine.apart and are_apart(base, other)
            what = f"Comparing {other.path}"
            told = engine.run(looking, description=what, anywhere=anywhere)
        with closing(told):
            for batch in told:
                found |= frozenset(batch.column("column").to_pylist())
                if found == wanted:
                    break
    return found


@kernel
def edits_of_dropped(
    task: Task, base: Schema, dropping: Schema, other: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the columns that a side dropped and whose values the changes of a task change."""

    def changes() -> Iterator[ChangeBatch]:
        return (ChangeBatch(batch) for batch in run_task(task) if batch.num_rows)

    found = dropped_and_edited(base, dropping, other, changes)
    yield pa.record_batch({"column": pa.array(sorted(found), pa.int64())})
