"""Finding a few rows by key in files that are in a bucket and not here.

Of a file that holds none of the keys the key columns are read there, and of one that does the
row groups of the rows as well; of many keys, the whole file is read once, for its key cache. Rows
without a key are compared as wholes: of files and row groups that may have one, by their
statistics, all columns are read. Nothing comes here but key caches, so an edit of a few rows costs
a clone without data no file, in whatever order the rows of the table lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys, hash_rows
from havasu_vc.datasets.havasu.keys import Found, KeyCache, build_key_cache
from havasu_vc.datasets.havasu.parquet import read_row_groups, read_rows
from havasu_vc.datasets.havasu.ruling_out import groups_of_rows
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import among, arrow_array, distinct
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.store.object_systems import url_below
from havasu_vc.store.object_urls import is_url

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["FEW_KEYS", "find_there", "is_there", "where_rows_are"]

FEW_KEYS = 10_000
"""Keys beyond which key caches are made: who looks up many does so piece by piece, in the same
files."""
THREADS = 8


def find_there(
    dataset: DatasetInFiles,
    files: Iterable[tuple[Entry, Schema]],
    needles: Hashes,
    keys: pa.RecordBatch,
) -> dict[str, Found]:
    """Return what is found of a few keys in files that a bucket has, by file.

    `files` come with the columns that rows are hashed in. Those are left out that have to come:
    some may not be in the bucket. `keys` are whole rows where the table has no key.
    """
    from concurrent.futures import ThreadPoolExecutor

    asked = [(entry, schema, url) for entry, schema in files if (url := _url(dataset, entry))]

    def found(each: tuple[Entry, Schema, str]) -> Found | None:
        _, schema, url = each
        try:
            if dataset.key:
                return _find(url, schema, needles)
            return _find_rows(url, schema, needles, keys)
        except HavasuError:
            return None  # what is wrong is told when it comes

    with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-keys") as pool:
        answers = list(pool.map(found, asked))
    return {
        entry.file: answer
        for (entry, _, _), answer in zip(asked, answers, strict=True)
        if answer is not None
    }


def is_there(dataset: DatasetInFiles, entry: Entry) -> bool:
    """Whether a file is read in a bucket, as it is away as a rule."""
    return _url(dataset, entry) is not None


def where_rows_are(dataset: DatasetInFiles, entry: Entry) -> str:
    """Return where a few rows of a file are read: in the bucket, if it is not here."""
    return _url(dataset, entry) or dataset.file_path(entry)


def _url(dataset: DatasetInFiles, entry: Entry) -> str | None:
    """Return where a file is that is away as a rule; None where it is here, or in no bucket."""
    storage = dataset.storage
    url = None if entry.location is not None or storage.has(entry.file) else storage.bucket
    if url is None:
        return None
    place = dataset.place(entry.file)
    return place if is_url(place) else url_below(url, entry.file)


def _find(url: str, schema: Schema, needles: Hashes) -> Found:
    keys = [
        hash_keys(each, schema) for each in read_row_groups(url, schema.select(schema.key.names))
    ]
    hashes = np.concatenate([np.empty(0, np.uint64), *keys])
    found = build_key_cache(hashes, np.zeros(len(hashes), np.uint64)).find(needles)
    positions = distinct(found.positions)
    if not len(positions):
        return found
    rows = hash_rows(read_rows(url, schema, positions, threads=True), schema).rows
    return replace(found, rows=rows[np.searchsorted(positions, found.positions)])


def _find_rows(url: str, schema: Schema, needles: Hashes, rows: pa.RecordBatch) -> Found:
    """Return where whole rows are, reading the row groups that may have one."""
    groups = groups_of_rows(url, rows, schema)
    wanted, columns = distinct(needles), list(range(len(schema.fields)))
    keys, sums, places = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for batch in read_row_groups(url, schema, groups=groups, positions=True):
        cells = batch.select(columns)
        chosen = np.flatnonzero(among(hash_keys(cells, schema), wanted))
        hashed = hash_rows(pc.take(cells, arrow_array(chosen)), schema)
        keys.append(hashed.keys)
        sums.append(hashed.rows)
        places.append(batch.column(len(columns)).to_numpy()[chosen])
    alike = np.concatenate(keys)
    order = np.argsort(alike, kind="stable")
    positions = np.concatenate(places).astype(np.uint32)
    return KeyCache(alike[order], np.concatenate(sums)[order], positions[order]).find(needles)
