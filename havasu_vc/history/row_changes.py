"""The changes between two versions of a dataset, of all rows or of chosen ones, by key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.pairing import Mask, pair_rows, same_key
from havasu_vc.datasets.protocol import Dataset, Reading
from havasu_vc.engine.protocol import Engine
from havasu_vc.history.diff import row_changes
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema

__all__ = ["ChosenRows", "all_changes"]


def all_changes(old: Dataset, new: Dataset, engine: Engine) -> Iterator[tuple[ChangeBatch, Hashes]]:
    """Yield all changes between two versions with the same key, with the hash of each key."""
    for batch in row_changes(old, new, engine):
        yield batch, key_hashes(batch, old.schema, new.schema)


def key_hashes(batch: ChangeBatch, old: Schema, new: Schema) -> Hashes:
    """Return the hash of the key of each change."""
    hashes = np.empty(len(batch), np.uint64)
    comes = pc.is_valid(batch.new).to_numpy(zero_copy_only=False)
    hashes[comes] = hash_keys(batch.new_rows(), new)
    hashes[~comes] = hash_keys(pc.filter(batch.old_rows(), _at(batch, comes)), old)
    return hashes


def _at(batch: ChangeBatch, comes: Mask) -> pa.BooleanArray:
    """Return which of the old rows have no new one."""
    there = pc.is_valid(batch.old).to_numpy(zero_copy_only=False)
    return arrow_array(~comes[there])


class ChosenRows:
    """Rows with some keys, followed through versions of a dataset."""

    def __init__(self, keys: pa.RecordBatch, schema: Schema, engine: Engine) -> None:
        self._chosen = ChosenKeys(keys, schema)
        self._engine = engine

    @property
    def hashes(self) -> Hashes:
        """Hashes of the keys, ascending."""
        return self._chosen.hashes

    def changes(
        self, old: Dataset, new: Dataset, *, live: bool = False
    ) -> Iterator[tuple[ChangeBatch, Hashes]]:
        """Yield the changes of the rows between two versions, with the hash of each key.

        `live` says that all of them are in the new version. Both must have the same key.
        """
        for batch in self._batches(old, new, live=live):
            hashes = key_hashes(batch, old.schema, new.schema)
            wanted = np.isin(hashes, self.hashes)
            if wanted.any():
                chosen = ChangeBatch(pc.filter(batch.data, arrow_array(wanted)))
                yield chosen, hashes[wanted]

    def _batches(self, old: Dataset, new: Dataset, *, live: bool) -> Iterator[ChangeBatch]:
        """Yield changes among which those of the rows are."""
        reading = old.plan_chosen(new, self._chosen, live=live)
        if reading is Reading.CHANGES:
            yield from row_changes(old, new, self._engine)
        elif reading is Reading.ROWS:
            sides = [view.rows_with_keys(self._chosen.of(view.schema)) for view in (old, new)]
            yield from pair_rows(sides[0], sides[1], old.schema, new.schema)

    def rows(self, view: Dataset) -> pa.RecordBatch:
        """Return the rows that a version has."""
        if not same_key(self._chosen.schema, view.schema):
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(view.schema))
        rows = view.rows_with_keys(self._chosen.of(view.schema))
        wanted = np.isin(hash_keys(rows, view.schema), self.hashes)
        return pc.filter(rows, arrow_array(wanted))
