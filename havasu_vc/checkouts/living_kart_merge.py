"""A merge that Kart stopped in, concluded or given up where its working copy has the rows of it.

Kart writes what it resolves into the working copy, where that counts as an edit. So edits of
rows in conflict go with the merge if they are what it decided; any other edit is somebody's.
"""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.checkouts.living_copy import LivingCopy
from havasu_vc.checkouts.living_edits import LayerEdits, base_views
from havasu_vc.checkouts.living_following import Held
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import UncommittedChangesError
from havasu_vc.history.partners import partners
from havasu_vc.merging import KartMerge
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.revisions import Revision
from havasu_vc.writers.values import key_labels

__all__ = ["leave_kart_merge"]


def leave_kart_merge(
    repo: OpenRepo, living: LivingCopy, merge: KartMerge, tree: str | None
) -> None:
    """Have the working copy leave the rows of a merge for those of HEAD, as it is then.

    `tree` is what the merge is concluded with; None where it is given up. Raises
    `UncommittedChangesError` where something was edited that the merge did not decide.
    """
    views = {} if tree is None else base_views(repo, Revision("the merge", None, tree))
    for path, edits in living.edited().items():
        row = _foreign(edits, merge, views.get(path), given_up=tree is None)
        if row is not None:
            raise UncommittedChangesError(
                f"{row} was edited in the working copy while the merge of Kart's waited",
                hints=(
                    "put it back there, or take it with `kart resolve --with=workingcopy`",
                    "`kart merge --abort` drops all such edits",
                ),
            )
    if isinstance(repo.held, Held):
        repo.held.discard = True


def _foreign(
    edits: LayerEdits, merge: KartMerge, new: Dataset | None, *, given_up: bool
) -> str | None:
    """Return the label of the first edit that is not of the merge; None for none."""
    path, base = edits.path, edits.base
    if edits.is_dropped or edits.schema != base.schema or not base.key:
        return path
    keys = edits.row_keys
    decided = merge.keys(base)
    others = keys if decided is None else pc.filter(keys, pc.is_null(partners(keys, decided)))
    # Where the columns are others, the table is made anew, of what was decided.
    if not (others.num_rows or given_up or new is None or new.schema != base.schema):
        there = new.rows_with_keys(keys)
        names = list(base.key.names)
        there = pc.filter(there, pc.is_valid(partners(there.select(names), keys)))
        mine = pa.concat_batches([batch.new_rows() for batch in edits.batches])
        apart = [each for each in pair_rows(there, mine, new.schema, base.schema) if len(each)]
        if apart:
            sides = pa.concat_batches([side.select(names) for side in _sides(apart[0])])
            others = sides.slice(0, 1)
    if not others.num_rows:
        return None
    label = key_labels(struct_of(others.slice(0, 1)), base.schema.select(base.key.names))
    return f"{path}:feature:{label[0].as_py()}"


def _sides(changes: ChangeBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    return changes.new_rows(), changes.old_rows()
