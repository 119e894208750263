"""How two versions of a dataset differ: meta items at once, rows as a change stream.

A dataset that is added or removed differs from an empty one. Where the dataset's plan
pairs rows in place, its tasks run as they are. Where rows must be dealt out by key
first, the engine does that, and the changes of all parts are sorted back together.

Row changes between versions that are kept in two ways, or under two keys: by key.

Nothing but their rows tells what differs, so all rows of both are read: side by side in
memory while they are few, else dealt out by key hash first.

Changes that parts of a comparison give, sorted by key into one stream.

Parts are dealt out by key hash, so each is in no order that the whole could follow.
Their changes, with keys in columns of their own, are sorted through runs on disk.

The changes between two versions of a dataset, of all rows or of chosen ones, by key.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.matching import Comparison, TaskSource
from havasu_vc.datasets.pairing import Mask, alike, pair_rows, row_hashes, same_key
from havasu_vc.datasets.protocol import Dataset, DiffPlan, Reading
from havasu_vc.datasets.sorting import RunReader, cut_ranges, sort_run
from havasu_vc.engine.protocol import Engine
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, MetaChange
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = [
    "ChosenRows",
    "all_changes",
    "bytes_between",
    "changes_across",
    "diff_datasets",
    "meta_changes",
    "planned_changes",
    "row_changes",
    "sorted_changes",
]

Note = Callable[[str], None]
"""Hears what a person should know."""

PARTS = 64
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

    return DatasetDiff(path, before, after, meta_changes(before, after), changes())


def bytes_between(old: Dataset | None, new: Dataset | None) -> int:
    """Return about how many bytes a diff of two versions reads, as far as entries tell."""
    whole = sum(view.size for view in (old, new) if view is not None)
    before, after = (None if view is None else view.in_files for view in (old, new))
    if before is None or after is None or whole <= FEW_BYTES:
        return whole
    from havasu_vc.datasets.havasu.diff import differing_entries

    return sum(entry.size for side in differing_entries(before, after) for entry in side)


def meta_changes(old: DatasetHeader | None, new: DatasetHeader | None) -> tuple[MetaChange, ...]:
    """Return the meta items that differ, by name."""
    before = dict(old.meta) if old is not None else {}
    after = dict(new.meta) if new is not None else {}
    return tuple(
        MetaChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


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
    if old is None:
        old = new.emptied() if new is not None else None
    elif new is None:
        new = old.emptied()
    if old is None or new is None:
        return
    plan = old.compare(new)
    if plan is None:
        yield from changes_across(old, new, engine)
        return
    yield from planned_changes(plan, old, new, engine, note=note)


def planned_changes(
    plan: DiffPlan,
    old: Dataset,
    new: Dataset,
    engine: Engine,
    *,
    note: Note | None = None,
) -> Generator[ChangeBatch, None, None]:
    """Yield the row changes that were planned to be read so, in key order."""
    if plan.unverified and note is not None:
        note(
            f"{new.path}: deleted rows are shown unverified, as data files to compare them "
            f"with are not here ({len(plan.unverified)} delete files)"
        )
    batches = _dealt(plan, engine, old) if plan.dealt else engine.run(plan.tasks())
    for batch in batches:
        if batch.num_rows:
            yield ChangeBatch(batch)


def _dealt(plan: DiffPlan, engine: Engine, dataset: Dataset) -> Iterator[pa.RecordBatch]:
    """Pair rows part by part, then sort the changes of all parts by key."""
    from havasu_vc.datasets.matching import Comparison

    old_side, new_side = plan.sides()
    comparison = Comparison(tuple(old_side), tuple(new_side), plan.old_schema, plan.new_schema)
    matched = engine.run_matched(comparison)
    if matched is not None:
        yield from matched
        return
    old, new, half_paired = (
        engine.partition(half, ["_key"], PARTS) if half else [] for half in plan.halves()
    )
    pairs = [
        plan.pair(old[part : part + 1], new[part : part + 1], half_paired[part : part + 1])
        for part in range(PARTS)
    ]
    keyed_by = plan.new_schema.key.fields if same_key(plan.old_schema, plan.new_schema) else ()
    keyed = [task_of(with_keys, pair, plan.old_schema, plan.new_schema) for pair in pairs]
    folder = dataset.storage.staging.scratch / f"runs-{uuid.uuid4().hex}"
    yield from sorted_changes(keyed, max(len(keyed_by), 1), engine, folder, parts_a_run=8)


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


PARTS_BY_KEY = 32
SMALL_BYTES = 32 << 20


def changes_across(old: Dataset, new: Dataset, engine: Engine) -> Iterator[ChangeBatch]:
    """Yield the row changes from one version to the other, in key order."""
    # Only within one kind does a column keep its id.
    after = new.schema if old.kind == new.kind else _renumbered(old.schema, new.schema)
    if old.size + new.size <= SMALL_BYTES:
        sides = [
            _gathered(engine.run(view.scan()), schema)
            for view, schema in ((old, old.schema), (new, after))
        ]
        yield from pair_rows(sides[0], sides[1], old.schema, after)
        return
    yield from _dealt_by_key(old, new, after, engine)


def _renumbered(old: Schema, new: Schema) -> Schema:
    """Return the new schema with the old one's ids for columns that are known by name alone."""
    taken = set(old.by_id)
    ids = {}
    for field in new.fields:
        known = old.by_name.get(field.name)
        if field.id not in taken and known is not None and known.id not in new.by_id:
            ids[field.id] = known.id
    fields = tuple(replace(f, id=ids.get(f.id, f.id)) for f in new.fields)
    return Schema(fields, tuple(ids.get(number, number) for number in new.identifier_ids))


