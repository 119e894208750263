"""Changes as a changelog: rows that say what became of them, as Iceberg's changelogs have it.

    _change_type     row
    UPDATE_BEFORE    (2, "two")
    UPDATE_AFTER     (2, "zwei")

The row before an update stands right before the row after it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, present_rows
from havasu_vc.model.schema import Schema

__all__ = ["CHANGE_TYPE", "changelog", "rows_as"]

CHANGE_TYPE = "_change_type"
"""The column that says what happened to a row."""


def changelog(
    batch: ChangeBatch, old: pa.RecordBatch, new: pa.RecordBatch
) -> tuple[pa.Array, pa.Table]:
    """Return what became of each row, and the rows; `old` and `new` are those that are there."""
    leaves = batch.old.is_valid().to_numpy(zero_copy_only=False)
    comes = batch.new.is_valid().to_numpy(zero_copy_only=False)
    both = leaves & comes
    kinds = np.concatenate(
        [
            np.where(both, "UPDATE_BEFORE", "DELETE")[leaves],
            np.where(both, "UPDATE_AFTER", "INSERT")[comes],
        ]
    )
    places = np.concatenate([np.flatnonzero(leaves) * 2, np.flatnonzero(comes) * 2 + 1])
    order = pa.array(np.argsort(places, kind="stable"))
    together = pa.Table.from_batches([old, new]).combine_chunks().take(order)
    return pa.array(kinds, pa.string()).take(order), together


def rows_as(side: pa.StructArray, given: Schema, schema: Schema) -> pa.RecordBatch:
    """Return the rows of one side that are there, in the columns of a schema, by field id."""
    target = arrow_schema(given)
    rows = pa.RecordBatch.from_arrays(present_rows(side).columns, schema=target)
    return plan_projection(target, schema, "a change").apply(rows)
