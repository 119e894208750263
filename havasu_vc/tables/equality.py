"""Equality delete files: rows that are gone because of what they say.

A row goes when it equals some row of the delete file in the columns that this names,
null being equal to null. Columns are told by field id, also when the table's schema has
dropped them since, and the values of both files are read in the schema's types.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import open_parquet, read_row_groups
from havasu_vc.datasets.havasu.projection import Projection, plan_projection
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import distinct
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct
from havasu_vc.tables.locations import damaged, missing, reading_table_file

__all__ = ["EqualRows", "Way", "columns_at", "equality_columns", "read_equality_deletes"]

Way = tuple[int, ...]
"""The place of a column of a schema: its index, and that of each field inside."""
Codes = npt.NDArray[np.int64]
_MOST_ROWS = 1 << 26


def equality_columns(
    ids: Sequence[int], schemas: Iterable[Schema], where: str
) -> tuple[Schema, tuple[Way, ...]]:
    """Return the columns to read for an equality delete, and where in these its own are.

    `schemas` are the table's, newest first: a column may have been dropped since.
    """
    known = tuple(schemas)
    tops: dict[int, Field] = {}
    ways: list[Way] = []
    for wanted in ids:
        found = next((way for each in known if (way := _way(each.fields, wanted))), None)
        if found is None:
            raise damaged(where, f"it deletes by a column {wanted} that the table never had")
        top, *inside = found
        # Of several schemas, so names may be equal.
        tops.setdefault(top[1].id, replace(top[1], name=f"column {top[1].id}", required=False))
        place = list(tops).index(top[1].id)
        ways.append((place, *(index for index, _ in inside)))
    return Schema(tuple(tops.values())), tuple(ways)


def _way(fields: tuple[Field, ...], wanted: int) -> tuple[tuple[int, Field], ...] | None:
    """Return the indices and fields that lead to a column, through structs only."""
    for index, field in enumerate(fields):
        if field.id == wanted and not isinstance(field.type, Struct | List | Map):
            return ((index, field),)
        if isinstance(field.type, Struct):
            inner = _way(field.type.fields, wanted)
            if inner is not None:
                return ((index, field), *inner)
    return None


def columns_at(batch: pa.RecordBatch, ways: Iterable[Way]) -> list[pa.Array]:
    """Return the columns at some places of a batch, null where what holds them is."""
    columns = []
    for top, *inside in ways:
        column = batch.column(top)
        for index in inside:
            column = column.flatten()[index]
        columns.append(column)
    return columns


class EqualRows:
    """Rows of some columns, and whether other rows are equal to one of them."""

    __slots__ = ("_steps", "count")

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Take the rows in; all columns are of one length."""
        self.count = len(columns[0]) if columns else 0
        """How many rows there are."""
        self._steps: list[tuple[pa.Array, Codes]] = []
        state = np.zeros(self.count, np.int64)
        for column in map(_comparable, columns):
            values = pc.unique(column)
            # A group is what rows have in common so far; there are no more than rows.
            combined = state * len(values) + _codes(column, values)
            groups = distinct(combined)
            state = np.searchsorted(groups, combined).astype(np.int64)
            self._steps.append((values, groups))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Return for each row of other columns whether it is here."""
        found = np.full(len(columns[0]) if columns else 0, self.count > 0)
        if not self.count:
            return found
        state = np.zeros(len(found), np.int64)
        for column, (values, groups) in zip(map(_comparable, columns), self._steps, strict=True):
            codes = _codes(column, values)
            combined = state * len(values) + codes
            state = np.searchsorted(groups, combined).astype(np.int64)
            state[state == len(groups)] = 0
            found &= (codes >= 0) & (groups[state] == combined)
        return found


def _codes(column: pa.Array, values: pa.Array) -> Codes:
    """Return the place of each value among others, null like any; -1 where there is none."""
    places = pc.index_in(column, value_set=values, skip_nulls=False)
    codes: Codes = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    return codes


def _comparable(column: pa.Array) -> pa.Array:
    """Return what is equal exactly when Iceberg says so: not a number is, zero has a sign."""
    if not pa.types.is_floating(column.type):
        return column
    bits = pa.int64() if column.type == pa.float64() else pa.int32()
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, column).view(bits)


def read_equality_deletes(path: str, schema: Schema, ways: tuple[Way, ...]) -> EqualRows:
    """Return the rows of an equality delete file, in the columns at some places of a schema."""
    try:
        found = os.stat(path)
    except OSError:
        raise missing(path) from None
    return _remembered(path, schema, ways, (found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=16)
def _remembered(
    path: str, schema: Schema, ways: tuple[Way, ...], identity: tuple[int, int]
) -> EqualRows:
    with reading_table_file(path):
        with open_parquet(path) as file:
            if file.metadata.num_rows > _MOST_ROWS:
                raise damaged(path, f"{file.metadata.num_rows:,} rows are more than it can hold")
        batches = read_row_groups(path, schema, planned=lambda found: _whole(found, schema, path))
        pieces = [columns_at(batch, ways) for batch in batches]
    if not pieces:
        return EqualRows([])
    return EqualRows([pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)])


def _whole(found: pa.Schema, schema: Schema, path: str) -> Projection:
    """Return how to read a delete file, which must have the columns that it compares."""
    plan = plan_projection(found, schema, path)
    if any(step is None for step in plan.steps):
        raise damaged(path, "it lacks a column that it deletes by")
    return plan
