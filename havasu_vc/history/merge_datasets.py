"""Merging one dataset: what a merge makes of its rows, columns and meta items.

Nothing that git did to the entries is trusted: rows are merged from the three commits.
What only one side changed is taken as it is, by its tree; only where both changed is
anything read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.comparing import equal_rows
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import NotYetSupportedError
from havasu_vc.history.conflicts import (
    ColumnConflict,
    DatasetConflicts,
    MergePolicy,
    MergeSchemas,
    MergeStep,
    Side,
    conflict_table,
    in_columns,
)
from havasu_vc.history.diff import row_changes
from havasu_vc.history.dropped import columns_back, dropped_and_edited
from havasu_vc.history.merge import merge_changes, partners
from havasu_vc.history.merge_counts import changes_of_counts
from havasu_vc.history.merge_union import Versions, joined, union
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.evolution import field_ids
from havasu_vc.model.merging import MergedSchema, merge_items, merge_schemas
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.store.trees import DatasetFolder

__all__ = ["DatasetMerger", "Glance", "MergedDataset", "Versions", "markers_of", "merge_dataset"]

DATASET = "dataset"
"""The name under which a dataset as a whole is in conflict."""
SCHEMA = "schema.json"
"""The name under which the columns are in conflict."""


@dataclass(frozen=True, slots=True)
class MergedDataset:
    """The outcome of merging one dataset."""

    internals: str | None
    """The tree to start from; None when the dataset goes."""
    edit: TreeEdit | None = None
    """The changes upon that."""
    conflicts: DatasetConflicts | None = None
    """The conflicts that have to be resolved."""
    marker: str = HAVASU_MARKER
    """The name of the internals' folder."""


class Glance:
    """Looks at conflicts without merging: counts all rows, and keeps the first of each kind."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows: Counter[str] = Counter()
        """How many rows are in conflict, by dataset."""

    def few(self, path: str, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Take in the row conflicts of a dataset; return those that are kept, in their order."""
        kept: list[pa.RecordBatch] = []
        seen: Counter[str] = Counter()
        for batch in batches:
            self.rows[path] += batch.num_rows
            kinds = np.array(batch.column("kind").to_pylist())
            chosen = np.zeros(len(kinds), bool)
            for kind in np.unique(kinds):
                first = np.flatnonzero(kinds == kind)[: self._most - seen[kind]]
                chosen[first] = True
                seen[kind] += len(first)
            if chosen.any():
                # Taken, not sliced: a slice would keep the whole batch in memory.
                kept.append(pc.take(batch, pa.array(np.flatnonzero(chosen))))
        return kept


def merge_dataset(
    path: str,
    folders: tuple[DatasetFolder | None, DatasetFolder | None, DatasetFolder | None],
    versions: Versions,
    storage: Storage,
    settings: Settings,
    *,
    policy: MergePolicy,
    resolved: DatasetConflicts | None = None,
    joins: bool = True,
    glance: Glance | None = None,
) -> MergedDataset:
    """Merge one dataset; `resolved` holds how its conflicts were resolved.

    `joins` says that theirs becomes a parent, so that what it alone has is replaced. With a
    `glance` nothing is made, and it has some of the conflicts.
    """
    base, ours, theirs = (None if each is None else each.internals for each in folders)
    mine, other = (_whole(folder) for folder in folders[1:])
    if theirs in (base, ours):
        return mine
    if ours == base:
        return other
    markers = {folder.marker for folder in folders if folder is not None}
    missing = versions.base is None or versions.ours is None or versions.theirs is None
    if missing or len(markers) > 1:
        side = _chosen(resolved, DATASET, policy)
        if side is None:
            return replace(mine, conflicts=DatasetConflicts(path, items={DATASET: None}))
        return other if side is Side.THEIRS else mine
    if glance is not None and joined(versions) is not None:
        return mine
    both = None if glance is not None else union(versions, settings)
    if both is not None:
        return MergedDataset(ours, both)
    merger = DatasetMerger(path, versions, storage, settings, policy, resolved, joins=joins)
    if glance is not None:
        return replace(mine, conflicts=merger.conflicting(glance))
    return replace(merger.merged(ours), marker=mine.marker)


