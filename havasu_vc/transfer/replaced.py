"""The dataset that a source replaces: the one of that path, or its last sound version.

So it stays the same dataset, with its columns' ids, and what breaks it leaves with the commit.

Taking in only rows that are listed: each comes as the source has it, or goes where it has not.

All other rows stay as they are, whatever the source says of them, as whoever lists the keys knows
what changed. The description and the columns are those of the source, as for a whole import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.pairing import equal_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import InvalidArgumentError, UnsupportedError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.repo.edits import aligned, sorted_changes
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.trees import DatasetFolder

__all__ = ["Replaced", "listed_changes", "listed_keys", "listed_tasks"]


class Replaced:
    """The datasets that a commit replaces, and what it takes to mend those that are broken."""

    def __init__(self, repo: OpenRepo, transaction: Transaction) -> None:
        self._repo = repo
        self._transaction = transaction
        self._mended: dict[str, DatasetFolder | None] = {}

    def dataset(self, path: str) -> Dataset | None:
        """Return what to compare a source with; None where no version is sound."""
        transaction = self._transaction
        broken = defect(self._repo, transaction.folders[path], "HEAD")
        if broken is None:
            return transaction.dataset(path)
        from havasu_vc.upkeep import last_version

        last = last_version(self._repo, path, transaction.head.commit or "")
        self._mended[path] = None if last is None else last[0]
        than = "all of it comes anew" if last is None else f"compared with it at {last[1][:10]}"
        self._repo.tell(path, f"{broken.message}; {than}")
        if last is None:
            return None
        return self._repo.view(*last).with_storage(transaction.storage)

    @property
    def merge(self) -> MergedTree | None:
        """The merge that edits are made upon, where anything is mended."""
        if not self._mended:
            return None
        trees = {path: None if f is None else f.internals for path, f in self._mended.items()}
        markers = {path: f.marker for path, f in self._mended.items() if f is not None}
        return MergedTree({}, trees, (), markers)


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
