"""Hashes of rows, and digests of columns: sums that do not care for order.

A row is hashed cell by cell (`model.hashing`): the key's hash, the field id and the
value of each cell that is not null make a number. Their sum over one row stands for
the row; their sum over all live rows of a column, in two lanes, is its digest. So a
commit updates digests from its changes alone, a new column of nulls changes nothing,
and two tables with equal digests hold equal rows however they are stored.

Geometries count by coordinates and SRID, whatever their bytes say (`geo.wkb`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field as fact

import numpy as np
import pyarrow as pa

from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.hashing import FIELD, Hashes, cell_hashes, hash_values, mix, mix_here
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass

__all__ = [
    "Digests",
    "HashedRows",
    "format_digests",
    "hash_keys",
    "hash_keys_and_rows",
    "hash_rows",
    "parse_digests",
]

_LANE = np.uint64(0xC2B2AE3D27D4EB4F)
_ALL = (1 << 64) - 1
_WKB = Field(1, "wkb", Primitive.BINARY)


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Hashes of some rows."""

    keys: Hashes
    """Of each row's key; of the whole row when there is no key."""
    rows: Hashes
    """Of each row: the sum of its cells."""
    digests: Mapping[int, Digest]
    """Of each column over these rows."""


@dataclass(slots=True)
class Digests:
    """Column digests while rows come and go."""

    sums: dict[int, Digest] = fact(default_factory=dict)
    """By field id."""

    def add(self, digests: Mapping[int, Digest]) -> None:
        """Count rows that come."""
        for number, (first, second) in digests.items():
            mine = self.sums.get(number, (0, 0))
            self.sums[number] = ((mine[0] + first) & _ALL, (mine[1] + second) & _ALL)

    def subtract(self, digests: Mapping[int, Digest]) -> None:
        """Count rows that go."""
        for number, (first, second) in digests.items():
            mine = self.sums.get(number, (0, 0))
            self.sums[number] = ((mine[0] - first) & _ALL, (mine[1] - second) & _ALL)

    def of(self, ids: Iterable[int]) -> dict[int, Digest]:
        """Return the digests of some columns."""
        return {number: self.sums.get(number, (0, 0)) for number in ids}


def hash_rows(rows: pa.RecordBatch, schema: Schema) -> HashedRows:
    """Return the hashes of rows that are in the stored types of `schema`."""
    values, present = _column_values(rows, schema)
    keys = _key_hashes(values, present, schema, rows.num_rows)
    total = np.zeros(rows.num_rows, np.uint64)
    digests: dict[int, Digest] = {}
    for field, hashes, valid in zip(schema.fields, values, present, strict=True):
        cells = _cells(keys, field, hashes, valid)
        second = cells ^ _LANE
        mix_here(second)
        if valid is not None:
            second[~valid] = 0
        total += cells
        digests[field.id] = (int(cells.sum(dtype=np.uint64)), int(second.sum(dtype=np.uint64)))
    return HashedRows(keys, total, digests)


def hash_keys_and_rows(rows: pa.RecordBatch, schema: Schema) -> tuple[Hashes, Hashes]:
    """Return `keys` of `hash_rows`, and hashes that tell rows apart, in little over half the time.

    These are no sums of cells and are kept nowhere: two versions are compared by them. A null
    counts as a column that is not there.
    """
    values, present = _column_values(rows, schema)
    keys = _key_hashes(values, present, schema, rows.num_rows)
    total = np.zeros(rows.num_rows, np.uint64)
    for field, hashes, valid in zip(schema.fields, values, present, strict=True):
        # A column's own odd factor, so that no two columns can change places; the shift keeps
        # a value that hashes to nothing, as 0 does, apart from null.
        shift = np.uint64(field.id * int(FIELD) & _ALL)
        parts = hashes + shift
        parts *= mix(np.array([shift], np.uint64))[0] | np.uint64(1)
        if valid is not None:
            parts[~valid] = 0
        total += parts
    total ^= keys
    mix_here(total)
    return keys, total


def _column_values(
    rows: pa.RecordBatch, schema: Schema
) -> tuple[list[Hashes], list[np.ndarray | None]]:
    """Return the hashes of each column's values, and which there are where not all are."""
    values = [
        _column_hashes(column, field)
        for field, column in zip(schema.fields, rows.columns, strict=True)
    ]
    present = [
        pc.is_valid(column).to_numpy(zero_copy_only=False) if column.null_count else None
        for column in rows.columns
    ]
    return values, present


def _cells(keys: Hashes, field: Field, values: Hashes, valid: np.ndarray | None) -> Hashes:
    cells = cell_hashes(keys, field.id, values)
    if valid is not None:
        cells[~valid] = 0
    return cells


def hash_keys(rows: pa.RecordBatch, schema: Schema) -> Hashes:
    """Return the hash of each key of a batch that has at least the key columns.

    Without a key it is that of the whole row, of a batch in the columns of the schema.
    """
    fields = schema.key.fields
    if not fields:
        return _key_hashes(*_column_values(rows, schema), schema, rows.num_rows)
    values = [_column_hashes(rows.column(field.name), field) for field in fields]
    return _combined(values, fields, rows.num_rows)


def _key_hashes(
    values: list[Hashes], present: list[np.ndarray | None], schema: Schema, count: int
) -> Hashes:
    if schema.key:
        ids = {field.id for field in schema.key.fields}
        chosen = [
            hashes for field, hashes in zip(schema.fields, values, strict=True) if field.id in ids
        ]
        return _combined(chosen, schema.key.fields, count)
    total = np.zeros(count, np.uint64)
    for field, hashes, valid in zip(schema.fields, values, present, strict=True):
        part = mix(hashes + np.uint64(field.id * int(FIELD) & _ALL))
        if valid is not None:
            part[~valid] = 0
        total += part
    return mix(total)


def _combined(values: list[Hashes], fields: tuple[Field, ...], count: int) -> Hashes:
    # Ordered by field id, so that reordering columns changes no key.
    order = np.argsort([field.id for field in fields], kind="stable")
    combined = np.zeros(count, np.uint64)
    for index in order:
        shift = np.uint64(fields[index].id * int(FIELD) & _ALL)
        value = values[index] + shift
        mix_here(value)
        combined += value
        mix_here(combined)
    return combined


def _column_hashes(column: pa.Array, field: Field) -> Hashes:
    if field.geometry is None:
        return hash_values(column, field)
    wkb, srids = to_canonical(column, field.geometry.encoding)
    hashes = hash_values(wkb, _WKB)
    if srids is not None:
        known = srids != 0
        hashes[known] = mix(hashes[known] + srids[known].astype(np.int64).view(np.uint64))
    return hashes


def format_digests(digests: Mapping[int, Digest]) -> str:
    """Return digests as text, for a task to report."""
    return json.dumps({str(number): list(lanes) for number, lanes in digests.items()})


def parse_digests(text: str) -> dict[int, Digest]:
    """Return the digests of a report."""
    return {int(number): (lanes[0], lanes[1]) for number, lanes in json.loads(text).items()}
