"""Datasets as DuckDB reads them: its own Parquet reader over live files, less deleted rows.

Files are read by the names that they use themselves, and what the dataset calls a column is an
alias, so filters and projections reach the reader through renames and widened types. Files that
lose rows are joined, by place, with the places of deleted rows. What DuckDB cannot read as it
stands (other kinds of datasets, files elsewhere, parts of columns that have other names, names
alike but for case) our own tasks read: as batches of Arrow, of the columns that a query uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.live import LiveFile, live_files
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.arrow import FIELD_ID, arrow_schema, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import is_url

__all__ = ["DuckTable", "duck_table", "duck_type", "identifier", "text"]

_FILE_ROWS = 1 << 33
"""No file has so many rows."""
_OF_READER = {"file_row_number", "file_index", "filename"}
_GLOB = set("*?[")
_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}
_WIDER = {
    (pa.int32(), Primitive.LONG),
    (pa.float32(), Primitive.DOUBLE),
}


@dataclass(frozen=True, slots=True)
class DuckTable:
    """A dataset as a query of DuckDB's."""

    parts: tuple[str, ...]
    """Queries of the same columns, whose rows together are the table's."""
    files: tuple[str, ...]
    """The files that it reads."""
    registered: Mapping[str, Any]
    """Tables and scans of Arrow that it names, which a connection must know."""

    @property
    def query(self) -> str:
        """All rows."""
        return " UNION ALL ".join(self.parts)


def identifier(name: str) -> str:
    """Return a name as SQL has it.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return text as SQL has it.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def duck_type(type_: pa.DataType) -> str:
    """Return the type of DuckDB's that holds what an Arrow type of ours holds."""
    if (known := _TYPES.get(type_)) is not None:
        return known
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return "BLOB"
    if pa.types.is_struct(type_) and type_.num_fields:
        parts = (f"{identifier(part.name)} {duck_type(part.type)}" for part in type_)
        return f"STRUCT({', '.join(parts)})"
    if pa.types.is_map(type_):
        return f"MAP({duck_type(type_.key_type)}, {duck_type(type_.item_type)})"
    if pa.types.is_list(type_):
        return f"{duck_type(type_.value_type)}[]"
    raise UnsupportedTypeError("a column", f"DuckDB has nothing for {type_}")


def _type_of(field: Field) -> str:
    if field.type is Primitive.UUID:
        return "UUID"
    return duck_type(arrow_schema(Schema((field,))).field(0).type)


def column_names(schema: Schema) -> list[str]:
    """Return what columns are called where case does not count: `a`, `A_1`."""
    taken: set[str] = set()
    names = []
    for first in schema.names:
        name, numbers = first, count(1)
        while name.lower() in taken:
            name = f"{first}_{next(numbers)}"
        taken.add(name.lower())
        names.append(name)
    return names


def duck_table(view: Dataset, label: str) -> DuckTable:
    """Return a dataset as a query; `label` begins the names of what is registered for it."""
    stored = view.in_files
    if stored is None:
        return _scanned_table(view, label)
    groups: dict[tuple[tuple[str | None, ...], str], list[LiveFile]] = {}
    for file in live_files(stored):
        columns = _columns(stored, file)
        if columns is None:
            return _scanned_table(view, label)
        groups.setdefault((columns, file.entry.schema), []).append(file)
    queries, registered = [], {}
    for number, ((found, _), files) in enumerate(groups.items()):
        clean = [file for file in files if not file.deletes]
        if clean:
            queries.append(_query(view.schema, found, _parquet(clean)))
        if dirty := [file for file in files if file.deletes]:
            name = f"{label} deleted {number}"
            registered[name] = pa.table({"place": _places(dirty)})
            queries.append(_query(view.schema, found, _without(dirty, name)))
    paths = tuple(file.path for files in groups.values() for file in files)
    nothing = _query(view.schema, [None] * len(view.schema.fields), "(SELECT 1) WHERE false")
    return DuckTable(tuple(queries) or (nothing,), paths, registered)


def _query(schema: Schema, columns: Sequence[str | None], source: str) -> str:
    names = (identifier(name) for name in column_names(schema))
    shown = (
        f"{f'CAST(NULL AS {_type_of(field)})' if column is None else column} AS {name}"
        for column, field, name in zip(columns, schema.fields, names, strict=True)
    )
    return f"SELECT {', '.join(shown)} FROM {source}"


