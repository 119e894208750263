"""Change streams for tests: made from rows of a plain model, and turned back into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.testing.tables import (
    Row,
    batch_of,
    canonical,
    canonical_row,
    key_of,
    key_order,
)

__all__ = ["Change", "changes_between", "described", "expected_changes", "stream_of"]

Change: TypeAlias = tuple[Row | None, Row | None]
"""A row before and after; None where it is not there."""


def changes_between(old: Sequence[Row], new: Sequence[Row], schema: Schema) -> list[Change]:
    """Return the changes from some rows to others, in key order."""
    if not schema.key:
        return _changes_of_rows(old, new, schema)
    before = {key_of(row, schema): row for row in old}
    after = {key_of(row, schema): row for row in new}
    found: list[Change] = []
    for key in sorted(before.keys() | after.keys(), key=key_order):
        pair = before.get(key), after.get(key)
        if None in pair or canonical_row(pair[0], schema) != canonical_row(pair[1], schema):  # type: ignore[arg-type]
            found.append(pair)
    return found


def _changes_of_rows(old: Sequence[Row], new: Sequence[Row], schema: Schema) -> list[Change]:
    before = Counter(canonical_row(row, schema) for row in old)
    after = Counter(canonical_row(row, schema) for row in new)
    gone, come = before - after, after - before
    found: list[Change] = []
    for row in old:
        if gone[canonical_row(row, schema)] > 0:
            gone[canonical_row(row, schema)] -= 1
            found.append((row, None))
    for row in new:
        if come[canonical_row(row, schema)] > 0:
            come[canonical_row(row, schema)] -= 1
            found.append((None, row))
    return found


def stream_of(
    changes: Sequence[Change],
    old_schema: Schema,
    new_schema: Schema | None = None,
    *,
    cut: int = 1 << 20,
) -> Iterator[ChangeBatch]:
    """Yield changes as batches of at most `cut`."""
    for start in range(0, len(changes), cut):
        part = changes[start : start + cut]
        sides = (
            _side([old for old, _ in part], old_schema),
            _side([new for _, new in part], new_schema or old_schema),
        )
        yield ChangeBatch.from_structs(*sides)


def _side(rows: Sequence[Row | None], schema: Schema) -> pa.StructArray:
    nothing: Row = dict.fromkeys(schema.by_id)
    batch = batch_of([nothing if row is None else row for row in rows], schema)
    absent = [row is None for row in rows]
    return struct_of(batch, mask=pa.array(absent) if any(absent) else None)


def described(
    batches: Iterable[ChangeBatch], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    """Return each change of a stream as a pair of what its rows have in common with equal ones."""
    found = []
    for batch in batches:
        batch.data.validate(full=True)
        for old, new in zip(batch.old.to_pylist(), batch.new.to_pylist(), strict=True):
            found.append((_described(old, old_schema), _described(new, new_schema)))
    return found


def _described(row: dict[str, Any] | None, schema: Schema) -> Any:
    if row is None:
        return None
    assert tuple(row) == schema.names
    return tuple(canonical(row[field.name], field) for field in schema.fields)


def expected_changes(
    old: Sequence[Row], new: Sequence[Row], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    """Return what `described` gives for the diff of two tables, by the rules that diffs follow.

    A column that only the old side has counts for nothing; one that only the new side has
    counts as null on the old.
    """
    if not new_schema.key:
        return _expected_of_rows(old, new, old_schema, new_schema)
    before = {key_of(row, new_schema): row for row in old}
    after = {key_of(row, new_schema): row for row in new}
    found = []
    for key in sorted(before.keys() | after.keys(), key=key_order):
        first, second = before.get(key), after.get(key)
        if _compared(first, old_schema, new_schema) != _compared(second, new_schema, new_schema):
            found.append(
                (
                    None if first is None else canonical_row(first, old_schema),
                    None if second is None else canonical_row(second, new_schema),
                )
            )
    return found


def _compared(row: Row | None, schema: Schema, new_schema: Schema) -> Any:
    """Return what of a row a diff looks at: the columns of the new side."""
    if row is None:
        return None
    return tuple(
        canonical(row[f.id], f) if f.id in schema.by_id else None for f in new_schema.fields
    )


def _expected_of_rows(
    old: Sequence[Row], new: Sequence[Row], old_schema: Schema, new_schema: Schema
) -> list[tuple[Any, Any]]:
    before = Counter(_compared(row, old_schema, new_schema) for row in old)
    after = Counter(_compared(row, new_schema, new_schema) for row in new)
    gone, come = before - after, after - before
    # Which of several rows that agree in all that counts is shown does not matter.
    return [(key, None) for key in gone.elements()] + [(None, key) for key in come.elements()]
