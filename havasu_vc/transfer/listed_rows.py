"""Taking in only rows that are listed: each comes as the source has it, or goes where it has not.

All other rows stay as they are, whatever the source says of them, as whoever lists the keys knows
what changed. The description and the columns are those of the source, as for a whole import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.comparing import equal_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import InvalidArgumentError, UnsupportedError
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.repo.edits import aligned, sorted_changes

__all__ = ["listed_changes", "listed_keys", "listed_tasks"]


def listed_keys(schema: Schema, ids: Sequence[str]) -> pa.RecordBatch | None:
    """Return keys that were listed as text, each once; None where there is none."""
    texts = sorted({text.strip() for text in ids} - {""})
    if not texts:
        return None
    if len(schema.key.names) != 1:
        raise UnsupportedError(
            "--replace-ids requires an import source with a primary key",
            hints=("that is one column; --replace takes in all rows",),
        )
    (field,) = arrow_schema(schema.select(schema.key.names))
    try:
        column = pc.cast(pa.array(texts, pa.string()), field.type)
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"--replace-ids lists what is no key: {field.name!r} is {field.type}",
            hints=(str(error).splitlines()[0],),
        ) from error
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([field]))


def listed_tasks(tasks: Sequence[Task], keys: pa.RecordBatch | None) -> list[Task]:
    """Return tasks that yield the rows with some keys alone."""
    if keys is None:
        return []
    return [task_of(rows_listed, task, keys.schema.names[0], keys.column(0)) for task in tasks]


@kernel
def rows_listed(task: Task, name: str, keys: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task whose key is among some."""
    for batch in run_task(task):
        kept = pc.is_in(pc.cast(batch.column(name), keys.type), value_set=keys)
        yield batch.filter(kept)


def listed_changes(
    old: Dataset, new: Dataset, keys: pa.RecordBatch, schema: Schema
) -> Iterator[ChangeBatch]:
    """Yield what becomes of the rows with some keys, in key order."""
    before, after = old.rows_with_keys(keys), new.rows_with_keys(keys)
    was, comes = aligned(before, keys, old.schema), aligned(after, keys, schema)
    olds, news = pc.take(before, was), pc.take(after, comes)
    has_old, has_new = was.is_valid(), comes.is_valid()
    same = equal_rows(olds, news, old.schema, schema)
    both = np.asarray(pc.and_(has_old, has_new))
    kept = pa.array(np.asarray(pc.or_(has_old, has_new)) & ~(both & same))
    olds, news = olds.filter(kept), news.filter(kept)
    sides = has_old.filter(kept), has_new.filter(kept)
    yield from sorted_changes(olds, news, *sides, (old.schema, schema))
