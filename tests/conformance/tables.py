"""A table as plain values, and the steps of its history: what every program must agree with.

A `State` is columns in order and rows by key, each a dict of Python values. A `Step` makes one
state of another. Programs apply steps to their tables; nothing here knows of any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import pyarrow as pa

__all__ = [
    "KEY",
    "AddColumn",
    "Append",
    "Column",
    "Delete",
    "DropColumn",
    "Geo",
    "History",
    "MoveFirst",
    "Partition",
    "RenameColumn",
    "Row",
    "State",
    "Step",
    "Update",
    "Widen",
    "arrow",
]

Row: TypeAlias = dict[str, Any]
KEY = "id"
"""The column that is the key of every table: `long`, without nulls."""


@dataclass(frozen=True)
class Geo:
    """The declaration of a geometry column."""

    crs: str | None
    """A name, WKT or PROJJSON as text; None where nobody says."""
    spherical: bool = False
    """Whether edges run on the globe."""


@dataclass(frozen=True)
class Column:
    """A column; a geometry is `binary` with a declaration."""

    name: str
    type: pa.DataType
    geo: Geo | None = None

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, nullable=self.name != KEY)


@dataclass(frozen=True)
class State:
    """A table at one moment."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row]
    parted: frozenset[str] = frozenset()
    """The columns that a partition goes by, which cannot go."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns])

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def with_rows(self, rows: Mapping[int, Row]) -> State:
        return replace(self, rows=dict(sorted(rows.items())))

    def with_column(self, name: str, column: Column) -> State:
        """Put a column in the place of another, whose values it takes."""
        columns = tuple(column if each.name == name else each for each in self.columns)
        rows = {key: _renamed(row, name, column.name) for key, row in self.rows.items()}
        parted = frozenset(column.name if each == name else each for each in self.parted)
        return State(columns, rows, parted)


def _renamed(row: Row, old: str, new: str) -> Row:
    return {new if name == old else name: value for name, value in row.items()}


def arrow(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as Arrow; 16 bytes may be a UUID."""
    return pa.Table.from_arrays(
        [_array([row[field.name] for row in rows], field.type) for field in schema], schema=schema
    )


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Return values as an array; Arrow makes none of UUIDs within others by itself."""
    none = pa.array([value is None for value in values], pa.bool_())
    if type_ == pa.uuid():
        return pa.ExtensionArray.from_storage(type_, pa.array(values, pa.binary(16)))
    if pa.types.is_struct(type_):
        parts = [_array([v and v[f.name] for v in values], f.type) for f in type_]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=none)
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        ends = accumulate((len(value or ()) for value in values), initial=0)
        offsets = pa.array(ends, pa.int32())
        inner = [each for value in values for each in value or ()]
        if pa.types.is_list(type_):
            parts = [_array(inner, type_.value_type)]
            return pa.ListArray.from_arrays(offsets, *parts, type=type_, mask=none)
        parts = [_array([k for k, _ in inner], type_.key_type)]
        parts.append(_array([v for _, v in inner], type_.item_type))
        return pa.MapArray.from_arrays(offsets, *parts, type=type_, mask=none)
    return pa.array(values, type_)


class Step:
    """A change of a table."""

    def applied(self, state: State) -> State:
        raise NotImplementedError


@dataclass(frozen=True)
class Append(Step):
    """New rows."""

    rows: tuple[Row, ...]

    def applied(self, state: State) -> State:
        return state.with_rows({**state.rows, **{row[KEY]: row for row in self.rows}})


@dataclass(frozen=True)
class Update(Append):
    """Rows in the place of those with their keys."""


@dataclass(frozen=True)
class Delete(Step):
    """Rows that go."""

    keys: tuple[int, ...]

    def applied(self, state: State) -> State:
        return state.with_rows({k: row for k, row in state.rows.items() if k not in self.keys})


@dataclass(frozen=True)
class AddColumn(Step):
    """A column that earlier rows lack, or a part of a struct with `parent`."""

    column: Column
    parent: str | None = None

    def applied(self, state: State) -> State:
        name = self.column.name
        if self.parent is None:
            rows = {key: {**row, name: None} for key, row in state.rows.items()}
            return replace(state, columns=(*state.columns, self.column), rows=rows)
        parent = state.column(self.parent)
        grown = replace(parent, type=pa.struct([*parent.type, self.column.field]))
        rows = {
            key: {**row, self.parent: row[self.parent] and {**row[self.parent], name: None}}
            for key, row in state.rows.items()
        }
        return replace(state.with_column(self.parent, grown), rows=rows)


@dataclass(frozen=True)
class DropColumn(Step):
    """A column that goes."""

    name: str

    def applied(self, state: State) -> State:
        columns = tuple(column for column in state.columns if column.name != self.name)
        rows = {
            key: {name: value for name, value in row.items() if name != self.name}
            for key, row in state.rows.items()
        }
        return replace(state, columns=columns, rows=rows)


@dataclass(frozen=True)
class RenameColumn(Step):
    """A column that is called otherwise, and the same."""

    old: str
    new: str

    def applied(self, state: State) -> State:
        return state.with_column(self.old, replace(state.column(self.old), name=self.new))


@dataclass(frozen=True)
class Widen(Step):
    """A column of a type that holds all its values, and more."""

    name: str
    type: pa.DataType

    def applied(self, state: State) -> State:
        return state.with_column(self.name, replace(state.column(self.name), type=self.type))


@dataclass(frozen=True)
class MoveFirst(Step):
    """A column that comes before all others."""

    name: str

    def applied(self, state: State) -> State:
        others = [column for column in state.columns if column.name != self.name]
        return replace(state, columns=(state.column(self.name), *others))


@dataclass(frozen=True)
class Partition(Step):
    """Files of rows written from now on are parted by a column; rows stay."""

    name: str
    transform: str
    """`identity`, `bucket`, `truncate`, `year`, `month`, `day` or `hour`."""

    def applied(self, state: State) -> State:
        return replace(state, parted=state.parted | {self.name})


@dataclass(frozen=True)
class History:
    """A table from its making on."""

    first: State
    """Columns without a row."""
    steps: tuple[Step, ...]

    @property
    def states(self) -> tuple[State, ...]:
        """The table at first and after each step."""
        found = [self.first]
        for step in self.steps:
            found.append(step.applied(found[-1]))
        return tuple(found)

    @property
    def last(self) -> State:
        return self.states[-1]
