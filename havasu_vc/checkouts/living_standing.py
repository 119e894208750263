"""Edited rows that may stand as they are where a table gets the rows of another version."""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.checkouts.living_edits import LayerEdits, layer_of
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_store import LivingStore
from havasu_vc.history.diff import row_changes
from havasu_vc.history.partners import partners
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.repo.opened import OpenRepo

__all__ = ["can_stay", "change_keys", "changed_among", "same_form", "stands_apart", "stands_as"]


def can_stay(file: LivingStore, edits: LayerEdits, old: Dataset, new: Dataset) -> bool:
    """Whether rows that were edited can stay where all others become those of a version."""
    return (
        edits.seen is not None
        and edits.schema == old.schema
        and stands_as(edits, layer_of(file, new), old, new)
    )


def stands_apart(
    repo: OpenRepo, file: LivingStore, edits: LayerEdits, old: Dataset, new: Dataset
) -> bool:
    """Whether a version has nothing otherwise that was edited: the edits are edits of it then.

    Kart refuses a working copy that is of another commit than HEAD.
    """
    if edits.conflicts or not can_stay(file, edits, old, new):
        return False
    if edits.said and old.header.meta != new.header.meta:
        return False
    return changed_among(repo, edits.row_keys, old, new) is None


def changed_among(
    repo: OpenRepo, keys: pa.RecordBatch, old: Dataset, new: Dataset
) -> pa.RecordBatch | None:
    """Return the first of some keys whose rows two versions have differently; None for none."""
    with repo.settings.open_engine(old.size) as engine:
        for batch in row_changes(old, new, engine):
            there = change_keys(batch, new)
            found = pc.filter(there, pc.is_valid(partners(there, keys)))
            if found.num_rows:
                return found.slice(0, 1)
    return None


def change_keys(batch: ChangeBatch, view: Dataset) -> pa.RecordBatch:
    """Return the key of each change, of whose rows either has it."""
    names = list(view.key.names)
    columns = [
        pc.coalesce(pc.struct_field(batch.new, name), pc.struct_field(batch.old, name))
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, names)


def stands_as(edits: LayerEdits, layer: Layer, old: Dataset, new: Dataset) -> bool:
    """Whether a table can take the rows of another version as it stands."""
    seen = edits.seen
    assert seen is not None
    return (
        seen.is_whole
        and "crs" not in seen.said
        and same_form(edits.layer, layer)
        and bool(new.key)
        and seen.distrusted is None
    )


def same_form(old: Layer, new: Layer) -> bool:
    """Whether a table of one version has the columns of another, and its systems.

    A table says its system where its geometries are declared, so another one makes it anew.
    """
    ids = [[field.id for field in each.schema.fields] for each in (old, new)]
    return (
        old.schema.names == new.schema.names
        and old.declared == new.declared
        and old.fid == new.fid
        and ids[0] == ids[1]
        and old.schema.identifier_ids == new.schema.identifier_ids
        and old.header.crs == new.header.crs
    )
