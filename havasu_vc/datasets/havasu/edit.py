"""An edit of a dataset while it is put together: what goes, what comes, which files that means.

Changed rows make one small data file and one delete file, whatever is there already, so that
edits of two branches add up. On the default branch small files of earlier edits are merged
once there are many (folding). A change of so many rows that it closes the epoch also
rewrites what would be mostly deleted. A data file that leaves takes its deletes with it, so
every target of a live delete file is live.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import Digests, HashedRows, hash_rows
from havasu_vc.datasets.havasu.apply import collect_changes
from havasu_vc.datasets.havasu.delete_writing import GoingRows, write_delete_file
from havasu_vc.datasets.havasu.documents import past_documents
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.ledger import MOST_KEYS, Change, Touched, change_blobs
from havasu_vc.datasets.havasu.parquet import Positions, read_row_groups
from havasu_vc.datasets.havasu.plan import MOSTLY_DELETED, FileLayout
from havasu_vc.datasets.havasu.verify import mark_verified
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files, write_data_files
from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.pairing import sort_by_key
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.sorting import Spool
from havasu_vc.errors import CorruptDatasetError, StateError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.model.arrays import distinct
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import descendants

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.owners import OwnerReport
    from havasu_vc.datasets.protocol import Dataset, DatasetInFiles
    from havasu_vc.model.changes import ChangeBatch

__all__ = ["Edit", "files_to_fold", "is_small", "meets_all"]


class Edit:
    """Collects deletions and new rows, then writes files. Use it as a context manager."""

    def __init__(
        self,
        dataset: DatasetInFiles,
        *,
        layout: FileLayout | None = None,
        documents: Mapping[str, bytes | None] | None = None,
    ) -> None:
        self.dataset = dataset
        self.layout = layout or dataset.layout
        if not self.layout.schema.fields:
            # Where each side of a merge by git dropped the columns that the other kept.
            raise StateError(
                f"{dataset.path} would have no columns",
                hints=("`havasu-vc revert COMMIT` brings back those that a commit dropped",),
            )
        self._documents = dict(documents or {})
        self._digests = Digests()
        self._counts = ChangeCounts()
        self._rows = 0
        self._touched = Touched()
        self._superseded: frozenset[str] = frozenset()
        self._beyond: DatasetInFiles | None = None
        self._removed: set[str] = set()
        self._adopted: dict[str, Entry] = {}
        self._elsewhere: set[str] = set()
        self._stack = ExitStack()
        self._come = self._spool()
        self._going = GoingRows(self.layout.schema, dataset.path, self._spool)

    @property
    def schema(self) -> Schema:
        """The columns after the edit."""
        return self.layout.schema

    @property
    def counts(self) -> ChangeCounts:
        """The changes collected so far."""
        return self._counts

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
        return self._stack.enter_context(Spool(self.dataset.storage.staging.scratch))

    # Collecting

    def taken(self, entry: Entry) -> Positions:
        """Return the positions of a file that are deleted by this edit so far."""
        return self._going.positions(entry.file)

    def delete(self, entry: Entry, positions: Positions, rows: pa.RecordBatch) -> None:
        """Take rows away."""
        self._going.add(entry.file, positions, rows)

    def add_documents(self, documents: Mapping[str, bytes | None]) -> None:
        """Write or remove documents of the dataset itself, by path."""
        self._documents.update(documents)

    def collect(self, changes: Iterator[ChangeBatch]) -> None:
        """Check changes against the dataset and take them in."""
        collect_changes(self, changes)

    def spell(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Do nothing: data files hold values, which have no spelling."""

    def insert(self, rows: pa.RecordBatch) -> None:
        """Bring rows."""
        self._come.add(rows)

    def remove(self, entry: Entry) -> None:
        """Take a data file away with all of its rows; the caller counts these."""
        self._removed.add(entry.file)

    def adopt(self, entry: Entry, *, elsewhere: bool = False) -> None:
        """Bring a data file as it is, staged or put elsewhere; the caller counts its rows."""
        self._adopted[entry.file] = entry
        if elsewhere:
            self._elsewhere.add(entry.file)

    def take_report(self, report: OwnerReport, *, elsewhere: bool = False) -> None:
        """Take in what the owner of an interval of keys did; its files may be elsewhere."""
        for written in report.files:
            self._adopted[written.entry.file] = written.entry
            if elsewhere:
                self._elsewhere.add(written.entry.file)
        self._removed |= set(report.removed)
        for rows in report.come:
            self._come.add(rows)
        for gone in report.gone:
            self._going.add(gone.file, gone.positions, gone.rows, gone.large)
        self._touched.take(report.keys)
        self.count_digests(report.counts, report.old, report.new)

    def join(self, theirs: Dataset) -> bool:
        """Take the place of what another side has alone, whose content this edit has too.

        Return whether there is any such thing.
        """
        mine, theirs = self.dataset, require_files(theirs)
        known = mine.deltas.keys() | mine.folded.keys()
        self._superseded = frozenset(theirs.deltas.keys() - known)
        if theirs.epoch != mine.epoch and theirs.epoch.number >= mine.epoch.number:
            self._beyond = theirs
        return bool(self._superseded) or self._beyond is not None

    def adopt_rows(self, base: Dataset, theirs: Dataset) -> bool:
        """Take no row as it is stored: a file holds many, which may not all be wanted."""
        return False

    def take_alone(self, base: Dataset, theirs: Dataset) -> None:
        """Take none: a file holds many rows, of which each side may have changed some."""
        return None

    def touch(self, keys: Hashes | None) -> None:
        """Note that the rows of some keys change; None for too many to name."""
        self._touched.take(keys)

    def count(self, counts: ChangeCounts, old: HashedRows, new: HashedRows) -> None:
        """Count changes into the sums."""
        self._touched.add(old.keys)
        self._touched.add(new.keys)
        self.count_digests(counts, old.digests, new.digests)

    def count_digests(
        self, counts: ChangeCounts, old: Mapping[int, Digest], new: Mapping[int, Digest]
    ) -> None:
        """Count changes into the sums, given what the rows that go and come add up to."""
        self._counts += counts
        self._rows += counts.inserts - counts.deletes
        self._digests.subtract(old)
        self._digests.add(new)

    # Writing

    def finish(self, *, fold: bool = True) -> TreeEdit:
        """Write the files and return what changes in the tree."""
        keys = np.empty(0, np.uint64) if self._touched.many else self._touched.keys
        closes = (
            self._touched.many
            or self._beyond is not None
            or len(keys) > MOST_KEYS
            or meets_all(self.dataset, self.schema, self._documents)
        )
        data = ChainMap(self._adopted, cast("dict[str, Entry]", self.dataset.stored_entries))
        adopted = self._adopted.values()
        merged, rewritten = set[str](), set[str]()
        fold = fold and (closes or self.dataset.storage.folds)
        if any(entry.content is Content.DELETES for entry in adopted):
            # Owners of intervals have written again what is mostly deleted.
            fold = False
        elif closes:
            merged, rewritten = self._files_that_leave(data, fold=fold)
        elif fold and self._counts.total:
            merged = files_to_fold(self._foldable(), coming=int(self._come.rows > 0))
        leaving = merged | rewritten | self._removed
        deletes = self._deletes_that_leave(leaving, folding=bool(merged), fold=fold)
        files = self._distinct(self._write_rows(data, merged, rewritten), leaving)
        self._carry(leaving, deletes)
        deleted = write_delete_file(
            self._going.deletions(leaving),
            self.layout,
            self.dataset.storage.staging,
            origin=Origin.EDIT,
        )
        if deleted is not None:
            mark_verified(self.dataset.storage.keys, deleted.entry.file)
            files.append(deleted)
        for entry in adopted:
            if entry.content is Content.DELETES:
                mark_verified(self.dataset.storage.keys, entry.file)
        files += [WrittenFile(e) for file, e in self._adopted.items() if file not in leaving]
        gone = leaving - (self._adopted.keys() - self.dataset.entries.keys())
        return self._tree_edit(
            Change(
                frozenset(gone | {entry.file for entry in deletes}),
                tuple(written.entry for written in files),
                self._rows,
                self._digests.sums,
                keys,
                closes,
                self._superseded,
                self._beyond,
            )
        )

    def _deleted(self, file: str) -> Positions:
        """Return all positions of a file that are deleted after this edit."""
        paths = tuple(self.dataset.file_path(d) for d in self.dataset.deletes.get(file, ()))
        before = deleted_positions(file, paths)
        taken = self._going.positions(file)
        return distinct(taken if before is None else np.concatenate([taken, before]))

    def _files_that_leave(
        self, data: Mapping[str, Entry], *, fold: bool
    ) -> tuple[set[str], set[str]]:
        """Return the files to merge with the new rows, and those to rewrite on their own."""
        touched = {file: len(self._deleted(file)) for file in self._going.files}
        emptied = {file for file, count in touched.items() if count == data[file].rows}
        if self._come.spilled:
            # So many new rows make files of their own, and merging would take them into memory.
            mostly = {
                f
                for f, n in touched.items()
                if data[f].location is None and n >= MOSTLY_DELETED * data[f].rows
            }
            return emptied, mostly - emptied
        # Linked files stay where they are until nothing in them lives, or `optimize` takes them.
        rewritten = {
            file
            for file, count in touched.items()
            if data[file].location is None and count >= MOSTLY_DELETED * data[file].rows
        }
        coming = int(self._come.rows > 0)
        merged = files_to_fold(self._foldable(), coming=coming) if fold else set()
        # What is small or empty joins the new rows; a large file is rewritten by itself.
        merged |= {file for file in rewritten if is_small(data[file])} | emptied
        return merged, rewritten - merged

    def _foldable(self) -> list[Entry]:
        """Return the data files that may be merged: those of ours that stay."""
        found = (*self.dataset.edited_entries(SMALL_FILE), *self._adopted.values())
        data = (entry for entry in found if entry.content is Content.DATA)
        return [e for e in data if e.location is None and e.file not in self._removed]

    def _deletes_that_leave(self, leaving: set[str], *, folding: bool, fold: bool) -> list[Entry]:
        """Return the delete files that name a file that leaves, and with folding all small ones.

        Edits that only delete are folded like others once they are many.
        """
        deletes = {entry.file: entry for found in self.dataset.deletes.values() for entry in found}
        coming = int(bool(self._going.files - leaving))
        many = files_to_fold(deletes.values(), coming=coming) if fold else set()
        if fold and self._counts.total:
            many |= self.dataset.derived_files
        chosen = {
            file: entry
            for file, entry in deletes.items()
            if file in many
            or file in self._removed
            or (folding and is_small(entry))
            or not leaving.isdisjoint(entry.targets)
        }
        return [chosen[file] for file in sorted(chosen)]

    def _write_rows(
        self, data: Mapping[str, Entry], merged: set[str], rewritten: set[str]
    ) -> Iterator[WrittenFile]:
        """Write the new rows together with those of merged files, then each rewritten file."""
        kept = [batch for file in sorted(merged) for batch in self._live_rows(data[file])]
        if kept:
            rows = sort_by_key(pa.concat_batches([*kept, *self._come.batches()]), self.schema)
            fold = any(data[file].origin is not Origin.IMPORT for file in merged)
            yield from self._write([rows], Origin.FOLD if fold else Origin.EDIT)
        else:
            yield from self._write(self._come.batches(), Origin.EDIT)
        for file in sorted(rewritten):
            yield from self._write(self._live_rows(data[file]), data[file].origin)

    def _write(self, batches: Iterable[pa.RecordBatch], origin: Origin) -> Iterator[WrittenFile]:
        storage = self.dataset.storage
        return write_data_files(batches, self.layout, storage.staging, storage.keys, origin=origin)

    def _distinct(self, files: Iterable[WrittenFile], leaving: set[str]) -> list[WrittenFile]:
        storage = self.dataset.storage
        staying = (set(self.dataset.entries) | self._adopted.keys()) - leaving
        return distinct_files(files, self.layout, storage.staging, storage.keys, seen=staying)

    def _live_rows(self, entry: Entry) -> Iterator[pa.RecordBatch]:
        deleted = self._deleted(entry.file)
        return read_row_groups(self.dataset.file_path(entry), self.schema, deleted=deleted)

    def _carry(self, leaving: set[str], replaced: list[Entry]) -> None:
        """Take over what delete files that are replaced say of data files that stay."""
        for entry in replaced:
            if entry.file in self._removed:
                continue  # its owner has taken over what stays
            kept = sorted(entry.targets.keys() - leaving)
            data = {file: str(self.dataset.storage.location(file)) for file in kept}
            self._going.carry(self.dataset.file_path(entry), kept, data)

    def _tree_edit(self, change: Change) -> TreeEdit:
        documents = past_documents(self.dataset.folder, self.layout, self._documents)
        self._check_rows(change)
        if _changes_hashes(self.dataset.schema, self.schema):
            change = replace(change, digests=self._digests_after(documents, change))
        blobs = change_blobs(self.dataset, change, documents)
        away = frozenset(self._elsewhere)
        return TreeEdit(self.dataset.path, blobs, counts=self._counts, elsewhere=away)

    def _check_rows(self, change: Change) -> None:
        """Raise unless the files hold as many rows as were counted."""
        entries = self.dataset.entries
        leaving = [entries[file] for file in change.leaving if file in entries]
        signs = {Content.DATA: 1, Content.DELETES: -1}
        total = self.dataset.rows_in_files
        total += sum(signs[entry.content] * entry.rows for entry in change.coming)
        total -= sum(signs[entry.content] * entry.rows for entry in leaving)
        wanted = self.dataset.rows + change.rows
        if total != wanted:
            raise CorruptDatasetError(
                self.dataset.path, f"its files hold {total} rows where {wanted} were counted"
            )

    def _digests_after(
        self, documents: dict[str, bytes | None], change: Change
    ) -> dict[int, Digest]:
        """Return how digests change where the changes of rows do not tell."""
        blobs = change_blobs(self.dataset, change, documents)
        after = self.dataset.after(TreeEdit(self.dataset.path, blobs))
        digests = Digests()
        for task in after.scan():
            for batch in run_task(task):
                digests.add(hash_rows(batch, self.schema).digests)
        digests.subtract(self.dataset.snapshot.digests)
        return digests.sums


