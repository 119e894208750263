"""How two versions of a dataset differ: meta items at once, rows as a change stream.

A dataset that is added or removed differs from an empty one. Where the dataset's plan
pairs rows in place, its tasks run as they are. Where rows must be dealt out by key
first, the engine does that, and the changes of all parts are sorted back together.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import alike, row_hashes, same_key
from havasu_vc.datasets.protocol import Dataset, DiffPlan
from havasu_vc.engine.protocol import Engine
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.changes import ChangeBatch, CountableChanges, count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, meta_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

if TYPE_CHECKING:
    from havasu_vc.datasets.matching import Comparison

__all__ = [
    "are_apart",
    "bytes_between",
    "changes_counted",
    "diff_datasets",
    "looked_at_changes",
    "planned_changes",
    "row_changes",
    "seen_by",
]

Note = Callable[[str], None]
"""Hears what a person should know."""

PARTS = 64
"""Rows in no common order are dealt out into no fewer parts."""
FEW_BYTES = 32 << 20
"""Bytes of both versions below which nobody asks how many of them differ."""


def diff_datasets(
    path: str,
    old: Dataset | None,
    new: Dataset | None,
    open_engine: Callable[[], Engine],
    *,
    note: Note | None = None,
) -> DatasetDiff:
    """Return how one dataset differs between two versions.

    An engine is opened when the first change is asked for, and closed after the last.
    """
    before = None if old is None else old.header
    after = None if new is None else new.header

    def changes() -> Iterator[ChangeBatch]:
        with open_engine() as engine:
            yield from row_changes(old, new, engine, note=note)

    def count() -> ChangeCounts:
        with open_engine() as engine:
            return changes_counted(old, new, engine, note=note)

    stream = CountableChanges(changes(), count)
    return DatasetDiff(path, before, after, meta_changes(before, after), stream)


def bytes_between(old: Dataset | None, new: Dataset | None) -> int:
    """Return about how many bytes a diff of two versions reads, as far as entries tell."""
    whole = sum(view.size for view in (old, new) if view is not None)
    before, after = (None if view is None else view.in_files for view in (old, new))
    if before is None or after is None or whole <= FEW_BYTES:
        return whole
    from havasu_vc.datasets.havasu.diff import differing_entries

    return sum(entry.size for side in differing_entries(before, after) for entry in side)


def row_changes(
    old: Dataset | None,
    new: Dataset | None,
    engine: Engine,
    *,
    note: Note | None = None,
) -> Generator[ChangeBatch, None, None]:
    """Yield the row changes from one version to the other, in key order.

    `note` hears when old rows are shown as a commit claims them, because the data to
    compare them with is not here.
    """
    sides = _sides_seen(old, new, engine)
    if sides is None:
        return
    plan = sides[0].compare(sides[1])
    if plan is None:
        from havasu_vc.history.across import changes_across

        yield from changes_across(*sides, engine)
        return
    yield from planned_changes(plan, *sides, engine, note=note)


def changes_counted(
    old: Dataset | None, new: Dataset | None, engine: Engine, *, note: Note | None = None
) -> ChangeCounts:
    """Return how many rows differ from one version to another.

    Tasks count where they find the changes, so that no row passes through here.
    """
    sides = _sides_seen(old, new, engine)
    if sides is None:
        return ChangeCounts()
    plan = sides[0].compare(sides[1])
    if plan is None:
        from havasu_vc.history.across import changes_across

        return count_changes(changes_across(*sides, engine))
    _note_unverified(plan, sides[1], note)
    if plan.dealt:
        found = looked_at_changes(plan, task_of(counts, plan.pair([], [], [])), engine)
    else:
        counting = [task_of(counts, task) for task in plan.tasks()]
        anywhere = engine.apart and are_apart(*sides)
        what = f"Comparing {sides[1].path}"
        found = engine.run(counting, description=what, anywhere=anywhere, brief=True)
    total = ChangeCounts()
    with closing(found):
        for batch in found:
            total += ChangeCounts(*(batch.column(name)[0].as_py() for name in _COUNTS))
    return total


@kernel
def counts(task: Task) -> Iterator[pa.RecordBatch]:
    """Yield one row: how many changes of each kind a task yields."""
    found = count_changes(ChangeBatch(batch) for batch in run_task(task) if batch.num_rows)
    yield pa.record_batch({name: [getattr(found, name)] for name in _COUNTS})


_COUNTS = ("inserts", "updates", "deletes")


def _sides_seen(
    old: Dataset | None, new: Dataset | None, engine: Engine
) -> tuple[Dataset, Dataset] | None:
    """Return two versions as an engine's tasks see them, one that is not there as empty."""
    if old is None:
        old = None if new is None else new.emptied()
    elif new is None:
        new = old.emptied()
    if old is None or new is None:
        return None
    return seen_by(engine, old), seen_by(engine, new)