def _whole(folder: DatasetFolder | None) -> MergedDataset:
    """Return a dataset as it is on one side."""
    if folder is None:
        return MergedDataset(None)
    return MergedDataset(folder.internals, marker=folder.marker)


def markers_of(merged: Mapping[str, MergedDataset]) -> dict[str, str]:
    """Return the name of the internals' folder of each dataset."""
    return {path: each.marker for path, each in merged.items()}


def _chosen(resolved: DatasetConflicts | None, item: str, policy: MergePolicy) -> Side | None:
    """Return the side that wins an item as a whole; None while nobody said."""
    said = None if resolved is None else resolved.items.get(item)
    return policy.side if said is None else Side(said)


class DatasetMerger:
    """Merges a dataset that is on all three sides."""

    def __init__(
        self,
        path: str,
        versions: Versions,
        storage: Storage,
        settings: Settings,
        policy: MergePolicy,
        resolved: DatasetConflicts | None,
        *,
        joins: bool = True,
    ) -> None:
        if versions.base is None or versions.ours is None or versions.theirs is None:
            raise ValueError("a version is missing")
        self._path = path
        self._base = versions.base
        self._ours = versions.ours.with_storage(storage)
        self._theirs = versions.theirs
        self._settings = settings
        self._policy = policy
        self._resolved = resolved
        self._joins = joins
        said = {} if resolved is None else resolved.items
        self._items = {name: choice for name, choice in said.items() if choice is not None}
        self._columns_said = {} if resolved is None else dict(resolved.columns)
        self._waiting: set[str] = set()
        self._back: dict[str, bytes | None] = {}

    def merged(self, internals: str | None) -> MergedDataset:
        """Merge it."""
        columns = self._columns()
        documents = self._documents()
        without = self._take_back(columns.schema)
        ours = self._ours.schema
        schemas = MergeSchemas(self._base.schema, ours, columns.theirs, columns.schema, without)
        pieces: list[pa.RecordBatch] = []
        more, edit = self._ours.evolved(columns.schema)
        with edit:
            edit.add_documents({**self._back, **documents})
            adopted = edit.adopt_rows(self._base, self._theirs)
            edit.collect(self._changes(schemas, pieces))
            joined = self._joins and edit.join(self._theirs)
            changed = edit.counts.total or more or documents or self._back or adopted or joined
            tree = edit.finish() if changed else None
        conflicts = self._conflicts(pieces, columns.schema)
        return MergedDataset(internals, tree, conflicts)

    def conflicting(self, glance: Glance) -> DatasetConflicts | None:
        """Return some of the conflicts, without merging it."""
        columns = self._columns()
        self._documents()
        without = self._take_back(columns.schema)
        ours = self._ours.schema
        schemas = MergeSchemas(self._base.schema, ours, columns.theirs, columns.schema, without)
        steps = (step.conflicts for step in self._steps(schemas))
        pieces = glance.few(self._path, (each for each in steps if each.num_rows))
        return self._conflicts(pieces, columns.schema)

    def _columns(self) -> MergedSchema:
        new_id = field_ids(max(self._ours.last_column_id, self._theirs.last_column_id))
        base, ours, theirs = self._base.schema, self._ours.schema, self._theirs.schema
        whole = self._items.get(SCHEMA)
        sides = {name: each.side for name, each in self._columns_said.items() if each.side}
        if whole not in ("ours", "theirs"):
            whole = self._policy.side
            sides = {**self._policy.columns, **sides}
        merged = merge_schemas(
            base,
            ours,
            theirs,
            new_id=new_id,
            sides=sides,
            otherwise=whole,
            edited=self._edited(),
        )
        if set(ours.identifier_ids) != set(theirs.identifier_ids):
            raise NotYetSupportedError(
                f"{self._path} has another key on each side, so its rows cannot be merged",
                hints=("give both sides the same key first",),
            )
        if merged.conflicts:
            self._waiting.add(SCHEMA)
            self._columns_said |= columns_in_conflict(merged)
        return merged

    def _edited(self) -> frozenset[int]:
        """Return the columns that one side dropped and whose values the other changed."""
        if self._base.keeps_dropped:
            return frozenset()
        base, ours, theirs = self._base.schema, self._ours.schema, self._theirs.schema

        def changes(side: Dataset) -> Iterator[ChangeBatch]:
            with self._settings.open_engine(side.size) as engine:
                yield from row_changes(self._base, side, engine)

        return dropped_and_edited(base, ours, theirs, lambda: changes(self._theirs)) | (
            dropped_and_edited(base, theirs, ours, lambda: changes(self._ours))
        )

    def _take_back(self, merged: Schema) -> Schema | None:
        """Have our side with columns that it dropped and the merge keeps; return those it had."""
        ours = self._ours
        back = columns_back(self._base.schema, ours.schema, merged)
        if not back or ours.keeps_dropped:
            return None
        if not merged.key:
            raise NotYetSupportedError(
                f"{self._path} has no key, so our rows cannot get back a column that we dropped",
                hints=("resolve with ours, and add the column again",),
            )
        with self._settings.open_engine(ours.size) as engine:
            self._ours, self._back = ours.revived(merged, back, engine.run)
        return ours.schema

    def _documents(self) -> dict[str, bytes | None]:
        """Return the meta items that change upon ours."""
        sides = [view.items for view in (self._base, self._ours, self._theirs)]
        merged, conflicts = merge_items(*sides)
        for conflict in conflicts:
            choice = self._items.get(conflict.name, self._policy.side)
            if choice is None:
                self._waiting.add(conflict.name)
                continue
            values = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
            value = values.get(choice)
            merged.pop(conflict.name, None)
            if value is not None:
                merged[conflict.name] = value
        ours = sides[1]
        return {
            f"meta/{name}": merged.get(name)
            for name in ours.keys() | merged.keys()
            if ours.get(name) != merged.get(name)
        }

    def _changes(
        self, schemas: MergeSchemas, pieces: list[pa.RecordBatch]
    ) -> Iterator[ChangeBatch]:
        """Yield the changes upon ours; conflicts that nobody resolved go to `pieces`."""
        rows = None if self._resolved is None else self._resolved.rows
        for step in self._steps(schemas):
            if rows is not None and step.conflicts.num_rows:
                step = with_resolutions(step, rows, schemas)
            if step.conflicts.num_rows:
                pieces.append(step.conflicts)
            if len(step.changes):
                yield step.changes
        if rows is not None:
            yield from renumbered_rows(rows, schemas)

    def _steps(self, schemas: MergeSchemas) -> Iterator[MergeStep]:
        with ExitStack() as stack:
            engines = [
                stack.enter_context(self._settings.open_engine(view.size))
                for view in (self._ours, self._theirs)
            ]
            yield from merge_changes(
                row_changes(self._base, self._ours, engines[0]),
                row_changes(self._base, self._theirs, engines[1]),
                schemas,
                self._policy,
            )

    def _conflicts(self, pieces: list[pa.RecordBatch], merged: Schema) -> DatasetConflicts | None:
        if not pieces and not self._waiting:
            return None
        rows = conflict_table(pieces, merged) if pieces else None
        items = {**self._items, **dict.fromkeys(sorted(self._waiting))}
        return DatasetConflicts(self._path, rows, items, self._columns_said)


def columns_in_conflict(merged: MergedSchema) -> dict[str, ColumnConflict]:
    """Return what waits in a schema, by column."""
    kinds: dict[str, list[str]] = {}
    for conflict in merged.conflicts:
        kinds.setdefault(conflict.name, []).append(conflict.attribute or conflict.kind)
    return {name: ColumnConflict(tuple(dict.fromkeys(each))) for name, each in kinds.items()}


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
