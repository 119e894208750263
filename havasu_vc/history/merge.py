"""Merging rows: two change streams from one base become the changes that bring in theirs.

Both streams are sorted by key, so they are walked side by side, a window at a time:
the keys up to where the shorter batch ends. Within a window everything is columns.
What only theirs changed is taken. Of a row that both changed, each cell is decided on
its own: one side's change wins over none, equal changes are one, and different changes
of one cell are a conflict, unless a policy decides. A conflict is a value here, never
an exception; the row stays as ours has it until somebody resolves it.

Merging tables without a key: how often each row is there is what changes.

Where one side changed a row's count, that counts; where both changed it alike, once;
where both changed it differently, that is a conflict. Rows are told apart by hash, and
all changed rows are held in memory.

Row conflicts that were resolved: the changes that the answers mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.pairing import Mask, equal_columns, equal_rows
from havasu_vc.history.conflicts import (
    ConflictKind,
    MergePolicy,
    MergeSchemas,
    MergeStep,
    Side,
    conflict_schema,
    in_columns,
    nullable,
    with_columns_back,
)
from havasu_vc.history.partners import partners
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "changes_of_counts",
    "conflict_keys",
    "merge_changes",
    "merge_counts",
    "with_renumbered",
    "with_resolutions",
]


def merge_changes(
    ours: Iterator[ChangeBatch],
    theirs: Iterator[ChangeBatch],
    schemas: MergeSchemas,
    policy: MergePolicy | None = None,
) -> Iterator[MergeStep]:
    """Yield, in key order, the changes that bring theirs into ours, and the conflicts."""
    chosen = policy or MergePolicy()
    if not schemas.merged.key:
        yield from merge_counts(list(ours), list(theirs), schemas, chosen)
        return
    mine, other = _Stream(ours, schemas, schemas.ours), _Stream(theirs, schemas, schemas.theirs)
    while other.waiting or (schemas.back and mine.waiting):
        cut = min(stream.last for stream in (mine, other) if stream.waiting)
        first, second = mine.take(cut), other.take(cut)
        if schemas.back and first is not None:
            second = _with_untouched(first, second, schemas)
        if second is not None:
            yield _merge_window(first, second, schemas, chosen)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some changes of one side, with their keys."""

    batch: ChangeBatch
    keys: pa.RecordBatch

    def slice(self, start: int, length: int) -> _Rows:
        return _Rows(self.batch.slice(start, length), self.keys.slice(start, length))


class _Stream:
    """A change stream that is taken key by key."""

    def __init__(
        self, batches: Iterator[ChangeBatch], schemas: MergeSchemas, after: Schema
    ) -> None:
        self._batches = batches
        self._schemas = schemas
        self._after = after
        self._rows: _Rows | None = None
        self.last: tuple[Any, ...] = ()
        """The last key of what waits."""
        self._advance()

    def _advance(self) -> None:
        batch = next((batch for batch in self._batches if len(batch)), None)
        if batch is None:
            self._rows = None
            return
        keys = _keys(batch, self._schemas.base, self._after, self._schemas.merged)
        self._rows = _Rows(batch, keys)
        self.last = tuple(column[-1].as_py() for column in keys.columns)

    @property
    def waiting(self) -> bool:
        """Whether there is more."""
        return self._rows is not None

    def take(self, cut: tuple[Any, ...]) -> _Rows | None:
        """Return the waiting changes whose keys are not beyond `cut`."""
        rows = self._rows
        if rows is None:
            return None
        count = _count_up_to(rows.keys, cut)
        if count == len(rows.batch):
            self._advance()
            return rows
        self._rows = rows.slice(count, len(rows.batch) - count)
        return rows.slice(0, count) if count else None


def _with_untouched(mine: _Rows, other: _Rows | None, schemas: MergeSchemas) -> _Rows | None:
    """Return changes of theirs, and beside them rows as they were that ours alone changed."""
    alone = pc.and_(pc.is_valid(mine.batch.old), pc.is_valid(mine.batch.new))
    if other is not None:
        alone = pc.and_(alone, pc.is_null(partners(mine.keys, other.keys)))
    keys = pc.filter(mine.keys, alone)
    if not keys.num_rows:
        return other
    old = pc.filter(mine.batch.old, alone)
    rows = in_columns(old, schemas.base, schemas.theirs).columns
    new = struct_of(pa.RecordBatch.from_arrays(rows, schema=arrow_schema(schemas.theirs)))
    more = ChangeBatch.from_structs(old, new)
    if other is None:
        return _Rows(more, keys)
    data = pa.RecordBatch.from_arrays(more.data.columns, schema=other.batch.data.schema)
    keys = pa.concat_batches([other.keys, keys.cast(other.keys.schema)])
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names])
    both = pa.concat_batches([other.batch.data, data])
    return _Rows(ChangeBatch(pc.take(both, order)), pc.take(keys, order))


