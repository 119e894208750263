"""Rows of a dataset page by page, in the order of their keys, at any revision.

A page is found by its place among the sorted keys, so that a reader can jump to the middle of
a million rows. The sorted keys of a few tables are remembered by the id of the dataset's tree,
under which nothing ever changes. Beyond `MOST_SORTED` rows, and without a key, rows come in the
order of the files.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import RowNotFoundError
from havasu_vc.history.blame import ChosenRows
from havasu_vc.looking.placing import Box, RowPlaces, row_places
from havasu_vc.looking.requests import PageRequest
from havasu_vc.looking.tables import Table
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.records import dataclass
from havasu_vc.repo.filters import keys_batch
from havasu_vc.repo.opened import OpenRepo

__all__ = ["RowPage", "read_page"]

MOST_SORTED = 1 << 22
"""Rows up to which a table is shown in the order of its keys."""
REMEMBERED = 1 << 22
"""Keys that are remembered, of all tables together."""

_sorted: OrderedDict[str, pa.Table] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows that follow each other."""

    view: Dataset
    """The dataset at the revision."""
    start: int
    """How many rows come before."""
    rows: pa.RecordBatch
    """The rows, in order."""
    in_key_order: bool
    """Whether rows are in the order of their keys, rather than of files."""
    total: int
    """How many rows there are to choose pages of."""


def read_page(repo: OpenRepo, request: PageRequest) -> RowPage:
    """Return `count` rows from the row number `start` on.

    `around` is a key as filters name it: the page is then one that has it in its middle. With
    `box` only rows count that lie there (`looking.placing` says what that is).
    """
    path, revision, start, count, around = (
        request.path,
        request.revision,
        request.start,
        request.count,
        request.around,
    )
    view = repo.dataset(path, revision)
    if request.box is not None:
        return _boxed(repo, row_places(repo, path, revision), request.box, start, count, around)
    if not view.key:
        found = _slice(Table(view, repo.settings), start, count)
        return RowPage(view, start, found, False, view.rows)
    ordered = view.rows <= MOST_SORTED
    keys = _sorted_keys(repo, view, path, revision) if ordered else None
    if around is not None:
        start = max(0, _place_of(repo, view, keys, around) - count // 2)
    names = list(view.key.names)
    if keys is None:
        wanted = _slice(Table(view, repo.settings), start, count, names)
    else:
        wanted = _one_batch(keys.slice(start, count))
    return RowPage(view, start, _rows_of(repo, view, wanted), ordered, view.rows)


def _rows_of(repo: OpenRepo, view: Dataset, wanted: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with some keys, sorted."""
    with repo.settings.open_engine(0) as engine:
        rows = ChosenRows(wanted, view.schema, engine).rows(view)
    return pc.take(
        rows, pc.sort_indices(rows, sort_keys=[(n, "ascending") for n in view.key.names])
    )


def _boxed(
    repo: OpenRepo, places: RowPlaces, box: Box, start: int, count: int, around: str | None
) -> RowPage:
    """Return a page of the rows that lie in a box."""
    view, found, keys = places.view, places.within(box), places.keys
    if around is not None:
        place = int(np.searchsorted(found, _place_of(repo, view, keys, around)))
        start = max(0, place - count // 2)
    chosen = found[start : start + count]
    if keys is not None:
        rows = _rows_of(repo, view, _one_batch(pc.take(keys, arrow_array(chosen))))
        return RowPage(view, start, rows, True, len(found))
    parts, before = [], 0
    for batch in Table(view, repo.settings).to_batches():
        here = chosen[(chosen >= before) & (chosen < before + len(batch))] - before
        parts += [pc.take(batch, arrow_array(here))] if len(here) else []
        before += len(batch)
    rows = _one_batch(pa.Table.from_batches(parts, arrow_schema(view.schema)))
    return RowPage(view, start, rows, False, len(found))


def _sorted_keys(repo: OpenRepo, view: Dataset, path: str, revision: str) -> pa.Table:
    """Return all keys of a dataset, sorted."""
    identity = repo.folders(repo.resolve(revision))[path].internals
    with _lock:
        if identity in _sorted:
            _sorted.move_to_end(identity)
            return _sorted[identity]
    names = list(view.key.names)
    schema = arrow_schema(view.schema.select(view.key.names))
    table = pa.Table.from_batches(Table(view, repo.settings).to_batches(names), schema)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    found = pc.take(table, order)
    with _lock:
        _sorted[identity] = found
        while len(_sorted) > 1 and sum(map(len, _sorted.values())) > REMEMBERED:
            _sorted.popitem(last=False)
    return found


def _place_of(repo: OpenRepo, view: Dataset, keys: pa.Table | None, text: str) -> int:
    """Return how many rows come before the one with a key."""
    (wanted,) = keys_batch([text], view.schema).to_pylist()
    names = list(view.key.names)
    batches = Table(view, repo.settings).to_batches(names) if keys is None else keys.to_batches()
    before = 0
    for batch in batches:
        here = np.ones(len(batch), np.bool_)
        for name, value in wanted.items():
            column = batch.column(name)
            same = pc.equal(column, pa.scalar(value, column.type))
            here &= pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        if here.any():
            return before + int(np.argmax(here))
        before += len(batch)
    raise RowNotFoundError(f"{view.path} has no row {text} at {view.revision}")


def _slice(
    table: Table, start: int, count: int, columns: list[str] | None = None
) -> pa.RecordBatch:
    """Return rows in the order of files; what comes before them is read and let go."""
    schema = table.schema if columns is None else table.schema.select(tuple(columns))
    found = pa.Table.from_batches(_parts(table, start, count, columns), arrow_schema(schema))
    return _one_batch(found)


def _parts(
    table: Table, start: int, count: int, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    seen = 0
    for batch in table.to_batches(columns):
        skipped = min(len(batch), max(0, start - seen))
        part = batch.slice(skipped, start + count - max(seen, start))
        seen += len(batch)
        if len(part):
            yield part
        if seen >= start + count:
            return


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
