"""Which commits changed some rows, or the cells of some columns.

`store.log` walks the commits and skips those that did not touch the dataset; what it
asks here is whether a commit that did left the rows in question alone. Whole columns
are told apart by their digests, which costs no row.
"""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.datasets.kinds import DEFAULT, find_kind
from havasu_vc.datasets.pairing import same_key
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError
from havasu_vc.history.blame import changed_cells
from havasu_vc.history.diff import row_changes
from havasu_vc.history.row_changes import ChosenRows
from havasu_vc.looking.blaming import DatasetVersions, column_id
from havasu_vc.looking.rows import keys_batch
from havasu_vc.records import dataclass
from havasu_vc.repo.filters import split_filter
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Commit
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import find_entry

__all__ = ["RowHistory"]


@dataclass(frozen=True, slots=True)
class _Watched:
    """One filter of a log."""

    versions: DatasetVersions
    chosen: ChosenRows | None
    columns: tuple[int, ...]
    path: str
    """Its path in a tree, where no row is looked at."""


class RowHistory:
    """Tells commits that changed certain rows or columns from others of the dataset."""

    def __init__(
        self,
        repo: OpenRepo,
        start: Revision,
        filters: Sequence[str],
        columns: Sequence[str],
        engine: Engine,
    ) -> None:
        self._repo = repo
        self._engine = engine
        self._watched = [self._watch(start, text, columns) for text in filters]
        if not filters:
            raise InvalidArgumentError("columns are of a dataset: name it too")

    def _watch(self, start: Revision, text: str, columns: Sequence[str]) -> _Watched:
        path, kind, key = split_filter(text)
        folder = self._repo.folders(start).get(path)
        readable = folder is not None and find_kind(folder.marker) is not None
        view = self._repo.view(folder, start.name) if folder is not None and readable else None
        identity = None if view is None else view.likely_identity
        versions = DatasetVersions(self._repo, path, identity)
        marker = DEFAULT.marker if folder is None else folder.marker
        inside = f"{path}/{marker}"
        if kind == "meta":
            return _Watched(versions, None, (), f"{inside}/meta/{key}".rstrip("/"))
        rows = (find_kind(marker) or DEFAULT).rows
        if not key and not columns:
            return _Watched(versions, None, (), f"{inside}/{rows}" if kind else path)
        if view is None:
            raise DatasetNotFoundError(path, start.name)
        ids = tuple(column_id(view, name) for name in columns)
        if not key:
            return _Watched(versions, None, ids, path)
        if not view.key:
            raise InvalidArgumentError(f"{path} has no key to choose a row by")
        chosen = ChosenRows(keys_batch([key], view.schema), view.schema, self._engine)
        return _Watched(versions, chosen, ids, path)

    def alike(self, parent: Commit | None, commit: Commit) -> bool:
        """Whether a commit left everything that is watched as it is in a parent."""
        return all(self._alike(each, parent, commit) for each in self._watched)

    def _alike(self, watched: _Watched, parent: Commit | None, commit: Commit) -> bool:
        if watched.chosen is None and not watched.columns:
            objects = self._repo.git.objects
            old = None if parent is None else find_entry(objects, parent.tree, watched.path)
            return old == find_entry(objects, commit.tree, watched.path)
        before = None if parent is None else watched.versions.of_tree(parent.tree, parent.id)
        after = watched.versions.of_tree(commit.tree, commit.id)
        if before is None or after is None:
            there = before or after
            return there is None or not _has_some(watched, there)
        if watched.chosen is None:
            sums = before.digests, after.digests
            if sums[0] is None or sums[1] is None:
                return self._cells_alike(watched, before, after)
            return all(sums[0].get(column) == sums[1].get(column) for column in watched.columns)
        if not same_key(before.schema, after.schema):
            return False
        for batch, _ in watched.chosen.changes(before, after):
            if not watched.columns:
                return False
            if any(changed_cells(batch, before, after, c).any() for c in watched.columns):
                return False
        return True

    def _cells_alike(self, watched: _Watched, before: Dataset, after: Dataset) -> bool:
        """Whether the cells of columns are alike, where no digests tell."""
        if not same_key(before.schema, after.schema):
            return False
        for batch in row_changes(before, after, self._engine):
            if any(changed_cells(batch, before, after, c).any() for c in watched.columns):
                return False
        return True


def _has_some(watched: _Watched, view: Dataset) -> bool:
    """Whether a version has something that is watched."""
    if watched.chosen is not None:
        return bool(watched.chosen.rows(view).num_rows)
    return bool(view.rows) and any(column in view.schema.by_id for column in watched.columns)