def meets_all(
    dataset: DatasetInFiles, schema: Schema, documents: Mapping[str, bytes | None]
) -> bool:
    """Whether a change of columns or documents bears on every row, so on every other change."""
    old = dataset.schema
    if set(old.identifier_ids) != set(schema.identifier_ids) or _changes_hashes(old, schema):
        return True
    for field in schema.fields:
        before = old.by_id.get(field.id)
        if before is not None and (
            field.geometry != before.geometry or (field.required and not before.required)
        ):
            return True
    return any(
        path.startswith("meta/crs/") and dataset.folder.read(path) not in (None, data)
        for path, data in documents.items()
    )


def _changes_hashes(old: Schema, new: Schema) -> bool:
    """Whether cells that stay hash differently under another schema.

    A part of a nested value counts for the whole, and without a key each column counts
    for the row. Geometries count by what they are, other bytes as they are. What is added
    is null, which counts nothing.
    """
    if any(
        field.id in new.by_id and (field.geometry is None) != (new.by_id[field.id].geometry is None)
        for field in old.fields
    ):
        return True
    gone = old.ids - new.ids
    columns = {field.id for field in old.fields if field.id in gone}
    inside = {field.id for field in descendants(tuple(old.by_id[n] for n in columns))}
    return bool(gone - inside) or (bool(columns) and not new.key)


# Which small files a commit takes up into one.
#
# Deltas are the small data files that edits leave behind. Up to 32 of them may stand;
# beyond that the smallest are merged, as many as are of about one size, so that a row
# is rewritten a number of times that grows with the logarithm of the commits.

MOST_DELTAS = 32
SMALL_FILE = 8 * 1024 * 1024
_TIER = 4


def is_small(entry: Entry) -> bool:
    """Whether a file is small enough to be merged with others."""
    return entry.size < SMALL_FILE


def files_to_fold(entries: Iterable[Entry], *, coming: int = 0) -> set[str]:
    """Return the data files to merge when `coming` more are about to be added."""
    deltas = sorted(
        (e for e in entries if e.origin is not Origin.IMPORT and is_small(e)),
        key=lambda entry: (entry.size, entry.file),
    )
    if len(deltas) + coming <= MOST_DELTAS:
        return set()
    chosen: list[Entry] = []
    size = 0
    for entry in deltas:
        # The next tier starts where a file outweighs much of what is merged already.
        if len(chosen) > MOST_DELTAS // 2 and entry.size * _TIER > size:
            break
        chosen.append(entry)
        size += entry.size
    return {entry.file for entry in chosen}
