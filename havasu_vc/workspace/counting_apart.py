"""How many rows an engine changed, and whether keys are unique, told by tasks.

Where the data is away there are no key caches. Tasks read the rows that left, those that
came, and of files that stay and may share keys with these the keys alone; they deal out
hashes, and each owner of an interval of hashes pairs what it gets. What seems to have the key
of another row is told by its place, and the keys themselves decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, SortedPieces, dealt
from havasu_vc.datasets.digest import hash_keys, hash_keys_and_rows
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.ledger import MOST_KEYS
from havasu_vc.datasets.havasu.locate import shared_schema
from havasu_vc.datasets.havasu.parquet import Positions, read_row_groups
from havasu_vc.datasets.pairing import nth_equal
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import EngineError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.history.owned_edits import key_edges
from havasu_vc.history.owned_rows import HASH, hash_cuts
from havasu_vc.model.arrays import arrow_array, distinct
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.workspace.counting import INTERVAL_ROWS, RowsOfFile, require_distinct
from havasu_vc.workspace.taking_in import TableEdits

__all__ = ["Told", "count_apart"]

OLD, NEW, STAYING = range(3)
MOST_SUSPECTS = 1000
"""Of an interval of hashes so many rows that may share a key are looked at."""
_SUSPECTS = np.dtype([("key", np.uint64), ("file", np.int32), ("position", np.int64)])
_TOLD = pa.schema(
    [
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("touched", pa.binary()),
        ("suspects", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Told:
    """The findings of tasks on edits."""

    counts: ChangeCounts
    """The rows that come, change and go."""
    touched: Hashes | None
    """The keys of rows that left and came, by hash; None when they are too many to name."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one file on one side: those at some places or all others, but for deleted ones."""

    path: str
    file: str
    number: int
    side: int
    schema: Schema
    deletes: tuple[str, ...] = ()
    places: bytes = b""
    inside: bool = False

    @classmethod
    def at(
        cls,
        path: str,
        number: int,
        side: int,
        schema: Schema,
        places: Positions,
        *,
        inside: bool,
    ) -> _Rows:
        """Return rows at some places, or all others; what is deleted beside is no matter."""
        packed = places.astype(np.int64).tobytes()
        return cls(path, "", number, side, schema, places=packed, inside=inside)


