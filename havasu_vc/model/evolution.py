"""From one schema to the next: what may change without rewriting a data file.

Columns may be added, dropped, renamed, reordered and widened, by field id. A renamed
column keeps the name it has in files; a column that takes over a name which files
still use for another gets one of its own. A column of the key can only be dropped when
another key is chosen; nothing may be narrowed, for that could lose values.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.errors import SchemaViolationError, UnsupportedTypeError
from havasu_vc.model.arrow import source_type
from havasu_vc.model.columns import moved
from havasu_vc.model.rasters import raster_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    TYPES,
    Decimal,
    Field,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    children,
)

__all__ = [
    "BLOCK",
    "agreed_source_type",
    "agreed_type",
    "as_stored",
    "check_evolution",
    "field_ids",
    "has_source_type",
    "match_by_name",
    "to_source",
    "to_source_table",
    "widens",
    "with_stored_names",
]


BLOCK = 1 << 20
"""New field ids are drawn within so many of the highest, so that branches rarely collide."""


def field_ids(last_id: int, *, source: random.Random | None = None) -> Callable[[], int]:
    """Return a function that draws new field ids above `last_id`, each once."""
    draw = source or random.SystemRandom()
    counter = iter(range(last_id + 1 + draw.randrange(BLOCK), 1 << 31))
    return counter.__next__


def widens(old: Type, new: Type) -> bool:
    """Whether every value of one type is a value of another, stored alike or wider.

    >>> widens(Primitive.INT, Primitive.LONG), widens(Decimal(9, 2), Decimal(7, 2))
    (True, False)
    """
    if old == new:
        return True
    match old, new:
        case Primitive(), Primitive():
            return TYPES[old].wider is new
        case Decimal(), Decimal():
            return old.scale == new.scale and old.precision <= new.precision
        case Struct(), Struct():
            known = {field.id: field for field in new.fields}
            return all(f.id not in known or widens(f.type, known[f.id].type) for f in old.fields)
        case List(), List():
            return old.element.id == new.element.id and widens(old.element.type, new.element.type)
        case Map(), Map():
            return (
                old.key == new.key
                and old.value.id == new.value.id
                and widens(old.value.type, new.value.type)
            )
        case _:
            return False


def check_evolution(old: Schema, new: Schema) -> None:
    """Raise unless rows of the old schema can be read under the new one without loss."""
    kept = set(old.identifier_ids)
    _check_places(old, new)
    for field in new.fields:
        before = old.by_id.get(field.id)
        if before is None:
            if field.required:
                raise SchemaViolationError(
                    f"column {field.name!r} cannot be added as required: rows have no value for it"
                )
            continue
        _check_column(before, field)
        rekeyed = field.id in new.identifier_ids and set(new.identifier_ids) != kept
        # Another key means that all rows are read anyway, and nulls in it are refused then.
        if field.required and not before.required and not rekeyed:
            raise SchemaViolationError(
                f"column {field.name!r} cannot become required: it may hold nulls"
            )
    if kept - set(new.by_id) and not new.identifier_ids:
        gone = old.by_id[min(kept - set(new.by_id))]
        raise SchemaViolationError(
            f"key column {gone.name!r} cannot be dropped",
            hints=("choose another key in the same change",),
        )


def _check_places(old: Schema, new: Schema) -> None:
    """Refuse columns that moved into another one, or out of it: files have them where they were."""
    before, after = _parents(None, old.fields), _parents(None, new.fields)
    for number, (parent, name) in after.items():
        if number in before and before[number][0] != parent:
            raise moved(name)


def _parents(parent: int | None, fields: tuple[Field, ...]) -> dict[int, tuple[int | None, str]]:
    found: dict[int, tuple[int | None, str]] = {}
    for field in fields:
        found[field.id] = (parent, field.name)
        found |= _parents(field.id, children(field.type))
    return found


def _check_column(before: Field, field: Field) -> None:
    if before.raster != field.raster:
        raise SchemaViolationError(
            f"column {field.name!r} cannot change to or from rasters",
            hints=("add a column of the new type and fill it",),
        )
    if not widens(before.type, field.type):
        raise SchemaViolationError(
            f"column {field.name!r} cannot become {field.type}: "
            f"it is {before.type} and values could be lost",
            hints=("add a column of the new type and fill it",),
        )
    if (before.geometry is None) != (field.geometry is None):
        raise SchemaViolationError(f"column {field.name!r} cannot change to or from a geometry")


def with_stored_names(schema: Schema) -> Schema:
    """Return a schema whose columns all have names of their own in files."""
    taken = {field.stored_name for field in schema.fields if field.physical_name is not None}
    fields = []
    for field in schema.fields:
        if field.physical_name is None and field.name in taken:
            field = replace(field, physical_name=f"{field.name}_{field.id}")
        taken.add(field.stored_name)
        fields.append(field)
    return Schema(tuple(fields), schema.identifier_ids)


def match_by_name(old: Schema, incoming: Schema, new_id: Callable[[], int]) -> Schema:
    """Return the schema of incoming rows in terms of a dataset's columns.

    A column of the same name is the same column; it takes the wider of both types.
    The dataset's columns stay in their order, new ones follow, missing ones are dropped,
    and so it is with the parts of structs.
    """
    fields = []
    for field in old.fields:
        came = incoming.by_name.get(field.name)
        if came is None:
            continue
        matched = agreed_type(field.type, with_ids(came.type, new_id, field.type))
        if matched is None:
            raise SchemaViolationError(
                f"column {field.name!r} is {field.type} in the dataset, {came.type} in the source",
                hints=("import it as another dataset, or change the type in the source",),
            )
        source_type = agreed_source_type(field, came)
        if matched != field.type:
            source_type = came.source_type
        fields.append(replace(field, type=matched, source_type=source_type))
    known = {field.name for field in old.fields}
    for field in incoming.fields:
        if field.name not in known:
            raster = field.raster is not None
            type_ = raster_type(new_id) if raster else with_ids(field.type, new_id, None)
            fields.append(replace(field, id=new_id(), type=type_, required=False))
    ids = {field.id for field in fields}
    if not ids.issuperset(old.identifier_ids):
        lost = next(old.by_id[i].name for i in old.identifier_ids if i not in ids)
        told = any(field.geometry is None for field in incoming.fields)
        raise SchemaViolationError(
            f"the source has no column {lost!r}, which is in the key",
            hints=(
                f"`havasu-vc import --replace --rename {shlex.quote(lost)}=COLUMN` tells what it "
                "is called now"
                if told
                else "a source without rows, such as GeoJSON's, may tell of no columns: a CSV file "
                "of a header alone, with all columns named, takes all rows away",
            ),
        )
    return with_stored_names(Schema(tuple(fields), old.identifier_ids))


def agreed_type(type_: Type, came: Type) -> Type | None:
    """Return the type of a column's own that holds what came, None where there is none."""
    match type_, came:
        case Struct(parts), Struct(came_parts):
            theirs = {part.id: part for part in came_parts}
            known = {part.id for part in parts}
            kept = [_matched_part(part, theirs[part.id]) for part in parts if part.id in theirs]
            fresh = [replace(part, required=False) for part in came_parts if part.id not in known]
            found = tuple(part for part in (*kept, *fresh) if part is not None)
            return Struct(found) if len(found) == len(kept) + len(fresh) else None
        case List(element), List(other):
            part = _matched_part(element, other)
            return None if part is None else List(part)
        case Map(key, value), Map(other_key, other):
            part = _matched_part(value, other)
            return None if part is None or key.type != other_key.type else Map(key, part)
        case Primitive.DOUBLE, Primitive.INT | Primitive.LONG:
            # A file of text whose numbers happen to be whole; each is cast, or refused by name.
            return type_
        case _:
            return type_ if widens(came, type_) else came if widens(type_, came) else None


