"""Rows of a file in the columns of a schema: matched by field id, not by name.

A file keeps the columns it was written with. Reading it under a later schema leaves
out dropped columns, fills added ones with nulls or a value that is given for them, and
widens values, at any depth. The parts of a raster alone are matched by name: they are
what the encoding says, and the block of their ids may have changed in a merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import FIELD_ID, arrow_field, arrow_schema, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct, Type, children
from havasu_vc.records import dataclass

__all__ = ["READ_ALL", "Projection", "lacks", "plan_projection", "rows_only"]

Convert = Callable[[pa.Array], pa.Array]
_NO_VALUES: Mapping[int, Any] = MappingProxyType({})
READ_ALL = ("`havasu-vc fsck --full` reads data files, and lists all that is wrong",)
"""The hint where a data file is not what it must be."""


@dataclass(frozen=True, slots=True)
class Projection:
    """How batches of one file become batches of a schema."""

    target: pa.Schema
    """The columns that come out."""
    names: tuple[str, ...]
    """The columns to read from the file."""
    steps: tuple[tuple[str, Convert | None] | None, ...]
    """For each column that comes out: the file's column and what to do to it; None for none."""
    values: Mapping[int, Any]
    """Values of columns that the file lacks, by field id; null when not named."""
    schema: Schema
    """The columns of `target`."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the file in the columns of the schema."""
        arrays = []
        for field, step in zip(self.schema.fields, self.steps, strict=True):
            if step is None:
                arrays.append(_lacking(field, self.values, batch.num_rows))
                continue
            name, convert = step
            column = batch.column(name)
            arrays.append(column if convert is None else convert(column))
        if not arrays:
            return rows_only(batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


def rows_only(count: int) -> pa.RecordBatch:
    """Return rows without columns."""
    rows = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(rows)


def plan_projection(
    file_schema: pa.Schema, schema: Schema, where: str, values: Mapping[int, Any] = _NO_VALUES
) -> Projection:
    """Return how to read a file under a schema; `where` names the file in errors.

    `values` are what columns hold that the file lacks, by field id at any depth, as
    Python values of the column's stored Arrow type.
    """
    by_id = {_id_of(field): field for field in file_schema}
    steps: list[tuple[str, Convert | None] | None] = []
    names = []
    for field in schema.fields:
        found = by_id.get(field.id)
        if found is None:
            if field.required and values.get(field.id) is None:
                reason = f"it lacks the required column {field.name!r}"
                raise CorruptDatasetError(where, reason, READ_ALL)
            steps.append(None)
            continue
        names.append(found.name)
        steps.append((found.name, _conversion(found, field, where, values)))
    return Projection(arrow_schema(schema), tuple(names), tuple(steps), values, schema)


def _lacking(field: Field, values: Mapping[int, Any], count: int) -> pa.Array:
    """Return what a column holds that a file lacks."""
    type_ = arrow_type(field.type)
    value = values.get(field.id)
    return pa.nulls(count, type_) if value is None else pa.repeat(pa.scalar(value, type_), count)


def lacks(file_schema: pa.Schema, schema: Schema, other: pa.Schema | None = None) -> bool:
    """Whether a file lacks columns of a schema at any depth, or those of them that another has."""
    wanted = set(_wanted_ids(schema.fields)) - _ids(file_schema)
    return bool(wanted if other is None else wanted & _ids(other))


def _wanted_ids(fields: tuple[Field, ...]) -> Iterator[int]:
    """Yield the ids by which columns are found, at any depth."""
    for field in fields:
        yield field.id
        if field.raster is None:
            yield from _wanted_ids(children(field.type))


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


def _conversion(
    found: pa.Field, field: Field, where: str, values: Mapping[int, Any]
) -> Convert | None:
    """Return what makes the file's values the schema's, None when they are already."""
    if field.raster is not None and pa.types.is_struct(found.type):
        named = _with_part_ids(found.type, field.type)
        if named is None:
            raise CorruptDatasetError(
                where,
                f"column {field.name!r} is {_brief(found.type)} in the file, which is no "
                "raster of encoding v1",
            )
        found = found.with_type(named)
    if _same(found, field):
        return None
    if isinstance(found.type, pa.BaseExtensionType):
        inner = _conversion(found.with_type(found.type.storage_type), field, where, values)
        return lambda column: column.storage if inner is None else inner(column.storage)
    match field.type:
        case Struct(fields) if pa.types.is_struct(found.type):
            return _struct_conversion(found, fields, where, values)
        case List(element) if _is_list(found.type):
            return _list_conversion(found, element, arrow_type(field.type), where, values)
        case Map(key, value) if pa.types.is_map(found.type):
            parts = (
                _conversion(found.type.key_field, key, where, values),
                _conversion(found.type.item_field, value, where, values),
            )
            type_ = arrow_type(field.type)
            return lambda column: _map(column, type_, parts)
        case Struct() | List() | Map():
            raise CorruptDatasetError(where, f"column {field.name!r} is {found.type} in the file")
        case _:
            target = arrow_type(field.type)
            return lambda column: _cast(column, target, field, where)


def _with_part_ids(found: pa.DataType, type_: Type) -> pa.DataType | None:
    """Return the type of a raster in a file with the ids that its parts have in the schema.

    None when a part is missing or is of another kind.
    """
    if isinstance(type_, List):
        if not _is_list(found):
            return None
        inner = _with_part_ids(found.value_type, type_.element.type)
        if inner is None:
            return None
        element = found.value_field.with_type(inner)
        return pa.list_(element.with_metadata(_id_metadata(type_.element)))
    if not isinstance(type_, Struct):
        return found
    if not pa.types.is_struct(found):
        return None
    wanted = {part.name: part for part in type_.fields}
    parts = []
    for part in found:
        known = wanted.pop(part.name, None)
        if known is not None:
            inner = _with_part_ids(part.type, known.type)
            if inner is None:
                return None
            part = part.with_type(inner).with_metadata(_id_metadata(known))
        parts.append(part)
    return None if any(part.required for part in wanted.values()) else pa.struct(parts)


def _id_metadata(field: Field) -> dict[bytes, bytes]:
    return {FIELD_ID: str(field.id).encode()}


def _brief(type_: pa.DataType) -> str:
    return f"a struct of {type_.num_fields} parts" if pa.types.is_struct(type_) else str(type_)


def _is_list(type_: pa.DataType) -> bool:
    # Arrow's own schema in the footer may say that a list is one of its other kinds.
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def _list_conversion(
    found: pa.Field, element: Field, type_: pa.DataType, where: str, values: Mapping[int, Any]
) -> Convert:
    inner = _conversion(found.type.value_field, element, where, values)
    plain = None if pa.types.is_list(found.type) else pa.list_(found.type.value_field)
    return lambda column: _list(column if plain is None else pc.cast(column, plain), type_, inner)


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
        return pc.cast(column, target)
    except pa.ArrowException as error:
        if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
            raise UnsupportedTypeError(
                field.name,
                f"{where} has values of {column.type} that microseconds cannot say",
                hints=("leave the column out with --columns",),
            ) from error
        raise CorruptDatasetError(
            where, f"column {field.name!r} is {column.type}, which cannot be read as {field.type}"
        ) from error


def _struct_conversion(
    found: pa.Field, fields: tuple[Field, ...], where: str, values: Mapping[int, Any]
) -> Convert:
    inner = [found.type.field(index) for index in range(found.type.num_fields)]
    by_id = {_id_of(part): index for index, part in enumerate(inner)}
    plan: list[tuple[Field, int | None, Convert | None]] = []
    for child in fields:
        index = by_id.get(child.id)
        convert = None if index is None else _conversion(inner[index], child, where, values)
        plan.append((child, index, convert))
    target = [arrow_field(child) for child in fields]

    def convert_struct(column: pa.StructArray) -> pa.StructArray:
        parts = column.flatten()
        arrays = []
        for child, index, convert in plan:
            if index is None:
                arrays.append(_lacking(child, values, len(column)))
            else:
                arrays.append(parts[index] if convert is None else convert(parts[index]))
        if not arrays:
            # Of no parts pyarrow takes no length, but which structs are there is a fact.
            present = pc.is_valid(column).buffers()[1] if column.null_count else None
            return pa.StructArray.from_buffers(pa.struct([]), len(column), [present])
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
