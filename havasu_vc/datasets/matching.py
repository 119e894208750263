"""Rows of two sides told apart by their hashes, wherever they lie: for tables in no common order.

    added, unlike, proposed   where rows with keys may be that differ, if these are few (`slots`)
    hashed, differing         where rows are that one side has and the other has not (`places`)
    fetched                   the rows at these places, dealt out by key
    picked                    or, where they are very few, fetched by who proposes them
    paired                    both sides of an interval of keys, walked through side by side

Only numbers of fixed length are shuffled for rows that are equal, or nothing at all, and only
rows that may differ are read a second time. Hashes propose, and rows decide: what is fetched is
compared by its keys and values. Rows without a key are alike on both sides as often as both have
them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import BATCH_ROWS, Cuts, SortedPieces, dealt
from havasu_vc.datasets.pairing import pair_rows, row_hashes, same_key
from havasu_vc.datasets.places import Positions, SideSource, differing, hashed, key_names
from havasu_vc.datasets.slots import (
    Chosen,
    Numbered,
    Slots,
    added,
    key_of,
    proposed,
    rows_in,
    slots_for,
    unlike,
)
from havasu_vc.datasets.sorting import first_from
from havasu_vc.errors import EngineError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "Comparison",
    "TaskSource",
    "fetched",
    "looked_at",
    "numbered_here",
    "paired",
    "picked",
    "with_changes",
]

PART_ROWS = 1 << 20
"""About how many rows of both sides have their hashes compared by one task."""
SAMPLE_SHARE = 1 << 10
"""One key in so many is told, so that keys can be cut into intervals."""
INTERVAL_BYTES = 32 << 20
"""About how many bytes of rows that differ one task pairs."""
FETCH_BYTES = 128 << 20
"""About how many bytes of sources one task fetches rows from."""
_DENSE = 8
"""Rows to be picked of a batch, about, from which on all row groups are read anyway."""
_SWELL = 3
"""How many times as large rows are in memory, about, as in a file."""
_ROW_HASH = "\0hash"
_SIDE = b"side"
_ALL = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class TaskSource:
    """The rows of a task."""

    task: Task
    """Yields the same rows in the same order whenever it is run."""
    count: int
    """About how many."""
    size: int
    """About how many bytes."""

    def numbered(self, schema: Schema, wanted: Positions | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, of which only some may be `wanted`, with their numbers in a last column."""
        target = arrow_schema(schema)
        batches = (batch.select(target.names).cast(target) for batch in run_task(self.task))
        yield from numbered_here(batches, wanted)


