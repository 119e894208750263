"""Which rows a patch does not fit, and why: by what it says was there, and by its base.

Of a row that it has the new half alone of, a patch says by its base what was there: the row is
to be as it is in that commit, so that nothing is written over that came since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import equal_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.editing.metadata import meta_documents
from havasu_vc.editing.patch_systems import header_after, own_batches
from havasu_vc.errors import NotFoundError, PatchError
from havasu_vc.formats.patch import DatasetPatch, FeatureForm, Patch, PatchBatch
from havasu_vc.looking import OwnSystem
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.edits import aligned
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.writers.values import key_labels

__all__ = ["PatchBase", "base_of", "misfits", "require_as_at_base", "rows_of"]


@dataclass(frozen=True, slots=True)
class PatchBase:
    """A dataset as it was where a patch was made."""

    view: Dataset | None = None
    """The dataset; None where nobody knows."""
    needed: bool = False
    """Whether rows that the patch has no old half of are new where it is not known."""


def base_of(repo: OpenRepo, patch: Patch, path: str, *, needed: bool) -> PatchBase:
    """Return a dataset as the commit has it that a patch is made on, if that is here."""
    if patch.base is None:
        return PatchBase(needed=needed)
    try:
        return PatchBase(repo.dataset(path, patch.base))
    except NotFoundError:
        return PatchBase(needed=True)


def require_as_at_base(
    part: DatasetPatch, view: Dataset, own: OwnSystem | None, base: PatchBase
) -> None:
    """Raise for a row of which a patch has the new half alone, and which changed since its base."""
    alone = tuple(each for each in part.features if each.form is FeatureForm.UPSERT)
    if alone and (base.needed or base.view is not None):
        items = {change.name: change.new for change in part.meta}
        schema = meta_documents(view, items, keep_ids=True)[0]
        for line in misfits(replace(part, features=alone), view, own, schema, base):
            raise PatchError(line, hints=("make the patch anew, from the rows as they are",))


def misfits(
    part: DatasetPatch, view: Dataset, own: OwnSystem | None, schema: Schema, base: PatchBase
) -> Iterator[str]:
    """Yield a line, in Kart's words, for each row that a patch to other columns does not fit."""
    if not view.key:
        return
    header = header_after(part, view.header, schema)
    for batch in own_batches(part, view.schema, header, own):
        yield from _of_batch(batch, view, schema, base)


def _of_batch(batch: PatchBatch, view: Dataset, schema: Schema, base: PatchBase) -> Iterator[str]:
    names = list(view.key.names)
    old, new = rows_of(batch.changes.old, view.schema), rows_of(batch.changes.new, schema)
    was, comes = (np.asarray(pc.is_valid(s)) for s in (batch.changes.old, batch.changes.new))
    key = [(field.name, schema.by_id[field.id].name) for field in view.key.fields]
    keys = pa.RecordBatch.from_arrays(
        [pc.if_else(pa.array(was), old.column(a), new.column(b)) for a, b in key], names
    )
    keys = keys.cast(arrow_schema(view.schema.select(view.key.names)))
    current = view.rows_with_keys(keys)
    found = aligned(current, keys, view.schema)
    there = np.asarray(pc.is_valid(found))
    standing = pc.take(current, found)
    only = view.schema.select(batch.given_old)
    same = equal_rows(old.select(only.names), standing.select(only.names), only, only)
    since = _changed_since(standing, keys, view, base)
    labels = key_labels(struct_of(keys), view.schema.select(view.key.names)).to_pylist()
    for row, label in enumerate(labels):
        verb = "update" if was[row] and comes[row] else "delete" if was[row] else "create"
        if verb == "create" and there[row] and since[row]:
            yield f"{view.path}: Feature was modified since patch: {label}"
        elif verb == "create":
            if there[row] and (not batch.upsert or (base.view is None and base.needed)):
                yield f"{view.path}: Trying to create feature that already exists: {label}"
        elif not there[row]:
            yield f"{view.path}: Trying to {verb} nonexistent feature: {label}"
        elif not same[row]:
            yield f"{view.path}: Trying to {verb} already-changed feature: {label}"


def _changed_since(
    standing: pa.RecordBatch, keys: pa.RecordBatch, view: Dataset, base: PatchBase
) -> Sequence[bool]:
    """Return which rows are not as a patch's base has them; none where that is not known."""
    if base.view is None:
        return [False] * keys.num_rows
    then = base.view
    if then.schema.select(then.key.names) != view.schema.select(view.key.names):
        return [True] * keys.num_rows
    rows = then.rows_with_keys(keys)
    rows = pc.take(rows, aligned(rows, keys, then.schema))
    return [not same for same in equal_rows(standing, rows, view.schema, then.schema)]


def rows_of(side: pa.StructArray, schema: Schema) -> pa.RecordBatch:
    """Return one half of changes as rows."""
    target = arrow_schema(schema)
    return pa.RecordBatch.from_arrays(side.flatten(), schema=target)
