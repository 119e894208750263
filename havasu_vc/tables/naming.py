"""Data files without field ids: their columns are found by the table's name mapping.

Such files were written by other programs and added to the table as they are. A file that
has an id anywhere was written for the table, and is read by ids alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.iceberg.schema import NAME_MAPPING, NameMapping, parse_name_mapping
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.tables.damage import damaged

__all__ = ["identified", "name_mapping_of"]


def name_mapping_of(properties: Mapping[str, str], where: str) -> NameMapping | None:
    """Return a table's name mapping, None when it has none."""
    text = properties.get(NAME_MAPPING)
    if text is None:
        return None
    try:
        return parse_name_mapping(text, where)
    except CorruptDatasetError as error:
        raise damaged(error.path, error.reason) from error


def identified(schema: pa.Schema, mapping: NameMapping | None, where: str) -> pa.Schema:
    """Return a file's schema with field ids; as it is when it has some."""
    if any(_has_id(field) for field in schema):
        return schema
    if mapping is None:
        if not len(schema):
            return schema
        raise CorruptDatasetError(where, f"it has no field ids, and the table no {NAME_MAPPING}")
    return pa.schema([_mapped(field, mapping) for field in schema])


def _has_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {}) or any(map(_has_id, _inside(field.type)))


def _inside(type_: pa.DataType) -> Iterator[pa.Field]:
    if pa.types.is_map(type_):
        yield from (type_.key_field, type_.item_field)
    elif pa.types.is_nested(type_):
        yield from (type_.field(index) for index in range(type_.num_fields))


def _mapped(field: pa.Field, mapping: NameMapping, name: str | None = None) -> pa.Field:
    """Return a field with the id that its name stands for, and ids inside it."""
    found = mapping.find(name or field.name)
    if found is None or found.field_id is None:
        return field
    type_, inner = field.type, found.fields
    if pa.types.is_struct(type_):
        type_ = pa.struct([_mapped(each, inner) for each in _inside(type_)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(
            _mapped(type_.key_field, inner, "key"), _mapped(type_.item_field, inner, "value")
        )
    elif pa.types.is_list(type_):
        type_ = pa.list_(_mapped(type_.value_field, inner, "element"))
    elif pa.types.is_large_list(type_):
        type_ = pa.large_list(_mapped(type_.value_field, inner, "element"))
    elif pa.types.is_fixed_size_list(type_):
        type_ = pa.list_(_mapped(type_.value_field, inner, "element"), type_.list_size)
    return pa.field(
        field.name, type_, field.nullable, metadata={FIELD_ID: str(found.field_id).encode()}
    )
