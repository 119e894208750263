"""The schema that a foreign data file has, told from its own columns.

Columns are known by field id. Their types are those of the file, which may be narrower
than the table's are now; their order and names are the file's. Whether a column may hold
nulls is the table's to say: engines write columns as required where a statement gave
them literals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.havasu.locate import shared_fields
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.errors import NotYetSupportedError
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    LARGEST_FIELD_ID,
    Decimal,
    Field,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    descendants,
)
from havasu_vc.records import dataclass
from havasu_vc.tables.damage import damaged, reading_table_file

__all__ = ["FileSchema", "known_fields", "read_file_schema"]


@dataclass(frozen=True)
class FileSchema:
    """The columns of one data file."""

    schema: Schema
    """The columns, in the file's order and types."""
    leaves: tuple[Field, ...]
    """The same for counting columns of the file; rasters with all that is inside."""

    @cached_property
    def document(self) -> bytes:
        """The schema as deltas have it in `past`."""
        return format_schema(self.schema)

    @cached_property
    def name(self) -> str:
        """The name of the document."""
        return document_hash(self.document)

    @cached_property
    def known(self) -> frozenset[int]:
        """The ids of all columns at any depth."""
        return frozenset(field.id for field in descendants(self.schema.fields))

    def shared(self, schema: Schema) -> Schema:
        """Return the columns of a schema that the file has."""
        return Schema(shared_fields(schema.fields, self.known), self._identifiers(schema))

    def _identifiers(self, schema: Schema) -> tuple[int, ...]:
        return schema.identifier_ids if self.known.issuperset(schema.identifier_ids) else ()


def known_fields(*schemas: Schema) -> dict[int, Field]:
    """Return fields by id, at any depth; the first schema that has one counts."""
    found: dict[int, Field] = {}
    for schema in schemas:
        for field in descendants(schema.fields):
            found.setdefault(field.id, field)
    return found


def read_file_schema(path: Path, known: Mapping[int, Field], schema: Schema) -> FileSchema:
    """Return the columns of a data file, which the table knows by their ids."""
    with reading_table_file(path), open_parquet(str(path)) as file:
        arrow = file.schema_arrow
    if any(_id_of(field) is None for field in arrow):
        raise NotYetSupportedError(
            f"{path} has columns without field ids, as files have that were written elsewhere",
            hints=(
                "CALL <catalog>.system.rewrite_data_files(table => …, "
                "options => map('rewrite-all', 'true')) writes them anew",
            ),
        )
    # Engines keep the ids of rows, which are no columns of the table, beside them.
    own = [(_id_of(field) or 0) <= LARGEST_FIELD_ID for field in arrow]
    fields = _told_apart(
        _field(field, known, path) for field, mine in zip(arrow, own, strict=True) if mine
    )
    ids = {field.id for field in fields}
    identifiers = schema.identifier_ids if ids.issuperset(schema.identifier_ids) else ()
    spare = iter(range(LARGEST_FIELD_ID, 0, -1))
    there = iter(fields)
    leaves = tuple(
        _leaf(next(there), field, spare) if mine else Field(next(spare), field.name, Primitive.LONG)
        for field, mine in zip(arrow, own, strict=True)
    )
    return FileSchema(Schema(fields, identifiers), leaves)


def _leaf(field: Field, arrow: pa.Field, spare: Iterator[int]) -> Field:
    if field.raster is None:
        return field
    return replace(field, type=_inside(arrow.type, spare), raster=None)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def _field(arrow: pa.Field, known: Mapping[int, Field], path: Path) -> Field:
    number = _id_of(arrow)
    field = None if number is None else known.get(number)
    if field is None:
        raise damaged(path, f"its column {arrow.name!r} is none that the table ever had")
    type_ = _type(field.type, arrow.type, known, path) if field.raster is None else field.type
    return replace(
        field,
        type=type_,
        source_type=field.source_type if type_ == field.type else None,
        physical_name=None if arrow.name == field.name else arrow.name,
    )


def _told_apart(found: Iterable[Field]) -> tuple[Field, ...]:
    """Return fields by their names now, or in the file where a dropped one gave its name away."""
    fields = tuple(found)
    if len({field.name for field in fields}) == len(fields):
        return fields
    return tuple(
        replace(field, name=field.physical_name or field.name, physical_name=None)
        for field in fields
    )


def _type(type_: Type, arrow: pa.DataType, known: Mapping[int, Field], path: Path) -> Type:
    """Return the type that a file holds of a column."""
    match type_:
        case Primitive.LONG if pa.types.is_int32(arrow):
            return Primitive.INT
        case Primitive.DOUBLE if pa.types.is_float32(arrow):
            return Primitive.FLOAT
        case Decimal(precision, scale) if pa.types.is_decimal(arrow):
            return Decimal(min(arrow.precision, precision), scale)
        case Struct() if pa.types.is_struct(arrow):
            parts = [arrow.field(index) for index in range(arrow.num_fields)]
            return Struct(_told_apart(_field(part, known, path) for part in parts))
        case List(element) if pa.types.is_list(arrow):
            return List(_part(element, arrow.value_field, known, path))
        case Map(key, value) if pa.types.is_map(arrow):
            return Map(
                _part(key, arrow.key_field, known, path),
                _part(value, arrow.item_field, known, path),
            )
        case _:
            return type_


def _part(field: Field, arrow: pa.Field, known: Mapping[int, Field], path: Path) -> Field:
    return replace(field, type=_type(field.type, arrow.type, known, path), physical_name=None)


def _inside(arrow: pa.DataType, spare: Iterator[int]) -> Type:
    """Return a type that has as many columns in a file as an Arrow type, whatever they are."""
    if not pa.types.is_nested(arrow):
        return Primitive.BINARY
    parts = [arrow.field(index) for index in range(arrow.num_fields)]
    return Struct(tuple(Field(next(spare), part.name, _inside(part.type, spare)) for part in parts))