def _keys(batch: ChangeBatch, before: Schema, after: Schema, merged: Schema) -> pa.RecordBatch:
    """Return the key of each change, in the merged key's types."""
    columns = []
    for key in merged.key.fields:
        type_ = arrow_type(key.type)
        old = pc.cast(pc.struct_field(batch.old, before.by_id[key.id].name), type_)
        new = pc.cast(pc.struct_field(batch.new, after.by_id[key.id].name), type_)
        columns.append(pc.coalesce(new, old))
    return pa.RecordBatch.from_arrays(columns, list(merged.key.names))


def _count_up_to(keys: pa.RecordBatch, cut: tuple[Any, ...]) -> int:
    """Return how many keys of a sorted batch are not beyond one."""
    beyond = np.zeros(keys.num_rows, bool)
    equal = np.ones(keys.num_rows, bool)
    for column, value in zip(keys.columns, cut, strict=True):
        scalar = pa.scalar(value, column.type)
        beyond |= equal & pc.greater(column, scalar).to_numpy(zero_copy_only=False)
        equal &= pc.equal(column, scalar).to_numpy(zero_copy_only=False)
    return int(len(beyond) - beyond.sum())


def _valid(side: pa.StructArray) -> Mask:
    valid: Mask = pc.is_valid(side).to_numpy(zero_copy_only=False)
    return valid


@dataclass(frozen=True, slots=True)
class _Window:
    """Changes of theirs, each beside ours of the same key where there is one; merged columns."""

    base: pa.RecordBatch
    ours: pa.RecordBatch
    theirs: pa.RecordBatch
    in_base: Mask
    in_ours: Mask
    in_theirs: Mask
    touched: Mask
    """Where ours changed the row too."""
    current: pa.RecordBatch
    """The row that ours has, in our own columns."""


def _merge_window(
    mine: _Rows | None, other: _Rows, schemas: MergeSchemas, policy: MergePolicy
) -> MergeStep:
    window = _aligned(mine, other, schemas)
    same = _row_equality(window, schemas.merged)
    merged, conflicting, cells = _merge_cells(window, schemas, policy)
    if policy.whole and policy.side is None:
        conflicting |= window.touched & window.in_ours & window.in_theirs & ~same
    kinds = _kinds(window, same, conflicting)
    takes_theirs = _decided(window, kinds, policy)
    result = [
        pc.if_else(arrow_array(takes_theirs), theirs, column)
        for theirs, column in zip(window.theirs.columns, merged, strict=True)
    ]
    exists = np.where(window.touched & ~takes_theirs, window.in_ours, window.in_theirs)
    stays_ours = (kinds == ConflictKind.EDIT_DELETE) & (policy.side is Side.OURS)
    settled = (kinds == "") | takes_theirs | stays_ours
    rows = pa.RecordBatch.from_arrays(result, schema=window.ours.schema)
    had = window.current if schemas.back else window.ours
    unchanged = (exists == window.in_ours) & (~exists | _equal_batches(rows, had, schemas.merged))
    chosen = arrow_array(np.flatnonzero(settled & ~unchanged & ~stays_ours))
    changes = ChangeBatch.from_structs(
        _struct(window.current, window.in_ours, chosen, arrow_schema(schemas.ours)),
        _struct(rows, exists, chosen, arrow_schema(schemas.merged)),
    )
    waiting = arrow_array(np.flatnonzero(~settled))
    return MergeStep(
        changes,
        _conflicts(window, kinds, settled, cells, rows, schemas.merged),
        _struct(window.current, window.in_ours, waiting, arrow_schema(schemas.ours)),
    )


