"""Where few rows of two sides with keys differ: sums of hashes say among which rows they are.

    added      every row's hash is added to one of many sums, its *slot*, which its key chooses;
               the old side counts as negative, so rows that both sides have leave no trace
    unlike     the numbers of the slots that are not zero when all are added up
    proposed   the places of the rows of either side whose keys choose one of these slots

So rows that are equal are never moved: a slot is 8 bytes, whatever number of rows it has, and
the second look reads keys alone. What is proposed may be equal, which who pairs it finds out.
Where many rows differ nearly all slots do, and the hashes themselves must be compared (`places`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import piece_of
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.places import (
    PLACES,
    SideSource,
    dealt_places,
    hashes_of,
    key_names,
    samples,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task

__all__ = [
    "MOST_SHARE",
    "Chosen",
    "Numbered",
    "Slots",
    "added",
    "key_of",
    "proposed",
    "rows_in",
    "slots_for",
    "unlike",
]

Slots = npt.NDArray[np.uint32]
"""Numbers of slots, ascending."""
Chosen = tuple[int, Slots]
"""How many bits of a key's hash choose its slot, and numbers of some slots."""
Numbered = tuple[int, SideSource, bool]
"""A source, its number among all, and whether it is of the new side."""

MOST_SHARE = 16
"""Slots are of use if at most one in so many is unlike: so many rows are fetched."""
_ROWS_A_SLOT = 16
_MOST_BITS = 20
"""So there are at most 2^20 slots, which are 8 MB in each task."""
_PIECE_SLOTS = 1 << 15
"""Sums in one piece: rows of 256 KB cost the JVM a third of what some of 4 MB did."""
_FIRST = b"first"
"""Where a piece says the number of its first slot."""
_SUMS = pa.schema([("sum", pa.uint64())])
_UNLIKE = pa.schema([("slot", pa.uint32())])


def slots_for(count: int) -> int:
    """Return how many bits of a key's hash choose its slot among so many rows of both sides."""
    return min(max((count // _ROWS_A_SLOT).bit_length(), 1), _MOST_BITS)


@kernel
def added(
    sources: Sequence[Numbered], old: Schema, new: Schema, bits: int, owners: int
) -> Iterator[pa.RecordBatch]:
    """Yield what the rows of some sources add to each slot, as pieces for so many owners."""
    sums = np.zeros(1 << bits, np.uint64)
    for _, source, is_new in sources:
        for _, keys, rows in hashes_of(source, old, new, is_new):
            np.add.at(sums, _chosen(keys, bits), rows if is_new else np.uint64(0) - rows)
    ends = [len(sums) * n // owners for n in range(owners + 1)]
    for owner, (first, last) in enumerate(pairwise(ends)):
        for start in range(first, last, _PIECE_SLOTS):
            some = arrow_array(sums[start : min(start + _PIECE_SLOTS, last)])
            schema = _SUMS.with_metadata({_FIRST: str(start)})
            yield piece_of(pa.Table.from_arrays([some], schema=schema), owner)


@kernel
def unlike(
    pieces: Sequence[tuple[int, Task]], owner: int, owners: int, bits: int
) -> Iterator[pa.RecordBatch]:
    """Yield the numbers of an owner's slots that do not add up to nothing."""
    start = (1 << bits) * owner // owners
    sums = np.zeros((1 << bits) * (owner + 1) // owners - start, np.uint64)
    for _, task in pieces:
        for batch in run_task(task):
            at = int(batch.schema.metadata[_FIRST]) - start
            sums[at : at + batch.num_rows] += batch.column("sum").to_numpy()
    found = (np.flatnonzero(sums) + start).astype(np.uint32)
    yield pa.RecordBatch.from_arrays([arrow_array(found)], schema=_UNLIKE)


@kernel
def proposed(
    sources: Sequence[Numbered],
    old: Schema,
    new: Schema,
    share: int,
    slots: Chosen,
    groups: Sequence[int],
) -> Iterator[pa.RecordBatch]:
    """Yield the places of rows whose keys choose some slots, for who fetches each source.

    `groups` says who fetches each.
    """
    for number, source, is_new in sources:
        schema = key_of(new if is_new else old)
        first = key_names(schema, new)[0]
        found = []
        for rows, keys in rows_in(source, schema, slots):
            columns = [
                pa.repeat(pa.scalar(number, pa.int32()), len(keys)),
                rows.column(rows.num_columns - 1),
                pa.repeat(pa.scalar(1, pa.int32()), len(keys)),
                samples(rows.column(first), keys, share),
            ]
            found.append(pa.RecordBatch.from_arrays(columns, schema=PLACES))
        places = pa.Table.from_batches(found, PLACES).combine_chunks()
        for batch in places.to_batches():
            yield from dealt_places(batch, groups)


def key_of(schema: Schema) -> Schema:
    """Return the key's columns alone."""
    return Schema(schema.key.fields, schema.identifier_ids)


def rows_in(
    source: SideSource, schema: Schema, slots: Chosen
) -> Iterator[tuple[pa.RecordBatch, Hashes]]:
    """Yield a source's rows whose keys choose some slots, numbered, and the hashes of their keys.

    The schema has the key's columns and those that are wanted.
    """
    bits, wanted = slots
    there = np.zeros(1 << bits, bool)
    there[wanted] = True
    for batch in source.numbered(schema, None):
        keys = hash_keys(batch, schema)
        chosen = np.flatnonzero(there[_chosen(keys, bits)])
        yield pc.take(batch, arrow_array(chosen)), keys[chosen]


def _chosen(keys: Hashes, bits: int) -> npt.NDArray[np.int64]:
    """Return which slot each key chooses, by the first bits of its hash."""
    return (keys >> np.uint64(64 - bits)).astype(np.int64)
