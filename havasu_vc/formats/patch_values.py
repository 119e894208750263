"""Rows of a patch as change batches: JSON values to the stored Arrow types, exactly.

The inverse of what `writers.values` prints. Whole columns are converted at once;
only when one cannot be, its values are tried one by one to name the dataset, the
feature and the column in the error. Nothing is rounded or cut: a number that the
column cannot hold as it is written is an error.

A new half may list only some columns. Such rows come in batches of their own that
say which columns are given; the others are null there and mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from havasu_vc.errors import PatchError
from havasu_vc.formats.json_columns import json_column
from havasu_vc.formats.patch import DatasetPatch, FeatureChange, FeatureForm
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["PatchBatch", "patch_batches"]

BATCH_ROWS = 8192
"""Rows converted at a time."""


@dataclass(frozen=True, slots=True)
class PatchBatch:
    """Some changes of a patch that list the same columns."""

    changes: ChangeBatch
    """The rows, in the patch's order, which need not be the key's."""
    given_old: tuple[str, ...]
    """The columns that old halves list, in schema order."""
    given_new: tuple[str, ...]
    """The columns that new halves list, in schema order."""
    upsert: bool
    """Whether rows without an old half may be there already, to be updated."""
    numbers: tuple[int, ...]
    """Where each change stands in its dataset's list, from 1."""


_Shape = tuple[frozenset[str] | None, frozenset[str] | None, bool] | None


def patch_batches(
    patch: DatasetPatch, old_schema: Schema | None, new_schema: Schema | None
) -> Iterator[PatchBatch]:
    """Yield the changed rows of one dataset, in the patch's order.

    A schema is None where the dataset is not there, before or after.
    """
    run: list[FeatureChange] = []
    shape: _Shape = None
    for change in patch.features:
        _check_sides(patch.path, change, old_schema, new_schema)
        own = _shape(change, old_schema, new_schema)
        if run and (own != shape or len(run) >= BATCH_ROWS):
            yield _batch(patch.path, run, old_schema, new_schema)
            run = []
        run.append(change)
        shape = own
    if run:
        yield _batch(patch.path, run, old_schema, new_schema)


def _check_sides(path: str, change: FeatureChange, old: Schema | None, new: Schema | None) -> None:
    for row, schema, when in ((change.old, old, "before"), (change.new, new, "after")):
        if row is None:
            continue
        where = f"feature {change.number} of {path!r}"
        if schema is None:
            raise PatchError(f"{where} cannot be: there is no such dataset {when} the patch")
        for name in row:
            if name not in schema.by_name:
                raise PatchError(f"{where} has a column {name!r}, which the dataset has not")
        for name in schema.key.names:
            if row.get(name) is None:
                raise PatchError(f"{where} has no value for its key column {name!r}")


def _shape(change: FeatureChange, old: Schema | None, new: Schema | None) -> _Shape:
    """Return what rows of one batch have in common; None for whole rows."""
    given_old = None if change.old is None else frozenset(change.old)
    given_new = None if change.new is None else frozenset(change.new)
    upsert = change.form is FeatureForm.UPSERT
    whole_old = change.old is None or old is None or len(change.old) == len(old.fields)
    whole_new = change.new is None or new is None or len(change.new) == len(new.fields)
    if whole_old and whole_new and not upsert:
        return None
    return given_old, given_new, upsert


def _batch(
    path: str, run: Sequence[FeatureChange], old: Schema | None, new: Schema | None
) -> PatchBatch:
    numbers = tuple(change.number for change in run)
    halves = [
        _side(path, numbers, [change.old for change in run], old),
        _side(path, numbers, [change.new for change in run], new),
    ]
    (old_rows, given_old), (new_rows, given_new) = halves
    upsert = run[0].form is FeatureForm.UPSERT
    return PatchBatch(
        ChangeBatch.from_structs(old_rows, new_rows), given_old, given_new, upsert, numbers
    )


def _side(
    path: str,
    numbers: Sequence[int],
    rows: Sequence[Mapping[str, Any] | None],
    schema: Schema | None,
) -> tuple[pa.StructArray, tuple[str, ...]]:
    if schema is None:
        return pa.nulls(len(rows), pa.struct([])), ()
    first = next((row for row in rows if row is not None), {})
    given = tuple(name for name in schema.names if name in first)
    columns = []
    for field in schema.fields:
        values = [None if row is None else row.get(field.name) for row in rows]
        columns.append(json_column(values, field, lambda at, name: _place(path, numbers[at], name)))
    fields = pa.schema([arrow_field(field) for field in schema.fields])
    mask = pa.array([row is None for row in rows])
    return struct_of(pa.RecordBatch.from_arrays(columns, schema=fields), mask), given


def _place(path: str, number: int, column: str) -> str:
    return f"column {column!r} of feature {number} of {path!r}"
