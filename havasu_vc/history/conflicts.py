"""The conflicts that a merge leaves in a dataset: of rows, of columns and of meta items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.history.merging import conflict_schema
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["ColumnConflict", "DatasetConflicts", "conflict_columns", "conflict_table"]

_SCHEMA = b"havasu-vc.schema"


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """What is in conflict in one column."""

    kinds: tuple[str, ...]
    """What it is about, as `SchemaConflictKind` names it."""
    side: str | None = None
    """What was chosen, `ours` or `theirs`, or None."""


@dataclass(frozen=True, slots=True)
class DatasetConflicts:
    """What is in conflict in one dataset."""

    path: str
    """The dataset."""
    rows: pa.Table | None = None
    """Row conflicts in key order, as `conflict_table` makes them."""
    items: Mapping[str, str | None] = field(default_factory=dict)
    """Meta items in conflict, each with what was chosen, `ours`, `theirs`, `base`, `delete`, or for
    the schema `columns`; or None."""
    columns: Mapping[str, ColumnConflict] = field(default_factory=dict)
    """What is in conflict in the schema, by column; the key has no name."""

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
