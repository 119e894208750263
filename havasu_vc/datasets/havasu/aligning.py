"""Row groups of two sides that hold mostly the same rows, found without reading any.

Two releases of a table along a Hilbert curve are in no key order, and still nearly in
the same order as each other. The keys of least hash are the same sample on both sides
and stand together in the key caches; they tell which row groups of one side hold rows
of which of the other. Such groups are compared directly, and only rows that differ or
have no partner there need to be dealt out. The sample proposes, the rows decide: where
it is wrong, or a cache is missing, more rows are dealt out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.havasu.keys import DamagedKeyCache, key_cache_path, open_key_cache
from havasu_vc.datasets.havasu.locate import shared_schema
from havasu_vc.datasets.havasu.parquet import open_parquet, row_group_starts
from havasu_vc.datasets.havasu.pieces import FilePiece, Piece
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.model.hashing import Hashes
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.view import HavasuDataset

__all__ = ["Alignment", "Matches", "align"]

Indices = npt.NDArray[np.int64]
Matches = tuple[tuple[tuple[FilePiece, ...], tuple[FilePiece, ...]], ...]

SHARE = 1 << 10
"""One key in so many is in the sample."""
TASK_BYTES = 48 << 20
"""Bytes of one side that are compared at once, as long as that is more than a row group."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """How two sides are compared: groups that match, and what is left of either side."""

    matches: Matches
    """Pieces of the old side, each with those of the new side that hold mostly their rows."""
    old: tuple[Piece, ...]
    """The rest of the old side."""
    new: tuple[Piece, ...]
    """The rest of the new side."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The row groups of one side, numbered through, and the keys sampled from them."""

    pieces: tuple[FilePiece, ...]
    """Each a single row group."""
    sizes: tuple[int, ...]
    """Bytes of each, in memory."""
    hashes: Hashes
    """Hashes of sampled keys."""
    groups: Indices
    """The row group that each is in."""


def align(
    old: HavasuDataset,
    new: HavasuDataset,
    gone: Sequence[Entry],
    come: Sequence[Entry],
    pieces: tuple[Sequence[Piece], Sequence[Piece]],
) -> Alignment:
    """Return how to compare the pieces of an old side with those of a new one."""
    before, old_rest = _sampled(old, gone, pieces[0])
    after, new_rest = _sampled(new, come, pieces[1])
    owners = _owners(before, after)
    matches = tuple(_matches(before, after, owners))
    taken = {piece for first, _ in matches for piece in first}
    unowned = (piece for piece, owner in zip(after.pieces, owners, strict=True) if owner < 0)
    return Alignment(
        matches,
        (*old_rest, *(piece for piece in before.pieces if piece not in taken)),
        (*new_rest, *unowned),
    )


def _sampled(
    view: HavasuDataset, entries: Sequence[Entry], pieces: Sequence[Piece]
) -> tuple[_Sampled, list[Piece]]:
    """Return the row groups of the files whose key cache is here, and the other pieces."""
    known = {view.file_path(e): e for e in entries if e.content is Content.DATA}
    groups: list[FilePiece] = []
    sizes: list[int] = []
    hashes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    rest: list[Piece] = []
    for piece in pieces:
        sample = _sample(view, known[piece.path]) if isinstance(piece, FilePiece) else None
        if sample is None or not isinstance(piece, FilePiece):
            rest.append(piece)
            continue
        with open_parquet(piece.path) as file:
            starts = row_group_starts(file)
            sizes.extend(file.metadata.row_group(n).total_byte_size for n in range(len(starts) - 1))
        hashes.append(sample[0])
        numbers.append(np.searchsorted(starts, sample[1], "right") - 1 + len(groups))
        groups.extend(replace(piece, groups=(number,)) for number in range(len(starts) - 1))
    sampled = _Sampled(tuple(groups), tuple(sizes), np.concatenate(hashes), np.concatenate(numbers))
    return sampled, rest


def _sample(view: HavasuDataset, entry: Entry) -> tuple[Hashes, Indices] | None:
    path = key_cache_path(view.storage.keys, entry.file, shared_schema(view, entry))
    cache = open_key_cache(path)
    try:
        return None if cache is None else cache.least(((1 << 64) - 1) // SHARE)
    except DamagedKeyCache:
        return None


def _owners(before: _Sampled, after: _Sampled) -> Indices:
    """Return, for each new group, the old one that it shares most with; -1 for little."""
    owners = np.full(len(after.pieces), -1, np.int64)
    if not len(before.hashes) or not len(after.hashes):
        return owners
    order = np.argsort(before.hashes, kind="stable")
    places = np.searchsorted(before.hashes[order], after.hashes)
    partner = order[np.minimum(places, len(order) - 1)]
    met = before.hashes[partner] == after.hashes
    pairs = after.groups[met] * len(before.pieces) + before.groups[partner[met]]
    pairs, counts = np.unique(pairs, return_counts=True)
    # From the least shared to the most, so that the most is what stays.
    ascending = np.argsort(counts, kind="stable")
    new, old = np.divmod(pairs[ascending], len(before.pieces))
    enough = 4 * counts[ascending] >= np.bincount(after.groups, minlength=len(owners))[new]
    owners[new[enough]] = old[enough]
    return owners


def _matches(
    before: _Sampled, after: _Sampled, owners: Indices
) -> Iterator[tuple[tuple[FilePiece, ...], tuple[FilePiece, ...]]]:
    """Yield neighbouring old groups and the new groups they own, as many as may be at once."""
    owned: dict[int, list[int]] = {}
    for group, owner in enumerate(owners.tolist()):
        if owner >= 0:
            owned.setdefault(owner, []).append(group)
    first: list[FilePiece] = []
    second: list[FilePiece] = []
    size = 0
    for number in sorted(owned):
        weight = max(before.sizes[number], sum(after.sizes[group] for group in owned[number]))
        if first and size + weight > TASK_BYTES:
            yield tuple(first), tuple(second)
            first, second, size = [], [], 0
        first.append(before.pieces[number])
        second.extend(after.pieces[group] for group in owned[number])
        size += weight
    if first:
        yield tuple(first), tuple(second)
