"""Columns of a table from elsewhere that can be its key: unique, and never null.

Tasks read the columns that are asked about, on threads or on executors, and deal out hashes of
their values by the hashes themselves. Each owner has an interval of one column's hashes and says
whether one of them came twice. So no process holds the values of a column, and whoever asks
hears one line of each owner. A task stops reading a column when it sees a null or a value twice,
which most columns have in their first rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.dealing import piece_of
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import KeyViolationError
from havasu_vc.exchange.source import Source
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.hashing import Hashes, hash_values
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Primitive

__all__ = ["likely_key", "possible_keys"]

MOST_CANDIDATES = 6
"""Columns that are looked at for a key."""
OWNER_ROWS = 1 << 22
"""About how many hashes an owner has."""
FLUSH_ROWS = 1 << 20
"""Hashes of a column that a task collects before it deals them out."""
_TWICE = np.zeros(2, np.uint64)
"""Hashes that tell an owner what a task found out: that its column is no key."""
_IDENTIFIER = re.compile(
    r"(^|_)(id|fid|gid|oid|pk|uuid|guid|key|code|nr|no|num|number|iso(_?[an]?[23])?)$|id$",
    re.IGNORECASE,
)


def possible_keys(
    source: Source, engine: Engine, *, most: int | None = None, anywhere: bool = False
) -> tuple[str, ...]:
    """Return columns whose values are unique and never null, those that are called so first.

    Of a table with more than `most` rows about so many are looked at, some of each task; where
    nobody knows how many it has, so many of each. Tasks that need no file of this machine may
    run `anywhere`.
    """
    names = _candidates(source.schema)
    tasks = source.tasks(list(names)) if names else []
    if not tasks:
        return ()
    what = "Looking for a key"
    looking = [task_of(still_possible, tasks[0], source.schema, names)]
    with closing(engine.run(looking, description=what, anywhere=anywhere)) as batches:
        for batch in batches:
            names = tuple(batch.column("name").to_pylist())
    if not names:
        return ()
    rows, limit = source.rows, most
    if rows is not None and most is not None:
        limit = None if rows <= most else -(-most // len(tasks))
    parts = max(len(tasks) if rows is None else rows // OWNER_ROWS, 1)
    tasks = source.tasks(list(names))
    dealing = [task_of(deal_hashes, task, source.schema, names, parts, limit) for task in tasks]
    owners = [task_of(own_hashes, (), name) for name in names for _ in range(parts)]
    counts, doubled = dict.fromkeys(names, 0), set[str]()
    for batch in engine.run_dealt(dealing, owners, description=what, anywhere=anywhere):
        name = batch.column("name")[0].as_py()
        counts[name] += batch.column("rows")[0].as_py()
        if batch.column("twice")[0].as_py():
            doubled.add(name)
    return tuple(name for name in names if counts[name] and name not in doubled)


def likely_key(source: Source, path: str, engine: Engine, *, anywhere: bool = False) -> str:
    """Return the likeliest column that can be the key of what becomes a dataset."""
    possible = possible_keys(source, engine, anywhere=anywhere)
    if not possible:
        raise KeyViolationError(
            f"{path}: no column of it can be the key: unique, and never null",
            hints=(
                "name several columns with --primary-key A,B, or import it with --no-primary-key",
            ),
        )
    return possible[0]


def _candidates(schema: Schema) -> tuple[str, ...]:
    """Return the columns that are looked at, those first that are called as keys are."""
    found = [
        (_IDENTIFIER.search(field.name) is None, field.name)
        for field in schema.fields
        if field.geometry is None
        and (
            field.type in (Primitive.INT, Primitive.LONG)
            or (field.type is Primitive.STRING and _IDENTIFIER.search(field.name))
        )
    ]
    found.sort(key=lambda each: each[0])
    return tuple(name for _, name in found[:MOST_CANDIDATES])


@kernel
def still_possible(task: Task, schema: Schema, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the columns that can be a key by the first rows of a task, all where it has none."""
    first = next((batch for batch in run_task(task) if batch.num_rows), None)
    if first is not None:
        names = tuple(name for name in names if _sorted_hashes([first], schema, name) is not None)
    yield pa.record_batch({"name": pa.array(names, pa.string())})


@kernel
def deal_hashes(
    task: Task, schema: Schema, names: tuple[str, ...], parts: int, most: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of columns as pieces for their owners, which are `parts` for each column.

    Of a column that turns out to be no key they end with what says so.
    """
    waiting: list[pa.RecordBatch] = []
    left, count, seen = set(names), 0, 0
    for batch in run_task(task):
        if most is not None:
            batch = batch.slice(0, most - seen)
        waiting.append(batch)
        count += batch.num_rows
        seen += batch.num_rows
        if count >= FLUSH_ROWS:
            yield from _dealt(waiting, schema, names, parts, left)
            waiting, count = [], 0
        if not left or seen == most:
            break
    if count:
        yield from _dealt(waiting, schema, names, parts, left)


def _dealt(
    batches: Sequence[pa.RecordBatch],
    schema: Schema,
    names: Sequence[str],
    parts: int,
    left: set[str],
) -> Iterator[pa.RecordBatch]:
    """Yield pieces of some rows; of the columns that are `left` those go that are no key."""
    cuts = np.array([(number << 64) // parts for number in range(1, parts)], np.uint64)
    for place, name in enumerate(names):
        if name not in left:
            continue
        hashes = _sorted_hashes(batches, schema, name)
        if hashes is None:
            left.discard(name)
            hashes = _TWICE
        edges = [0, *np.searchsorted(hashes, cuts).tolist(), len(hashes)]
        for part, (start, end) in enumerate(pairwise(edges)):
            if end > start:
                column = pa.table({"hash": arrow_array(hashes[start:end])})
                yield piece_of(column, place * parts + part)


def _sorted_hashes(batches: Sequence[pa.RecordBatch], schema: Schema, name: str) -> Hashes | None:
    """Return the hashes of a column in order; None if a value is null or there twice."""
    if any(batch.column(name).null_count for batch in batches):
        return None
    field = schema.by_name[name]
    hashes = np.concatenate([hash_values(batch.column(name), field) for batch in batches])
    hashes.sort()
    return None if _has_twins(hashes) else hashes


def _has_twins(hashes: Hashes) -> bool:
    """Whether hashes in order have one that is there twice."""
    return bool((hashes[1:] == hashes[:-1]).any())


@kernel
def own_hashes(pieces: tuple[tuple[int, Task], ...], name: str) -> Iterator[pa.RecordBatch]:
    """Yield how many hashes of a column were dealt, and whether one of them came twice."""
    parts = [batch.column("hash").to_numpy() for _, task in pieces for batch in run_task(task)]
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    hashes.sort()
    yield pa.record_batch({"name": [name], "rows": [len(hashes)], "twice": [_has_twins(hashes)]})