def count_apart(edits: TableEdits, engine: Engine, *, check: bool = True) -> Told:
    """Return how many rows of a table were changed; with a check, raise where keys are not unique.

    Columns that make the key must be told apart alike on both sides (`counting.can_count`).
    """
    pieces = list(_pieces(edits, check=check))
    rows = sum(entry.rows for entry in edits.removed) + sum(e.entry.rows for e in edits.added)
    cuts = hash_cuts(rows // INTERVAL_ROWS + 1)
    keyed = bool(edits.schema.key)
    dealing = [task_of(deal_hashes, each, cuts) for each in pieces]
    owners = [task_of(own_hashes, (), keyed) for _ in range(len(cuts.values) + 1)]
    counts = ChangeCounts()
    touched: list[Hashes] | None = []
    suspects = []
    what = f"Counting rows of {edits.path}"
    for batch in engine.run_dealt(dealing, owners, description=what) if dealing else ():
        told = batch.to_pylist()[0]
        counts += ChangeCounts(told["inserts"], told["updates"], told["deletes"])
        suspects.append(np.frombuffer(told["suspects"], _SUSPECTS))
        if told["touched"] is None or touched is None:
            touched = None
        else:
            touched.append(np.frombuffer(told["touched"], np.uint64))
            if sum(map(len, touched)) > MOST_KEYS:
                touched = None
    if check:
        _require_unique(edits, pieces, suspects)
    if touched is None:
        return Told(counts, None)
    return Told(counts, np.concatenate([np.empty(0, np.uint64), *touched]))


def _require_unique(
    edits: TableEdits, pieces: Sequence[_Rows], suspects: Sequence[npt.NDArray[np.void]]
) -> None:
    found = np.concatenate([np.empty(0, _SUSPECTS), *suspects])
    paths = {each.number: each.path for each in pieces}
    groups = []
    for number in np.unique(found["file"]).tolist():
        mine = found[found["file"] == number]
        groups.append(RowsOfFile(paths[number], mine["key"], mine["position"]))
    require_distinct(edits, groups)


def _pieces(edits: TableEdits, *, check: bool) -> Iterator[_Rows]:
    """Yield what is dealt out: rows that left, rows that came, keys that may be met again."""
    base, entries = edits.base, edits.base.entries
    numbers = {file: number for number, file in enumerate(entries)}

    def there(entry: Entry, side: int, places: Positions) -> _Rows:
        schema = shared_schema(edits.frame, entry)
        path, number = base.file_path(entry), numbers[entry.file]
        return _Rows.at(path, number, side, schema, places, inside=True)

    for entry in edits.removed:
        schema, deletes = shared_schema(edits.frame, entry), base.delete_paths(entry)
        path, number = base.file_path(entry), numbers[entry.file]
        yield _Rows(path, entry.file, number, OLD, schema, deletes)
    for file, places in edits.deleted.items():
        yield there(entries[file], OLD, places)
    for number, each in enumerate(edits.added, start=len(numbers)):
        schema = each.schema.shared(edits.schema)
        yield _Rows.at(each.place, number, NEW, schema, each.deleted, inside=False)
    for file, places in edits.restored.items():
        yield there(entries[file], NEW, places)
    leaving = {entry.file for entry in edits.removed}
    for entry in _met_again(edits) if check and edits.schema.key else ():
        if entry.file in leaving:
            continue
        gone = edits.deleted.get(entry.file, np.empty(0, np.int64)).astype(np.int64)
        keys = edits.frame.schema.select(edits.frame.key.names)
        deletes = base.delete_paths(entry)
        path, number = base.file_path(entry), numbers[entry.file]
        yield _Rows(path, entry.file, number, STAYING, keys, deletes, gone.tobytes())


def _met_again(edits: TableEdits) -> Iterator[Entry]:
    """Yield the data files that may have keys of rows that came, as entries tell."""
    spans = [key_edges(edits.frame, each.entry) for each in edits.added]
    spans += [key_edges(edits.frame, edits.base.entries[file]) for file in edits.restored]
    for entry in edits.frame.data_entries:
        low, high = key_edges(edits.frame, entry)
        if any(_meet(low, high, *span) for span in spans):
            yield entry


def _meet(low: object, high: object, first: object, last: object) -> bool:
    """Whether two spans may share a value; what is not known, or not comparable, may."""
    if None in (low, high, first, last):
        return True
    with suppress(TypeError):
        return bool(low <= last and first <= high)  # type: ignore[operator]
    return True


@kernel
def deal_hashes(piece: _Rows, cuts: Cuts) -> Iterator[pa.RecordBatch]:
    """Yield the hashes of rows as pieces for owners, each with where its row is."""
    yield from dealt(_hashes(piece), cuts)


def _hashes(piece: _Rows) -> Iterator[pa.RecordBatch]:
    gone = deleted_positions(piece.file, piece.deletes)
    places = np.frombuffer(piece.places, np.int64)
    for batch in read_row_groups(piece.path, piece.schema, positions=True, deleted=gone):
        position = batch.column("_pos").to_numpy()
        rows = batch.select(list(piece.schema.names))
        chosen = np.isin(position, places, invert=not piece.inside)
        if piece.side == STAYING:
            keys = hash_keys(rows, piece.schema)
            hashed = np.zeros(len(keys), np.uint64)
        else:
            keys, hashed = hash_keys_and_rows(rows, piece.schema)
        count = int(chosen.sum())
        if count:
            yield pa.RecordBatch.from_arrays(
                [
                    arrow_array(keys[chosen]),
                    arrow_array(hashed[chosen]),
                    pa.array(np.full(count, piece.side, np.int8)),
                    pa.array(np.full(count, piece.number, np.int32)),
                    arrow_array(position[chosen]),
                ],
                names=[HASH, "row", "side", "file", "position"],
            )


@kernel
def own_hashes(pieces: tuple[tuple[int, Task], ...], keyed: bool) -> Iterator[pa.RecordBatch]:
    """Yield one row: what the hashes of an interval tell, given those that were dealt to it."""
    given = SortedPieces([run_task(task) for _, task in pieces], (HASH,))
    counts = ChangeCounts()
    touched: Hashes | None = np.empty(0, np.uint64)
    suspects = np.empty(0, _SUSPECTS)
    for _, batch in given.below(None):
        if batch is None:
            continue
        keys, rows, side, file, position = (column.to_numpy() for column in batch.columns)
        old, new = side == OLD, side == NEW
        counts += _paired(keys[old], rows[old], keys[new], rows[new], keyed=keyed)
        if touched is not None:
            touched = distinct(np.concatenate([touched, keys[old | new]]))
            touched = touched if len(touched) <= MOST_KEYS else None
        if keyed and len(suspects) < MOST_SUSPECTS:
            wanted = _shared(keys, new, ~old)
            more = np.empty(len(wanted), _SUSPECTS)
            for name, values in (("key", keys), ("file", file), ("position", position)):
                more[name] = values[wanted]
            suspects = np.concatenate([suspects, more[:MOST_SUSPECTS]])
    wanted_rows = sum(count for count, _ in pieces)
    if given.num_rows != wanted_rows:
        raise EngineError(
            f"{given.num_rows:,} of {wanted_rows:,} rows reached the task that was to count them",
            hints=("nothing was committed; run again",),
        )
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([counts.inserts]),
            pa.array([counts.updates]),
            pa.array([counts.deletes]),
            pa.array([None if touched is None else touched.tobytes()], pa.binary()),
            pa.array([suspects.tobytes()], pa.binary()),
        ],
        schema=_TOLD,
    )


def _paired(
    before: Hashes, was: Hashes, after: Hashes, now: Hashes, *, keyed: bool
) -> ChangeCounts:
    """Count what comes, changes and goes among rows of which all of a hash are given."""
    partner = nth_equal(before, after)
    paired = partner >= 0
    kept = int(paired.sum())
    same = int((was[partner[paired]] == now[paired]).sum()) if keyed else kept
    return ChangeCounts(len(after) - kept, kept - same, len(before) - kept)


def _shared(
    keys: Hashes, new: npt.NDArray[np.bool_], live: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return which live rows have a hash that another one has too, one of them new."""
    values, counts = np.unique(keys[live], return_counts=True)
    twice = np.intersect1d(values[counts > 1], keys[new])
    return np.flatnonzero(live & np.isin(keys, twice))
