"""One commit that edits datasets: what is common to writing rows, patches and meta items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import key_codes
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, ascending_order
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.repo.results import CommitResult

__all__ = ["EditMaker", "aligned", "commit_edits", "sorted_changes"]

EditMaker: TypeAlias = Callable[[Dataset, Engine], TreeEdit]
"""Makes the edit of one dataset, staged by the transaction that its view has."""

BATCH_ROWS = 1 << 16


def commit_edits(
    repo: OpenRepo,
    makers: Sequence[tuple[str, EditMaker]],
    message: str,
    *,
    dry_run: bool = False,
    allow_empty: bool = False,
) -> CommitResult:
    """Make the edits of some datasets of HEAD, and commit those that change something."""
    # A diff asks for other things here, and commits nothing.
    from havasu_vc.repo.results import CommitResult
    from havasu_vc.repo.transaction import Transaction

    with Transaction(repo, dry_run=dry_run) as transaction:
        edits = []
        for path, make in makers:
            view = transaction.dataset(path)
            with repo.settings.open_engine(view.size) as engine:
                edits.append(make(view, engine))
        changed = [edit for edit in edits if edit.blobs]
        commit = None
        if not dry_run and (changed or allow_empty):
            commit = transaction.commit(changed, message)
    counts = {edit.path: edit.counts for edit in changed} | transaction.recounted
    meta = {edit.path: edit.meta for edit in changed}
    return CommitResult(commit, repo.head_branch, counts, meta=meta)


def sorted_changes(
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    has_old: pa.BooleanArray,
    has_new: pa.BooleanArray,
    schemas: tuple[Schema, Schema],
) -> Iterator[ChangeBatch]:
    """Yield aligned old and new rows as changes in key order, where each side counts.

    Rows without a key stay as they come.
    """
    before, after = schemas
    columns = []
    for field in after.key.fields:
        # The same column may have had another name, and a narrower type.
        column = new.column(field.name)
        known = pc.cast(old.column(before.by_id[field.id].name), column.type)
        columns.append(pc.if_else(has_new, column, known))
    order = np.arange(old.num_rows)
    if columns:
        names = after.key.names
        keys = pa.RecordBatch.from_arrays(columns, list(names))
        order = ascending_order(keys)
    for start in range(0, len(order), BATCH_ROWS):
        chosen = arrow_array(order[start : start + BATCH_ROWS])
        yield ChangeBatch.from_structs(
            struct_of(pc.take(old, chosen), mask=pc.invert(pc.take(has_old, chosen))),
            struct_of(pc.take(new, chosen), mask=pc.invert(pc.take(has_new, chosen))),
        )


def aligned(rows: pa.RecordBatch, keys: pa.RecordBatch, schema: Schema) -> pa.Array:
    """Return, for each key, the index of the row that has it; null where none has."""
    only = schema.select(schema.key.names)
    mine, wanted = key_codes(rows.select(list(only.names)), keys, only, only)
    return pc.index_in(wanted, value_set=mine)
