"""Conditions on columns that partitions go by, for PyIceberg and DuckDB, and the rows of a model.

A reader leaves files out by the values of their partitions, so a wrong one shows as rows that are
missed.
"""

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    Reference,
)

from tests.conformance.partitions import Moment, plain
from tests.conformance.tables import Column, State

__all__ = ["Condition", "conditions", "missed_by_duckdb", "missed_by_pyiceberg"]


@dataclass(frozen=True)
class Condition:
    """Rows whose value of a column is none, a value, or at least a value."""

    column: Column
    least: bool
    value: Any

    def keys(self, state: State) -> list[int]:
        """Return the keys of the rows of a state that meet it."""
        return sorted(key for key, row in state.rows.items() if self.holds(row[self.column.name]))

    def holds(self, value: Any) -> bool:
        if value is None or self.value is None:
            return value is self.value
        mine, theirs = plain(self.value, self.column.type), plain(value, self.column.type)
        return bool(theirs >= mine if self.least else theirs == mine)

    @property
    def sql(self) -> str:
        name = f'"{self.column.name}"'
        if self.value is None:
            return f"{name} IS NULL"
        return f"{name} {'>=' if self.least else '='} {literal(self.value, self.column.type)}"

    @property
    def pyiceberg(self) -> BooleanExpression:
        if self.value is None:
            return IsNull(term=Reference(self.column.name))
        value = self.value
        if self.column.type == pa.uuid():
            value = uuid.UUID(bytes=value)
        elif isinstance(value, dt.date | dt.time):
            value = value.isoformat()
        operator: Any = GreaterThanOrEqual if self.least else EqualTo
        found: BooleanExpression = operator(self.column.name, value)
        return found


def missed_by_duckdb(condition: Condition, moment: Moment) -> bool:
    """Whether DuckDB 1.5 misses rows, by what it takes a transform of the value to be.

    It counts days and months of moments before 1970 towards 1970, fails where it rounds a decimal
    below zero, and hashes UUIDs otherwise than Iceberg does. But for UUIDs, by which PyIceberg
    parts no rows, tables that PyIceberg wrote show the same.
    """
    value = condition.value
    kinds = {
        p.transform.partition("[")[0] for p in moment.parts if p.column == condition.column.name
    }
    if isinstance(value, dt.datetime):
        return value.year < 1970 and bool(kinds & {"day", "month"})
    if isinstance(value, Decimal):
        return value < 0 and "truncate" in kinds
    return value is not None and condition.column.type == pa.uuid() and "bucket" in kinds


def missed_by_pyiceberg(condition: Condition) -> bool:
    """Whether PyIceberg 0.12 cannot tell: a UUID of a partition is none of its bytes to it."""
    return condition.value is not None and condition.column.type == pa.uuid()


def literal(value: Any, type_: pa.DataType) -> str:
    """Return a value as DuckDB writes it."""
    if type_ == pa.uuid():
        return f"UUID '{uuid.UUID(bytes=value)}'"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, dt.datetime):
        return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, dt.time):
        return f"TIME '{value}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def conditions(moment: Moment) -> Iterator[Condition]:
    """Yield conditions on the columns of a spec, by values that some rows have."""
    state = moment.after
    for name in dict.fromkeys(part.column for part in moment.parts):
        column = state.column(name)
        yield Condition(column, False, None)
        held = [row[name] for row in state.rows.values() if row[name] is not None]
        # No text of SQL holds the character 0.
        held = [each for each in held if not (isinstance(each, str) and "\0" in each)]
        for value in held[:1]:
            yield Condition(column, False, value)
        if not isinstance(held[-1] if held else b"", bytes | bool):
            yield Condition(column, True, held[-1])
