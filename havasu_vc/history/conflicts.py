"""The conflicts that a merge leaves in a dataset: of rows, of columns and of meta items.

Looks at the row conflicts of a merge without making it: all are counted, few are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.datasets.pairing import equal_columns
from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.counterparts import with_children
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Struct, children, descendants
from havasu_vc.records import dataclass

__all__ = [
    "ColumnConflict",
    "ConflictKind",
    "DatasetConflicts",
    "Glance",
    "MergePolicy",
    "MergeSchemas",
    "MergeStep",
    "Side",
    "columns_back",
    "conflict_columns",
    "conflict_schema",
    "conflict_table",
    "dropped_and_edited",
    "dropped_columns",
    "few_of",
    "in_columns",
    "nullable",
    "with_columns_back",
]

_SCHEMA = b"havasu-vc.schema"


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """The conflict in one column."""

    kinds: tuple[str, ...]
    """Its kinds, as `SchemaConflictKind` names them."""
    side: str | None = None
    """The side that was chosen, `ours` or `theirs`, or None."""


@dataclass(frozen=True, slots=True)
class DatasetConflicts:
    """The conflicts in one dataset."""

    path: str
    """The dataset."""
    rows: pa.Table | None = None
    """Row conflicts in key order, as `conflict_table` makes them."""
    items: Mapping[str, str | None] = field(default_factory=dict)
    """Meta items in conflict, each with what was chosen, `ours`, `theirs`, `base`, `delete`, or for
    the schema `columns`; or None."""
    columns: Mapping[str, ColumnConflict] = field(default_factory=dict)
    """Conflicts in the schema, by column; the key has no name."""

    @property
    def unresolved_rows(self) -> int:
        """How many conflicts of rows wait."""
        return 0 if self.rows is None else self.rows.column("resolution").null_count

    @property
    def unresolved_items(self) -> int:
        """How many conflicts of meta items wait."""
        return sum(side is None for side in self.items.values())

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        return self.unresolved_rows + self.unresolved_items

    @property
    def total(self) -> int:
        """How many conflicts there are or were."""
        return (0 if self.rows is None else self.rows.num_rows) + len(self.items)


def conflict_table(pieces: Sequence[pa.RecordBatch], merged: Schema) -> pa.Table:
    """Return conflicts that nobody has resolved, with a place for how they will be.

    To the columns of `conflict_schema` come `resolution`, how it was resolved or null;
    `result`, the row then, null for none; and `renumbered`, a row that gets a new key.
    """
    table = pa.Table.from_batches(list(pieces), conflict_schema(merged))
    rows = pa.nulls(table.num_rows, table.schema.field("ours").type)
    table = table.append_column("resolution", pa.nulls(table.num_rows, pa.string()))
    table = table.append_column("result", rows).append_column("renumbered", rows)
    return table.replace_schema_metadata({_SCHEMA: format_schema(merged)})


def conflict_columns(rows: pa.Table) -> Schema:
    """Return the columns of the rows that are in conflict."""
    return parse_schema((rows.schema.metadata or {})[_SCHEMA], "the state of the merge")


# What merging rows is given and gives: policies, conflicts, steps.
#
# A conflict is a value, never an exception. Conflicts travel in batches, each row of one
# as it was in the base and is on either side, in the merged columns.


class Side(StrEnum):
    """Whose version wins where both changed a cell differently."""

    OURS = "ours"
    THEIRS = "theirs"


class ConflictKind(StrEnum):
    """The changes of both sides in one row."""

    SAME_CELL = "same-cell"
    EDIT_DELETE = "edit/delete"
    INSERT_INSERT = "insert/insert"
    COUNT = "count"
    """Without a key: both changed how often a row is there, differently."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """How conflicts are decided without asking."""

    side: Side | None = None
    """The side that wins; None to leave conflicts."""
    columns: Mapping[str, Side] = field(default_factory=dict)
    """The side that wins in some columns."""
    fill_nulls: bool = False
    """Whether a null yields to the other side's value."""
    whole: bool = False
    """Whether a row or a schema that both sides changed differently is in conflict as a whole, as
    in Kart, also where the cells or columns would merge."""


