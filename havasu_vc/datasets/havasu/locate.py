"""Finding rows by key: which live row of which data file has a key.

Files whose range of keys cannot hold any are passed over by their entries alone. In
the others the key cache answers; when it is missing it is built from the file once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys, hash_rows
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.keys import (
    DamagedKeyCache,
    Found,
    KeyCache,
    LastLookUp,
    build_key_cache,
    key_cache_path,
    open_key_cache,
    write_key_cache,
)
from havasu_vc.datasets.havasu.locate_there import (
    FEW_KEYS,
    find_there,
    is_there,
    where_rows_are,
)
from havasu_vc.datasets.havasu.parquet import one_batch, read_row_groups, read_rows
from havasu_vc.datasets.havasu.ruling_out import files_of_rows
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import among, distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import Field, Struct
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = [
    "Hits",
    "count_apart",
    "find_in",
    "locate",
    "may_hold",
    "plan_rows",
    "rows_with_keys",
    "shared_fields",
    "shared_schema",
    "sound_key_cache",
]


FILES_AT_ONCE = 2
"""Files of a bucket that are read as wholes side by side: a row group of each is held."""
ROWS_AT = "havasu_vc.datasets.havasu.kernels:rows_at"


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows of one data file whose keys were looked up."""

    entry: Entry
    """The data file."""
    found: Found
    """Which keys, where, and what the rows hash to; live rows only."""


def locate(dataset: DatasetInFiles, needles: Hashes, keys: pa.RecordBatch) -> Iterator[Hits]:
    """Yield the live rows whose key hashes are among `needles`, file by file.

    `keys` are the keys themselves, which lets files be passed over by their range; without a key
    they are whole rows.
    """
    if not len(needles):
        return
    entries = entries_holding(dataset, keys)
    if dataset.storage.fetcher is not None:
        _bring(dataset, [e for e in entries if not _is_cached(dataset, e)], needles, keys)
    for entry in entries:
        found = find_in(dataset, entry, needles)
        if not len(found.positions):
            continue
        deletes = dataset.deletes.get(entry.file, ())
        paths = tuple(where_rows_are(dataset, each) for each in deletes)
        if (deleted := deleted_positions(entry.file, paths)) is not None:
            live = ~among(found.positions, deleted)
            found = Found(found.needles[live], found.positions[live], found.rows[live])
        if len(found.positions):
            yield Hits(entry, found)


def _bring(
    dataset: DatasetInFiles,
    entries: Sequence[Entry],
    needles: Hashes,
    keys: pa.RecordBatch,
) -> None:
    """Bring files whose keys are not known here, but for what is found of a few keys elsewhere."""
    if not dataset.storage.on_demand:
        dataset.bring(entries)
        return
    if len(needles) > FEW_KEYS:
        dataset.bring(_not_cached_there(dataset, entries))
        return
    last, names = _last(dataset), {}
    for entry in entries:
        schema = shared_schema(dataset, entry)
        names[entry.file] = key_cache_path(dataset.storage.keys, entry.file, schema).name
    if all(last.knows(name, needles) for name in names.values()):
        return
    schemas = ((entry, shared_schema(dataset, entry)) for entry in entries)
    there = find_there(dataset, schemas, needles, keys)
    dataset.bring(entry for entry in entries if entry.file not in there)
    for file, found in there.items():
        last.keep(names[file], needles, found)


def _not_cached_there(dataset: DatasetInFiles, entries: Sequence[Entry]) -> list[Entry]:
    """Make key caches of files as they are read in a bucket; return those that have to come.

    Many keys are looked up piece by piece, which is served by the caches from then on.
    """
    from concurrent.futures import ThreadPoolExecutor

    def is_cached(entry: Entry) -> bool:
        if not is_there(dataset, entry):
            return False
        with suppress(HavasuError):  # what is wrong is told when it comes
            sound_key_cache(dataset, entry)
        return _is_cached(dataset, entry)

    with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="havasu-keys") as pool:
        made = list(pool.map(is_cached, entries))
    return [entry for entry, is_made in zip(entries, made, strict=True) if not is_made]


def _last(dataset: DatasetInFiles) -> LastLookUp:
    last: LastLookUp = dataset.storage.memory.setdefault("last look-up", LastLookUp())
    return last


def entries_holding(dataset: DatasetInFiles, keys: pa.RecordBatch) -> tuple[Entry, ...]:
    """Return the data files that may have a row with one of some keys, or one of whole rows."""
    schema = dataset.schema
    if not schema.key:
        written = {entry.schema for entry in dataset.data_entries}
        schemas = {name: dataset.past_schema(name) for name in written}
        return files_of_rows(dataset.data_entries, keys, schema, lambda e: schemas[e.schema])
    found = dataset.data_entries_where(lambda record: record.holding(keys, schema))
    return tuple(entry for entry in found if may_hold(entry, keys, schema))


def _is_cached(dataset: DatasetInFiles, entry: Entry) -> bool:
    schema = shared_schema(dataset, entry)
    return key_cache_path(dataset.storage.keys, entry.file, schema).exists()


def plan_rows(
    view: DatasetInFiles, keys: tuple[tuple[Any, ...], ...], columns: Sequence[str] | None
) -> list[Task]:
    """Return tasks that yield the rows with some keys."""
    wanted = arrow_schema(view.schema.select(view.key.names))
    rows = [dict(zip(view.key.names, key, strict=True)) for key in keys]
    needles = pa.RecordBatch.from_pylist(rows, schema=wanted)
    schema = view.schema if columns is None else view.schema.select(tuple(columns))
    return [
        Task(
            ROWS_AT,
            (
                where_rows_are(view, hits.entry),
                schema,
                tuple(distinct(hits.found.positions).tolist()),
            ),
        )
        for hits in locate(view, hash_keys(needles, view.schema), needles)
    ]