def _aligned(mine: _Rows | None, other: _Rows, schemas: MergeSchemas) -> _Window:
    count = len(other.batch)
    merged = schemas.merged
    base = in_columns(other.batch.old, schemas.base, merged)
    theirs = in_columns(other.batch.new, schemas.theirs, merged)
    in_base, in_theirs = _valid(other.batch.old), _valid(other.batch.new)
    theirs = with_columns_back(theirs, other.batch.old, schemas.base, schemas.theirs, merged)
    current = in_columns(other.batch.old, schemas.base, schemas.ours)
    ours, in_ours = base, in_base.copy()
    touched = np.zeros(count, bool)
    if mine is not None:
        index = partners(other.keys, mine.keys)
        touched = pc.is_valid(index).to_numpy(zero_copy_only=False)
        theirs_of_mine = pc.take(mine.batch.new, index)
        in_ours[touched] = _valid(theirs_of_mine)[touched]
        changed = in_columns(theirs_of_mine, schemas.ours, merged)
        if schemas.without is not None:
            before = other.batch.old
            changed = with_columns_back(changed, before, schemas.base, schemas.without, merged)
        mask = arrow_array(touched)
        ours = pa.RecordBatch.from_arrays(
            [
                pc.if_else(mask, new, old)
                for new, old in zip(changed.columns, base.columns, strict=True)
            ],
            schema=base.schema,
        )
        own = in_columns(theirs_of_mine, schemas.ours, schemas.ours)
        current = pa.RecordBatch.from_arrays(
            [
                pc.if_else(mask, new, old)
                for new, old in zip(own.columns, current.columns, strict=True)
            ],
            schema=current.schema,
        )
    return _Window(base, ours, theirs, in_base, in_ours, in_theirs, touched, current)


def _equal_batches(first: pa.RecordBatch, second: pa.RecordBatch, schema: Schema) -> Mask:
    same = np.ones(first.num_rows, bool)
    for column, left, right in zip(schema.fields, first.columns, second.columns, strict=True):
        same &= equal_columns(left, right, column, column)
    return same


def _row_equality(window: _Window, merged: Schema) -> Mask:
    """Return where ours and theirs ended alike."""
    alike = _equal_batches(window.ours, window.theirs, merged)
    both = window.in_ours & window.in_theirs
    return (both & alike) | ~(window.in_ours | window.in_theirs)


def _merge_cells(
    window: _Window, schemas: MergeSchemas, policy: MergePolicy
) -> tuple[list[pa.Array], Mask, list[tuple[str, Mask]]]:
    """Return the merged columns, the rows with a conflict in some cell, and the cells."""
    merged, known = schemas.merged, schemas.ours.by_id.keys() & schemas.theirs.by_id.keys()
    columns: list[pa.Array] = []
    cells: list[tuple[str, Mask]] = []
    conflicting = np.zeros(len(window.touched), bool)
    both = window.in_ours & window.in_theirs
    for column, base, ours, theirs in zip(
        merged.fields,
        window.base.columns,
        window.ours.columns,
        window.theirs.columns,
        strict=True,
    ):
        mine = ~equal_columns(base, ours, column, column)
        other = ~equal_columns(base, theirs, column, column)
        if column.id in known:
            # Of a row that both inserted nothing was there before: a null is a value as well.
            mine, other = mine | ~window.in_base, other | ~window.in_base
        clash = both & mine & other & ~equal_columns(ours, theirs, column, column)
        take = other & ~mine
        if policy.fill_nulls:
            empty = ~pc.is_valid(ours).to_numpy(zero_copy_only=False)
            filled = ~pc.is_valid(theirs).to_numpy(zero_copy_only=False)
            take |= clash & empty
            clash = clash & ~empty & ~filled
        side = policy.columns.get(column.name, policy.side)
        if side is Side.THEIRS:
            take |= clash
        if side is not None:
            clash = np.zeros(len(clash), bool)
        columns.append(pc.if_else(arrow_array(take), theirs, ours))
        conflicting |= clash
        if clash.any():
            cells.append((column.name, clash))
    return columns, conflicting, cells


def _kinds(window: _Window, same: Mask, conflicting: Mask) -> npt.NDArray[np.str_]:
    """Return the kind of conflict of each row, empty for none."""
    kinds = np.full(len(same), "", "<U16")
    clash = window.touched & ~same
    deleted = window.in_ours != window.in_theirs
    kinds[clash & ~deleted & window.in_base & conflicting] = ConflictKind.SAME_CELL
    kinds[clash & ~deleted & ~window.in_base & conflicting] = ConflictKind.INSERT_INSERT
    kinds[clash & deleted] = ConflictKind.EDIT_DELETE
    return kinds


def _decided(window: _Window, kinds: npt.NDArray[np.str_], policy: MergePolicy) -> Mask:
    """Return the rows that become theirs as wholes: untouched by ours, or by the policy."""
    whole = ~window.touched
    if policy.side is Side.THEIRS:
        whole |= kinds == ConflictKind.EDIT_DELETE
    return whole


