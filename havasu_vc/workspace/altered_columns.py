"""The columns of a table after an engine altered it, as a dataset has them.

An engine knows names, types, comments, nullability and order; what Havasu says of a
column beside that (encodings, CRS, the type it came as, its name in files) it drops,
and the dataset still has it. Columns are the same when their ids are.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.evolution import check_evolution, with_stored_names
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct, Type

__all__ = ["altered_schema"]


def altered_schema(base: Schema, before: Schema, after: Schema, where: str) -> Schema:
    """Return what a dataset's schema becomes when its table's went from `before` to `after`.

    `where` names the dataset in errors.
    """
    if after == before:
        return base
    fields = tuple(
        _field(field, base.by_id.get(field.id), before.by_id.get(field.id))
        for field in after.fields
    )
    if set(after.identifier_ids) != set(before.identifier_ids):
        fields = _with_key(base, before, after, fields, where)
    try:
        schema = with_stored_names(Schema(fields, base.identifier_ids))
        check_evolution(base, schema)
    except SchemaViolationError as error:
        raise SchemaViolationError(f"{where}: {error.message}", hints=error.hints) from error
    except ValueError as error:
        raise SchemaViolationError(f"{where}: the schema is not possible: {error}") from error
    return schema


def _with_key(
    base: Schema, before: Schema, after: Schema, fields: tuple[Field, ...], where: str
) -> tuple[Field, ...]:
    """Return the columns of a table that lost its identifier fields, if it did so by the way.

    CREATE OR REPLACE TABLE drops them and makes all columns optional, and no engine sets
    identifier fields on optional columns: then the dataset's key is meant. Rows without one
    are refused where rows are taken in.
    """
    key = set(before.identifier_ids)
    gone = [before.by_id[each].name for each in before.identifier_ids if each not in after.by_id]
    if gone:
        raise SchemaViolationError(
            f"{where}: the table has no longer the key column {gone[0]!r}",
            hints=(f"`havasu-vc restore {shlex.quote(where)}` makes the table as it was",),
        )
    if after.identifier_ids or any(after.by_id[each].required for each in key):
        raise SchemaViolationError(
            f"{where}: the identifier fields of the table were changed, which is another key",
            hints=(
                "ALTER TABLE … SET IDENTIFIER FIELDS as they were, and commit; then "
                "`havasu-vc meta set` changes the key",
            ),
        )
    return tuple(
        replace(field, required=base.by_id[field.id].required) if field.id in key else field
        for field in fields
    )


def _field(field: Field, base: Field | None, before: Field | None) -> Field:
    """Return a column of a table as the dataset is to have it."""
    if base is None:
        # A raster that an engine declares as a struct is told by nothing but its fields.
        return field
    if before == field:
        return base
    same = before is not None and before.type == field.type
    type_ = base.type if same or base.raster is not None else _type(field.type, base.type)
    physical = base.physical_name or (base.name if base.name != field.name else None)
    docs_differ = before is None or before.doc != field.doc
    return replace(
        base,
        name=field.name,
        type=type_,
        required=field.required if before is None else _required(base, before, field),
        doc=field.doc if docs_differ else base.doc,
        source_type=base.source_type if type_ == base.type else None,
        physical_name=None if physical == field.name else physical,
    )


def _required(base: Field, before: Field, field: Field) -> bool:
    return base.required if before.required == field.required else field.required


def _type(type_: Type, base: Type) -> Type:
    """Return a table's type, with what the dataset says of the fields inside."""
    match type_, base:
        case Struct(fields), Struct(known):
            by_id = {field.id: field for field in known}
            return Struct(tuple(_field(field, by_id.get(field.id), None) for field in fields))
        case List(element), List(known_element):
            return List(_field(element, known_element, None))
        case Map(key, value), Map(known_key, known_value):
            return Map(_field(key, known_key, None), _field(value, known_value, None))
        case _:
            return type_
