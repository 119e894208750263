"""Dropped columns: which of them the other side went on to use, and how they come back.

A side that drops a column says that nobody needs it. Where the other side gave rows other
values in it, or rows that are new, that is a question for a person. If the column is to
stay, rows that the dropping side touched since have lost it: they get it back as they had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from havasu_vc.datasets.pairing import equal_columns
from havasu_vc.history.conflicts import in_columns
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.counterparts import with_children
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Struct, children, descendants

__all__ = ["columns_back", "dropped_and_edited", "with_columns_back"]


def dropped_and_edited(
    base: Schema, side: Schema, other: Schema, changes: Callable[[], Iterator[ChangeBatch]]
) -> frozenset[int]:
    """Return the columns and parts, by id, that a side dropped and whose values the other changed.

    `changes` gives those of the other side; it is called only if something was dropped.
    """
    kept = _ids(side)
    waiting = {n: Schema((each,)) for n, each in _dropped(base.fields, other, kept)}
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


def columns_back(base: Schema, side: Schema, merged: Schema) -> frozenset[int]:
    """Return what a side dropped and a merge keeps, columns and parts of them by id."""
    return (_ids(base) & _ids(merged)) - _ids(side)


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


def _ids(schema: Schema) -> frozenset[int]:
    return frozenset(field.id for field in descendants(schema.fields))


def _dropped(
    fields: tuple[Field, ...], other: Schema, kept: frozenset[int]
) -> Iterator[tuple[int, Field]]:
    """Yield what was dropped by id, each as a column of the other side with nothing beside it."""
    there = {field.id: field for field in descendants(other.fields)}
    for field in fields:
        if field.id not in there:
            continue
        if field.id not in kept:
            yield field.id, replace(there[field.id], required=False)
            continue
        parts = children(there[field.id].type)
        for number, part in _dropped(children(field.type), other, kept):
            whole = there[field.id]
            inside = next(each for each in children(field.type) if _holds(each, number))
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
