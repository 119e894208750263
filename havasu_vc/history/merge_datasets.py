"""Merging one dataset: what a merge makes of its rows, columns and meta items.

Nothing that git did to the entries is trusted: rows are merged from the three commits.
What only one side changed is taken as it is, by its tree; only where both changed is
anything read.

Two sides of a dataset put together file by file, as git does: right where both agree.

What one side alone changed is taken; where both changed the same file otherwise, or one has
a file where the other has a folder, rows have to be merged. The result counts only if it is
sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeGuard

import pyarrow as pa

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.diff import MergePlans, plan_merge
from havasu_vc.datasets.joining import joined_files
from havasu_vc.datasets.protocol import Dataset, DatasetEdit, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import NotYetSupportedError, StateError
from havasu_vc.history.conflicts import (
    ColumnConflict,
    DatasetConflicts,
    Glance,
    MergePolicy,
    MergeSchemas,
    MergeStep,
    Side,
    columns_back,
    conflict_table,
)
from havasu_vc.history.diff import changes_counted, planned_changes, row_changes
from havasu_vc.history.merge import (
    merge_changes,
    with_renumbered,
    with_resolutions,
)
from havasu_vc.history.summing import edited_columns
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.evolution import field_ids
from havasu_vc.model.merging import MergedSchema, merge_items, merge_schemas
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.store.trees import Change, DatasetFolder

__all__ = [
    "DatasetMerger",
    "MergedDataset",
    "Versions",
    "in_place",
    "joined",
    "markers_of",
    "merge_dataset",
    "union",
]

DATASET = "dataset"
"""The name under which a dataset as a whole is in conflict."""
SCHEMA = "schema.json"
"""The name under which the columns are in conflict."""
LEAST_ROWS = 1 << 17
"""A merge that reads no more rows than these is made in one go."""


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
    if None in (ours, theirs) and _lost_rows_alone(versions):
        return MergedDataset(None)
    if missing or len(markers) > 1:
        side = _chosen(resolved, DATASET, policy)
        if side is None:
            return replace(mine, conflicts=DatasetConflicts(path, items={DATASET: None}))
        return other if side is Side.THEIRS else mine
    if glance is not None and joined(versions) is not None:
        return mine
    versions = in_place(versions, settings)
    both = None if glance is not None else union(versions, settings)
    if both is not None:
        return MergedDataset(ours, both)
    merger = DatasetMerger(path, versions, storage, settings, policy, resolved, joins=joins)
    if glance is not None:
        return replace(mine, conflicts=merger.conflicting(glance))
    return replace(merger.merged(ours), marker=mine.marker)


def _lost_rows_alone(versions: Versions) -> bool:
    """Whether the side that has a dataset yet only deleted rows of it, each of which is a file.

    Where the other side removed the dataset, nothing that anybody wrote goes with it.
    """
    base, left = versions.base, versions.ours or versions.theirs
    if base is None or left is None or base.in_files is not None:
        return False
    return all(after is None for _, _, after in base.folder.difference(left.folder, ""))


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
        from havasu_vc.datasets.havasu.far import put_at

        self._path = path
        self._base = versions.base
        self._ours = versions.ours.with_storage(storage)
        self._url = put_at(self._ours)
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
            self._merge_rows(edit, schemas, pieces)
            joined = self._joins and edit.join(self._theirs)
            changed = edit.counts.total or more or documents or self._back or adopted or joined
            tree = edit.finish() if changed else None
        if tree is not None and self._url is not None:
            from havasu_vc.datasets.havasu.far import sent

            tree = sent(tree, self._ours.storage.staging, self._url)
        conflicts = self._conflicts(pieces, columns.schema)
        return MergedDataset(internals, tree, conflicts)

    def conflicting(self, glance: Glance) -> DatasetConflicts | None:
        """Return some of the conflicts, without merging it."""
        columns = self._columns()
        self._documents()
        without = self._take_back(columns.schema)
        ours = self._ours.schema
        schemas = MergeSchemas(self._base.schema, ours, columns.theirs, columns.schema, without)
        plans = self._plans()
        if _for_owners(plans):
            from havasu_vc.history.owned_merges import can_merge_owned, owned_glance

            if can_merge_owned(plans, schemas):
                with self._settings.open_engine(self._size) as engine:
                    found = owned_glance(plans, schemas, self._policy, glance.most, engine)
                return self._conflicts(glance.take(self._path, *found), columns.schema)
        steps = (step.conflicts for step in self._steps(schemas, plans))
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
        if self._policy.whole and _three_schemas(base, ours, theirs):
            # As a whole it is of one side, and ours while nobody said.
            taken = merged.theirs if whole == Side.THEIRS else ours
            if whole is None:
                self._waiting.add(SCHEMA)
            return MergedSchema(taken, (), merged.theirs)
        if merged.conflicts:
            self._waiting.add(SCHEMA)
            self._columns_said |= columns_in_conflict(merged)
        return merged

    def _edited(self) -> frozenset[int]:
        """Return the columns that one side dropped and whose values the other changed."""
        if self._base.keeps_dropped:
            return frozenset()
        ours, theirs, engine = self._ours, self._theirs, self._settings.open_engine
        return edited_columns(self._base, ours.schema, theirs, engine) | edited_columns(
            self._base, theirs.schema, ours, engine
        )

    def _take_back(self, merged: Schema) -> Schema | None:
        """Have our side with columns that it dropped and the merge keeps; return those it had."""
        ours = self._ours
        self._base = self._with_returned(merged)
        back = columns_back(self._base.schema, ours.schema, merged)
        if not merged.key and not back and ours.schema.ids - merged.ids:
            # Rows without a key are found by all they hold, of which theirs has dropped a part.
            with self._settings.open_engine(ours.size) as engine:
                self._ours, self._back = ours.revived(merged, frozenset(), engine.run)
            return None
        if not back or ours.keeps_dropped:
            return None
        if not merged.key:
            raise NotYetSupportedError(
                f"{self._path} has no key, so our rows cannot get back a column that we dropped",
                hints=(
                    "from a branch that has the column, made before these rows were written, "
                    "`havasu-vc merge` this one: the rows get it there",
                ),
            )
        with self._settings.open_engine(ours.size) as engine:
            self._ours, self._back = ours.revived(merged, back, engine.run)
        return ours.schema

    def _with_returned(self, merged: Schema) -> Dataset:
        """Return the base, with columns that it had dropped and that a side has again.

        So their values, which its files hold, are no edits of that side, and rows that the other
        side wrote without them get them back.
        """
        base, returned = self._base.schema, _returned(self._base, merged)
        if not returned:
            return self._base
        # A column that has parts again is shown with all of them; an id is what counts, no name.
        whole = {field.id: field for field in merged.fields if Schema((field,)).ids & returned}
        kept = [replace(f, type=whole.pop(f.id).type) if f.id in whole else f for f in base.fields]
        more = [replace(f, name=f"returned {f.id}", required=False) for f in whole.values()]
        shown = replace(base, fields=(*kept, *more))
        with self._settings.open_engine(self._base.size) as engine:
            return self._base.revived(shown, returned, engine.run)[0]

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

    def _merge_rows(
        self, edit: DatasetEdit, schemas: MergeSchemas, pieces: list[pa.RecordBatch]
    ) -> None:
        """Take the changes upon ours into an edit; conflicts that nobody resolved go to `pieces`.

        What is large is made by owners of intervals of keys.
        """
        rows = None if self._resolved is None else self._resolved.rows
        plans = self._plans()
        if _for_owners(plans):
            from havasu_vc.history.owned_merges import can_merge_owned, owned_merge

            if can_merge_owned(plans, schemas):
                with self._settings.open_engine(self._size) as engine:
                    pieces += owned_merge(edit, plans, schemas, self._policy, rows, engine)
                if rows is not None:
                    edit.collect(with_renumbered(iter(()), rows, schemas))
                return
        both = None
        if plans is None and not schemas.back:
            both = edit.take_alone(self._base, self._theirs)
        changes = self._changes(schemas, plans, rows, pieces, both)
        edit.collect(changes if rows is None else with_renumbered(changes, rows, schemas))

    @property
    def _size(self) -> int:
        return max(self._ours.size, self._theirs.size)

    def _plans(self) -> MergePlans | None:
        """Return how both sides are compared with the base; None for datasets without files."""
        base, ours, theirs = (v.in_files for v in (self._base, self._ours, self._theirs))
        if base is None or ours is None or theirs is None:
            return None
        return plan_merge(base, ours, theirs)

    def _changes(
        self,
        schemas: MergeSchemas,
        plans: MergePlans | None,
        rows: pa.Table | None,
        pieces: list[pa.RecordBatch],
        both: Sequence[tuple[Any, ...]] | None,
    ) -> Iterator[ChangeBatch]:
        for step in self._steps(schemas, plans, both):
            step = with_resolutions(step, rows, schemas)
            if step.conflicts.num_rows:
                pieces.append(step.conflicts)
            if len(step.changes):
                yield step.changes

    def _steps(
        self,
        schemas: MergeSchemas,
        plans: MergePlans | None,
        both: Sequence[tuple[Any, ...]] | None = None,
    ) -> Iterator[MergeStep]:
        """Merge rows, all that a side changed, or those with the keys that `both` changed."""
        if both is not None and not both:
            return
        settings = self._settings
        if self._url is not None and plans is not None and not _for_owners(plans):
            settings = replace(settings, engine="local")  # tasks would give rows to a shared folder
        with ExitStack() as stack:
            engines = [
                stack.enter_context(settings.open_engine(view.size))
                for view in (self._ours, self._theirs)
            ]
            if both is not None:
                ours = self._changes_of(both, self._ours, engines[0])
                theirs = self._changes_of(both, self._theirs, engines[1])
            elif plans is None:
                ours = row_changes(self._base, self._ours, engines[0])
                theirs = row_changes(self._base, self._theirs, engines[1])
            else:
                ours = planned_changes(plans.ours, self._base, self._ours, engines[0])
                theirs = planned_changes(plans.theirs, self._base, self._theirs, engines[1])
            yield from merge_changes(ours, theirs, schemas, self._policy)

    def _changes_of(
        self, keys: Sequence[tuple[Any, ...]], side: Dataset, engine: Engine
    ) -> Iterator[ChangeBatch]:
        """Yield what a side changed of rows with some keys."""
        tasks = self._base.compare_rows(side, keys)
        assert tasks is not None  # such are named only where paths tell which rows those are
        for batch in engine.run(tasks):
            if batch.num_rows:
                yield ChangeBatch(batch)

    def _conflicts(self, pieces: list[pa.RecordBatch], merged: Schema) -> DatasetConflicts | None:
        if not pieces and not self._waiting:
            return None
        rows = conflict_table(pieces, merged) if pieces else None
        items = {**self._items, **dict.fromkeys(sorted(self._waiting))}
        return DatasetConflicts(self._path, rows, items, self._columns_said)


def _three_schemas(base: Schema, ours: Schema, theirs: Schema) -> bool:
    """Whether both sides changed the columns, and not alike."""
    return ours not in (base, theirs) and theirs != base


def _for_owners(plans: MergePlans | None) -> TypeGuard[MergePlans]:
    """Whether a merge is so large that owners of keys may make it."""
    return plans is not None and plans.count > LEAST_ROWS


def columns_in_conflict(merged: MergedSchema) -> dict[str, ColumnConflict]:
    """Return what waits in a schema, by column."""
    kinds: dict[str, list[str]] = {}
    for conflict in merged.conflicts:
        kinds.setdefault(conflict.name, []).append(conflict.attribute or conflict.kind)
    return {name: ColumnConflict(tuple(dict.fromkeys(each))) for name, each in kinds.items()}


@dataclass(frozen=True, slots=True)
class Versions:
    """One dataset in the three commits; None where it is not there."""

    base: Dataset | None
    """In the merge base."""
    ours: Dataset | None
    """On our side."""
    theirs: Dataset | None
    """On theirs."""


def in_place(versions: Versions, settings: Settings, *, staged: bool = False) -> Versions:
    """Return versions whose files are read in the bucket, if some are not here.

    Executors write there too; what this machine merges waits here for a commit, as ever. What is
    `staged` of a version only this machine sees.
    """
    views = [view.in_files for view in (versions.base, versions.ours, versions.theirs) if view]
    found = [view for view in views if view is not None and view.storage.on_demand]
    if len(found) < 3:
        return versions
    with settings.open_engine(max(view.size for view in found)) as engine:
        distributed, apart = engine.distributed and not staged, engine.apart
    if staged and apart:
        return versions
    from havasu_vc.datasets.havasu.far import edited_there

    return Versions(*edited_there(*found, distributed=distributed, apart=apart, stays=True))


def union(versions: Versions, settings: Settings) -> TreeEdit | None:
    """Return what theirs changes upon ours, file by file; None where rows must be merged."""
    changes = joined(versions)
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    if changes is None or base is None or ours is None or theirs is None:
        return None
    with settings.open_engine(max(base.size, theirs.size)) as engine:
        counts = changes_counted(base, theirs, engine)
    return TreeEdit(ours.path, changes, counts=counts)


def joined(versions: Versions) -> dict[str, Change] | None:
    """Return the files of theirs that ours takes; None where rows must be merged."""
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    if base is None or ours is None or theirs is None or ours.in_files is None:
        return None
    if not isinstance(ours.folder, TreeFolder):
        return None
    if _dropped(base, ours) or _dropped(base, theirs):
        return None  # whether the other side edited the column, git does not ask
    if _returned(base, ours.schema) or _returned(base, theirs.schema):
        return None  # rows that the other side wrote since have lost it, which no sum tells
    changes = joined_files(base.folder, ours.folder, theirs.folder)
    if isinstance(changes, str):
        return None
    return changes if _is_sound(ours, changes) else None


def _dropped(old: Dataset, new: Dataset) -> bool:
    """Whether a side dropped a column, or a part of one."""
    return not old.schema.ids <= new.schema.ids


def _returned(base: Dataset, schema: Schema) -> frozenset[int]:
    """Return columns and parts, by id, that the base had dropped and some columns have again."""
    come = schema.ids - base.schema.ids
    files = base.in_files if come else None
    if files is None:
        return frozenset()
    written = {entry.schema for entry in files.data_entries}
    return come & frozenset[int]().union(*(files.past_schema(name).ids for name in written))


def _is_sound(ours: Dataset, changes: dict[str, Change]) -> bool:
    try:
        ours.after(TreeEdit(ours.path, changes), "the merge").check_guard()
    except StateError:
        return False
    return True
