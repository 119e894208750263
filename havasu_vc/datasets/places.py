"""Places of rows that differ between two sides, found by the hashes of all.

    hashed       every row as a hash of its key, a hash of all of it, and its place, dealt out
                 by the first of these
    differing    the places of an owner's rows that one side has more often, dealt out to those
                 that fetch what is there

Only numbers of fixed length are moved for rows that are equal: some 20 bytes for each. Rows that
are alike in one stretch of a source are one place, which says how many: where there is no key
there may be any number of them, and all have one owner.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import piece_of
from havasu_vc.datasets.digest import hash_keys_and_rows
from havasu_vc.datasets.pairing import comparable, same_key
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import gathered
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task

__all__ = [
    "PLACES",
    "Positions",
    "SideSource",
    "dealt_places",
    "differing",
    "hashed",
    "hashes_of",
    "key_names",
    "samples",
    "samples_of",
]

Positions = npt.NDArray[np.int64]

PLACES = pa.schema(
    [("source", pa.int32()), ("pos", pa.int64()), ("times", pa.int32()), ("sample", pa.binary())]
)
"""Where rows are: which source, which of its rows, how many are as this one is, and of some
the first value of the key."""
_HASHES = pa.schema([("key", pa.uint64()), ("row", pa.uint64()), *PLACES])
_FLUSH_ROWS = 1 << 20
"""Hashes that are collected before they are dealt out: 40 MB."""
_LEAN = pa.ipc.IpcWriteOptions(compression="lz4")
"""Packed, as places and counts are much alike: half the bytes go through the shuffle."""
_ALL = (1 << 64) - 1
_ODD = np.uint64(0x9E3779B97F4A7C15)


class SideSource(Protocol):
    """Rows of one side that are read again as they were; must pickle."""

    @property
    def count(self) -> int:
        """About how many rows."""

    @property
    def size(self) -> int:
        """About how many bytes."""

    def numbered(self, schema: Schema, wanted: Positions | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, of which only some may be `wanted`, with their numbers in a last column."""


