"""How many rows an engine changed, from key caches alone.

The key cache of a data file holds a hash of each row's key and of the row. The rows that
left and those that came are paired by these, interval by interval of hashes, so nothing
is read of files whose caches are there and memory stays bounded. What a diff shows, it
reads.
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
from havasu_vc.datasets.havasu.locate import shared_schema
from havasu_vc.datasets.havasu.parquet import Positions, read_row_groups
from havasu_vc.datasets.pairing import nth_equal, same_key
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.workspace.taking_in import TableEdits, deleted_before

__all__ = ["can_count", "count_edits", "file_key_cache"]

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
