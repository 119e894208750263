"""Rows of a file in the columns of a schema: matched by field id, never by name.

A file keeps the columns it was written with. Reading it under a later schema leaves
out dropped columns, fills added ones with nulls, and widens values, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.arrow import FIELD_ID, arrow_field, arrow_schema, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct, descendants

__all__ = ["Projection", "lacks", "plan_projection"]

Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Projection:
    """How batches of one file become batches of a schema."""

    target: pa.Schema
    """What comes out."""
    names: tuple[str, ...]
    """The columns to read from the file."""
    steps: tuple[tuple[str, Convert | None] | None, ...]
    """For each column that comes out: the file's column and what to do to it; None for nulls."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the file in the columns of the schema."""
        arrays = []
        for field, step in zip(self.target, self.steps, strict=True):
            if step is None:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            name, convert = step
            column = batch.column(name)
            arrays.append(column if convert is None else convert(column))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def plan_projection(file_schema: pa.Schema, schema: Schema, where: str) -> Projection:
    """Return how to read a file under a schema; `where` names the file in errors."""
    by_id = {_id_of(field): field for field in file_schema}
    steps: list[tuple[str, Convert | None] | None] = []
    names = []
    for field in schema.fields:
        found = by_id.get(field.id)
        if found is None:
            steps.append(None)
            continue
        names.append(found.name)
        steps.append((found.name, _conversion(found, field, where)))
    return Projection(arrow_schema(schema), tuple(names), tuple(steps))


def lacks(file_schema: pa.Schema, schema: Schema, other: pa.Schema | None = None) -> bool:
    """Whether a file lacks columns of a schema at any depth, or those of them that another has."""
    wanted = {field.id for field in descendants(schema.fields)} - _ids(file_schema)
    return bool(wanted if other is None else wanted & _ids(other))


def _ids(fields: Iterable[pa.Field]) -> set[int | None]:
    found: set[int | None] = set()
    for field in fields:
        type_ = field.type
        found.add(_id_of(field))
        if pa.types.is_map(type_):
            found |= _ids((type_.key_field, type_.item_field))
        elif pa.types.is_nested(type_):
            found |= _ids(type_.field(index) for index in range(type_.num_fields))
    return found


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def _conversion(found: pa.Field, field: Field, where: str) -> Convert | None:
    """Return what makes the file's values the schema's, None when they are already."""
    if _same(found, field):
        return None
    match field.type:
        case Struct(fields) if pa.types.is_struct(found.type):
            return _struct_conversion(found, fields, where)
        case List(element) if pa.types.is_list(found.type):
            inner = _conversion(found.type.value_field, element, where)
            type_ = arrow_type(field.type)
            return lambda column: _list(column, type_, inner)
        case Map(key, value) if pa.types.is_map(found.type):
            parts = (
                _conversion(found.type.key_field, key, where),
                _conversion(found.type.item_field, value, where),
            )
            type_ = arrow_type(field.type)
            return lambda column: _map(column, type_, parts)
        case Struct() | List() | Map():
            raise CorruptDatasetError(where, f"column {field.name!r} is {found.type} in the file")
        case _:
            target = arrow_type(field.type)
            return lambda column: _cast(column, target, field, where)


def _same(found: pa.Field, field: Field) -> bool:
    """Whether types agree, nested names and ids included."""
    wanted = arrow_field(field)
    if found.type != wanted.type:
        return False
    match field.type:
        case Struct(fields):
            inner = [found.type.field(index) for index in range(found.type.num_fields)]
            return all(
                _id_of(part) == child.id and _same(part, child)
                for part, child in zip(inner, fields, strict=True)
            )
        case List(element):
            return _same(found.type.value_field, element)
        case Map(key, value):
            return _same(found.type.key_field, key) and _same(found.type.item_field, value)
        case _:
            return True


def _cast(column: pa.Array, target: pa.DataType, field: Field, where: str) -> pa.Array:
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except pa.ArrowException as error:
        raise CorruptDatasetError(
            where, f"column {field.name!r} is {column.type}, which cannot be read as {field.type}"
        ) from error


def _struct_conversion(found: pa.Field, fields: tuple[Field, ...], where: str) -> Convert:
    inner = [found.type.field(index) for index in range(found.type.num_fields)]
    by_id = {_id_of(part): index for index, part in enumerate(inner)}
    plan: list[tuple[Field, int | None, Convert | None]] = []
    for child in fields:
        index = by_id.get(child.id)
        convert = None if index is None else _conversion(inner[index], child, where)
        plan.append((child, index, convert))
    target = [arrow_field(child) for child in fields]

    def convert_struct(column: pa.StructArray) -> pa.StructArray:
        parts = column.flatten()
        arrays = []
        for child, index, convert in plan:
            if index is None:
                arrays.append(pa.nulls(len(column), arrow_type(child.type)))
            else:
                arrays.append(parts[index] if convert is None else convert(parts[index]))
        mask = pc.is_null(column) if column.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=target, mask=mask)

    return convert_struct


def _list(column: pa.ListArray, type_: pa.DataType, inner: Convert | None) -> pa.ListArray:
    offsets, first, length = _span(column)
    values = column.values.slice(first, length)
    values = values if inner is None else inner(values)
    mask = pc.is_null(column) if column.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=type_, mask=mask)


def _map(
    column: pa.MapArray, type_: pa.DataType, parts: tuple[Convert | None, Convert | None]
) -> pa.MapArray:
    offsets, first, length = _span(column)
    sides = []
    for values, convert in zip((column.keys, column.items), parts, strict=True):
        side = values.slice(first, length)
        sides.append(side if convert is None else convert(side))
    mask = pc.is_null(column) if column.null_count else None
    return pa.MapArray.from_arrays(offsets, *sides, type=type_, mask=mask)


def _span(column: pa.Array) -> tuple[pa.Array, int, int]:
    offsets = column.offsets
    first = offsets[0].as_py()
    return pc.subtract(offsets, first), first, offsets[-1].as_py() - first