def _gathered(batches: Iterator[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    target = arrow_schema(schema)
    found = [batch.cast(target) for batch in batches if batch.num_rows]
    return pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], schema=target)


def _dealt_by_key(
    old: Dataset, new: Dataset, after: Schema, engine: Engine
) -> Iterator[ChangeBatch]:
    """Match rows, or pair them part by part and sort the changes of all parts by key."""
    sides = [
        tuple(TaskSource(task, view.rows // len(tasks), view.size // len(tasks)) for task in tasks)
        for view in (old, new)
        for tasks in [view.scan() if view.rows else []]
    ]
    matched = engine.run_matched(Comparison(sides[0], sides[1], old.schema, after))
    if matched is not None:
        yield from map(ChangeBatch, matched)
        return
    halves = [
        engine.partition(
            [task_of(keyed, task, schema, old.schema, after) for task in view.scan()],
            ["_key"],
            PARTS_BY_KEY,
        )
        if view.rows
        else []
        for view, schema in ((old, old.schema), (new, after))
    ]
    pairs = [
        task_of(
            paired,
            halves[0][part : part + 1],
            halves[1][part : part + 1],
            old.schema,
            after,
        )
        for part in range(PARTS_BY_KEY)
    ]
    count = len(after.key.fields) if same_key(old.schema, after) else 1
    folder = Path(tempfile.gettempdir()) / f"havasu-runs-{uuid.uuid4().hex}"
    for batch in sorted_changes(pairs, count, engine, folder, parts_a_run=4):
        yield ChangeBatch(batch)


@kernel
def keyed(task: Task, schema: Schema, old: Schema, new: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, and in a last column `_key` what stands for their key."""
    target = arrow_schema(schema)
    by_key = same_key(old, new)
    for batch in run_task(task):
        rows = batch.cast(target)
        keys = hash_keys(rows, schema) if by_key else row_hashes(rows, schema, new)
        yield rows.append_column("_key", arrow_array(keys))


@kernel
def paired(
    old: Sequence[Task], new: Sequence[Task], before: Schema, after: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between two parts that were dealt out, with their keys to sort by."""
    sides = []
    for tasks, schema in ((old, before), (new, after)):
        batches = (b.drop_columns(["_key"]) for task in tasks for b in run_task(task))
        sides.append(_gathered(batches, schema))
    for changes in pair_rows(sides[0], sides[1], before, after):
        columns = []
        for field in after.key.fields if same_key(before, after) else ():
            was = pc.struct_field(changes.old, before.by_id[field.id].name)
            left, right = alike(was, pc.struct_field(changes.new, field.name))
            columns.append(pc.coalesce(right, left))
        if not columns:
            columns = [_order_by_key(changes, before, after)]
        names = [f"key{index}" for index in range(len(columns))]
        yield pa.RecordBatch.from_arrays(
            [*columns, changes.old, changes.new], [*names, "old", "new"]
        )


def _order_by_key(changes: ChangeBatch, before: Schema, after: Schema) -> pa.Array:
    """Return the hash of each row that comes or goes, as it would be paired by rows."""
    old = arrow_array(row_hashes(changes.old_rows(), before, after))
    new = arrow_array(row_hashes(changes.new_rows(), after, after))
    comes = pc.is_valid(changes.new)
    hashes = pc.replace_with_mask(pa.array([0] * len(changes), pa.uint64()), comes, new)
    return pc.replace_with_mask(hashes, pc.invert(comes), old)


def sorted_changes(
    parts: Sequence[Task], keys: int, engine: Engine, folder: Path, *, parts_a_run: int
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of all parts in key order, as `old` and `new`.

    Parts yield these and the key in columns `key0`, `key1` and so on, `keys` of them.
    `folder` holds the runs meanwhile.
    """
    names = tuple(f"key{index}" for index in range(keys))
    try:
        tasks = [
            task_of(sort_run, parts[start : start + parts_a_run], names, str(folder))
            for start in range(0, len(parts), parts_a_run)
        ]
        reports = [report for report in engine.run(tasks) if report.num_rows]
        if not reports:
            return
        runs, ranges = cut_ranges(reports)
        reader = RunReader(runs, names)
        for each in ranges:
            rows = reader.rows(each)
            if rows is not None and rows.num_rows:
                yield rows.select(["old", "new"])
    finally:
        # Also runs of tasks that were cut short, of which there is no report.
        shutil.rmtree(folder, ignore_errors=True)


def all_changes(old: Dataset, new: Dataset, engine: Engine) -> Iterator[tuple[ChangeBatch, Hashes]]:
    """Yield all changes between two versions with the same key, with the hash of each key."""
    for batch in row_changes(old, new, engine):
        yield batch, key_hashes(batch, old.schema, new.schema)


def key_hashes(batch: ChangeBatch, old: Schema, new: Schema) -> Hashes:
    """Return the hash of the key of each change."""
    hashes = np.empty(len(batch), np.uint64)
    comes = pc.is_valid(batch.new).to_numpy(zero_copy_only=False)
    hashes[comes] = hash_keys(batch.new_rows(), new)
    hashes[~comes] = hash_keys(pc.filter(batch.old_rows(), _at(batch, comes)), old)
    return hashes


def _at(batch: ChangeBatch, comes: Mask) -> pa.BooleanArray:
    """Return which of the old rows have no new one."""
    there = pc.is_valid(batch.old).to_numpy(zero_copy_only=False)
    return arrow_array(~comes[there])


class ChosenRows:
    """Rows with some keys, followed through versions of a dataset."""

    def __init__(self, keys: pa.RecordBatch, schema: Schema, engine: Engine) -> None:
        self._chosen = ChosenKeys(keys, schema)
        self._engine = engine

    @property
    def hashes(self) -> Hashes:
        """Hashes of the keys, ascending."""
        return self._chosen.hashes

    def changes(
        self, old: Dataset, new: Dataset, *, live: bool = False
    ) -> Iterator[tuple[ChangeBatch, Hashes]]:
        """Yield the changes of the rows between two versions, with the hash of each key.

        `live` says that all of them are in the new version. Both must have the same key.
        """
        for batch in self._batches(old, new, live=live):
            hashes = key_hashes(batch, old.schema, new.schema)
            wanted = np.isin(hashes, self.hashes)
            if wanted.any():
                chosen = ChangeBatch(pc.filter(batch.data, arrow_array(wanted)))
                yield chosen, hashes[wanted]

    def _batches(self, old: Dataset, new: Dataset, *, live: bool) -> Iterator[ChangeBatch]:
        """Yield changes among which those of the rows are."""
        reading = old.plan_chosen(new, self._chosen, live=live)
        if reading is Reading.CHANGES:
            yield from row_changes(old, new, self._engine)
        elif reading is Reading.ROWS:
            sides = [view.rows_with_keys(self._chosen.of(view.schema)) for view in (old, new)]
            yield from pair_rows(sides[0], sides[1], old.schema, new.schema)

    def rows(self, view: Dataset) -> pa.RecordBatch:
        """Return the rows that a version has."""
        if not same_key(self._chosen.schema, view.schema):
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(view.schema))
        rows = view.rows_with_keys(self._chosen.of(view.schema))
        wanted = np.isin(hash_keys(rows, view.schema), self.hashes)
        return pc.filter(rows, arrow_array(wanted))