def find_in(dataset: DatasetInFiles, entry: Entry, needles: Hashes) -> Found:
    """Return which rows of one data file have keys that hash so, deleted rows included."""
    schema = shared_schema(dataset, entry)
    path = key_cache_path(dataset.storage.keys, entry.file, schema)

    def look(needles: Hashes) -> Found:
        cache = open_key_cache(path)
        if cache is not None:
            try:
                return cache.find(needles)
            except DamagedKeyCache:
                path.unlink(missing_ok=True)
        return _rebuilt(dataset, entry, schema, path).find(needles)

    return _last(dataset).find(path.name, needles, look)


def sound_key_cache(dataset: DatasetInFiles, entry: Entry) -> KeyCache:
    """Return the key cache of a data file, checked as a whole and built if need be."""
    schema = shared_schema(dataset, entry)
    path = key_cache_path(dataset.storage.keys, entry.file, schema)
    cache = open_key_cache(path)
    if cache is not None:
        try:
            cache.check_all()
        except DamagedKeyCache:
            path.unlink(missing_ok=True)
        else:
            return cache
    return _rebuilt(dataset, entry, schema, path)


def _rebuilt(dataset: DatasetInFiles, entry: Entry, schema: Schema, path: Path) -> KeyCache:
    cache = _build(dataset, entry, schema)
    with suppress(OSError):  # it only spares work next time; the repository may be read-only
        write_key_cache(path, cache)
    # Mapped, so that many caches need no memory.
    return open_key_cache(path) or cache


def shared_schema(dataset: DatasetInFiles, entry: Entry) -> Schema:
    """Return the columns of the dataset that a file has; the others are null in it."""
    return _shared(dataset.schema, dataset.past_schema(entry.schema))


@lru_cache(maxsize=64)
def _shared(schema: Schema, past: Schema) -> Schema:
    written = past.ids
    return Schema(shared_fields(schema.fields, written), schema.identifier_ids)


def shared_fields(fields: tuple[Field, ...], written: Set[int]) -> tuple[Field, ...]:
    """Return the fields whose ids are among `written`, at any depth."""
    return tuple(
        replace(field, type=Struct(shared_fields(field.type.fields, written)))
        if isinstance(field.type, Struct) and field.type.fields
        else field
        for field in fields
        if field.id in written
    )


def _build(dataset: DatasetInFiles, entry: Entry, schema: Schema) -> KeyCache:
    keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in read_row_groups(where_rows_are(dataset, entry), schema):
        hashed = hash_rows(batch, schema)
        keys.append(hashed.keys)
        rows.append(hashed.rows)
    return build_key_cache(np.concatenate(keys), np.concatenate(rows))


def may_hold(entry: Entry, keys: pa.RecordBatch, schema: Schema) -> bool:
    """Whether the range of a file's keys may hold one of `keys`."""
    field = schema.key.fields[0] if schema.key else None
    statistics = entry.statistics.get(field.id) if field is not None else None
    if field is None or statistics is None or statistics.lower is None or statistics.upper is None:
        return True
    column = keys.column(field.name)
    if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
        return True
    if len(column) == 1:
        key: Any = column[0].as_py()
        return bool(statistics.lower <= key <= statistics.upper)
    lower = pa.scalar(statistics.lower, column.type)
    upper = pa.scalar(statistics.upper, column.type)
    inside = pc.and_(pc.greater_equal(column, lower), pc.less_equal(column, upper))
    return bool(pc.any(inside).as_py())


def rows_with_keys(dataset: DatasetInFiles, keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return the live rows whose keys are among some, reading only the row groups they are in.

    `keys` has the key columns in stored types. Rows come in no particular order, and rarely
    one comes whose key only hashes alike.
    """
    pieces = [
        read_rows(
            where_rows_are(dataset, hits.entry),
            dataset.schema,
            distinct(hits.found.positions),
            threads=True,
        )
        for hits in locate(dataset, hash_keys(keys, dataset.schema), keys)
    ]
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=arrow_schema(dataset.schema))
    return one_batch(pieces)


def count_apart(
    dataset: DatasetInFiles, keys: pa.RecordBatch, rows: pa.RecordBatch
) -> ChangeCounts | None:
    """Return how many rows differ where those with some keys became `rows`, by their hashes.

    Key caches have the hash of each row, so no data file is read. None where two keys hash alike.
    """
    needles = hash_keys(keys, dataset.schema)
    became = hash_rows(rows, dataset.schema)
    if len(distinct(needles)) != len(needles):
        return None
    hits = [(hit.found.needles, hit.found.rows) for hit in locate(dataset, needles, keys)]
    none = (np.empty(0, np.int64), np.empty(0, np.uint64))
    which, before = (np.concatenate(side) for side in zip(none, *hits, strict=True))
    if len(distinct(which)) != len(which):
        return None
    then, there = np.zeros(len(needles), np.uint64), np.zeros(len(needles), bool)
    then[which], there[which] = before, True
    order = np.argsort(needles)
    place = order[np.searchsorted(needles, became.keys, sorter=order)]
    updates = int((there[place] & (then[place] != became.rows)).sum())
    both = int(there[place].sum())
    return ChangeCounts(inserts=len(place) - both, updates=updates, deletes=int(there.sum()) - both)
