"""The conflicts that a merge leaves in a dataset: of rows, of columns and of meta items.

Looks at the row conflicts of a merge without making it: all are counted, few are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
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
    "conflict_columns",
    "conflict_schema",
    "conflict_table",
    "few_of",
    "in_columns",
    "nullable",
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
