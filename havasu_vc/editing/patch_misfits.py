"""Rows in the way of a patch, all of them named: looked for only where it does not apply."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import equal_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.editing.patch_systems import header_after, own_batches
from havasu_vc.formats.patch import DatasetPatch, PatchBatch
from havasu_vc.looking import OwnSystem
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import struct_of
from havasu_vc.repo.edits import aligned
from havasu_vc.writers.values import key_labels

__all__ = ["misfits"]


def misfits(part: DatasetPatch, view: Dataset, own: OwnSystem | None) -> Iterator[str]:
    """Yield a line, in Kart's words, for each row of a dataset that a patch does not fit."""
    if not view.key:
        return
    header = header_after(part, view.header, view.schema)
    for batch in own_batches(part, view.schema, header, own):
        yield from _of_batch(batch, view)


def _of_batch(batch: PatchBatch, view: Dataset) -> Iterator[str]:
    target, names = arrow_schema(view.schema), list(view.key.names)
    old, new = (
        pa.RecordBatch.from_arrays(side.flatten(), schema=target)
        for side in (batch.changes.old, batch.changes.new)
    )
    was, comes = (np.asarray(pc.is_valid(s)) for s in (batch.changes.old, batch.changes.new))
    keys = pa.RecordBatch.from_arrays(
        [pc.if_else(pa.array(was), old.column(name), new.column(name)) for name in names], names
    )
    keys = keys.cast(arrow_schema(view.schema.select(view.key.names)))
    current = view.rows_with_keys(keys)
    found = aligned(current, keys, view.schema)
    there = np.asarray(pc.is_valid(found))
    standing = pc.take(current, found)
    only = view.schema.select(batch.given_old)
    same = equal_rows(old.select(only.names), standing.select(only.names), only, only)
    labels = key_labels(struct_of(keys), view.schema.select(view.key.names)).to_pylist()
    for row, label in enumerate(labels):
        verb = "update" if was[row] and comes[row] else "delete" if was[row] else "create"
        if verb == "create":
            if there[row] and not batch.upsert:
                yield f"{view.path}: Trying to create feature that already exists: {label}"
        elif not there[row]:
            yield f"{view.path}: Trying to {verb} nonexistent feature: {label}"
        elif not same[row]:
            yield f"{view.path}: Trying to {verb} already-changed feature: {label}"
