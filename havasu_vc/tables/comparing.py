"""Which rows two snapshots do not share, as positions in data files.

A row is told by its data file and position. Files that both snapshots hold with the same
rows gone are left out, whichever delete files say so: a delete file is often replaced by
one with its positions and some more. Cost follows the files that differ; data manifests
of both sides are read only until the files that changed deletes reach are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.formats.iceberg.values import DataFileContent, ManifestContent, ManifestFile
from havasu_vc.tables.deletes import DeleteIndex, only_target
from havasu_vc.tables.live import FileDifference, LiveFile, compare_files
from havasu_vc.tables.positions import read_position_deletes
from havasu_vc.tables.scanning import RowSource, SourcePlanner, deleted_rows
from havasu_vc.tables.snapshots import live_files_of, manifests_of, snapshot_of
from havasu_vc.tables.table import Table

__all__ = ["ComparedFile", "FileSide", "compare_rows"]


@dataclass(frozen=True, slots=True)
class FileSide:
    """A data file as one snapshot holds it."""

    file: LiveFile
    """The file."""
    source: RowSource
    """How to read its live rows."""
    deleted: Positions
    """The rows of it that are gone, ascending."""


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """A data file of which two snapshots do not hold the same rows."""

    old: FileSide | None
    """In the old snapshot; None when it does not hold the file."""
    new: FileSide | None
    """In the new snapshot; None when it does not hold the file."""

    @property
    def location(self) -> str:
        """Where the file is, as its manifest spells it."""
        side = self.old or self.new
        assert side is not None
        return side.file.file.path

    @property
    def deleted(self) -> Positions:
        """Rows that are gone only in the new snapshot; of a file that both hold."""
        return self._only(self.new, self.old)

    @property
    def restored(self) -> Positions:
        """Rows that were gone only in the old snapshot; of a file that both hold."""
        return self._only(self.old, self.new)

    def _only(self, one: FileSide | None, other: FileSide | None) -> Positions:
        if one is None or other is None:
            return np.empty(0, np.int64)
        return one.deleted[~np.isin(one.deleted, other.deleted)]


def compare_rows(table: Table, old_id: int | None, new_id: int | None) -> Iterator[ComparedFile]:
    """Yield the data files of which two snapshots do not hold the same rows.

    First files that only the old snapshot holds, then only the new, then both.
    """
    sides = [_Side(table, each) for each in (old_id, new_id)]
    shared = sides[0].manifests.keys() & sides[1].manifests.keys()
    apart = [side.files(path for path in side.manifests if path not in shared) for side in sides]
    found = compare_files(*apart)
    old, new = sides
    for each in found.removed_data:
        yield ComparedFile(old.of(each), None)
    for each in found.added_data:
        yield ComparedFile(None, new.of(each))
    for before, after in _reached(table, found, apart[1], old, shared):
        compared = ComparedFile(old.of(before), new.of(after))
        assert compared.old is not None
        assert compared.new is not None
        if not np.array_equal(compared.old.deleted, compared.new.deleted):
            yield compared


class _Side:
    """One of the two snapshots."""

    def __init__(self, table: Table, snapshot_id: int | None) -> None:
        snapshot = None if snapshot_id is None else snapshot_of(table, snapshot_id)
        self._table = table
        self._planner = SourcePlanner(table)
        self._index: DeleteIndex | None = None
        self.manifests: dict[str, ManifestFile] = {
            each.path: each for each in manifests_of(table, snapshot)
        }

    def files(self, paths: Iterable[str]) -> tuple[LiveFile, ...]:
        return live_files_of(self._table, (self.manifests[path] for path in paths))

    def of(self, file: LiveFile) -> FileSide:
        if self._index is None:
            deletes = (
                path
                for path, each in self.manifests.items()
                if each.content is ManifestContent.DELETES
            )
            specs = self._table.metadata.partition_specs
            self._index = DeleteIndex(self.files(deletes), specs)
        source = self._planner.source(file, self._index)
        return FileSide(file, source, deleted_rows(source))


def _reached(
    table: Table,
    found: FileDifference,
    newer: tuple[LiveFile, ...],
    old: _Side,
    shared: set[str],
) -> Iterator[tuple[LiveFile, LiveFile]]:
    """Yield the data files of both snapshots, old and new, that changed deletes may reach."""
    renumbered = [pair for pair in found.renumbered if pair[0].is_data]
    yield from renumbered
    changed = [*found.removed_deletes, *found.added_deletes]
    changed += [each for pair in found.renumbered for each in pair if not each.is_data]
    if not changed:
        return
    specs = table.metadata.partition_specs
    equality = DeleteIndex((each for each in changed if _compares(each)), specs)
    targets = _targets(table, (each for each in changed if not _compares(each)))
    seen = {each.file.path for pair in renumbered for each in pair}
    seen |= {each.file.path for each in found.added_data}
    for each in newer:
        if each.is_data and each.file.path not in seen:
            targets_it = each.file.path in targets
            targets.discard(each.file.path)
            if targets_it or equality.equality_deletes(each):
                yield each, each
    for path in shared:
        if not targets and not equality:
            return
        if old.manifests[path].content is ManifestContent.DELETES:
            continue
        for each in old.files((path,)):
            targets_it = each.file.path in targets
            targets.discard(each.file.path)
            if targets_it or equality.equality_deletes(each):
                yield each, each


def _compares(delete: LiveFile) -> bool:
    return delete.file.content is DataFileContent.EQUALITY_DELETES


def _targets(table: Table, deletes: Iterable[LiveFile]) -> set[str]:
    """Return the data files that position delete files name."""
    found: set[str] = set()
    for each in deletes:
        target = only_target(each.file)
        if target is not None:
            found.add(target)
        else:
            found.update(read_position_deletes(table.places.file(each.file.path)))
    return found
