"""An edit of a table in no key order, or without a key, made by tasks on any engine.

Any file of such a table may hold any key, so none belongs to an interval of keys. Two rounds of
owners edit it:

    by key       rows of both sides are dealt out by key, without one by a hash of the whole row;
                 an owner pairs those of its interval, writes what comes, and tells where what
                 goes stands
    by file      an owner of some data files takes the rows at these places away, into one delete
                 file, or writes a file again of which little is left

The driver sees entries, and a byte or less of each row that goes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, SortedPieces, cuts_by_sample, dealt
from havasu_vc.datasets.havasu.deletes import read_deleted_rows
from havasu_vc.datasets.havasu.edit import Edit, is_small
from havasu_vc.datasets.havasu.owners import OldFile, Owner, report_batch
from havasu_vc.datasets.havasu.owning import FILE, POS, Owning
from havasu_vc.datasets.havasu.parquet import Positions, file_name, one_batch, read_row_groups
from havasu_vc.datasets.havasu.pieces import FilePiece, Interval, Piece
from havasu_vc.datasets.havasu.writing import WrittenFile, write_data_files
from havasu_vc.datasets.pairing import conform, row_hashes, same_key, unpaired_rows
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.errors import EngineError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.history import owned_edits
from havasu_vc.history.owned_edits import collect_owned
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = [
    "HASH",
    "TellingOwner",
    "can_be_dealt",
    "collect_places",
    "collect_rows",
    "dealt_rows",
    "file_owners",
    "files_of",
    "hash_cuts",
    "hashed",
    "live_pieces",
    "names_seen",
    "own_gone",
    "owned_rows",
    "packed",
    "parts_for",
    "piece_rows",
    "placed_rows",
    "rows_plan",
    "sampled",
]

HASH = "\0hash"
"""The column by which rows without a key are dealt out."""
_ALL = (1 << 64) - 1
_EVERYTHING = Interval(0, None, None)
_SWELL = 2
"""How many times as large rows are in memory, about, as in a file: both sides are."""
_GONE = pa.schema([("file", pa.int32()), ("places", pa.binary())])
"""Where rows are that go: which data file, and the positions there, as `packed` has them."""

RunRounds: TypeAlias = Callable[[Sequence[Task]], Batches]
"""Runs owners of what was dealt out."""


def can_be_dealt(dataset: DatasetInFiles, schema: Schema) -> bool:
    """Whether rows of a dataset can be matched with rows of some columns, wherever they lie."""
    if dataset.schema.key or schema.key:
        return same_key(dataset.schema, schema)
    return True


def live_pieces(dataset: DatasetInFiles) -> list[Piece]:
    """Return all rows of a dataset."""
    return [
        FilePiece(dataset.file_path(entry), dataset.delete_paths(entry), entry.rows, entry.size)
        for entry in dataset.data_entries
    ]


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """How the rows of both sides are dealt out."""

    old: tuple[Piece, ...]
    """The rows of the old side that may change."""
    names: tuple[str, ...]
    """The data files that these are in."""
    before: Schema
    """The old side's columns."""
    after: Schema
    """The columns of the edit."""
    cuts: Cuts
    """Where keys of the new side are cut."""

    def dealing_old(self) -> list[Task]:
        """Return the tasks that deal out the old side."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return [
            task_of(deal_old, piece, self.before, self.after, self.cuts.values, _of(piece, numbers))
            for piece in self.old
        ]

    def dealing_new(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks that deal out rows that are given."""
        return [task_of(deal_new, task, self.after, self.cuts.values) for task in tasks]


def rows_plan(
    edit: Edit,
    old: Sequence[Piece],
    new: Sequence[Task],
    engine: Engine,
    size: int,
    *,
    anywhere: bool = True,
) -> RowsPlan:
    """Return how to deal out some rows of the dataset and rows that are given, of so many bytes."""
    before, after = edit.dataset.schema, edit.schema
    names = {file for piece in old for file in files_of(piece)}
    held = sum(piece.size for piece in old)
    parts = parts_for(held + size)
    if not after.key:
        cuts = hash_cuts(parts)
    else:
        key = tuple(before.by_id[field.id].name for field in after.key.fields)
        kept = before.select(key)
        keys = [task_of(piece_rows, piece, kept) for piece in old]
        if size > held and key == after.key.names:
            keys += new
        cuts = Cuts(after.key.names, sampled(engine, keys, key, parts, anywhere=anywhere))
    return RowsPlan(tuple(old), tuple(sorted(names)), before, after, cuts)