@dataclass(frozen=True, slots=True)
class MergeSchemas:
    """The columns of each version. Columns of one id are one column."""

    base: Schema
    """Before both."""
    ours: Schema
    """On our side."""
    theirs: Schema
    """On theirs, ids as in `merged`; the streams' names and order are the same."""
    merged: Schema
    """After the merge."""
    without: Schema | None = None
    """The columns that our side really has, where it dropped some that the merge keeps: `ours`
    has these again, and its stream tells of rows that lost what was in them."""

    @property
    def back(self) -> bool:
        """Whether the merge keeps columns, or parts of them, that our side dropped."""
        return self.without is not None


@dataclass(frozen=True, slots=True)
class MergeStep:
    """The outcome of a window of keys."""

    changes: ChangeBatch
    """Changes of ours: old rows in our columns, new ones in the merged columns."""
    conflicts: pa.RecordBatch
    """As `conflict_schema` says."""
    current: pa.StructArray | None = None
    """Of each conflict the row as our side has it, in our own columns; None without a key."""


def conflict_schema(merged: Schema) -> pa.Schema:
    """Return what a batch of conflicts looks like.

    `kind`, the `columns` whose cells are in conflict, and the row in the merged columns: as
    `base`, `ours` and `theirs`, and `merged`, where the cells in conflict are ours and all
    others are merged (null when a side has no row). Without a key, `ours_count` and
    `theirs_count` say how many more of the row each side has than the base.
    """
    row = pa.struct([f.with_nullable(True) for f in arrow_schema(merged)])
    return pa.schema(
        [
            ("kind", pa.string()),
            ("columns", pa.list_(pa.string())),
            ("base", row),
            ("ours", row),
            ("theirs", row),
            ("merged", row),
            ("ours_count", pa.int64()),
            ("theirs_count", pa.int64()),
        ]
    )


