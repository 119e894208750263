"""Row changes between versions that are kept in two ways, or under two keys: by key.

Nothing but their rows tells what differs, so all rows of both are read: side by side in
memory while they are few, else dealt out by key hash first.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.matching import Comparison, TaskSource
from havasu_vc.datasets.pairing import alike, pair_rows, row_hashes, same_key
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.datasets.sorting import RunReader, cut_ranges, sort_run
from havasu_vc.engine.protocol import Engine
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["changes_across", "parts_for", "sorted_changes"]

PARTS = 32
"""Rows are dealt out into no fewer parts."""
PART_BYTES = 16 << 20
"""Bytes in files of the rows that one part has, of both versions, so that its memory is bounded."""
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
    yield from _dealt(old, new, after, engine)


def parts_for(size: int, least: int) -> int:
    """Return into how many parts rows are dealt that have some bytes in files."""
    return max(least, -(-size // PART_BYTES))


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


def _dealt(old: Dataset, new: Dataset, after: Schema, engine: Engine) -> Iterator[ChangeBatch]:
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
    parts = parts_for(old.size + new.size, PARTS)
    halves = [
        engine.partition(
            [task_of(keyed, task, schema, old.schema, after) for task in view.scan()],
            ["_key"],
            parts,
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
        for part in range(parts)
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
            columns = [_row_order(changes, before, after)]
        names = [f"key{index}" for index in range(len(columns))]
        yield pa.RecordBatch.from_arrays(
            [*columns, changes.old, changes.new], [*names, "old", "new"]
        )


def _row_order(changes: ChangeBatch, before: Schema, after: Schema) -> pa.Array:
    """Return the hash of each row that comes or goes, as it would be paired by rows."""
    old = arrow_array(row_hashes(changes.old_rows(), before, after))
    new = arrow_array(row_hashes(changes.new_rows(), after, after))
    comes = pc.is_valid(changes.new)
    hashes = pc.replace_with_mask(pa.array([0] * len(changes), pa.uint64()), comes, new)
    return pc.replace_with_mask(hashes, pc.invert(comes), old)


# Changes that parts of a comparison give, sorted by key into one stream.
#
# Parts are dealt out by key hash, so each is in no order that the whole could follow.
# Their changes, with keys in columns of their own, are sorted through runs on disk.


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
        reports = [report for report in engine.run(tasks, brief=True) if report.num_rows]
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