def parts_for(size: int) -> int:
    """Return into how many intervals rows are dealt that take so many bytes in files."""
    return _SWELL * size // owned_edits.OWNER_BYTES + 1


def hash_cuts(parts: int) -> Cuts:
    """Return where hashes of rows without a key are cut into so many intervals."""
    return Cuts((HASH,), tuple((_ALL // parts) * number for number in range(1, parts)))


def sampled(
    engine: Engine, keys: Sequence[Task], names: tuple[str, ...], parts: int, *, anywhere: bool
) -> tuple[object, ...]:
    """Return where keys that some tasks yield are cut into so many intervals."""
    if parts < 2 or not keys:
        return ()
    return cuts_by_sample(engine, keys, names, parts, anywhere=anywhere).values


def owned_rows(
    edit: Edit,
    old: Sequence[Piece],
    new: Sequence[Task],
    mode: str,
    engine: Engine,
    *,
    size: int,
    url: str | None = None,
    anywhere: bool = True,
) -> None:
    """Take into an edit what the rows of some tasks change in old ones; `mode` says what they mean.

    With a `url` owners write there.
    """
    edit.dataset.bring(edit.dataset.data_entries)
    plan = rows_plan(edit, old, new, engine, size, anywhere=anywhere)
    dealing = [*plan.dealing_old(), *plan.dealing_new(new)]

    def run(owners: Sequence[Task]) -> Batches:
        what = f"Editing {edit.dataset.path}"
        return engine.run_dealt(dealing, owners, description=what, anywhere=anywhere)

    collect_rows(edit, plan, run, mode, engine, url=url, anywhere=anywhere)


def collect_rows(
    edit: Edit,
    plan: RowsPlan,
    run: RunRounds,
    mode: str,
    engine: Engine,
    *,
    url: str | None = None,
    anywhere: bool = True,
) -> None:
    """Run both rounds of owners and take in what they report; `run` deals out for the first."""
    parts = len(plan.cuts.values) + 1
    first = telling_owner(edit, mode, parts, url)
    seen = names_seen(edit)
    owners = [task_of(own_rows, (), first, number, seen) for number in range(parts)]
    collect_places(edit, plan.names, lambda: run(owners), engine, url=url, anywhere=anywhere)


def telling_owner(edit: Edit, mode: str, parts: int, url: str | None) -> Owner:
    """Return what each of so many owners is told who tell where rows are that go."""
    return owned_edits.owner_value(edit, mode, _EVERYTHING, (), (), parts, url)


def names_seen(edit: Edit) -> frozenset[str]:
    """Return how names of files begin that are there already."""
    return frozenset(file[:16] for file in edit.dataset.stored_entries)


def collect_places(
    edit: Edit,
    names: Sequence[str],
    run: Callable[[], Batches],
    engine: Engine,
    *,
    url: str | None = None,
    anywhere: bool = True,
) -> list[pa.RecordBatch]:
    """Take in what owners report, and take the rows away whose places they tell.

    `names` are the data files that they know by number. Return what else they set aside.
    """
    gone: dict[str, list[bytes]] = {}
    others: list[pa.RecordBatch] = []
    for batch in collect_owned(edit, run, url=url):
        if batch.schema != _GONE:
            others.append(batch)
            continue
        for number, places in zip(*batch.columns, strict=True):
            gone.setdefault(names[number.as_py()], []).append(places.as_py())
    taking = []
    for owner in file_owners(edit, url) if gone else ():
        mine = {file.name: tuple(gone[file.name]) for file in owner.files if file.name in gone}
        if mine:
            taking.append(task_of(own_gone, (), owner, mine))

    def run_second() -> Batches:
        return engine.run_dealt([], taking, description="Deleting rows", anywhere=anywhere)

    if taking:
        collect_owned(edit, run_second, url=url)
    return others


def file_owners(edit: Edit, url: str | None = None) -> list[Owner]:
    """Return what owners of whole data files are told, each of about as much of the dataset."""
    dataset = edit.dataset
    large = [entry for entry in dataset.delete_entries if not is_small(entry)]
    beside: dict[str, str] = {}
    for entry in large:
        for file in entry.targets:
            beside[file] = min(entry.targets)
    # Files of which one delete file tells go to one owner, as far as they are neighbours then.
    entries = sorted(dataset.data_entries, key=lambda e: (beside.get(e.file, e.file), e.file))
    groups: list[list[Entry]] = []
    room = 0
    for each in entries:
        if room <= 0:
            groups.append([])
            room = owned_edits.OWNER_BYTES
        groups[-1].append(each)
        room -= each.size
    held = [{entry.file for entry in group} for group in groups]
    spanning = owned_edits.spanning_files(held, large)
    return [
        owned_edits.owner_value(
            edit,
            "change",
            _EVERYTHING,
            [owned_edits.old_file(dataset, each, each.file not in spanning) for each in group],
            owned_edits.old_deletes(dataset, large, names),
            len(groups),
            url,
        )
        for group, names in zip(groups, held, strict=True)
    ]


def files_of(piece: Piece) -> Iterable[str]:
    """Return the data files whose rows a piece is."""
    return (file_name(piece.path),) if isinstance(piece, FilePiece) else piece.counts


def _of(piece: Piece, numbers: Mapping[str, int]) -> dict[str, int]:
    return {file: numbers[file] for file in files_of(piece)}


@kernel
def piece_rows(piece: Piece, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece in some columns."""
    yield from piece.batches(schema, None)


@kernel
def deal_old(
    piece: Piece, before: Schema, after: Schema, cuts: tuple[object, ...], numbers: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece as pieces for owners; two columns more say where each is."""
    batches = placed_rows(piece, before, numbers)
    if after.key:
        names = tuple(before.by_id[field.id].name for field in after.key.fields)
    else:
        names, batches = (HASH,), hashed(batches, before, after)
    yield from dealt(batches, Cuts(names, cuts))


def hashed(
    batches: Iterable[pa.RecordBatch], schema: Schema, onto: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows with a column more: a hash of each, in the columns of another schema."""
    kept = list(schema.names)
    for batch in batches:
        hashes = row_hashes(batch.select(kept), schema, onto)
        yield batch.append_column(HASH, pa.array(hashes))


def placed_rows(
    piece: Piece, schema: Schema, numbers: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece; two columns more say where each is, by the number of its file."""

    def with_file(batch: pa.RecordBatch, file: str) -> pa.RecordBatch:
        number = np.full(batch.num_rows, numbers[file], np.int32)
        return batch.append_column(FILE, pa.array(number))

    if isinstance(piece, FilePiece):
        file = file_name(piece.path)
        yield from (with_file(batch, file) for batch in piece.numbered(schema, None))
        return
    for deletion in read_deleted_rows(piece.path, schema, piece.wanted, piece.data):
        rows = deletion.rows.append_column(POS, pa.array(deletion.positions))
        yield with_file(rows, deletion.file)


@kernel
def deal_new(task: Task, schema: Schema, cuts: tuple[object, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as pieces for owners."""
    yield from dealt_rows(run_task(task), schema, cuts)


def dealt_rows(
    batches: Iterable[pa.RecordBatch], schema: Schema, cuts: tuple[object, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield rows that are given as pieces for owners."""
    if schema.key:
        yield from dealt(batches, Cuts(schema.key.names, cuts))
        return
    yield from dealt(hashed(batches, schema, schema), Cuts((HASH,), cuts))


@kernel
def own_rows(
    pieces: tuple[tuple[int, Task], ...],
    owner: Owner,
    number: int,
    seen: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    """Pair the rows of an interval, write those that come, and tell where others are that go."""
    with _Pairing(owner, seen) as work:
        work.pair([run_task(task) for _, task in pieces])
        wanted = sum(count for count, _ in pieces)
        if work.num_rows != wanted:
            raise EngineError(
                f"{work.num_rows:,} of {wanted:,} rows reached the task that was to pair them",
                hints=("nothing was committed; run again",),
            )
        report = work.finish()
    yield report_batch(replace(report, number=number, aside=work.gone()))


class TellingOwner(Owning):
    """An interval whose rows were dealt out; where rows are that go is told, and not written."""

    def __init__(self, owner: Owner, seen: frozenset[str]) -> None:
        super().__init__(owner)
        self._seen = seen
        self._gone: dict[int, list[Positions]] = {}

    def _take_away(
        self, gone: pa.RecordBatch, files: Positions, positions: Positions, schema: Schema
    ) -> None:
        for number in distinct(files).tolist():
            self._gone.setdefault(number, []).append(positions[files == number])

    def _distinct(self, written: Sequence[WrittenFile], seen: Set[str]) -> list[WrittenFile]:
        """Return files of which none is there already, as far as names begin otherwise."""
        known = set(seen)
        while True:
            files = super()._distinct(written, known)
            there = {each.entry.file for each in files}
            there = {n for n in there if n[:16] in self._seen}
            if not there:
                return files
            known |= there

    def gone(self) -> tuple[pa.RecordBatch, ...]:
        """Return where rows are that go."""
        found = {n: np.sort(np.concatenate(each)) for n, each in sorted(self._gone.items())}
        places = [packed(positions) for positions in found.values()]
        columns = [pa.array(list(found), pa.int32()), pa.array(places, pa.binary())]
        return (pa.RecordBatch.from_arrays(columns, schema=_GONE),)


class _Pairing(TellingOwner):
    """An interval whose rows of both sides were dealt out."""

    def pair(self, streams: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Put aside what rows that are given change in old ones."""
        sides: tuple[list[Iterator[pa.RecordBatch]], list[Iterator[pa.RecordBatch]]] = ([], [])
        for stream in streams:
            first = next(stream, None)
            if first is not None:
                sides[FILE in first.schema.names].append(chain((first,), stream))
        before, names = self._owner.before, self._names or (HASH,)
        given = SortedPieces(sides[0], names)
        keys = [before.by_id[field.id].name for field in self._schema.key.fields]
        there = SortedPieces(sides[1], keys or (HASH,))
        for bound, rows in given.below(None):
            found = [batch for _, batch in there.below(bound) if batch is not None]
            old = one_batch(found) if found else self._nothing()
            if not self._names:
                self._settle_by_row(old, rows)
            elif rows is not None:
                self._check(rows)
                self._settle(old, rows)
            elif self._owner.mode == "overwrite":
                self._settle(old, None)
        self.num_rows = given.num_rows + there.num_rows

    def _settle_by_row(self, old: pa.RecordBatch, given: pa.RecordBatch | None) -> None:
        """Put aside what comes and goes among rows without a key."""
        before, schema = self._owner.before, self._schema
        where, old = old.select([FILE, POS]), old.select(list(before.names))
        if given is None:
            given = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
        given = conform(given.select(list(schema.names)), schema)
        goes, comes = unpaired_rows(old, given, before, schema)
        self._put_aside(old, where, goes, pc.take(given, arrow_array(comes)), 0)


@kernel
def own_gone(
    pieces: tuple[()], owner: Owner, gone: Mapping[str, tuple[bytes, ...]]
) -> Iterator[pa.RecordBatch]:
    """Take the rows at some places out of some data files; nothing is dealt to it."""
    with _Taking(owner) as work:
        work.drop({file: np.sort(_unpacked(each)) for file, each in gone.items()})
        report = work.finish()
    yield report_batch(report)


class _Taking(Owning):
    """Whole data files from which rows go; what is left of one stays in its order."""

    def _write(
        self, leaving: Mapping[str, OldFile], deleted: Mapping[str, Positions]
    ) -> Iterator[WrittenFile]:
        for name, file in leaving.items():
            if len(deleted[name]) < file.rows:
                rows = read_row_groups(file.path, self._schema, deleted=deleted[name])
                yield from write_data_files(
                    rows, self._owner.layout, self._store, self._keys, origin=file.origin
                )


def packed(positions: Positions) -> bytes:
    """Return positions, which ascend, as their distances in as few bytes as hold each."""
    steps = np.diff(positions, prepend=0)
    kind = np.min_scalar_type(int(steps.max(initial=0)))
    return kind.char.encode() + zlib.compress(steps.astype(kind).tobytes(), 1)


def _unpacked(packed: Iterable[bytes]) -> Positions:
    """Return the positions that were packed, of all parts."""
    steps = (np.frombuffer(zlib.decompress(p[1:]), p[:1].decode()) for p in packed)
    return np.concatenate([np.cumsum(each, dtype=np.int64) for each in steps])