@kernel
def hashed(
    number: int,
    source: SideSource,
    old: Schema,
    new: Schema,
    is_new: bool,
    share: int,
    parts: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of a source's rows as pieces for so many owners."""
    keyed = same_key(old, new)
    told = _told_hashes(number, source, old, new, is_new, share)
    for waiting in gathered(told, _FLUSH_ROWS, lambda batch: batch.num_rows):
        rows = _one(waiting, _HASHES)
        if not keyed:
            rows = _alike_once(rows)
        # The upper half of a hash says whose it is: its lower half is left to sort by.
        upper = rows.column("key").to_numpy() >> np.uint64(32)
        owners = (upper * np.uint64(parts) >> np.uint64(32)).astype(np.int32)
        yield from _dealt(rows, owners)


def _told_hashes(
    number: int, source: SideSource, old: Schema, new: Schema, is_new: bool, share: int
) -> Iterator[pa.RecordBatch]:
    for batch, keys, rows in hashes_of(source, old, new, is_new):
        count = batch.num_rows
        sample = pa.nulls(count, pa.binary())
        if same_key(old, new):
            first = key_names(new if is_new else old, new)[0]
            sample = samples(batch.column(first), keys, share)
        columns = [
            arrow_array(keys),
            arrow_array(rows),
            pa.repeat(pa.scalar(number, pa.int32()), count),
            batch.column(batch.num_columns - 1),
            pa.repeat(pa.scalar(1, pa.int32()), count),
            sample,
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_HASHES)


def hashes_of(
    source: SideSource, old: Schema, new: Schema, is_new: bool
) -> Iterator[tuple[pa.RecordBatch, Hashes, Hashes]]:
    """Yield a source's rows with their numbers, the hashes of their keys, and of all of them."""
    names, compared = _compared(old, new, is_new, same_key(old, new))
    for batch in source.numbered(new if is_new else old, None):
        if batch.num_rows:
            yield batch, *hash_keys_and_rows(batch.select(names), compared)


def samples(first: pa.Array, keys: Hashes, share: int) -> pa.Array:
    """Return the first value of the key of one row in so many, and null for the others."""
    told = arrow_array(keys <= np.uint64(_ALL // share))
    values = [pickle.dumps(value) for value in pc.filter(first, told).to_pylist()]
    none = pa.nulls(len(keys), pa.binary())
    return pc.replace_with_mask(none, told, pa.array(values, pa.binary()))


def _compared(old: Schema, new: Schema, is_new: bool, keyed: bool) -> tuple[list[str], Schema]:
    """Return the columns of a side that count, and what they are hashed as.

    A column that the new version lacks counts for nothing. One whose values can never be
    equal to those of the same column there is hashed as another column is.
    """
    mine, other = (new, old) if is_new else (old, new)
    highest = max((*old.by_id, *new.by_id), default=0)
    names, fields = [], []
    for field in mine.fields:
        if field.id not in new.by_id:
            continue
        names.append(field.name)
        twin = other.by_id.get(field.id)
        geometries = twin is not None and twin.geometry is not None and field.geometry is not None
        if twin is None or geometries or comparable(twin.type, field.type):
            fields.append(field)
        else:
            fields.append(replace(field, id=highest + field.id) if is_new else field)
    return names, Schema(tuple(fields), mine.identifier_ids if keyed else ())


def key_names(schema: Schema, new: Schema) -> tuple[str, ...]:
    """Return what the key's columns are called on a side, in the order of the new one."""
    return tuple(schema.by_id[field.id].name for field in new.key.fields)


def _alike_once(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return each of some rows of a source once, and how often it is there."""
    order, starts = _runs(rows.column("key").to_numpy(), rows.column("row").to_numpy())
    counts = np.diff(starts, append=rows.num_rows).astype(np.int32)
    once = pc.take(rows, arrow_array(order[starts]))
    return once.set_column(once.schema.get_field_index("times"), "times", arrow_array(counts))


@kernel
def differing(
    pieces: Sequence[tuple[int, Task]], first_new: int, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yield places of rows that one side has more often, as pieces for who fetches each source.

    Sources from `first_new` on are those of the new side; `groups` says who fetches each.
    """
    batches = [batch for _, task in pieces for batch in run_task(task)]
    if not batches:
        return
    # In one order, however they come, so that another run chooses the same of rows alike.
    batches.sort(
        key=lambda batch: (batch.column("source")[0].as_py(), batch.column("pos")[0].as_py())
    )
    rows = _one(batches, _HASHES)
    found, times = _left(rows, rows.column("source").to_numpy() >= first_new)
    columns = [rows.column("source"), rows.column("pos"), None, rows.column("sample")]
    index = arrow_array(found)
    taken = [arrow_array(times) if each is None else pc.take(each, index) for each in columns]
    places = pa.RecordBatch.from_arrays(taken, schema=PLACES)
    for start in range(0, places.num_rows, _FLUSH_ROWS):
        yield from dealt_places(places.slice(start, _FLUSH_ROWS), groups)


def dealt_places(places: pa.RecordBatch, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield places as pieces for who fetches each source, as `groups` says."""
    yield from _dealt(places, np.array(groups, np.int32)[places.column("source").to_numpy()])


def _left(rows: pa.RecordBatch, is_new: npt.NDArray[np.bool_]) -> tuple[Positions, Any]:
    """Return which rows are left when as many are taken from either side, and how often."""
    order, starts = _runs(rows.column("key").to_numpy(), rows.column("row").to_numpy())
    weights = rows.column("times").to_numpy().astype(np.int64)[order]
    weights[~is_new[order]] *= -1
    more = np.add.reduceat(weights, starts)
    lengths = np.diff(starts, append=len(order))
    # Of each run, the rows of the side that has more, until there are as many as it has more.
    in_runs = np.repeat(more, lengths)
    chosen = np.flatnonzero((in_runs != 0) & ((in_runs > 0) == (weights > 0)))
    wanted, amounts = np.abs(in_runs[chosen]), np.abs(weights[chosen])
    run = np.repeat(np.arange(len(starts)), lengths)[chosen]
    before = np.cumsum(amounts) - amounts
    if len(before):
        firsts = np.flatnonzero(np.diff(run, prepend=-1))
        before -= np.repeat(before[firsts], np.diff(firsts, append=len(run)))
    times = np.clip(wanted - before, 0, amounts)
    kept = times > 0
    return order[chosen[kept]], times[kept].astype(np.int32)


def _runs(keys: Hashes, rows: Hashes) -> tuple[Positions, Positions]:
    """Return an order where rows with the same hashes are together, and where each run begins."""
    both = keys + rows * _ODD
    order = np.argsort(both)
    same = _as_before(both[order])
    keys, rows = keys[order], rows[order]
    if bool((same & ~(_as_before(keys) & _as_before(rows))).any()):
        # Other hashes have the same sum.
        again = np.lexsort((rows, keys))
        order, keys, rows = order[again], keys[again], rows[again]
        same = _as_before(keys) & _as_before(rows)
    return order, np.flatnonzero(~same)


def _as_before(values: Hashes) -> npt.NDArray[np.bool_]:
    """Return which values are those before them."""
    same = np.zeros(len(values), bool)
    np.equal(values[1:], values[:-1], out=same[1:])
    return same


def _one(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return batch


def _dealt(rows: pa.RecordBatch, parts: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    """Yield rows as pieces, one a batch, each for the part that a row's number says."""
    order = np.argsort(parts, kind="stable")
    found, starts = np.unique(parts[order], return_index=True)
    ordered = pa.Table.from_batches([pc.take(rows, arrow_array(order))])
    for part, start, end in zip(found, starts, [*starts[1:], len(order)], strict=True):
        yield piece_of(ordered.slice(start, end - start), int(part), _LEAN)


def samples_of(places: pa.Table) -> tuple[int, list[bytes]]:
    """Return how many rows are at some places, and the samples of their keys."""
    samples = pc.drop_null(places.column("sample")).to_pylist()
    return pc.sum(places.column("times")).as_py() or 0, samples
