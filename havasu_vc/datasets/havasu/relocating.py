"""The delete file that stands for those that have lost the place of a row.

Rows whose data file is live and whose position is free stay there; the others are looked
up in the other live files. What is made is derived, never pushed, and named by what it
was made from, so that all who read a table find it made.

    <common git directory>/havasu/settled/<hash>.json   the entry of one
    <common git directory>/havasu/settled/objects/…     the delete file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.havasu.delete_writing import set_large_aside, write_delete_file
from havasu_vc.datasets.havasu.deletes import (
    Deletion,
    can_be_large,
    needs_data_files,
    needs_originals,
    read_deleted_rows,
    read_positions,
)
from havasu_vc.datasets.havasu.locate import find_in, shared_fields
from havasu_vc.datasets.havasu.parquet import read_row_groups, read_rows
from havasu_vc.datasets.havasu.soundness import Settled
from havasu_vc.datasets.havasu.verify import mark_verified
from havasu_vc.errors import HavasuError, UnfinishedMergeError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin, entry_from_json, entry_to_json
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.store.disk import replace_file

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["relocated"]


def relocated(view: DatasetInFiles, homeless: set[str]) -> Settled:
    """Return the files of a dataset, with one delete file that stands for some."""
    made = _made(view, homeless)
    kept = {file: e for file, e in view.stored_entries.items() if file not in homeless}
    return Settled({**kept, made.file: made}, {made.file: tuple(sorted(homeless))})


def _made(view: DatasetInFiles, homeless: set[str]) -> Entry:
    """Return a delete file that stands for some: one that is kept, or a new one."""
    text = "\n".join((view.layout.schema_hash, *sorted(view.stored_entries)))
    name = hashlib.sha256(text.encode()).hexdigest()[:40]
    store = view.storage.settled
    place = store.root / f"{name}.json"
    with suppress(OSError, ValueError, KeyError, HavasuError):
        value = json.loads(place.read_bytes())
        entry = entry_from_json(value["entry"], value["file"], str(place))
        if store.has(entry.file):
            return entry
    found = _Relocating(view, homeless).deletions()
    written = write_delete_file(found, view.layout, store, origin=Origin.EDIT)
    assert written is not None, "what deletes nothing is no delete file"
    mark_verified(view.storage.keys, written.entry.file)
    document = {"file": written.entry.file, "entry": entry_to_json(written.entry)}
    replace_file(place, json.dumps(document).encode())
    return written.entry


class _Relocating:
    """Gives each row that some delete files take away a place."""

    def __init__(self, view: DatasetInFiles, homeless: set[str]) -> None:
        self._view = view
        self._entries = view.stored_entries
        self._homeless = [self._entries[file] for file in sorted(homeless)]
        self._others = [
            entry
            for entry in self._entries.values()
            if entry.content is Content.DELETES and entry.file not in homeless
        ]
        self._taken: dict[str, npt.NDArray[np.int64]] = {}
        self._found: dict[str, list[Deletion]] = {}
        self._owner = {e.file: d.id for d in view.deltas.values() for e in d.files}

    def deletions(self) -> Iterator[Deletion]:
        """Yield what is deleted, in order of data file and position."""
        view = self._view
        view.bring([*self._homeless, *self._others], deletes=False)
        for entry in self._others:
            for target, positions in read_positions(view.file_path(entry)).items():
                self._take(target, positions)
        later: list[tuple[Entry, dict[str, npt.NDArray[np.int64]]]] = []
        for entry in self._homeless:
            stay, go = {}, {}
            for target, positions in read_positions(view.file_path(entry)).items():
                free = np.zeros(len(positions), bool)
                if target in self._entries:
                    free = ~np.isin(positions, self._taken.get(target, []))
                    self._take(target, positions[free])
                if free.any():
                    stay[target] = positions[free]
                if not free.all():
                    go[target] = positions[~free]
            if stay:
                self._keep(entry, stay)
            if go:
                later.append((entry, go))
        for entry, wanted in later:
            self._look_up(entry, wanted)
        yield from self._sorted()

    def _take(self, file: str, positions: npt.NDArray[np.int64]) -> None:
        known = self._taken.get(file, np.empty(0, np.int64))
        self._taken[file] = np.concatenate([known, positions])

    def _keep(self, entry: Entry, wanted: Mapping[str, npt.NDArray[np.int64]]) -> None:
        view, path = self._view, self._view.file_path(entry)
        if needs_data_files(path, view.schema):
            view.bring([self._entries[file] for file in wanted], deletes=False)
        data = {file: str(view.storage.location(file)) for file in wanted}
        for deletion in read_deleted_rows(path, view.schema, wanted, data):
            self._add(deletion.file, deletion.positions, deletion.rows)

    def _add(self, file: str, positions: npt.NDArray[np.int64], rows: pa.RecordBatch) -> None:
        kept, large = set_large_aside(rows, self._view.schema)
        self._found.setdefault(file, []).append(Deletion(file, positions, kept, large))

    def _sorted(self) -> Iterator[Deletion]:
        for file in sorted(self._found):
            parts = self._found[file]
            positions = np.concatenate([part.positions for part in parts])
            order = np.argsort(positions, kind="stable")
            rows = pa.concat_batches([part.rows for part in parts])
            large = pa.concat_arrays([part.large for part in parts if part.large is not None])
            chosen = arrow_array(order)
            yield Deletion(file, positions[order], rows.take(chosen), large.take(chosen))

    def _look_up(self, entry: Entry, wanted: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Find the rows that a delete file takes away in files other than those it names."""
        view = self._view
        count = sum(len(positions) for positions in wanted.values())
        open_ = np.ones(count, bool)
        for other in view.data_entries_of(self._entries.values()):
            if self._owner[other.file] == self._owner[entry.file]:
                continue  # what an edit takes away is not what it brings
            common = self._common(entry, other)
            rows, keys = self._rows_of(entry, wanted, common)
            needles = np.flatnonzero(open_)
            hits: dict[int, int] = {}
            taken = set(self._taken.get(other.file, np.empty(0, np.int64)).tolist())
            for needle, position in self._equal(other, common, rows[needles], keys[needles]):
                if position not in taken and int(needles[needle]) not in hits:
                    taken.add(position)
                    hits[int(needles[needle])] = position
            if hits:
                positions = np.array(sorted(hits.values()), np.int64)
                self._take(other.file, positions)
                there = read_rows(view.file_path(other), view.schema, positions)
                self._add(other.file, positions, there)
                open_[list(hits)] = False
            if not open_.any():
                return
        raise UnfinishedMergeError(
            view.path, view.revision, f"{int(open_.sum())} rows that are deleted are nowhere"
        )

    def _common(self, entry: Entry, other: Entry) -> Schema:
        """Return the columns that a delete file and a data file both know, large ones apart."""
        said = self._view.past_schema(entry.schema)
        written = self._view.past_schema(other.schema).ids
        fields = shared_fields(said.fields, written)
        if needs_originals(self._view.file_path(entry)):
            keys = set(said.identifier_ids)
            fields = tuple(f for f in fields if f.id in keys or not can_be_large(f))
        return Schema(fields, said.identifier_ids)

    def _rows_of(
        self, entry: Entry, wanted: Mapping[str, npt.NDArray[np.int64]], schema: Schema
    ) -> tuple[Hashes, Hashes]:
        """Return the hashes of rows and keys that a delete file takes away."""
        path = self._view.file_path(entry)
        data = {file: str(self._view.storage.location(file)) for file in wanted}
        rows, keys = [], []
        for deletion in read_deleted_rows(path, schema, wanted, data):
            hashed = hash_rows(deletion.rows, schema)
            rows.append(hashed.rows)
            keys.append(hashed.keys)
        return np.concatenate(rows), np.concatenate(keys)

    def _equal(
        self, other: Entry, schema: Schema, rows: Hashes, keys: Hashes
    ) -> Iterable[tuple[int, int]]:
        """Yield which of some rows a data file has, and where."""
        path = self._view.file_path(other)
        if schema.key and schema.identifier_ids == self._view.schema.identifier_ids:
            found = find_in(self._view, other, keys)
            if not len(found.positions):
                return
            # Rows come in the order of positions, each once.
            every, index = np.unique(found.positions, return_inverse=True)
            there = hash_rows(read_rows(path, schema, every), schema).rows[index]
            for needle, position, row in zip(found.needles, found.positions, there, strict=True):
                if rows[needle] == row:
                    yield int(needle), int(position)
            return
        first = 0
        for batch in read_row_groups(path, schema):
            there = hash_rows(batch, schema).rows
            for needle, row in enumerate(rows):
                for position in np.flatnonzero(there == row):
                    yield needle, first + int(position)
            first += batch.num_rows
