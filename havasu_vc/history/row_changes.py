"""What two versions of a dataset differ in, for some rows or all, read no further than needed.

For a few keys the entries mostly tell that nothing changed: a file that came or went
holds none of them by its range, or by its key cache; a row that one new file and one
old file hold alike was carried over by a fold. Only what is left is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.comparing import Mask
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.deletes import deleted_places, read_deleted_keys
from havasu_vc.datasets.havasu.diff import differing_entries
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.locate import find_in, may_hold
from havasu_vc.datasets.havasu.verify import verify_deletes
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kart.diff import can_pair
from havasu_vc.datasets.kart.kernels import Files
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.pairing import pair_rows, same_key
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.history.diff import row_changes
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import among, distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["ChosenRows", "all_changes"]

MOST_ROWS = 1 << 17
"""Rows of a difference beyond which chosen ones are looked up instead of reading it all."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """Files that are in one version and not in the other."""

    gone: list[Entry]
    come: list[Entry]
    gone_deletes: list[Entry]
    come_deletes: list[Entry]

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(entry.rows for entry in (*self.gone, *self.come))


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
    return pa.array(~comes[there])


class ChosenRows:
    """Rows with some keys, followed through versions of a dataset."""

    def __init__(self, keys: pa.RecordBatch, schema: Schema, engine: Engine) -> None:
        self._keys = keys
        self._schema = schema
        self._engine = engine
        self._deleted: dict[str, list[tuple[int, str, int]]] = {}
        self._cast: tuple[Schema, pa.RecordBatch] | None = None
        self.hashes = distinct(hash_keys(keys, schema))
        """Hashes of the keys, ascending."""

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
                chosen = ChangeBatch(pc.filter(batch.data, pa.array(wanted)))
                yield chosen, hashes[wanted]

    def _batches(self, old: Dataset, new: Dataset, *, live: bool) -> Iterator[ChangeBatch]:
        """Yield changes among which those of the rows are."""
        if isinstance(old, HavasuDataset) and isinstance(new, HavasuDataset):
            difference = self._difference(old, new)
            if not self._may_differ(old, new, difference, live=live):
                return
            if difference.rows <= MOST_ROWS:
                yield from row_changes(old, new, self._engine)
                return
        elif isinstance(old, KartDataset) and isinstance(new, KartDataset):
            if can_pair(old, new) and self._files(old) == self._files(new):
                return
        sides = [view.rows_with_keys(self._keys_of(view)) for view in (old, new)]
        yield from pair_rows(sides[0], sides[1], old.schema, new.schema)

    def _files(self, view: KartDataset) -> Files:
        """Return the features with the keys, by which versions can be told apart unread."""
        keys = self._keys_of(view)
        columns = [keys.column(name).to_pylist() for name in view.key.names]
        return view.files_of(list(zip(*columns, strict=True)))

    def rows(self, view: Dataset) -> pa.RecordBatch:
        """Return the rows that a version has."""
        if not same_key(self._schema, view.schema):
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(view.schema))
        rows = view.rows_with_keys(self._keys_of(view))
        wanted = np.isin(hash_keys(rows, view.schema), self.hashes)
        return pc.filter(rows, pa.array(wanted))

    def _keys_of(self, view: Dataset) -> pa.RecordBatch:
        """Return the keys under the names and in the types of a version."""
        if self._cast is None or self._cast[0] is not view.schema:
            self._cast = (view.schema, self._as_keys(view))
        return self._cast[1]

    def _as_keys(self, view: Dataset) -> pa.RecordBatch:
        fields = view.schema.key.fields
        columns = [self._keys.column(self._schema.by_id[field.id].name) for field in fields]
        target = arrow_schema(view.schema.select(view.schema.key.names))
        # A key that an older, narrower type cannot hold is of no row there.
        cast = [
            pc.cast(column, field.type, safe=False)
            for column, field in zip(columns, target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cast, schema=target)

    def _difference(self, old: HavasuDataset, new: HavasuDataset) -> _Difference:
        gone, come = differing_entries(old, new)

        def chosen(entries: list[Entry], content: Content) -> list[Entry]:
            found = (entry for entry in entries if entry.content is content)
            return sorted(found, key=lambda entry: entry.file)

        return _Difference(
            chosen(gone, Content.DATA),
            chosen(come, Content.DATA),
            chosen(gone, Content.DELETES),
            chosen(come, Content.DELETES),
        )

    def _may_differ(
        self, old: HavasuDataset, new: HavasuDataset, difference: _Difference, *, live: bool
    ) -> bool:
        """Whether some row may differ, as far as entries and key caches tell."""
        before = self._found(old, difference.gone, difference.gone_deletes)
        after = self._found(new, difference.come, difference.come_deletes)
        if sorted(before) != sorted(after):
            return True
        carried = {needle for needle, _ in before}
        gone = self._deletions(old, difference.gone_deletes, carried)
        if live and not gone:
            return False
        # What a fold writes again of files that stay is deleted as before.
        come = self._deletions(new, difference.come_deletes, carried)
        replaced = {entry.file for entry in (*difference.gone, *difference.come)}
        return any(file not in replaced for file, _ in (gone - come if live else gone ^ come))

    def _found(
        self, view: HavasuDataset, entries: list[Entry], deletes: list[Entry]
    ) -> list[tuple[int, int]]:
        """Return number of the key and hash of the row, of live rows in some files.

        Of files that one version alone has, so are all that delete from them.
        """
        keys = self._keys_of(view)
        found: list[tuple[int, int]] = []
        for entry in entries:
            if not may_hold(entry, keys, view.schema):
                continue
            hits = find_in(view, entry, self.hashes)
            if not len(hits.positions):
                continue
            paths = tuple(view.file_path(each) for each in deletes if entry.file in each.targets)
            deleted = deleted_positions(entry.file, paths)
            needles, rows = hits.needles, hits.rows
            if deleted is not None:
                live = ~among(hits.positions, deleted)
                needles, rows = needles[live], rows[live]
            found += zip(needles.tolist(), rows.tolist(), strict=True)
        return found

    def _deletions(
        self, view: HavasuDataset, entries: list[Entry], carried: set[int]
    ) -> set[tuple[str, int]]:
        """Return the places of rows with one of the keys, those carried over apart, that go."""
        targets = {target: np.empty(0, np.int64) for entry in entries for target in entry.targets}
        verify_deletes(view, entries, targets)
        return {
            (file, position)
            for entry in entries
            for needle, file, position in self._deleted_rows(view, entry)
            if needle not in carried
        }

    def _deleted_rows(self, view: HavasuDataset, entry: Entry) -> list[tuple[int, str, int]]:
        """Return number of the key, data file and position of what one delete file deletes."""
        found = self._deleted.get(entry.file)
        if found is None:
            found = self._deleted[entry.file] = []
            path = view.file_path(entry)
            first = 0
            for keys in read_deleted_keys(path, view.schema):
                hashes = hash_keys(keys, view.schema)
                rows = np.flatnonzero(among(hashes, self.hashes))
                if len(rows):
                    places = deleted_places(path, rows + first)
                    needles = np.searchsorted(self.hashes, hashes[rows]).tolist()
                    found += [(n, *place) for n, place in zip(needles, places, strict=True)]
                first += keys.num_rows
        return found
