"""Who last changed each row or cell of a dataset, and when.

Which commits changed some rows, or the cells of some columns.

`store.log` walks the commits and skips those that did not touch the dataset; what it
asks here is whether a commit that did left the rows in question alone. Whole columns
are told apart by their digests, which costs no row.
"""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.kinds import DEFAULT, find_kind
from havasu_vc.datasets.pairing import same_key
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError
from havasu_vc.history.blame import Blamed, ChosenRows, Walked, blame, changed_cells
from havasu_vc.history.diff import row_changes
from havasu_vc.looking.commit_values import info_of
from havasu_vc.looking.requests import BlameRequest
from havasu_vc.looking.rows import require_rows
from havasu_vc.looking.tables import Table
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import Blame
from havasu_vc.model.names import TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.filter_texts import split_filter
from havasu_vc.repo.filters import keys_batch
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.log import children_first, ends_of_history
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder, find_datasets, find_entry

__all__ = ["DatasetVersions", "RowHistory", "blame_dataset", "column_id"]

REMEMBERED = 64
MOST_SORTED = 1 << 20
"""Rows up to which blame of a whole table comes in key order rather than file order."""


def blame_dataset(repo: OpenRepo, request: BlameRequest) -> Blame:
    """Return who last changed the rows of a dataset at a revision, or their cells.

    `keys` gives only some rows: values of the key, tuples of values, or text as in filters.
    """
    keys, revision = request.keys, request.revision
    start = repo.resolve(revision).commit
    if start is None:
        raise InvalidArgumentError(f"{revision} is no commit")
    view = repo.dataset(request.dataset, revision)
    if not view.key:
        raise InvalidArgumentError(
            f"{view.path} has no key, so its rows cannot be followed through history",
            hints=(
                f"`havasu-vc log -- {shlex.quote(view.path)}` lists the commits that changed it",
            ),
        )
    names = tuple(request.columns or ())
    wanted = None if keys is None else keys_batch(keys, view.schema)
    ids = [column_id(view, name) for name in names]
    with repo.settings.open_engine(0 if keys is not None else view.size) as engine:
        chosen = None if wanted is None else ChosenRows(wanted, view.schema, engine)
        if chosen is not None and wanted is not None:
            require_rows(view, chosen, wanted)
        versions = DatasetVersions(repo, view.path, view.identity)
        found = blame(versions.walk(start), versions.at, start, engine, chosen=chosen, columns=ids)
    every = list(dict.fromkeys(commit for blamed in found for commit in blamed.commits))
    for end in sorted(set(every) & set(ends_of_history(repo.git))):
        repo.settings.note(
            f"this clone is shallow: rows of {end[:7]} may be of commits before it; "
            "`havasu-vc fetch --unshallow` brings these"
        )
    infos = tuple(info_of(read_commit(repo.git.objects, commit), {}) for commit in every)
    place = {commit: at for at, commit in enumerate(every)}
    batches = _batches(repo, view, wanted, names, [(b, _renumbered(b, place)) for b in found])
    return Blame(view.path, start, view.key.names, names, infos, batches)


def column_id(view: Dataset, name: str) -> int:
    """Return the field id of a column."""
    for field in view.schema.fields:
        if field.name == name:
            return field.id
    raise InvalidArgumentError(
        f"{view.path} has no column {name!r}",
        hints=(f"its columns are {', '.join(view.schema.names)}",),
    )


def _renumbered(blamed: Blamed, place: Mapping[str, int]) -> pa.Array:
    return pa.array([place[commit] for commit in blamed.commits], pa.int32())


def _batches(
    repo: OpenRepo,
    view: Dataset,
    wanted: pa.RecordBatch | None,
    names: tuple[str, ...],
    found: list[tuple[Blamed, pa.Array]],
) -> Iterator[pa.RecordBatch]:
    for keys in _keys(repo, view) if wanted is None else [wanted]:
        hashes = hash_keys(keys, view.schema)
        places = [pc.take(numbers, arrow_array(blamed.places(hashes))) for blamed, numbers in found]
        second = pa.StructArray.from_arrays(places, list(names)) if names else places[0]
        key = pa.StructArray.from_arrays(keys.columns, list(view.key.names))
        yield pa.RecordBatch.from_arrays([key, second], ["key", "cells" if names else "commit"])


def _keys(repo: OpenRepo, view: Dataset) -> Iterator[pa.RecordBatch]:
    """Yield all keys, in order unless there are too many to sort."""
    names = list(view.key.names)
    batches = Table(view, repo.settings).to_batches(names)
    if view.rows > MOST_SORTED:
        yield from batches
        return
    table = pa.Table.from_batches(batches, arrow_schema(view.schema.select(view.key.names)))
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    yield from pc.take(table, order).to_batches()


class DatasetVersions:
    """One dataset at each commit; the same version is the same view.

    Where nothing is at its path it is looked for elsewhere, by the identity that it keeps
    when it is moved.
    """

    def __init__(self, repo: OpenRepo, path: str, identity: str | None = None) -> None:
        self._repo = repo
        self._paths = [path]
        self._identity = identity
        self._views: OrderedDict[str, Dataset] = OrderedDict()
        self._known: OrderedDict[str, Dataset | None] = OrderedDict()

    def walk(self, start: str) -> Iterator[Walked]:
        """Yield commits that `start` reaches with their parents, children first."""
        for commit in children_first(self._repo.git, [start]):
            yield commit, read_commit(self._repo.git.objects, commit).parents

    def at(self, commit: str) -> Dataset | None:
        """Return the dataset at a commit; None where it is not there."""
        if commit not in self._known:
            objects = self._repo.git.objects
            # Beyond the end of a shallow clone there is nothing.
            there = objects.has(commit)
            tree = read_commit(objects, commit).tree if there else EMPTY_TREE
            self._known[commit] = self.of_tree(tree, commit)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return self._known[commit]

    def of_tree(self, tree: str, name: str) -> Dataset | None:
        """Return the dataset in a commit's tree."""
        for path in self._paths:
            for marker in TABLES:
                found = find_entry(self._repo.git.objects, tree, f"{path}/{marker}")
                if found is not None and found.is_tree:
                    return self._view(DatasetFolder(path, marker, tree, found.id), name)
        return self._moved(tree, name)

    def _moved(self, tree: str, name: str) -> Dataset | None:
        """Return the dataset under another path than those where it was found before."""
        for folder in find_datasets(self._repo.git.objects, tree) if self._identity else ():
            view = self._view(folder, name) if find_kind(folder.marker) else None
            if view is not None and view.identity == self._identity:
                self._paths.append(folder.path)
                return view
        return None

    def _view(self, folder: DatasetFolder, name: str) -> Dataset:
        view = self._views.get(folder.internals)
        if view is None:
            view = self._views[folder.internals] = self._repo.view(folder, name)
            if len(self._views) > REMEMBERED:
                self._views.popitem(last=False)
        return view


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
        folder = self._repo.last_folder(start, path)
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
            raise DatasetNotFoundError(path, start.name, self._repo.folders(start))
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