def _matched_part(part: Field, came: Field) -> Field | None:
    type_ = agreed_type(part.type, came.type)
    return None if type_ is None else replace(part, type=type_)


def with_ids(type_: Type, new_id: Callable[[], int], like: Type | None) -> Type:
    """Return a nested type with the ids of a like one, and new ids where it has none."""

    def part(field: Field, counterpart: Field | None) -> Field:
        inner = with_ids(field.type, new_id, None if counterpart is None else counterpart.type)
        return replace(field, id=counterpart.id if counterpart else new_id(), type=inner)

    match type_:
        case Struct(fields):
            names = {f.name: f for f in like.fields} if isinstance(like, Struct) else {}
            return Struct(tuple(part(f, names.get(f.name)) for f in fields))
        case List(element):
            return List(part(element, like.element if isinstance(like, List) else None))
        case Map(key, value):
            same = like if isinstance(like, Map) else None
            return Map(
                part(key, None if same is None else same.key),
                part(value, None if same is None else same.value),
            )
        case _:
            return type_


# The types that columns first came as: given back where every value still fits.
#
# `Field.source_type` remembers an Arrow type that is narrower than the stored one, such as
# uint8 for an int. Nothing keeps later rows within it: a release may bring larger numbers,
# and so may an edit. So a source type is changed where a whole table comes in another
# (`agreed_source_type`), and giving it back is checked (`to_source`): a value that does not
# fit is named, and whoever writes can go back to the stored type, which holds all.

