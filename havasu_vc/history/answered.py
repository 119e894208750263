"""Row conflicts that were resolved: the changes that the answers mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.comparing import equal_rows
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.history.conflicts import MergeSchemas, MergeStep, in_columns
from havasu_vc.history.merge import partners
from havasu_vc.history.merge_counts import changes_of_counts
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema

__all__ = ["conflict_keys", "renumbered_rows", "with_resolutions"]


def with_resolutions(step: MergeStep, rows: pa.Table, schemas: MergeSchemas) -> MergeStep:
    """Return a step in which resolved conflicts are changes."""
    merged = schemas.merged
    resolved = pc.filter(rows, pc.is_valid(rows.column("resolution"))).combine_chunks()
    if not resolved.num_rows:
        return step
    wanted = conflict_keys(step.conflicts, merged)
    known = conflict_keys(resolved.to_batches()[0], merged)
    index = partners(wanted, known)
    there = pc.is_valid(index)
    if not pc.any(there).as_py():
        return step
    answers = pc.take(resolved, pc.filter(index, there)).combine_chunks()
    if step.current is not None:
        ours = pc.filter(step.current, there)
        changes = _changed(ours, answers.column("result").combine_chunks(), schemas)
    else:
        changes = _recounted(answers, schemas)
    return MergeStep(
        _together(step.changes, changes, schemas), pc.filter(step.conflicts, pc.invert(there))
    )


def conflict_keys(conflicts: pa.RecordBatch, merged: Schema) -> pa.RecordBatch:
    """Return the key of each conflict; a hash of the row where there is no key."""
    names = merged.key.names
    if not names:
        rows = in_columns(conflicts.column("base"), merged, merged)
        return pa.RecordBatch.from_arrays([pa.array(hash_rows(rows, merged).keys)], ["hash"])
    columns = [
        pc.coalesce(
            *(pc.struct_field(conflicts.column(s), name) for s in ("ours", "theirs", "base"))
        )
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, list(names))


def _recounted(answers: pa.Table, schemas: MergeSchemas) -> ChangeBatch:
    """Return the changes that give rows without a key the count that was chosen."""
    said = np.array(answers.column("resolution").to_pylist())
    ours, theirs = (answers.column(f"{side}_count").to_numpy() for side in ("ours", "theirs"))
    wanted = np.select([said == "theirs", said == "base"], [theirs - ours, -ours], 0)
    order = np.arange(len(said))
    rows = in_columns(answers.column("base").combine_chunks(), schemas.merged, schemas.merged)
    gone, come = (np.repeat(order, np.maximum(count, 0)) for count in (-wanted, wanted))
    return changes_of_counts(rows, gone, come, schemas)


def renumbered_rows(rows: pa.Table, schemas: MergeSchemas) -> Iterator[ChangeBatch]:
    """Yield the rows that got a new key; these keys are beyond all others."""
    found = pc.drop_null(rows.column("renumbered").combine_chunks())
    if not len(found):
        return
    (name,) = schemas.merged.key.names
    found = pc.take(found, pc.sort_indices(pc.struct_field(found, name)))
    new = in_columns(found, schemas.merged, schemas.merged)
    schema = arrow_schema(schemas.merged)
    new_side = struct_of(pa.RecordBatch.from_arrays(new.columns, schema=schema))
    old_side = pa.nulls(len(found), pa.struct(list(arrow_schema(schemas.ours))))
    yield ChangeBatch.from_structs(old_side, new_side)


def _changed(ours: pa.StructArray, result: pa.StructArray, schemas: MergeSchemas) -> ChangeBatch:
    old = in_columns(ours, schemas.ours, schemas.ours)
    new = in_columns(result, schemas.merged, schemas.merged)
    old_side = pa.StructArray.from_arrays(
        old.columns, fields=list(arrow_schema(schemas.ours)), mask=pc.is_null(ours)
    )
    new_side = pa.StructArray.from_arrays(
        new.columns, fields=list(arrow_schema(schemas.merged)), mask=pc.is_null(result)
    )
    changes = ChangeBatch.from_structs(old_side, new_side)
    same = equal_rows(old, new, schemas.ours, schemas.merged)
    both_there = pc.and_(pc.is_valid(ours), pc.is_valid(result))
    both_gone = pc.and_(pc.is_null(ours), pc.is_null(result))
    nothing = pc.or_(both_gone, pc.and_(both_there, pa.array(same)))
    return ChangeBatch(pc.filter(changes.data, pc.invert(nothing)))


def _together(first: ChangeBatch, second: ChangeBatch, schemas: MergeSchemas) -> ChangeBatch:
    """Return two batches as one, in key order."""
    more = pa.RecordBatch.from_arrays(second.data.columns, schema=first.data.schema)
    both = pa.concat_batches([first.data, more])
    names = schemas.merged.key.names
    if not names:
        return ChangeBatch(both)
    columns = []
    for key in schemas.merged.key.fields:
        new = pc.struct_field(both.column("new"), key.name)
        old = pc.struct_field(both.column("old"), schemas.ours.by_id[key.id].name)
        columns.append(pc.coalesce(new, pc.cast(old, new.type)))
    keys = pa.RecordBatch.from_arrays(columns, list(names))
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    return ChangeBatch(pc.take(both, order))
