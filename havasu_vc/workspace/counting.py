"""How many rows an engine changed, from key caches alone.

The key cache of a data file holds a hash of each row's key and of the row. The rows that
left and those that came are paired by these, interval by interval of hashes, so nothing
is read of files whose caches are there and memory stays bounded. What a diff shows, it
reads.

Whether the keys of rows that an engine brought are unique, before they are committed.

Engines know identifier fields and do not enforce them. Key caches propose: a hash that
two live rows have, one of them new. The keys themselves decide, and only those of rows
that were proposed are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.havasu.keys import (
    DamagedKeyCache,
    KeyCache,
    build_key_cache,
    key_cache_path,
    open_key_cache,
)
from havasu_vc.datasets.havasu.locate import find_in, shared_schema
from havasu_vc.datasets.havasu.parquet import Positions, read_row_groups, read_rows
from havasu_vc.datasets.pairing import describe_key, nth_equal, same_key
from havasu_vc.errors import KeyViolationError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model.arrays import distinct
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.workspace.taking_in import TableEdits, deleted_before

__all__ = [
    "RowsOfFile",
    "can_count",
    "check_keys",
    "count_edits",
    "file_key_cache",
    "require_distinct",
]

INTERVAL_ROWS = 1 << 21
"""About as many rows are in memory at a time."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one file: all but some, or only some."""

    cache: KeyCache
    chosen: npt.NDArray[np.bool_] | None
    """Which of the file's rows; None for all."""
    count: int

    def between(self, low: int | None, high: int | None) -> tuple[Hashes, Hashes]:
        """Return the hashes of keys and rows, of keys from `low` on and below `high`."""
        keys = self.cache.keys
        start = 0 if low is None else int(np.searchsorted(keys, np.uint64(low)))
        end = len(keys) if high is None else int(np.searchsorted(keys, np.uint64(high)))
        if self.chosen is None:
            return keys[start:end], self.cache.rows[start:end]
        mine = self.chosen[self.cache.positions[start:end]]
        return keys[start:end][mine], self.cache.rows[start:end][mine]


def can_count(edits: TableEdits) -> bool:
    """Whether hashes tell how many rows changed: both sides tell rows apart alike."""
    old, new = edits.base.schema, edits.schema
    return same_key(old, new) or not (old.key or new.key)


