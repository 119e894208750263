"""Rows that hardly changed: which one of before each row of now was, told by hashes.

Two rows are alike when they differ in one column at most. Each row has a hash of all of
its values and, for every column, one of the values of the others; alike rows share one
of them. A pair counts where nobody else has that hash on its side, and where neither
row is alike to a second one. Columns are known by their ids, so a row may be found again
across a column that came, went or was put in another's place.

Rows of now are in memory as hashes. Those of before come in batches, and only what they
share with the others is kept, so there may be very many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.formats.kart.columns import column_id
from havasu_vc.model import kernels as pc
from havasu_vc.model.hashing import Hashes, hash_values, mix
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive

__all__ = ["SimilarRows", "related_hashes"]

_NULL = np.uint64(0x2545F4914F6CDD1D)


def related_hashes(rows: pa.RecordBatch, schema: Schema) -> Hashes:
    """Return the hashes of each row: of all values, then of all but those of each column."""
    keys = set(schema.identifier_ids)
    cells = []
    for field in schema.fields:
        if field.id in keys:
            continue
        column = rows.column(field.name)
        if field.type is Primitive.DOUBLE:
            column = pc.add(column, 0.0)  # zero has one sign
        values = hash_values(column, field)
        if column.null_count:
            values[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NULL
        salt = int.from_bytes(hashlib.sha256(column_id(field).encode()).digest()[:8])
        cells.append(mix(values ^ np.uint64(salt)))
    found = np.zeros((rows.num_rows, len(cells) + 1), np.uint64)
    for each in cells:
        found[:, 0] ^= each
    for index, each in enumerate(cells, 1):
        found[:, index] = found[:, 0] ^ each
    return found


class SimilarRows:
    """Pairs rows of now with those of before."""

    def __init__(self, new: Hashes) -> None:
        """Look for rows with some hashes, one line each."""
        self._hashes, first, counts = np.unique(new, return_index=True, return_counts=True)
        self._new: npt.NDArray[np.int64] = first // max(new.shape[1], 1)
        self._sole = counts == 1
        self._seen = np.zeros(len(self._hashes), np.int64)
        self._old = np.zeros(len(self._hashes), np.int64)

    def add(self, hashes: Hashes, keys: npt.NDArray[np.int64]) -> None:
        """Take in rows of before."""
        owners = np.repeat(keys, hashes.shape[1])
        flat = hashes.ravel()
        place = np.searchsorted(self._hashes, flat)
        place[place == len(self._hashes)] = 0
        shared = self._hashes[place] == flat
        np.add.at(self._seen, place[shared], 1)
        self._old[place[shared]] = owners[shared]

    def pairs(self) -> Mapping[int, int]:
        """Return the key that each row of now had, by its number, for those that had one."""
        chosen = self._sole & (self._seen == 1)
        found = np.unique(np.stack([self._new[chosen], self._old[chosen]], axis=1), axis=0)
        alone = np.ones(len(found), bool)
        for side in (0, 1):
            _, inverse, counts = np.unique(found[:, side], return_inverse=True, return_counts=True)
            alone &= counts[inverse] == 1
        return {int(new): int(old) for new, old in found[alone]}
