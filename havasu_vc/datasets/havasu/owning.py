"""The owner of an interval of keys: the task that edits a table there, whatever its size.

An owner is given the rows that were dealt to it (`datasets.dealing`), looks up the old rows
of its interval, drops what changes nothing, and writes one set of data files and one delete
file where the data lives. A data file that it owns as a whole and that would be mostly
deleted is written again together with the new rows, if so many change that the epoch is
closed. What comes back is a report: entries, sums, and counts, which the driver adds up. Where
only a few rows change these come back as rows, so that a small change of a large table does
not leave small files in every interval.

An owner may run twice: files are named by content, and the same rows make the same bytes.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import SortedPieces
from havasu_vc.datasets.digest import Digests, hash_keys, hash_rows
from havasu_vc.datasets.havasu import ledger
from havasu_vc.datasets.havasu.delete_writing import GoingRows, write_delete_file
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.ledger import Touched
from havasu_vc.datasets.havasu.owners import (
    UNSEEN,
    GoneRows,
    OldFile,
    Owner,
    OwnerReport,
    report_batch,
)
from havasu_vc.datasets.havasu.parquet import (
    Positions,
    key_ranges,
    one_batch,
    read_row_groups,
    read_rows,
)
from havasu_vc.datasets.havasu.pieces import Interval, cut_intervals, groups_in
from havasu_vc.datasets.havasu.plan import MOSTLY_DELETED
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files, write_data_files
from havasu_vc.datasets.pairing import (
    Mask,
    conform,
    describe_key,
    equal_rows,
    partners,
    sort_by_key,
)
from havasu_vc.datasets.sorting import Spool, check_increasing, first_beyond, first_from
from havasu_vc.errors import EngineError, PatchError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import FarFileStore
from havasu_vc.store.object_urls import is_url

__all__ = ["FILE", "POS", "Owning", "own", "parts_of", "store_at"]

FEW_BYTES = 1 << 20
"""Changes of no more bytes come back as rows."""
PIECE_ROWS = 1 << 16
"""So many rows are read by position at a time."""
FILE, POS = "_file", "_pos"
"""Columns beside those of old rows, which say where they are."""

_HINTS = (
    "give each row once",
    "choose other columns with --primary-key, or import without a key",
)
"""Ways on where a key comes twice, and where the rows are to be all there are."""

Indices = npt.NDArray[np.int64]


@kernel
def own(pieces: tuple[tuple[int, Task], ...], owner: Owner) -> Iterator[pa.RecordBatch]:
    """Edit an interval, given what was dealt to it: pieces, each with its count of rows."""
    with Owning(owner) as work:
        work.take([run_task(task) for _, task in pieces])
        given = sum(count for count, _ in pieces)
        if work.num_rows != given:
            raise EngineError(
                f"{work.num_rows:,} of {given:,} rows reached the task that was to write them",
                hints=("nothing was committed; run again",),
            )
        report = work.finish()
    yield report_batch(report)


class Owning:
    """An interval while it is edited. Use it as a context manager."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._schema = owner.layout.schema
        self._names = self._schema.key.names
        self._stack = ExitStack()
        self._store = store_at(owner.place, self._stack)
        self._keys = None if owner.keys is None else Path(owner.keys)
        self._come = self._spool()
        self._bytes = 0
        self._going = GoingRows(self._schema, owner.path, self._spool)
        self._counts = ChangeCounts()
        self._deleted_rows = 0
        self._old, self._new = Digests(), Digests()
        self._touched = Touched()
        self.num_rows = 0
        """Rows that were dealt to it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _spool(self) -> Spool:
        return self._stack.enter_context(Spool(self._store.scratch))

    # Finding out what changes

    def take(self, streams: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Look the rows of some streams up, and put aside what changes."""
        given = SortedPieces(streams, self._names)
        everything = self._owner.mode == "overwrite"
        for interval in parts_of(self._owner):
            # All old rows count for an overwrite, and are read once; else those that are named.
            old = self._old_rows(interval, None) if everything else None
            low = interval.low
            for bound, rows in given.below(interval.high):
                within = replace(interval, low=low, high=bound)
                low = bound
                if rows is not None:
                    self._check(rows)
                elif not everything:
                    continue
                found = (
                    self._old_rows(within, rows)
                    if old is None
                    else within.only(old, self._owner.before)
                )
                self._settle(found, rows)
        self.num_rows = given.num_rows

    def _check(self, rows: pa.RecordBatch) -> None:
        """Raise if a key is given twice."""
        hint = _HINTS[self._owner.mode == "overwrite"]
        check_increasing(rows.select(list(self._names)), hint=hint)

    def _old_rows(self, interval: Interval, wanted: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the live rows of an interval, of which some keys are wanted or all.

        They have two columns more, which say where they are.
        """
        found = [
            batch.append_column(FILE, pa.array(np.full(batch.num_rows, number, np.int32)))
            for number, file in enumerate(self._owner.files)
            for batch in self._rows_of(file, interval, wanted)
        ]
        return one_batch(found) if found else self._nothing()

    def _nothing(self) -> pa.RecordBatch:
        """Return no old rows, with where they would be."""
        whole = arrow_schema(self._owner.before).append(pa.field(POS, pa.int64()))
        return pa.RecordBatch.from_pylist([], schema=whole.append(pa.field(FILE, pa.int32())))

    def _rows_of(
        self, file: OldFile, interval: Interval, wanted: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        groups = groups_in(file.path, interval)
        if wanted is not None:
            groups = _groups_with(file.path, groups, wanted.column(self._names[0]), interval)
        if not groups:
            return
        deleted = deleted_positions(file.name, file.deletes)
        for batch in read_row_groups(
            file.path, self._owner.before, groups=groups, deleted=deleted, positions=True
        ):
            rows = interval.only(batch, self._owner.before)
            if rows.num_rows:
                yield rows

    def change(self, changes: Iterator[ChangeBatch]) -> None:
        """Put aside what changes say, which are of rows of the interval, in key order."""
        before, schema = self._owner.before, self._schema
        for batch in changes:
            old = conform(batch.old_rows(), before)
            new = conform(batch.new_rows(), schema)
            files, positions = self._places(old, before)
            if (files < 0).any():
                self._refuse(old, before, files < 0, "has no row")
            inserts = pc.filter(pc.is_null(batch.old), pc.is_valid(batch.new))
            if pc.any(inserts).as_py():
                come = pc.filter(new.select(list(self._names)), inserts)
                there = self._places(come, schema)[0] >= 0
                if there.any():
                    self._refuse(come, schema, there, "already has a row")
            self._counts += batch.counts
            self._bring(new)
            self._take_away(old, files, positions, before)

    def drop(self, deleted: Mapping[str, Positions]) -> None:
        """Put aside the rows at some positions, by data file; somebody else counts changes.

        They are summed in the columns that the edit leaves, as rows of files that go are.
        """
        for number, file in enumerate(self._owner.files):
            for start in range(0, len(deleted.get(file.name, ())), PIECE_ROWS):
                piece = deleted[file.name][start : start + PIECE_ROWS]
                rows = read_rows(file.path, self._schema, piece)
                self._take_away(rows, np.full(len(piece), number, np.int64), piece, self._schema)

    def _refuse(self, rows: pa.RecordBatch, schema: Schema, those: Mask, what: str) -> None:
        first = int(np.flatnonzero(those)[0])
        key = tuple(rows.column(name)[first].as_py() for name in schema.key.names)
        raise PatchError(f"{self._owner.path} {what} {describe_key(key)}")

    def _places(self, rows: pa.RecordBatch, schema: Schema) -> tuple[Indices, Indices]:
        """Return the file and the position of the live row with the key of each of some rows.

        These are in key order; -1 where there is none. Of the files only keys are read, of
        one batch at a time.
        """
        before = self._owner.before
        names = before.key.names
        kept, wanted = before.select(names), rows.select(list(schema.key.names))
        files, positions = (np.full(rows.num_rows, -1, np.int64) for _ in range(2))
        if not rows.num_rows:
            return files, positions
        first = wanted.column(schema.by_id[self._owner.interval.field_id].name)
        keyed = schema.select(schema.key.names)
        for number, file in enumerate(self._owner.files):
            groups = groups_in(file.path, self._owner.interval)
            groups = _groups_with(file.path, groups, first, self._owner.interval)
            if not groups:
                continue
            deleted = deleted_positions(file.name, file.deletes)
            for batch in read_row_groups(
                file.path, kept, groups=groups, deleted=deleted, positions=True
            ):
                if batch.num_rows:
                    there = batch.select(list(names))
                    edges = pc.min_max(there.column(names[0])).as_py()
                    start = first_from(first, edges["min"])
                    end = first_beyond(first, edges["max"])
                    partner = partners(there, wanted.slice(start, end - start), kept, keyed)
                    found = np.flatnonzero(partner >= 0)
                    files[start + found] = number
                    positions[start + found] = batch.column(POS).to_numpy()[partner[found]]
        return files, positions

    def _settle(self, old: pa.RecordBatch, given: pa.RecordBatch | None) -> None:
        """Put aside what rows that were given change in old ones of the same keys."""
        before, mode = self._owner.before, self._owner.mode
        where = old.select([FILE, POS])
        old = old.select(list(before.names))
        if given is None:
            given = pa.RecordBatch.from_pylist([], schema=arrow_schema(self._schema))
        partner = partners(old, given, before, self._schema)
        there = partner >= 0
        if mode == "delete":
            self._put_aside(old, where, partner[there], None, 0)
            return
        if mode == "append" and there.any():
            first = int(np.flatnonzero(there)[0])
            key = tuple(given.column(name)[first].as_py() for name in self._names)
            raise PatchError(
                f"{self._owner.path} already has a row {describe_key(key)}",
                hints=("an insert needs a key that is not there",),
            )
        rows = self._whole(given, old, partner)
        paired = np.flatnonzero(there)
        same = equal_rows(
            pc.take(old, arrow_array(partner[paired])),
            rows if len(paired) == rows.num_rows else pc.take(rows, arrow_array(paired)),
            before,
            self._schema,
        )
        changes = ~there
        changes[paired[~same]] = True
        goes = partner[paired[~same]]
        if mode == "overwrite":
            stays = np.zeros(old.num_rows, bool)
            stays[partner[paired]] = True
            goes = np.concatenate([goes, np.flatnonzero(~stays)])
        come = rows if changes.all() else pc.filter(rows, arrow_array(changes))
        self._put_aside(old, where, goes, come, int((~same).sum()))

    def _whole(
        self, given: pa.RecordBatch, old: pa.RecordBatch, partner: Indices
    ) -> pa.RecordBatch:
        """Return rows in all columns; those not given keep the values of rows that are there."""
        absent = partner < 0
        for column in arrow_schema(self._schema):
            if column.name not in given.schema.names:
                taken = pc.take(old.column(column.name), arrow_array(partner, absent=absent))
                given = given.append_column(column, taken)
        return conform(given, self._schema)

    def _put_aside(
        self,
        old: pa.RecordBatch,
        where: pa.RecordBatch,
        goes: Indices,
        come: pa.RecordBatch | None,
        updates: int,
    ) -> None:
        inserts = 0 if come is None else come.num_rows - updates
        self._counts += ChangeCounts(inserts, updates, len(goes) - updates)
        if come is not None:
            self._bring(come)
        if len(goes):
            files = where.column(FILE).to_numpy()[goes]
            gone = conform(pc.take(old, arrow_array(goes)), self._owner.before)
            self._take_away(gone, files, where.column(POS).to_numpy()[goes], self._owner.before)

    def _bring(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        self._come.add(rows)
        self._bytes += rows.nbytes
        if not self._touched.many:
            # Without a key a row is told by all of it, as whoever merges has it.
            self._touched.add(hash_keys(rows, self._schema))

    def _take_away(
        self, gone: pa.RecordBatch, files: Indices, positions: Indices, schema: Schema
    ) -> None:
        if not gone.num_rows:
            return
        self._deleted_rows += gone.num_rows
        hashed = hash_rows(gone, schema)
        self._old.add(hashed.digests)
        self._touched.add(hashed.keys)
        self._bytes += gone.nbytes
        for number in distinct(files).tolist():
            chosen = np.flatnonzero(files == number)
            chosen = chosen[np.argsort(positions[chosen], kind="stable")]
            rows = pc.take(gone, arrow_array(chosen))
            self._going.add(self._owner.files[number].name, positions[chosen], rows)

    # Writing

    def finish(self) -> OwnerReport:
        """Write what was put aside, and say what was done."""
        deleted = {file.name: self._deleted(file) for file in self._owner.files if file.whole}
        # Where the epoch stays open, a file that left would meet edits of its other rows.
        closes = self._touched.many or len(self._touched.keys) > ledger.MOST_KEYS
        alone = {
            file.name
            for file in self._owner.files
            if closes
            and file.name in self._going.files
            and file.whole
            and len(deleted[file.name]) >= MOSTLY_DELETED * file.rows
        }
        leaving = {
            file.name: file
            for file in self._owner.files
            if file.name in alone or file.name in self._owner.rewritten
        }
        report = OwnerReport(
            counts=self._counts,
            old=self._old.sums,
            keys=None if self._touched.many else self._touched.keys,
            host=platform.node(),
        )
        changed = max(self._counts.total, self._deleted_rows)
        if not leaving and changed <= self._owner.few and self._bytes <= FEW_BYTES:
            come = tuple(self._come.batches())
            for batch in come:
                self._new.add(hash_rows(batch, self._schema).digests)
            gone = tuple(
                GoneRows(each.file, each.positions, each.rows, each.large)
                for each in self._going.deletions(set())
            )
            return replace(report, new=self._new.sums, come=come, gone=gone)
        written = list(self._write(leaving, deleted))
        files = self._distinct(written, {file.name for file in self._owner.files})
        removed = [
            each for each in self._owner.deletes if not leaving.keys().isdisjoint(each.targets)
        ]
        places = {file.name: file.path for file in self._owner.files}
        for each in removed:
            self._going.carry(each.path, sorted(set(each.targets) - leaving.keys()), places)
        deletes = write_delete_file(
            self._going.deletions(leaving.keys()),
            self._owner.layout,
            self._store,
            origin=Origin.EDIT,
        )
        if deletes is not None:
            files.append(deletes)
        names = (*sorted(alone), *(each.name for each in removed))
        return replace(report, files=tuple(files), removed=names, new=self._new.sums)

    def _distinct(self, written: Sequence[WrittenFile], seen: Set[str]) -> list[WrittenFile]:
        return distinct_files(written, self._owner.layout, self._store, self._keys, seen=seen)

    def _deleted(self, file: OldFile) -> Positions:
        before = deleted_positions(file.name, file.deletes)
        taken = self._going.positions(file.name)
        return distinct(taken if before is None else np.concatenate([taken, before]))

    def _write(
        self, leaving: Mapping[str, OldFile], deleted: Mapping[str, Positions]
    ) -> Iterator[WrittenFile]:
        """Write the rows that come, with what is left of files that leave."""
        batches = self._come.batches()
        deleted = {name: deleted.get(name, self._deleted(file)) for name, file in leaving.items()}
        left = {n: file for n, file in leaving.items() if len(deleted[n]) < file.rows}
        if left:
            imported = all(file.origin is Origin.IMPORT for file in left.values())
            origin = Origin.IMPORT if imported else Origin.FOLD
            batches = self._merged(self._counted(batches), left, deleted)
        else:
            origin = Origin.EDIT
        written = write_data_files(
            batches, self._owner.layout, self._store, self._keys, origin=origin
        )
        for file in written:
            if not left:
                self._new.add(file.digests)
            yield file

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._new.add(hash_rows(batch, self._schema).digests)
            yield batch

    def _merged(
        self,
        come: Iterator[pa.RecordBatch],
        left: Mapping[str, OldFile],
        deleted: Mapping[str, Positions],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows that come and those left in files, in key order."""
        coming = SortedPieces([come], self._names)
        for interval in parts_of(self._owner):
            kept = (
                interval.only(batch, self._schema)
                for name, file in left.items()
                for batch in read_row_groups(
                    file.path,
                    self._schema,
                    groups=groups_in(file.path, interval),
                    deleted=deleted[name],
                )
            )
            new = (rows for _, rows in coming.below(interval.high) if rows is not None)
            every = [batch for batch in chain(kept, new) if batch.num_rows]
            if every:
                yield sort_by_key(one_batch(every), self._schema)


def parts_of(owner: Owner) -> list[Interval]:
    """Return an owner's interval in parts that fit in memory, cut where row groups begin."""
    whole = owner.interval
    cuts = [
        part.low
        for part in cut_intervals([(file.path, file.rows) for file in owner.files], whole.field_id)
        if part is not None and part.low is not None
        if (whole.low is None or part.low > whole.low)
        and (whole.high is None or part.low < whole.high)
    ]
    edges = [whole.low, *cuts, whole.high]
    return [Interval(whole.field_id, low, high) for low, high in pairwise(edges)]


def store_at(place: str, stack: ExitStack) -> DataFileStore:
    """Return the store that new files go to; raises where this machine does not see it."""
    if is_url(place):
        return stack.enter_context(FarFileStore(place))
    if not Path(place).is_dir():
        raise EngineError(
            f"the worker on {platform.node()} does not see the folder {place}",
            hints=UNSEEN,
        )
    return DataFileStore(Path(place))


def _groups_with(
    path: str, groups: Sequence[int], keys: pa.Array, interval: Interval
) -> tuple[int, ...]:
    """Return those of some row groups that may hold one of some keys, which are in order."""
    ranges = key_ranges(path, interval.field_id)
    chosen = []
    for group in groups:
        found = ranges[group]
        if found is not None:
            first = bisect_left(range(len(keys)), found[0], key=lambda index: keys[index].as_py())
            if first == len(keys) or keys[first].as_py() > found[1]:
                continue
        chosen.append(group)
    return tuple(chosen)