def count_edits(edits: TableEdits) -> ChangeCounts:
    """Return how many rows come, change and go."""
    old, new = list(_old(edits)), list(_new(edits))
    rows = sum(part.count for part in (*old, *new))
    parts = max(rows // INTERVAL_ROWS, 1)
    edges = [None, *((part << 64) // parts for part in range(1, parts)), None]
    total = ChangeCounts()
    keyed = bool(edits.schema.key)
    for low, high in pairwise(edges):
        before, was = _gathered(old, low, high)
        after, now = _gathered(new, low, high)
        partner = nth_equal(before, after)
        paired = partner >= 0
        kept = int(paired.sum())
        same = int((was[partner[paired]] == now[paired]).sum()) if keyed else kept
        total += ChangeCounts(len(after) - kept, kept - same, len(before) - kept)
    return total


def _gathered(parts: list[_Part], low: int | None, high: int | None) -> tuple[Hashes, Hashes]:
    found = [part.between(low, high) for part in parts]
    nothing = np.empty(0, np.uint64)
    return (
        np.concatenate([nothing, *(keys for keys, _ in found)]),
        np.concatenate([nothing, *(rows for _, rows in found)]),
    )


def _old(edits: TableEdits) -> Iterator[_Part]:
    for entry in edits.removed:
        yield _part(edits, entry, deleted_before(edits.base, entry), inside=False)
    entries = edits.base.entries
    for file, positions in edits.deleted.items():
        yield _part(edits, entries[file], positions, inside=True)


def _new(edits: TableEdits) -> Iterator[_Part]:
    for each in edits.added:
        shared = each.schema.shared(edits.schema)
        cache = file_key_cache(edits.base.storage.keys, each.entry, shared, str(each.path))
        yield _chosen(cache, each.entry.rows, each.deleted, inside=False)
    entries = edits.base.entries
    for file, positions in edits.restored.items():
        yield _part(edits, entries[file], positions, inside=True)


def _part(edits: TableEdits, entry: Entry, positions: Positions, *, inside: bool) -> _Part:
    shared = shared_schema(edits.frame, entry)
    cache = file_key_cache(edits.base.storage.keys, entry, shared, edits.base.file_path(entry))
    return _chosen(cache, entry.rows, positions, inside=inside)


def _chosen(cache: KeyCache, rows: int, positions: Positions, *, inside: bool) -> _Part:
    if not inside and not len(positions):
        return _Part(cache, None, rows)
    chosen = np.full(rows, not inside)
    chosen[positions] = inside
    return _Part(cache, chosen, len(positions) if inside else rows - len(positions))


def file_key_cache(keys: Path, entry: Entry, shared: Schema, path: str) -> KeyCache:
    """Return the key cache of a file; built in memory where there is none that can be used."""
    found = open_key_cache(key_cache_path(keys, entry.file, shared))
    if found is not None and len(found.keys) == entry.rows:
        try:
            found.check_all()
        except DamagedKeyCache:
            pass
        else:
            return found
    hashed = [hash_rows(batch, shared) for batch in read_row_groups(path, shared)]
    nothing = np.empty(0, np.uint64)
    return build_key_cache(
        np.concatenate([nothing, *(each.keys for each in hashed)]),
        np.concatenate([nothing, *(each.rows for each in hashed)]),
    )


@dataclass(frozen=True, slots=True)
class RowsOfFile:
    """Live rows of one file, by the hash of their key."""

    path: str
    """The file."""
    keys: Hashes
    """The hashes."""
    positions: Positions
    """Where the rows are."""


def check_keys(edits: TableEdits) -> None:
    """Raise `KeyViolationError` when a row that came has a key that another live row has."""
    if not edits.schema.key:
        return
    new = [rows for rows in _come(edits) if len(rows.keys)]
    count = sum(len(rows.keys) for rows in new)
    parts = max(count // INTERVAL_ROWS, 1)
    for low, high in pairwise((0, *((part << 64) // parts for part in range(1, parts)), 1 << 64)):
        _check(edits, [_between(rows, low, high) for rows in new])


def _come(edits: TableEdits) -> Iterator[RowsOfFile]:
    for each in edits.added:
        shared = each.schema.shared(edits.schema)
        cache = file_key_cache(edits.base.storage.keys, each.entry, shared, str(each.path))
        yield _live(str(each.path), cache.keys, cache.positions, each.deleted, inside=False)
    for file, positions in edits.restored.items():
        entry = edits.base.entries[file]
        path = edits.base.file_path(entry)
        shared = shared_schema(edits.frame, entry)
        cache = file_key_cache(edits.base.storage.keys, entry, shared, path)
        yield _live(path, cache.keys, cache.positions, positions, inside=True)


def _live(
    path: str,
    keys: Hashes,
    positions: npt.NDArray[np.uint32],
    chosen: Positions,
    *,
    inside: bool,
) -> RowsOfFile:
    where = positions.astype(np.int64)
    keep = np.isin(where, chosen) if inside or len(chosen) else np.ones(len(where), bool)
    if not inside and len(chosen):
        keep = ~keep
    return RowsOfFile(path, keys[keep], where[keep])


def _between(rows: RowsOfFile, low: int, high: int) -> RowsOfFile:
    start = int(np.searchsorted(rows.keys, np.uint64(low)))
    end = len(rows.keys)
    if high < 1 << 64:
        end = int(np.searchsorted(rows.keys, np.uint64(high)))
    return RowsOfFile(rows.path, rows.keys[start:end], rows.positions[start:end])


def _check(edits: TableEdits, new: list[RowsOfFile]) -> None:
    if not any(len(rows.keys) for rows in new):
        return
    keys = np.concatenate([rows.keys for rows in new])
    ordered = np.sort(keys)
    twice = distinct(ordered[1:][ordered[1:] == ordered[:-1]])
    groups = [
        RowsOfFile(rows.path, rows.keys[mine], rows.positions[mine])
        for rows in new
        for mine in (np.isin(rows.keys, twice),)
    ]
    if len(twice):
        require_distinct(edits, groups)
    for there in _staying(edits, distinct(keys)):
        hashes = distinct(there.keys)
        mine = [
            RowsOfFile(rows.path, rows.keys[chosen], rows.positions[chosen])
            for rows in new
            for chosen in (np.isin(rows.keys, hashes),)
        ]
        require_distinct(edits, [there, *mine])


def _staying(edits: TableEdits, needles: Hashes) -> Iterator[RowsOfFile]:
    """Yield the rows of the base that stay and whose keys are among some."""
    leaving = {entry.file for entry in edits.removed}
    nothing = np.empty(0, np.int64)
    for entry in edits.frame.data_entries:
        if entry.file in leaving:
            continue
        found = find_in(edits.frame, entry, needles)
        if not len(found.positions):
            continue
        gone = np.concatenate(
            [
                deleted_before(edits.base, entry),
                edits.deleted.get(entry.file, nothing),
                # Those are among the rows that came.
                edits.restored.get(entry.file, nothing),
            ]
        )
        live = ~np.isin(found.positions, gone)
        if live.any():
            path = edits.base.file_path(entry)
            yield RowsOfFile(path, needles[found.needles[live]], found.positions[live])


def require_distinct(edits: TableEdits, groups: list[RowsOfFile]) -> None:
    """Raise when two of some rows that hash alike have one key."""
    schema = edits.schema.select(edits.schema.key.names)
    seen: set[tuple[object, ...]] = set()
    for rows in groups:
        if not len(rows.positions):
            continue
        found = read_rows(rows.path, schema, np.sort(rows.positions))
        for row in found.to_pylist():
            key = tuple(row.values())
            if key in seen:
                names = ", ".join(schema.names)
                raise KeyViolationError(
                    f"{edits.path}: two rows have the key {names} = {describe_key(key)}",
                    hints=(
                        "DELETE one of them in the table, or UPDATE it to have another key, "
                        "then commit again",
                    ),
                )
            seen.add(key)
