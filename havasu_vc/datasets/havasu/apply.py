"""Applying changes: checking what they say was there, and collecting what a commit writes.

Every `old` row must be live with just these values, every inserted key must be new.
Key caches answer both without opening a data file; what they object to is read and
compared before anything is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.digest import HashedRows, hash_rows
from havasu_vc.datasets.havasu.locate import locate
from havasu_vc.datasets.havasu.locate_there import where_rows_are
from havasu_vc.datasets.havasu.parquet import read_rows
from havasu_vc.datasets.pairing import check_order, conform, describe_key, nth_equal
from havasu_vc.errors import PatchError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles
    from havasu_vc.model.commits import ChangeCounts

__all__ = ["RowEdit", "collect_changes"]


class RowEdit(Protocol):
    """An edit that takes rows away and brings others, once they were checked."""

    dataset: DatasetInFiles
    """The dataset that is edited."""

    @property
    def schema(self) -> Schema:
        """The columns after the edit."""

    def taken(self, entry: Entry) -> npt.NDArray[np.int64]:
        """Return the positions of a file that are deleted by this edit so far."""

    def delete(self, entry: Entry, positions: npt.NDArray[np.int64], rows: pa.RecordBatch) -> None:
        """Take rows away."""

    def insert(self, rows: pa.RecordBatch) -> None:
        """Bring rows."""

    def count(self, counts: ChangeCounts, old: HashedRows, new: HashedRows) -> None:
        """Count changes into the sums."""


def collect_changes(edit: RowEdit, changes: Iterator[ChangeBatch]) -> None:
    """Check changes against the dataset and hand them to an edit."""
    last: pa.RecordBatch | None = None
    for batch in changes:
        if not len(batch):
            continue
        last = check_order(batch, last, edit.dataset.schema, edit.schema)
        _collect(edit, batch)


@dataclass(frozen=True, slots=True)
class _Hits:
    """Live rows of all files whose keys were looked up."""

    entries: list[Entry]
    files: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    keys: Hashes
    rows: Hashes


def _collect(edit: RowEdit, batch: ChangeBatch) -> None:
    dataset = edit.dataset
    old_rows = conform(batch.old_rows(), dataset.schema)
    new_rows = conform(batch.new_rows(), edit.schema)
    old, new = hash_rows(old_rows, dataset.schema), hash_rows(new_rows, edit.schema)
    _check_updates(batch, old, new, edit.schema)
    inserted = pc.filter(
        arrow_array(np.arange(new_rows.num_rows)),
        pc.filter(pc.is_null(batch.old), pc.is_valid(batch.new)),
    ).to_numpy()
    needles, keys = old.keys, old_rows
    if edit.schema.key:
        needles = np.concatenate([old.keys, new.keys[inserted]])
        keys = pa.concat_batches(
            [
                _keys(old_rows, dataset.schema, edit),
                _keys(pc.take(new_rows, arrow_array(inserted)), edit.schema, edit),
            ]
        )
    hits = _look_up(edit, needles, keys)
    partner = nth_equal(hits.keys, needles)
    _check_old(edit, old_rows, old, partner[: len(old.keys)], hits)
    if edit.schema.key:
        _check_inserts(edit, new_rows, inserted, partner[len(old.keys) :], hits)
    partner = partner[: len(old.keys)]
    for index, entry in enumerate(hits.entries):
        chosen = np.flatnonzero(hits.files[partner] == index)
        if len(chosen):
            positions = hits.positions[partner[chosen]]
            order = np.argsort(positions, kind="stable")
            edit.delete(entry, positions[order], pc.take(old_rows, arrow_array(chosen[order])))
    edit.insert(new_rows)
    edit.count(batch.counts, old, new)


def _look_up(edit: RowEdit, needles: Hashes, keys: pa.RecordBatch) -> _Hits:
    entries: list[Entry] = []
    files, positions, found_keys, rows = [], [], [], []
    for hits in locate(edit.dataset, needles, keys):
        taken = edit.taken(hits.entry)
        free = ~np.isin(hits.found.positions, taken)
        # A needle looked up twice hits twice; each row of a file counts once.
        _, once = np.unique(hits.found.positions[free], return_index=True)
        files.append(np.full(len(once), len(entries)))
        entries.append(hits.entry)
        positions.append(hits.found.positions[free][once])
        found_keys.append(needles[hits.found.needles[free][once]])
        rows.append(hits.found.rows[free][once])
    if not entries:
        nothing = np.empty(0, np.int64)
        return _Hits([], nothing, nothing, np.empty(0, np.uint64), np.empty(0, np.uint64))
    return _Hits(
        entries,
        np.concatenate(files),
        np.concatenate(positions),
        np.concatenate(found_keys),
        np.concatenate(rows),
    )


def _keys(rows: pa.RecordBatch, schema: Schema, edit: RowEdit) -> pa.RecordBatch:
    """Return the keys of rows under the names that the dataset has now, as wide as they get."""
    names, columns = [], []
    for field in edit.dataset.key.fields:
        column = rows.column(schema.by_id[field.id].name)
        names.append(field.name)
        columns.append(pc.cast(column, arrow_type(edit.schema.by_id[field.id].type)))
    return pa.RecordBatch.from_arrays(columns, names)


def _check_updates(batch: ChangeBatch, old: HashedRows, new: HashedRows, schema: Schema) -> None:
    if not schema.key:
        return
    both = pc.and_(pc.is_valid(batch.old), pc.is_valid(batch.new))
    before = old.keys[pc.filter(both, pc.is_valid(batch.old)).to_numpy(zero_copy_only=False)]
    after = new.keys[pc.filter(both, pc.is_valid(batch.new)).to_numpy(zero_copy_only=False)]
    if not np.array_equal(before, after):
        raise PatchError(
            "a change gives a row another key",
            hints=("a row whose key changes is a delete and an insert",),
        )


def _check_old(
    edit: RowEdit,
    rows: pa.RecordBatch,
    old: HashedRows,
    partner: npt.NDArray[np.int64],
    hits: _Hits,
) -> None:
    """Raise unless every row that goes is live and what the change says it was."""
    absent = np.flatnonzero(partner < 0)
    if len(absent):
        raise PatchError(
            f"{edit.dataset.path} has no row {_label(edit, rows, int(absent[0]))}"
            + (f", nor {len(absent) - 1:,} others that change" if len(absent) > 1 else "")
        )
    different = np.flatnonzero(hits.rows[partner] != old.rows)
    if len(different):
        more = f" (and {len(different) - 1:,} more)" if len(different) > 1 else ""
        raise PatchError(
            f"row {_label(edit, rows, int(different[0]))} of {edit.dataset.path} "
            f"is not what the change says it was{more}",
            hints=("make the patch from the version that it is applied to",),
        )


def _check_inserts(
    edit: RowEdit,
    rows: pa.RecordBatch,
    inserted: npt.NDArray[np.int64],
    partner: npt.NDArray[np.int64],
    hits: _Hits,
) -> None:
    """Raise if a key that is inserted is live already."""
    for number in np.flatnonzero(partner >= 0):
        hit = int(partner[number])
        entry = hits.entries[int(hits.files[hit])]
        dataset = edit.dataset
        there = read_rows(
            where_rows_are(dataset, entry),
            dataset.schema.select(dataset.key.names),
            hits.positions[[hit]],
        )
        row = int(inserted[number])
        key = [rows.column(edit.schema.by_id[f.id].name)[row].as_py() for f in dataset.key.fields]
        if [column[0].as_py() for column in there.columns] == key:
            raise PatchError(
                f"{dataset.path} already has a row {describe_key(tuple(key))}",
                hints=("an insert needs a key that is not there",),
            )


def _label(edit: RowEdit, rows: pa.RecordBatch, index: int) -> str:
    names = edit.dataset.key.names or edit.dataset.schema.names[:3]
    return describe_key(tuple(rows.column(name)[index].as_py() for name in names))
