"""Rows of two sides told apart by their hashes, wherever they lie: for tables in no common order.

    hashed     every row as a hash of its key, a hash of all of it, and its place
    places     of rows whose key is on one side alone, or whose hashes differ: an engine's join
    fetched    the rows at these places, dealt out by key
    paired     both sides of an interval of keys, walked through side by side

Only numbers of fixed length are shuffled for rows that are equal, and only rows that differ
are read a second time. Hashes propose, and rows decide: what is fetched is compared by its
keys and values. Rows without a key go by the hash of the whole row, and as many of them are
alike on both sides as both have.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, SortedPieces, dealt
from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.pairing import comparable, pair_rows, row_hashes, same_key
from havasu_vc.datasets.sorting import first_from
from havasu_vc.errors import EngineError
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "HASHES",
    "PLACES",
    "Comparison",
    "SideSource",
    "TaskSource",
    "fetched",
    "hashed",
    "looked_at",
    "numbered_here",
    "paired",
    "with_changes",
]

Positions = npt.NDArray[np.int64]

HASHES = pa.schema(
    [
        ("key", pa.int64()),
        ("row", pa.int64()),
        ("source", pa.int32()),
        ("pos", pa.int64()),
        ("sample", pa.binary()),
    ]
)
"""Facts of each row: hashes, where it is, and of some the first value of the key."""
PLACES = pa.schema([("source", pa.int32()), ("pos", pa.int64())])
"""Where rows are: which source, and which of its rows."""
SAMPLE_SHARE = 1 << 10
"""One key in so many is told, so that keys can be cut into intervals."""
INTERVAL_BYTES = 32 << 20
"""About how many bytes of rows that differ one task pairs."""
FETCH_BYTES = 128 << 20
"""About how many bytes of sources one task fetches rows from."""
_SWELL = 3
"""How many times as large rows are in memory, about, as in a file."""
_ROW_HASH = "\0hash"
_SIDE = b"side"
_ALL = (1 << 64) - 1


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
        yield from numbered_here((batch.cast(target) for batch in run_task(self.task)), wanted)


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

    def hashing(self, is_new: bool) -> list[Task]:
        """Return the tasks that tell the hashes of one side."""
        schemas = (self.old_schema, self.new_schema)
        first, sources = (len(self.old), self.new) if is_new else (0, self.old)
        return [
            task_of(hashed, number, source, *schemas, is_new, SAMPLE_SHARE)
            for number, source in enumerate(sources, first)
        ]

    def cuts(self, samples: Sequence[bytes], count: int) -> tuple[Any, ...]:
        """Return where keys of so many rows that differ are cut, from samples of them."""
        sources = (*self.old, *self.new)
        width = sum(each.size for each in sources) // max(sum(each.count for each in sources), 1)
        wanted = count * (width + 1) * _SWELL // INTERVAL_BYTES
        if not self.keyed:
            # Hashes lie evenly.
            return tuple((_ALL // (wanted + 1)) * (number + 1) for number in range(wanted))
        values = sorted(v for v in map(pickle.loads, samples) if v == v)
        found = {values[len(values) * n // (wanted + 1)] for n in range(1, wanted + 1) if values}
        return tuple(sorted(found))

    def fetching(self, cuts: tuple[Any, ...]) -> tuple[list[int], list[Task]]:
        """Return which task fetches rows of each source, and these tasks."""
        numbers: list[int] = []
        groups: list[dict[int, tuple[SideSource, bool]]] = []
        room = 0
        for number, source in enumerate((*self.old, *self.new)):
            if not groups or room < source.size:
                groups.append({})
                room = FETCH_BYTES
            groups[-1][number] = (source, number >= len(self.old))
            room -= source.size
            numbers.append(len(groups) - 1)
        schemas = (self.old_schema, self.new_schema)
        return numbers, [task_of(fetched, (), group, *schemas, cuts) for group in groups]

    def pairing(self, cuts: tuple[Any, ...]) -> list[Task]:
        """Return the task of each interval of keys that pairs its rows."""
        task = task_of(paired, (), self.old_schema, self.new_schema)
        if self.look is not None:
            task = task_of(looked_at, (), task, self.look)
        return [task] * (len(cuts) + 1)


@kernel
def hashed(
    number: int, source: SideSource, old: Schema, new: Schema, is_new: bool, share: int
) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of a source's rows."""
    schema = new if is_new else old
    keyed = same_key(old, new)
    names, compared = _compared(old, new, is_new, keyed)
    for batch in source.numbered(schema, None):
        positions = batch.column(batch.num_columns - 1)
        hashes = hash_rows(batch.select(names), compared)
        sample = pa.nulls(batch.num_rows, pa.binary())
        if keyed:
            first = batch.column(_key_names(schema, new)[0])
            told = hashes.keys <= np.uint64(_ALL // share)
            values = [pickle.dumps(v) for v in pc.filter(first, arrow_array(told)).to_pylist()]
            sample = pc.replace_with_mask(sample, arrow_array(told), pa.array(values, pa.binary()))
        columns = [
            arrow_array(hashes.keys.view(np.int64)),
            arrow_array(hashes.rows.view(np.int64)),
            pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows),
            positions,
            sample,
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=HASHES)


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


def _key_names(schema: Schema, new: Schema) -> tuple[str, ...]:
    """Return what the key's columns are called on a side, in the order of the new one."""
    return tuple(schema.by_id[field.id].name for field in new.key.fields)


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
    numbers = places.column("source").to_numpy()
    positions = places.column("pos").to_numpy()
    for side in (False, True):
        schema = new if side else old

        def rows(side: bool = side, schema: Schema = schema) -> Iterator[pa.RecordBatch]:
            for number, (source, is_new) in sources.items():
                if is_new is side:
                    # Where hashes of keys are equal by chance, a place comes more than once.
                    wanted = np.unique(positions[numbers == number])
                    yield from _found(source, schema, wanted)

        keyed = same_key(old, new)
        found = (_marked(batch, schema, new, side, keyed) for batch in rows())
        names = _key_names(schema, new) if keyed else (_ROW_HASH,)
        yield from dealt(found, Cuts(names, cuts))


def _found(source: SideSource, schema: Schema, wanted: Positions) -> Iterator[pa.RecordBatch]:
    if not len(wanted):
        return
    count = 0
    for batch in source.numbered(schema, wanted):
        count += batch.num_rows
        yield batch.select(range(batch.num_columns - 1))
    if count != len(wanted):
        raise EngineError(f"{count:,} of {len(wanted):,} rows are where they were; run again")


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
    names = [_key_names(schema, new) if keyed else (_ROW_HASH,) for schema in (old, new)]
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
