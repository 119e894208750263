"""Merging tables without a key: how often each row is there is what changes.

Where one side changed a row's count, that counts; where both changed it alike, once;
where both changed it differently, that is a conflict. Rows are told apart by hash, and
all changed rows are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.comparing import Mask
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.history.conflicts import (
    ConflictKind,
    MergePolicy,
    MergeSchemas,
    MergeStep,
    Side,
    conflict_schema,
    in_columns,
    nullable,
)
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["changes_of_counts", "merge_counts"]


def merge_counts(
    ours: list[ChangeBatch],
    theirs: list[ChangeBatch],
    schemas: MergeSchemas,
    policy: MergePolicy,
) -> Iterator[MergeStep]:
    """Merge tables without a key: how often each row is there is what changes."""
    merged = schemas.merged
    mine = _counted(ours, schemas.base, schemas.ours, merged)
    other = _counted(theirs, schemas.base, schemas.theirs, merged)
    if not len(other.hashes):
        return
    hashes, first = np.unique(other.hashes, return_index=True)
    net = np.bincount(np.searchsorted(hashes, other.hashes), other.signs, len(hashes)).astype(int)
    own = np.zeros(len(hashes), int)
    place = np.searchsorted(hashes, mine.hashes)
    known = (place < len(hashes)) & (hashes[np.minimum(place, len(hashes) - 1)] == mine.hashes)
    np.add.at(own, place[known], mine.signs[known])
    clash = (own != 0) & (own != net)
    if policy.side is Side.THEIRS:
        wanted = net - own
    else:
        wanted = np.where(own == 0, net, 0)
    if policy.side is not None:
        clash[:] = False
    rows = pc.take(other.rows, pa.array(first))
    order = np.arange(len(hashes))
    gone = np.repeat(order, np.maximum(-wanted, 0))
    come = np.repeat(order, np.maximum(wanted, 0))
    yield MergeStep(
        changes_of_counts(rows, gone, come, schemas),
        _count_conflicts(rows, own, net, clash, merged),
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    rows: pa.RecordBatch
    hashes: npt.NDArray[np.uint64]
    signs: npt.NDArray[np.int64]


def _counted(batches: list[ChangeBatch], before: Schema, after: Schema, merged: Schema) -> _Counted:
    """Return all rows that come (1) and go (-1), in the merged columns."""
    pieces, signs = [], []
    for batch in batches:
        for side, schema, sign in ((batch.old, before, -1), (batch.new, after, 1)):
            present = pc.filter(side, pc.is_valid(side))
            pieces.append(in_columns(present, schema, merged))
            signs.append(np.full(len(present), sign, np.int64))
    empty = pa.RecordBatch.from_pylist([], schema=nullable(arrow_schema(merged)))
    rows = pa.concat_batches([empty, *pieces])
    counts = np.concatenate([np.empty(0, np.int64), *signs])
    return _Counted(rows, hash_rows(rows, merged).keys, counts)


def changes_of_counts(
    rows: pa.RecordBatch,
    gone: npt.NDArray[np.int64],
    come: npt.NDArray[np.int64],
    schemas: MergeSchemas,
) -> ChangeBatch:
    """Return changes of ours in which some rows, by their index, go and some come."""
    merged = schemas.merged
    whole = struct_of(rows)
    old = in_columns(pc.take(whole, pa.array(gone)), merged, schemas.ours)
    new = pc.take(rows, pa.array(come))
    old_side = struct_of(pa.RecordBatch.from_arrays(old.columns, schema=arrow_schema(schemas.ours)))
    new_side = struct_of(pa.RecordBatch.from_arrays(new.columns, schema=arrow_schema(merged)))
    return ChangeBatch.from_structs(
        pa.concat_arrays([old_side, pa.nulls(len(come), old_side.type)]),
        pa.concat_arrays([pa.nulls(len(gone), new_side.type), new_side]),
    )


def _count_conflicts(
    rows: pa.RecordBatch,
    own: npt.NDArray[np.int64],
    net: npt.NDArray[np.int64],
    clash: Mask,
    merged: Schema,
) -> pa.RecordBatch:
    target = conflict_schema(merged)
    chosen = np.flatnonzero(clash)
    row = pc.cast(struct_of(pc.take(rows, pa.array(chosen))), target.field(2).type)
    nothing = pa.nulls(len(chosen), row.type)
    kinds = pa.array([ConflictKind.COUNT.value] * len(chosen), pa.string())
    names = pa.array([[] for _ in chosen], target.field(1).type)
    ours = pc.if_else(pa.array(own[chosen] > 0), row, nothing)
    theirs = pc.if_else(pa.array(net[chosen] > 0), row, nothing)
    counts = [pa.array(own[chosen], pa.int64()), pa.array(net[chosen], pa.int64())]
    return pa.RecordBatch.from_arrays(
        [kinds, names, row, ours, theirs, nothing, *counts], schema=target
    )