def _struct(
    rows: pa.RecordBatch, present: Mask, chosen: pa.Array, schema: pa.Schema
) -> pa.StructArray:
    taken = pa.RecordBatch.from_arrays(pc.take(rows, chosen).columns, schema=schema)
    mask = pc.invert(pc.take(arrow_array(present), chosen))
    return struct_of(taken, mask=mask if pc.any(mask).as_py() else None)


def _conflicts(
    window: _Window,
    kinds: npt.NDArray[np.str_],
    settled: Mask,
    cells: list[tuple[str, Mask]],
    rows: pa.RecordBatch,
    merged: Schema,
) -> pa.RecordBatch:
    target = conflict_schema(merged)
    chosen = np.flatnonzero(~settled)
    names = [[name for name, clash in cells if clash[row]] for row in chosen]
    index = arrow_array(chosen)
    row = nullable(arrow_schema(merged))
    sides = [
        _struct(rows, present, index, row)
        for rows, present in (
            (window.base, window.in_base),
            (window.ours, window.in_ours),
            (window.theirs, window.in_theirs),
            (rows, window.in_ours & window.in_theirs),
        )
    ]
    uncounted = pa.nulls(len(chosen), pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(kinds[chosen].tolist(), pa.string()),
            pa.array(names, target.field("columns").type),
            *(pc.cast(side, target.field("base").type) for side in sides),
            uncounted,
            uncounted,
        ],
        schema=target,
    )


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
    return _Counted(rows, hash_keys(rows, merged), counts)


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


def with_resolutions(step: MergeStep, rows: pa.Table | None, schemas: MergeSchemas) -> MergeStep:
    """Return a step in which resolved conflicts are changes; None resolves none."""
    if rows is None or not step.conflicts.num_rows:
        return step
    resolved = pc.filter(rows, pc.is_valid(rows.column("resolution"))).combine_chunks()
    if not resolved.num_rows:
        return step
    known = conflict_keys(resolved.to_batches()[0], schemas.merged)
    index = partners(conflict_keys(step.conflicts, schemas.merged), known)
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
        return pa.RecordBatch.from_arrays([pa.array(hash_keys(rows, merged))], ["hash"])
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


def with_renumbered(
    changes: Iterator[ChangeBatch], rows: pa.Table, schemas: MergeSchemas
) -> Iterator[ChangeBatch]:
    """Yield changes in key order, and with them the rows that got another key."""
    found = pc.drop_null(rows.column("renumbered").combine_chunks())
    if not len(found):
        yield from changes
        return
    found = pc.take(found, pc.sort_indices(pc.struct_field(found, schemas.merged.key.names[0])))
    new = in_columns(found, schemas.merged, schemas.merged)
    new_side = pa.StructArray.from_arrays(new.columns, fields=list(arrow_schema(schemas.merged)))
    old_side = pa.nulls(len(found), pa.struct(list(arrow_schema(schemas.ours))))
    more = ChangeBatch.from_structs(old_side, new_side)
    for batch in changes:
        last = _change_keys(batch, schemas).column(0)[len(batch) - 1]
        count = pc.sum(pc.less_equal(_change_keys(more, schemas).column(0), last)).as_py() or 0
        yield _together(batch, ChangeBatch(more.data.slice(0, count)), schemas)
        more = ChangeBatch(more.data.slice(count))
    yield more


def _changed(ours: pa.StructArray, result: pa.StructArray, schemas: MergeSchemas) -> ChangeBatch:
    old = in_columns(ours, schemas.ours, schemas.ours)
    new = in_columns(result, schemas.merged, schemas.merged)
    before, after = (
        pa.RecordBatch.from_arrays(rows.columns, schema=arrow_schema(schema))
        for rows, schema in ((old, schemas.ours), (new, schemas.merged))
    )
    changes = ChangeBatch.from_structs(
        struct_of(before, mask=pc.is_null(ours)), struct_of(after, mask=pc.is_null(result))
    )
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
    keys = _change_keys(ChangeBatch(both), schemas)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    return ChangeBatch(pc.take(both, order))


def _change_keys(changes: ChangeBatch, schemas: MergeSchemas) -> pa.RecordBatch:
    """Return the key of each change."""
    columns = []
    for key in schemas.merged.key.fields:
        new = pc.struct_field(changes.data.column("new"), key.name)
        old = pc.struct_field(changes.data.column("old"), schemas.ours.by_id[key.id].name)
        columns.append(pc.coalesce(new, pc.cast(old, new.type)))
    return pa.RecordBatch.from_arrays(columns, list(schemas.merged.key.names))