def _parquet(files: Sequence[LiveFile]) -> str:
    paths = ", ".join(text(file.path) for file in files)
    return f"read_parquet([{paths}], hive_partitioning=false, file_row_number=true)"


def _without(files: Sequence[LiveFile], deleted: str) -> str:
    return (
        f"{_parquet(files)} AS rows ANTI JOIN {identifier(deleted)} AS gone"
        f" ON gone.place = rows.file_index::BIGINT * {_FILE_ROWS} + rows.file_row_number"
    )


def _places(files: Sequence[LiveFile]) -> pa.Array:
    """Return the places of deleted rows, a number each: that of the file, and that in it."""
    places = [np.empty(0, np.int64)]
    for number, file in enumerate(files):
        positions = deleted_positions(file.entry.file, file.deletes)
        if positions is not None:
            places.append(positions + number * _FILE_ROWS)
    return pa.array(np.concatenate(places))


def _columns(view: HavasuDataset, file: LiveFile) -> tuple[str | None, ...] | None:
    """Return each column as an expression over a file, None for one that the file lacks.

    None is returned where DuckDB's reader cannot be told how to read the file.
    """
    if is_url(file.path) or any(map(is_url, file.deletes)) or _GLOB & set(file.path):
        return None
    if file.entry.origin is Origin.FOREIGN:
        with open_parquet(file.path) as opened:
            there = opened.schema_arrow
            if opened.metadata.num_row_groups and _has_geometries(opened.schema):
                return None
    else:
        there = arrow_schema(view.past_schema(file.entry.schema), physical=True)
    names = [field.name.lower() for field in there]
    by_id = {(field.metadata or {}).get(FIELD_ID): field for field in there}
    found: list[str | None] = []
    for wanted in view.schema.fields:
        field = by_id.get(str(wanted.id).encode())
        if field is None:
            found.append(None)
            continue
        name = field.name.lower()
        expression = _expression(field, wanted)
        if expression is None or names.count(name) > 1 or name in _OF_READER:
            return None
        found.append(expression)
    return None if _OF_READER & set(names) else tuple(found)


def _has_geometries(schema: Any) -> bool:
    """Whether Parquet itself calls a column a geometry, which DuckDB then does as well."""
    types = (str(schema.column(index).logical_type).upper() for index in range(len(schema)))
    return any(name.startswith(("GEOMETRY", "GEOGRAPHY")) for name in types)


def _expression(field: pa.Field, wanted: Field) -> str | None:
    """Return how a column is made of that of a file; None where that is more than a cast."""
    name = identifier(field.name)
    target = arrow_schema(Schema((wanted,))).field(0)
    if field.type == target.type and _same_parts(field.type, target.type):
        return f"CAST({name} AS UUID)" if wanted.type is Primitive.UUID else name
    decimals = isinstance(wanted.type, Decimal) and pa.types.is_decimal128(field.type)
    if decimals or (field.type, wanted.type) in _WIDER:
        return f"CAST({name} AS {duck_type(arrow_type(wanted.type))})"
    return None


def _same_parts(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether parts that are called alike are the same ones, told by their ids."""
    return all(
        one.name == other.name
        and (one.metadata or {}).get(FIELD_ID) == (other.metadata or {}).get(FIELD_ID)
        and _same_parts(one.type, other.type)
        for one, other in zip(_parts(first), _parts(second), strict=True)
    )


def _parts(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_nested(type_):
        return [type_.field(index) for index in range(type_.num_fields)]
    return []


def _scanned_table(view: Dataset, label: str) -> DuckTable:
    names = column_names(view.schema)
    columns = [
        f"CAST({identifier(name)} AS UUID)" if field.type is Primitive.UUID else identifier(name)
        for name, field in zip(names, view.schema.fields, strict=True)
    ]
    from havasu_vc.exchange.duckdb_scans import ScannedRows

    name = f"{label} rows"
    query = _query(view.schema, columns, identifier(name))
    return DuckTable((query,), (), {name: ScannedRows(view, names)})