def numbered_here(
    batches: Iterator[pa.RecordBatch], wanted: Positions | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows with their numbers, counted as they come."""
    start = 0
    for batch in batches:
        end = start + batch.num_rows
        numbers = np.arange(start, end, dtype=np.int64)
        if wanted is not None:
            numbers = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, end)]
            batch = pc.take(batch, arrow_array(numbers - start))
        start = end
        yield batch.append_column("_pos", arrow_array(numbers))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides whose rows are to be matched."""

    old: tuple[SideSource, ...]
    """The old side."""
    new: tuple[SideSource, ...]
    """The new side."""
    old_schema: Schema
    """The old side's columns."""
    new_schema: Schema
    """The new side's columns."""
    look: Task | None = None
    """A task that looks at changes, which its first argument yields: what it yields of those of
    each interval comes instead of them."""

    @property
    def keyed(self) -> bool:
        """Whether rows have keys, by which they are matched."""
        return same_key(self.old_schema, self.new_schema)

    @property
    def count(self) -> int:
        """About how many rows both sides have."""
        return sum(each.count for each in self._sources)

    @property
    def _sources(self) -> tuple[SideSource, ...]:
        return (*self.old, *self.new)

    def hashing(self) -> tuple[list[Task], list[Task]]:
        """Return the tasks that deal hashes out, and their owners, who deal out for `fetching`."""
        schemas = (self.old_schema, self.new_schema)
        parts = self.count // PART_ROWS + 1
        dealing = [
            task_of(hashed, n, source, *schemas, n >= len(self.old), SAMPLE_SHARE, parts)
            for n, source in enumerate(self._sources)
        ]
        return dealing, [task_of(differing, (), len(self.old), self._fetchers())] * parts

    def adding(self, tasks: int, owners: int) -> tuple[list[Task], list[Task]]:
        """Return at most so many tasks that add hashes up in slots, and owners of the slots."""
        schemas, bits = (self.old_schema, self.new_schema), slots_for(self.count)
        adding = [
            task_of(added, sources, *schemas, bits, owners) for sources in self._shares(tasks)
        ]
        return adding, [task_of(unlike, (), owner, owners, bits) for owner in range(owners)]

    def picking(self, tasks: int, slots: Slots) -> list[Task] | None:
        """Return at most so many tasks that fetch the rows in some slots, if these are very few.

        That is if they are an interval and no more, so that no cut between keys need be known.
        """
        bits = slots_for(self.count)
        if self._intervals(len(slots) * self.count >> bits) > 1:
            return None
        schemas = (self.old_schema, self.new_schema)
        return [
            task_of(picked, sources, *schemas, (bits, slots)) for sources in self._shares(tasks)
        ]

    def proposing(self, tasks: int, slots: Slots) -> list[Task]:
        """Return at most so many tasks that deal out, for `fetching`, the places in some slots."""
        schemas, chosen = (self.old_schema, self.new_schema), (slots_for(self.count), slots)
        return [
            task_of(proposed, sources, *schemas, SAMPLE_SHARE, chosen, self._fetchers())
            for sources in self._shares(tasks)
        ]

    def cuts(self, samples: Sequence[bytes], count: int) -> tuple[Any, ...]:
        """Return where keys of so many rows that differ are cut, from samples of them."""
        wanted = self._intervals(count) - 1
        if not self.keyed:
            # Hashes lie evenly.
            return tuple((_ALL // (wanted + 1)) * (number + 1) for number in range(wanted))
        values = sorted(v for v in map(pickle.loads, samples) if v == v)
        found = {values[len(values) * n // (wanted + 1)] for n in range(1, wanted + 1) if values}
        return tuple(sorted(found))

    def _intervals(self, count: int) -> int:
        """Return in how many intervals so many rows are paired."""
        width = sum(each.size for each in self._sources) // max(self.count, 1)
        return count * (width + 1) * _SWELL // INTERVAL_BYTES + 1

    def fetching(self, cuts: tuple[Any, ...]) -> list[Task]:
        """Return the tasks that fetch rows."""
        schemas = (self.old_schema, self.new_schema)
        return [task_of(fetched, (), group, *schemas, cuts) for group in self._groups()]

    def _shares(self, tasks: int) -> list[list[Numbered]]:
        """Return the sources in at most so many shares of about the same size, the large first."""
        shares: list[list[Numbered]] = [[] for _ in range(min(tasks, len(self._sources)))]
        sizes = [0] * len(shares)
        sources = [(n, each, n >= len(self.old)) for n, each in enumerate(self._sources)]
        for number, source, is_new in sorted(sources, key=lambda each: -each[1].size):
            least = sizes.index(min(sizes))
            shares[least].append((number, source, is_new))
            sizes[least] += source.size
        return shares

    def _fetchers(self) -> list[int]:
        """Return which task fetches from each source."""
        return [group for group, held in enumerate(self._groups()) for _ in held]

    def _groups(self) -> list[dict[int, tuple[SideSource, bool]]]:
        """Return which sources each task fetches from, by number, and whether they are new."""
        groups: list[dict[int, tuple[SideSource, bool]]] = []
        room = 0
        for number, source in enumerate(self._sources):
            if not groups or room < source.size:
                groups.append({})
                room = FETCH_BYTES
            groups[-1][number] = (source, number >= len(self.old))
            room -= source.size
        return groups

    def pairing(self, cuts: tuple[Any, ...]) -> list[Task]:
        """Return the task of each interval of keys that pairs its rows."""
        task = task_of(paired, (), self.old_schema, self.new_schema)
        if self.look is not None:
            task = task_of(looked_at, (), task, self.look)
        return [task] * (len(cuts) + 1)


@kernel
def fetched(
    pieces: Sequence[tuple[int, Task]],
    sources: Mapping[int, tuple[SideSource, bool]],
    old: Schema,
    new: Schema,
    cuts: tuple[Any, ...],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at some places as pieces, dealt out by key."""
    batches = [batch for _, task in pieces for batch in run_task(task)]
    if not batches:
        return
    places = pa.Table.from_batches(batches)
    numbers, positions, times = (
        places.column(name).to_numpy() for name in ("source", "pos", "times")
    )
    for side in (False, True):
        schema = new if side else old

        def rows(side: bool = side, schema: Schema = schema) -> Iterator[pa.RecordBatch]:
            for number, (source, is_new) in sources.items():
                if is_new is side:
                    here = numbers == number
                    yield from _found(source, schema, positions[here], times[here])

        keyed = same_key(old, new)
        found = (_marked(batch, schema, new, side, keyed) for batch in rows())
        names = key_names(schema, new) if keyed else (_ROW_HASH,)
        yield from dealt(found, Cuts(names, cuts))


@kernel
def picked(
    sources: Sequence[Numbered], old: Schema, new: Schema, slots: Chosen
) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose keys choose some slots as pieces for the one who pairs all."""
    for _, source, is_new in sources:
        schema = new if is_new else old
        rows = _picked_rows(source, schema, slots)
        marked = (_marked(batch, schema, new, is_new, keyed=True) for batch in rows)
        yield from dealt(marked, Cuts(key_names(schema, new), ()))


def _picked_rows(source: SideSource, schema: Schema, slots: Chosen) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose keys choose some slots; where these are rare, keys are read first."""
    bits, wanted = slots
    if len(wanted) * BATCH_ROWS >> bits >= _DENSE:
        for batch, _ in rows_in(source, schema, slots):
            yield batch.select(range(batch.num_columns - 1))
        return
    found = [
        batch.column(batch.num_columns - 1).to_numpy()
        for batch, _ in rows_in(source, key_of(schema), slots)
    ]
    numbers = np.concatenate(found) if found else np.zeros(0, np.int64)
    yield from _found(source, schema, numbers, np.ones(len(numbers), np.int32))


def _found(
    source: SideSource, schema: Schema, wanted: Positions, times: npt.NDArray[np.int32]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source at some positions, each so many times."""
    order = np.argsort(wanted)
    wanted, times = wanted[order], times[order]
    if not len(wanted):
        return
    count = 0
    for batch in source.numbered(schema, wanted):
        rows = batch.select(range(batch.num_columns - 1))
        yield from _repeated(rows, times[count : count + batch.num_rows])
        count += batch.num_rows
    if count != len(wanted):
        raise EngineError(f"{count:,} of {len(wanted):,} rows are where they were; run again")


def _repeated(rows: pa.RecordBatch, times: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    """Yield each row so many times."""
    if len(times) == rows.num_rows and bool((times == 1).all()):
        yield rows
        return
    ends = np.cumsum(times, dtype=np.int64)
    for start in range(0, int(ends[-1]) if len(ends) else 0, BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, int(ends[-1])))
        yield pc.take(rows, arrow_array(np.searchsorted(ends, numbers, "right")))


def _marked(
    batch: pa.RecordBatch, schema: Schema, new: Schema, is_new: bool, keyed: bool
) -> pa.RecordBatch:
    """Return rows that say of which side they are, and without a key how they are ordered."""
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=arrow_schema(schema))
    if not keyed:
        batch = batch.append_column(_ROW_HASH, arrow_array(row_hashes(batch, schema, new)))
    return batch.replace_schema_metadata({_SIDE: b"new" if is_new else b"old"})


@kernel
def paired(
    pieces: Sequence[tuple[int, Task]], old: Schema, new: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between the rows of both sides, in key order."""
    keyed = same_key(old, new)
    sides: tuple[list[Iterator[pa.RecordBatch]], ...] = ([], [])
    for _, task in pieces:
        stream = run_task(task)
        first = next(stream)
        is_new = first.schema.metadata[_SIDE] == b"new"
        sides[is_new].append(chain((first,), stream))
    names = [key_names(schema, new) if keyed else (_ROW_HASH,) for schema in (old, new)]
    olds, news = (SortedPieces(side, each) for side, each in zip(sides, names, strict=True))
    for bound, some in olds.below(None):
        before = some
        for limit, after in news.below(bound):
            first_rows, before = _parted(before, names[0][0], limit)
            rows = _plain(first_rows, old), _plain(after, new)
            for changes in pair_rows(*rows, old, new):
                yield changes.data


@kernel
def looked_at(
    pieces: Sequence[tuple[int, Task]], pairing: Task, look: Task
) -> Iterator[pa.RecordBatch]:
    """Yield what a task says of the changes that another finds in the pieces of an interval."""
    changes = replace(pairing, arguments=(pieces, *pairing.arguments[1:]))
    yield from run_task(with_changes(look, changes))


def with_changes(look: Task, changes: Task) -> Task:
    """Return a task that looks at changes, at those that another yields."""
    return replace(look, arguments=(changes, *look.arguments[1:]))


def _parted(
    rows: pa.RecordBatch | None, name: str, limit: Any | None
) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
    """Return the rows below a limit, and the others."""
    if rows is None or limit is None:
        return rows, None
    end = first_from(rows.column(name), limit)
    return rows.slice(0, end), rows.slice(end)


def _plain(rows: pa.RecordBatch | None, schema: Schema) -> pa.RecordBatch:
    target = arrow_schema(schema)
    if rows is None:
        return pa.RecordBatch.from_pylist([], schema=target)
    return pa.RecordBatch.from_arrays(rows.columns[: len(target)], schema=target)