def in_columns(side: pa.StructArray, before: Schema, after: Schema) -> pa.RecordBatch:
    """Return rows of one schema in the columns of another; absent rows are nulls throughout."""
    rows = pa.RecordBatch.from_arrays(side.flatten(), schema=nullable(arrow_schema(before)))
    plan = plan_projection(rows.schema, after, "the merge")
    columns = [
        pa.nulls(rows.num_rows, target.type)
        if step is None
        else (rows.column(step[0]) if step[1] is None else step[1](rows.column(step[0])))
        for target, step in zip(plan.target, plan.steps, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=nullable(arrow_schema(after)))


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema that allows nulls everywhere at its top, as absent rows need."""
    return pa.schema([field.with_nullable(True) for field in schema])


class Glance:
    """Looks at conflicts without merging: counts all rows, and keeps the first of each kind."""

    def __init__(self, most: int) -> None:
        self.most = most
        """How many of a kind are kept in a dataset."""
        self.rows: Counter[str] = Counter()
        """How many rows are in conflict, by dataset that has any."""

    def few(self, path: str, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Take in the row conflicts of a dataset; return those that are kept, in their order."""
        return self.take(path, *few_of(batches, self.most))

    def take(self, path: str, count: int, kept: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Take in how many there are in a dataset; return those that were kept."""
        if count:
            self.rows[path] += count
        return kept


def few_of(batches: Iterable[pa.RecordBatch], most: int) -> tuple[int, list[pa.RecordBatch]]:
    """Return how many conflicts there are, and the first of each kind in their order."""
    kept: list[pa.RecordBatch] = []
    seen: Counter[str] = Counter()
    count = 0
    for batch in batches:
        count += batch.num_rows
        kinds = np.array(batch.column("kind").to_pylist())
        chosen = np.zeros(len(kinds), bool)
        for kind in np.unique(kinds):
            first = np.flatnonzero(kinds == kind)[: most - seen[kind]]
            chosen[first] = True
            seen[kind] += len(first)
        if chosen.any():
            # Taken, not sliced: a slice would keep the whole batch in memory.
            kept.append(pc.take(batch, arrow_array(np.flatnonzero(chosen))))
    return count, kept


# Dropped columns: which of them the other side went on to use, and how they come back.
#
# A side that drops a column says that nobody needs it. Where the other side gave rows other
# values in it, or rows that are new, that is a question for a person. If the column is to
# stay, rows that the dropping side touched since have lost it: they get it back as they had it.


def dropped_and_edited(
    base: Schema, side: Schema, other: Schema, changes: Callable[[], Iterator[ChangeBatch]]
) -> frozenset[int]:
    """Return the columns and parts, by id, that a side dropped and whose values the other changed.

    `changes` gives those of the other side; it is called only if something was dropped.
    """
    waiting = {n: Schema((each,)) for n, each in _dropped(base.fields, other, side.ids)}
    found: set[int] = set()
    if not waiting:
        return frozenset()
    for batch in changes():
        for number, alone in list(waiting.items()):
            if _changes(batch, base, other, alone):
                found.add(number)
                del waiting[number]
        if not waiting:
            break
    return frozenset(found)


def dropped_columns(base: Schema, side: Schema, other: Schema) -> frozenset[int]:
    """Return the columns and parts, by id, that a side dropped and the other has."""
    return frozenset(number for number, _ in _dropped(base.fields, other, side.ids))


def columns_back(base: Schema, side: Schema, merged: Schema) -> frozenset[int]:
    """Return what a side dropped and a merge keeps, columns and parts of them by id."""
    return (base.ids & merged.ids) - side.ids


def with_columns_back(
    rows: pa.RecordBatch, old: pa.StructArray, base: Schema, side: Schema, merged: Schema
) -> pa.RecordBatch:
    """Return rows of a side, in merged columns, with what it dropped and the merge keeps.

    That is as it was in the base; `old` has the rows as they were there, in its own columns.
    """
    back = columns_back(base, side, merged)
    if not back:
        return rows
    before = in_columns(old, base, merged)
    through = in_columns(struct_of(in_columns(old, base, side)), side, merged)
    columns = [
        _with_parts_back(column, then, bare, field, back)
        for field, column, then, bare in zip(
            merged.fields, rows.columns, before.columns, through.columns, strict=True
        )
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _with_parts_back(
    column: pa.Array, before: pa.Array, bare: pa.Array, field: Field, back: frozenset[int]
) -> pa.Array:
    """Return values with parts as they were before; `bare` is that without these parts."""
    if field.id in back:
        return before
    if not any(each.id in back for each in descendants((field,))):
        return column
    # What the side did not change is whole as it was.
    same = arrow_array(equal_columns(column, bare, field, field))
    if isinstance(field.type, Struct):
        inside = []
        for part in field.type.fields:
            now, then, left = (pc.struct_field(each, part.name) for each in (column, before, bare))
            inside.append(_with_parts_back(now, then, left, part, back))
        mask = pc.is_null(column)
        column = pa.StructArray.from_arrays(inside, fields=list(column.type), mask=mask)
    return pc.if_else(same, before, column)


def _dropped(
    fields: tuple[Field, ...], other: Schema, kept: frozenset[int]
) -> Iterator[tuple[int, Field]]:
    """Yield what was dropped by id, each as a column of the other side with nothing beside it."""
    there = {each.id: each for each in descendants(other.fields)}
    for column in fields:
        if column.id not in there:
            continue
        if column.id not in kept:
            yield column.id, replace(there[column.id], required=False)
            continue
        parts = children(there[column.id].type)
        for number, part in _dropped(children(column.type), other, kept):
            whole = there[column.id]
            inside = next(each for each in children(column.type) if _holds(each, number))
            # Of a struct just the part; a list and a map need all that they consist of.
            chosen = tuple(part if each.id == inside.id else each for each in parts)
            if isinstance(whole.type, Struct):
                chosen = (part,)
            yield number, replace(whole, type=with_children(whole.type, chosen), required=False)


def _holds(field: Field, number: int) -> bool:
    return any(each.id == number for each in descendants((field,)))


def _changes(batch: ChangeBatch, base: Schema, other: Schema, alone: Schema) -> bool:
    """Return whether changes give a column other values."""
    (before,) = in_columns(batch.old, base, alone).columns
    (after,) = in_columns(batch.new, other, alone).columns
    (field,) = alone.fields
    differs = arrow_array(~equal_columns(before, after, field, field))
    stays = pc.is_valid(batch.new)
    # A row that is new brings a value, one that was there may lose it too.
    told = pc.or_(pc.is_valid(batch.old), pc.is_valid(after))
    return bool(pc.any(pc.and_(pc.and_(differs, stays), told)).as_py())
