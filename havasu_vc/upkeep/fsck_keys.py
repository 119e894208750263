"""Finding keys that stand twice among the live rows of a dataset, in bounded memory.

Key caches hold the hashes of keys in order, so they are compared interval by interval
of hashes; only where hashes agree are the keys themselves read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.conforming import describe_key
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.keys import KeyCache
from havasu_vc.datasets.havasu.locate import sound_key_cache
from havasu_vc.datasets.havasu.parquet import Positions, read_rows
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.records import dataclass
from havasu_vc.upkeep.finding import Finding

__all__ = ["duplicate_keys"]

INTERVAL_ROWS = 1 << 20
"""About as many keys are in memory at a time."""
MOST_FINDINGS = 20
"""Keys that are named; more of them say nothing new."""


@dataclass(frozen=True, slots=True)
class _File:
    entry: Entry
    cache: KeyCache
    deleted: Positions


def duplicate_keys(view: HavasuDataset, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield the keys that more than one live row has."""
    if not view.key or not entries:
        return
    files = [_opened(view, entry) for entry in entries]
    parts = max(sum(entry.rows for entry in entries) // INTERVAL_ROWS, 1)
    edges = [(part << 64) // parts for part in range(1, parts)]
    found = 0
    low: int | None = None
    for high in (*edges, None):
        for pair in _equal_hashes(files, low, high):
            keys = [_key(view, file, position) for file, position in pair]
            if keys[0] == keys[1]:
                found += 1
                if found > MOST_FINDINGS:
                    yield Finding(view.path, "more keys stand twice")
                    return
                names = " and ".join(sorted({file.entry.file for file, _ in pair}))
                yield Finding(
                    view.path, f"the key {describe_key(keys[0])} stands twice, in {names}"
                )
        low = high


def _opened(view: HavasuDataset, entry: Entry) -> _File:
    deleted = deleted_positions(entry.file, view.delete_paths(entry))
    nothing = np.empty(0, np.int64)
    return _File(entry, sound_key_cache(view, entry), nothing if deleted is None else deleted)


def _equal_hashes(
    files: Sequence[_File], low: int | None, high: int | None
) -> Iterator[tuple[tuple[_File, int], tuple[_File, int]]]:
    """Yield neighbouring live rows of equal key hash, with `low` <= hash < `high`."""
    hashes: list[npt.NDArray[np.uint64]] = []
    positions: list[npt.NDArray[np.int64]] = []
    which: list[npt.NDArray[np.int64]] = []
    for index, file in enumerate(files):
        start = 0 if low is None else int(np.searchsorted(file.cache.keys, np.uint64(low)))
        end = None if high is None else int(np.searchsorted(file.cache.keys, np.uint64(high)))
        where = file.cache.positions[start:end].astype(np.int64)
        live = ~np.isin(where, file.deleted)
        hashes.append(file.cache.keys[start:end][live])
        positions.append(where[live])
        which.append(np.full(len(positions[-1]), index, np.int64))
    keys, places, sources = (np.concatenate(part) for part in (hashes, positions, which))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    for at in np.flatnonzero(ordered[1:] == ordered[:-1]):
        first, second = order[at], order[at + 1]
        yield (
            (files[int(sources[first])], int(places[first])),
            (files[int(sources[second])], int(places[second])),
        )


def _key(view: HavasuDataset, file: _File, position: int) -> tuple[object, ...]:
    schema = view.schema.select(view.key.names)
    rows = read_rows(view.file_path(file.entry), schema, np.array([position]))
    return tuple(column[0].as_py() for column in rows.columns)