def seen_by(engine: Engine, view: Dataset) -> Dataset:
    """Return a version as those who run an engine's tasks see it."""
    if not engine.apart:
        return view
    from havasu_vc.datasets.havasu.far import as_seen

    return as_seen(view)


def planned_changes(
    plan: DiffPlan,
    old: Dataset,
    new: Dataset,
    engine: Engine,
    *,
    note: Note | None = None,
) -> Generator[ChangeBatch, None, None]:
    """Yield the row changes that were planned to be read so, in key order."""
    _note_unverified(plan, new, note)
    if plan.dealt:
        batches = _dealt(plan, engine, old)
    else:
        batches = engine.run(plan.tasks(), anywhere=engine.apart and are_apart(old, new))
    for batch in batches:
        if batch.num_rows:
            yield ChangeBatch(batch)


def _note_unverified(plan: DiffPlan, new: Dataset, note: Note | None) -> None:
    if plan.unverified and note is not None:
        note(
            f"{new.path}: deleted rows are shown unverified, as data files to compare them "
            "with are not here"
        )


def are_apart(*views: Dataset) -> bool:
    """Return whether tasks of some versions name no file of this machine."""
    from havasu_vc.datasets.havasu.far import is_apart

    return all(map(is_apart, views))


def looked_at_changes(
    plan: DiffPlan, look: Task, engine: Engine
) -> Generator[pa.RecordBatch, None, None]:
    """Yield what a task says of changes of rows that must be dealt out first.

    Its first argument stands for the task that yields them. It runs where they are found, once
    for each part of them, so that they go nowhere.
    """
    from havasu_vc.datasets.matching import with_changes

    matched = engine.run_matched(_comparison(plan, look))
    if matched is None:
        looking = [with_changes(look, pair) for pair in _pairs(plan, engine)]
        matched = engine.run(looking, description="Comparing", brief=True)
    yield from matched


def _dealt(plan: DiffPlan, engine: Engine, dataset: Dataset) -> Iterator[pa.RecordBatch]:
    """Pair rows part by part, then sort the changes of all parts by key."""
    from havasu_vc.history.across import sorted_changes

    matched = engine.run_matched(_comparison(plan))
    if matched is not None:
        yield from matched
        return
    keyed_by = plan.new_schema.key.fields if same_key(plan.old_schema, plan.new_schema) else ()
    keyed = [
        task_of(with_keys, pair, plan.old_schema, plan.new_schema) for pair in _pairs(plan, engine)
    ]
    folder = dataset.storage.staging.scratch / f"runs-{uuid.uuid4().hex}"
    yield from sorted_changes(keyed, max(len(keyed_by), 1), engine, folder, parts_a_run=8)


def _comparison(plan: DiffPlan, look: Task | None = None) -> Comparison:
    from havasu_vc.datasets.matching import Comparison

    old, new = plan.sides()
    return Comparison(tuple(old), tuple(new), plan.old_schema, plan.new_schema, look)


def _pairs(plan: DiffPlan, engine: Engine) -> list[Task]:
    """Deal rows out by their keys, and return tasks that each pair those of one part."""
    from havasu_vc.history.across import parts_for

    parts = parts_for(sum(each.size for side in plan.sides() for each in side), PARTS)
    old, new, half_paired = (
        engine.partition(half, ["_key"], parts) if half else [] for half in plan.halves()
    )
    return [
        plan.pair(old[part : part + 1], new[part : part + 1], half_paired[part : part + 1])
        for part in range(parts)
    ]


@kernel
def with_keys(task: Task, old_schema: Schema, new_schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a task with their keys in columns of their own, to sort by."""
    for batch in run_task(task):
        changes = ChangeBatch(batch)
        old, new = changes.old, changes.new
        columns = []
        for after in new_schema.key.fields if same_key(old_schema, new_schema) else ():
            before = old_schema.by_id[after.id]
            left, right = alike(pc.struct_field(old, before.name), pc.struct_field(new, after.name))
            columns.append(pc.coalesce(right, left))
        if not columns:
            columns = [_row_order(changes, old_schema, new_schema)]
        names = [f"key{index}" for index in range(len(columns))]
        yield pa.RecordBatch.from_arrays([*columns, old, new], [*names, "old", "new"])


def _row_order(changes: ChangeBatch, old_schema: Schema, new_schema: Schema) -> pa.Array:
    """Return the hash of each row that comes or goes: rows without a key sort by it."""
    hashes = np.empty(len(changes), np.uint64)
    comes = pc.is_valid(changes.new).to_numpy(zero_copy_only=False)
    hashes[comes] = row_hashes(changes.new_rows(), new_schema, new_schema)
    hashes[~comes] = row_hashes(changes.old_rows(), old_schema, new_schema)
    return arrow_array(hashes)
