"""The two documents of a dataset of lines: its columns, and its rows as lines of JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError, PatchError
from havasu_vc.formats.havasu.schema import schema_from_json, schema_to_json
from havasu_vc.formats.json_columns import json_column
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.writers.values import json_values

COLUMNS = "columns/schema.json"
ROWS = "rows.jsonl"

Line: TypeAlias = dict[str, Any]
"""The values of a row, by the ids of their columns."""


def format_columns(schema: Schema, last: int) -> bytes:
    """Return the document of columns; `last` is the highest id that one had."""
    value = {"last": max(last, schema.last_id), "schema": schema_to_json(schema)}
    return json.dumps(value, indent=1).encode()


def parse_columns(data: bytes | None, where: str) -> tuple[Schema, int]:
    """Return the columns of a document, and the highest id that one had."""
    try:
        value = json.loads(data or b"")
        return schema_from_json(value["schema"], where), int(value["last"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDatasetError(where, "its columns cannot be understood") from error


def lines_of(rows: pa.RecordBatch, schema: Schema) -> list[Line]:
    """Return rows as lines."""
    columns = [json_values(rows.column(f.name), f) for f in schema.fields]
    ids = [str(f.id) for f in schema.fields]
    return [dict(zip(ids, (v[at] for v in columns), strict=True)) for at in range(rows.num_rows)]


def rows_of(lines: Iterable[Mapping[str, Any]], schema: Schema, where: str) -> pa.RecordBatch:
    """Return lines as rows in the columns of a schema."""
    listed = list(lines)
    try:
        columns = [
            json_column([line.get(str(f.id)) for line in listed], f, lambda at, name: name)
            for f in schema.fields
        ]
    except PatchError as error:
        raise CorruptDatasetError(where, error.message) from error
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def format_lines(lines: Iterable[Line]) -> bytes:
    """Return the document of rows."""
    return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()


def parse_lines(data: bytes | None, where: str) -> list[Line]:
    """Return the rows of a document."""
    try:
        return [json.loads(line) for line in (data or b"").splitlines()]
    except ValueError as error:
        raise CorruptDatasetError(where, "a row is no JSON") from error