_UNITS = ("s", "ms", "us", "ns")
_NARROWER = {
    ("uint8", "uint16"), ("uint8", "int16"), ("int8", "int16"), ("time32[s]", "time32[ms]"),
    ("uint8", "uint32"), ("uint16", "uint32"),
}  # fmt: skip
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=.+)?\]")
_SAME_VALUES = re.compile(
    r"json|large_\w+|\w+_view|date64\[ms\]|dictionary<.*|decimal(32|64|256)\(.*"
    r"|timestamp\[us, tz=.+\]"
)
"""Types that differ from the stored one in form alone."""


def agreed_source_type(old: Field, came: Field) -> str | None:
    """Return what a column's source type is when values come as another, stored alike.

    Raises `SchemaViolationError` where the same numbers would mean something else.
    """
    ours, theirs = old.source_type, came.source_type
    if theirs in (ours, "null") or (ours is not None and _SAME_VALUES.fullmatch(ours)):
        return ours
    if ours == "null" or _is_narrower(ours, theirs):
        return theirs
    if _is_narrower(theirs, ours):
        return ours
    durations = [(each or "").startswith("duration") for each in (ours, theirs)]
    if all(durations) or (durations[1] and ours is None):
        raise SchemaViolationError(
            f"column {old.name!r} is {ours or old.type} in the dataset, {theirs} in the source",
            hints=("import it as another dataset, or change the type in the source",),
        )
    return ours if durations[0] else None


def _is_narrower(one: str | None, other: str | None) -> bool:
    """Whether all values of one source type are values of the other."""
    if one is None or other is None:
        return False
    units = [_TIMESTAMP.fullmatch(each) for each in (one, other)]
    if units[0] and units[1] and "ns" not in (units[0][1], units[1][1]):
        return _UNITS.index(units[0][1]) <= _UNITS.index(units[1][1])
    return (one, other) in _NARROWER or (one != other and _SAME_VALUES.fullmatch(other) is not None)


def has_source_type(field: Field) -> bool:
    """Whether a column, or a part of it, came as another type than it is stored as."""
    return as_stored(field) != field


def as_stored(field: Field) -> Field:
    """Return a column that is given back in the type it is stored as."""
    type_: Type = field.type
    match type_:
        case Struct(fields):
            type_ = Struct(tuple(as_stored(part) for part in fields))
        case List(element):
            type_ = List(as_stored(element))
        case Map(key, value):
            type_ = Map(as_stored(key), as_stored(value))
    return replace(field, source_type=None, type=type_)


def to_source(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return stored rows in the types that their columns first came as.

    Raises `UnsupportedTypeError` for a column with a value that is none of its type.
    """
    arrays, fields = [], []
    for field, column in zip(schema.fields, batch.columns, strict=True):
        arrays.append(_restored(column, field))
        fields.append(pa.field(field.name, arrays[-1].type, nullable=not field.required))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def to_source_table(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a whole table likewise; columns with values that do not fit stay as they are."""
    columns, fields = [], []
    for field, column in zip(schema.fields, table.columns, strict=True):
        try:
            restored = _restored(column, field)
        except UnsupportedTypeError:
            restored = column
        columns.append(restored)
        fields.append(pa.field(field.name, restored.type, nullable=not field.required))
    return pa.table(columns, schema=pa.schema(fields))


def _restored(column: pa.Array, field: Field) -> pa.Array:
    wanted = source_type(field)
    if column.type == wanted:
        return column
    try:
        return _cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedTypeError(
            field.name,
            f"it came as {wanted}, and a value is none: {str(error).splitlines()[0]}",
            hints=("export the rows as CSV, or leave the column out",),
        ) from error


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast a column without loss; raises `pa.ArrowInvalid` where that cannot be."""
    if pa.types.is_dictionary(wanted):
        return column.dictionary_encode().cast(wanted)
    if pa.types.is_duration(wanted):
        return column.cast(pa.int64()).cast(wanted)
    if pa.types.is_null(wanted):
        if column.null_count < len(column):
            raise pa.ArrowInvalid("there are values")
        return (
            pa.nulls(len(column))
            if isinstance(column, pa.Array)
            else pa.chunked_array([pa.nulls(len(column))])
        )
    restored = column.cast(wanted)
    if pa.types.is_float16(wanted) and not _same_numbers(restored.cast(column.type), column):
        raise pa.ArrowInvalid("a number has more digits, or is larger")
    return restored


def _same_numbers(one: pa.Array, other: pa.Array) -> bool:
    first, second = (np.asarray(each.fill_null(0)) for each in (one, other))
    return bool(np.array_equal(first, second, equal_nan=True))
