"""Keys for the rows of a source that has none: those that they had, or the next numbers.

A row that is as it was is known by the id of its feature. When a source comes in again,
the others wait until all have come. Then they are looked for among the rows of the last
import that did not come: one that is alike keeps its key, so that it shows as an edit.
The search is as Kart's, and gives the keys that Kart gives: it takes place only when the
rows that came and the rows that went are few, and the columns are nearly the same ones.

Memory holds hashes of the rows that wait, no more of them than the limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import EarlierImport
from havasu_vc.formats.kart.columns import (
    GeneratedKeys,
    column_id,
    format_legend,
    legend_name,
    legend_of,
)
from havasu_vc.formats.kart.features import FeatureDecoder
from havasu_vc.model import kernels as pc
from havasu_vc.model.hashing import Hashes, hash_values, mix
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.view import KartDataset

__all__ = [
    "KeyGiver",
    "SimilarRows",
    "related_hashes",
]


_AT_ONCE = 1 << 12


class KeyGiver:
    """Gives keys to rows, as they come and after the last one."""

    def __init__(
        self, keys: GeneratedKeys, schema: Schema, earlier: EarlierImport | None = None
    ) -> None:
        """Give keys to rows of a Kart dataset's schema."""
        self.keys = keys
        """The keys that are remembered."""
        self._schema = schema
        self._earlier = earlier if earlier is not None and earlier.limit > 0 else None
        legend = legend_of(schema)
        self._decoder = FeatureDecoder(schema, {legend_name(format_legend(legend)): legend})
        self._rows = 0
        self._ids: list[bytes] = []
        self._hashes: list[Hashes] = []
        self._numbers: list[int] | None = None

    def take(self, ids: Sequence[bytes], features: Sequence[bytes]) -> list[int | None]:
        """Return the keys of rows, by the ids and bytes of their features; None if one waits."""
        self._rows += len(ids)
        if self._earlier is None or self._numbers is not None:
            return [*self.keys.assign(ids)]
        found = self.keys.recall(ids)
        waiting = [index for index, key in enumerate(found) if key is None]
        if waiting:
            self._ids += [ids[index] for index in waiting]
            if len(self._ids) > self._earlier.limit:
                self._hashes.clear()
                self._numbers = [self.keys.new(each) for each in self._ids]
            else:
                chosen = [features[index] for index in waiting]
                rows = self._decoder.decode([[0] * len(chosen)], chosen, str)
                self._hashes.append(related_hashes(rows, self._schema))
        return found

    def rest(self) -> tuple[list[int], list[bytes]]:
        """Return the keys and ids of the rows that waited, after the last one came."""
        if self._numbers is None:
            pairs = self._alike() if self._ids else {}
            for index, key in pairs.items():
                self.keys.change(key, self._ids[index])
            self._numbers = [
                pairs[index] if index in pairs else self.keys.new(identity)
                for index, identity in enumerate(self._ids)
            ]
        return self._numbers, self._ids

    def _alike(self) -> dict[int, int]:
        """Return the keys of rows that are alike to one that went, by their numbers."""
        if self._earlier is None:
            return {}
        before = cast("KartDataset", self._earlier.find())
        limit = self._earlier.limit
        if not _is_near(before.schema, self._schema):
            return {}
        # The rows that went are as many as those that came, and what the table shrank by.
        grown = self._rows - before.rows
        if abs(grown) > limit or len(self._ids) > (limit + grown) // 2:
            return {}
        found = SimilarRows(np.concatenate(self._hashes))
        form = before.form()
        decoder = form.decoder()
        name = before.key.fields[0].name
        gone = self.keys.unused()
        for start in range(0, len(gone), _AT_ONCE):
            files = before.files_of([(key,) for key in gone[start : start + _AT_ONCE]])
            if files.names:
                rows = files.rows(form, decoder)
                keys = rows.column(name).to_numpy().astype(np.int64)
                found.add(related_hashes(rows, before.schema), keys)
        return dict(found.pairs())


def _is_near(old: Schema, new: Schema) -> bool:
    """Whether the columns are the same, but for one that came and one that went at most."""
    was, becomes = ({column_id(f): f.id for f in schema.fields} for schema in (old, new))
    keys = [
        [column for column, number in ids.items() if number in schema.identifier_ids]
        for ids, schema in ((was, old), (becomes, new))
    ]
    came, went = becomes.keys() - was.keys(), was.keys() - becomes.keys()
    return keys[0] == keys[1] and len(came) <= 1 and len(went) <= 1


# Rows that hardly changed: which one of before each row of now was, told by hashes.
#
# Two rows are alike when they differ in one column at most. Each row has a hash of all of
# its values and, for every column, one of the values of the others; alike rows share one
# of them. A pair counts where nobody else has that hash on its side, and where neither
# row is alike to a second one. Columns are known by their ids, so a row may be found again
# across a column that came, went or was put in another's place.
#
# Rows of now are in memory as hashes. Those of before come in batches, and only what they
# share with the others is kept, so there may be very many.

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
