"""Bringing back what was: datasets, rows or meta items as they are at another revision.

A whole dataset comes back by its tree, so nothing is read and a dataset that was
deleted is no special case. Rows are compared with those of the other revision, and
only what differs is written; columns that it does not have keep their values.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.checkouts import left_out, working_copy
from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.pairing import equal_rows, pair_rows, same_key
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.editing.metadata import edit_meta, meta_documents
from havasu_vc.editing.requests import RestoreRequest
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import InvalidArgumentError, RowNotFoundError
from havasu_vc.history.blame import ChosenRows
from havasu_vc.history.conflicts import in_columns
from havasu_vc.history.diff import changes_counted, row_changes
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.merging import require_calm
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import meta_changes
from havasu_vc.model.names import HAVASU_MARKER, KART_MARKERS
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.filters import DatasetFilter, RepoFilter, keys_batch, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import on_newest_head
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.soundness import defect
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder

if TYPE_CHECKING:
    from havasu_vc.checkouts import LivingCopy

__all__ = ["restore"]


@dataclass(slots=True)
class _Restored:
    """The part that a commit brings back."""

    edits: list[TreeEdit] = field(default_factory=list)
    internals: dict[str, str | None] = field(default_factory=dict)
    markers: dict[str, str] = field(default_factory=dict)
    counts: dict[str, ChangeCounts] = field(default_factory=dict)
    meta: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def take(self, path: str, other: DatasetFolder | None, mine: DatasetFolder | None) -> None:
        """Take a dataset as it was; None where it goes."""
        self.internals[path] = None if other is None else other.internals
        there = other or mine
        self.markers[path] = HAVASU_MARKER if there is None else there.marker


def restore(repo: OpenRepo, request: RestoreRequest) -> CommitResult:
    """Commit datasets, rows or meta items as they are at `source`; all datasets by default.

    With `columns`, only the cells of these come back, in rows that are on both sides.

    A dataset that is asked for as a whole and is not at `source` goes. Where there is a living
    working copy and no message, rows and columns are restored in that, and nothing is committed.
    """
    filters, columns = request.filters, request.columns
    require_calm(repo)
    wanted = parse_filters(filters)
    if columns:
        wanted = _rows_alone(wanted)
    then = repo.resolve(request.source)
    living = None if request.message is not None or request.dry_run else working_copy(repo)
    if living is not None:
        return _restore_as_edits(repo, living, wanted, then, columns)
    text = request.message or _message(filters, request.source, columns)
    asked = bool(filters)
    return on_newest_head(
        repo,
        lambda: _restore(repo, wanted, then, text, columns, asked=asked, dry_run=request.dry_run),
    )


def _rows_alone(wanted: RepoFilter) -> RepoFilter:
    """Return filters as they are meant where columns are named: rows, and no meta items."""
    if not wanted.filters:
        raise InvalidArgumentError("name the dataset of which columns are to be restored")
    if any(not each.rows for each in wanted.filters):
        raise InvalidArgumentError("a meta item has no columns")
    return RepoFilter(tuple(replace(each, meta=False) for each in wanted.filters))


def _restore(
    repo: OpenRepo,
    wanted: RepoFilter,
    then: Revision,
    message: str,
    columns: Sequence[str],
    *,
    asked: bool,
    dry_run: bool,
) -> CommitResult:
    """Commit what is wanted as it was `then`; `asked` says whether datasets were named."""
    with Transaction(repo, dry_run=dry_run) as transaction:
        now, before = transaction.folders, repo.folders(then)
        paths = sorted(now.keys() | before.keys())
        wanted.check(paths)
        restored = _Restored()
        for path in paths:
            filter_ = wanted.of(path)
            mine, other = now.get(path), before.get(path)
            if filter_ is None or (mine and other and mine.internals == other.internals):
                continue
            if other is not None and (broken := defect(repo, other, then.name)) is not None:
                if asked:
                    raise broken
                repo.tell(path, f"{broken.message}; it is left as it is")
                continue
            new = None if other is None else repo.view(other, then.name)
            if filter_.is_whole and mine is not None:
                broken = defect(repo, mine, "HEAD")
                if broken is not None:
                    # Nobody can tell which rows of it change, so all of them come anew.
                    repo.tell(path, f"{broken.message}; it is replaced as a whole")
                    restored.take(path, other, mine)
                    continue
            old = None if mine is None else transaction.dataset(path)
            with repo.settings.open_engine(sum(v.size for v in (old, new) if v)) as engine:
                if filter_.is_whole:
                    restored.take(path, other, mine)
                    restored.counts[path] = changes_counted(old, new, engine)
                    if old is not None and new is not None:
                        restored.meta[path] = _items_apart(old, new)
                else:
                    edit = _edit(path, old, new, filter_, engine, columns)
                    restored.counts[path] = edit.counts
                    restored.edits += [edit] if edit.blobs else []
        commit = None
        if not dry_run and (restored.edits or restored.internals):
            commit = transaction.commit(
                restored.edits,
                message,
                merge=MergedTree({}, restored.internals, (), restored.markers),
            )
    meta = restored.meta | {edit.path: edit.meta for edit in restored.edits}
    return CommitResult(commit, repo.head_branch, restored.counts, meta=meta)


def _restore_as_edits(
    repo: OpenRepo,
    living: LivingCopy,
    wanted: RepoFilter,
    then: Revision,
    columns: Sequence[str],
) -> CommitResult:
    """Make what is wanted as it was `then` in the working copy, as edits of HEAD's datasets."""
    with Transaction(repo) as transaction:
        now, before = transaction.folders, repo.folders(then)
        paths = sorted(now.keys() | before.keys())
        wanted.check(paths)
        without = left_out(repo.git)
        views: dict[str, Dataset] = {}
        counts: dict[str, ChangeCounts] = {}
        meta: dict[str, tuple[str, ...]] = {}
        for path in paths:
            filter_ = wanted.of(path)
            mine, other = now.get(path), before.get(path)
            if filter_ is None or (mine and other and mine.internals == other.internals):
                continue
            if path in without:
                repo.settings.note(f"{path} is left out of the working copy, so it stays as it is")
                continue
            if mine is None or other is None or mine.marker != other.marker:
                raise InvalidArgumentError(
                    f"{path} is not on both sides, so it cannot be restored in the working copy",
                    hints=("with -m, a commit restores it",),
                )
            if (broken := defect(repo, other, then.name)) is not None:
                raise broken
            old, new = transaction.dataset(path), repo.view(other, then.name)
            asked = _items(old, new, filter_)
            items = [name for name in living.unseen(old, new) if name in asked]
            if items:
                repo.settings.note(
                    f"{path}: {', '.join(items)} cannot stand in the working copy; with -m, a "
                    "commit restores it"
                )
            with repo.settings.open_engine(old.size + new.size) as engine:
                if filter_.is_whole:
                    views[path] = new
                    counts[path] = changes_counted(old, new, engine)
                    meta[path] = tuple(name for name in _items_apart(old, new) if name not in items)
                    continue
                edit = _edit(path, old, new, filter_, engine, columns)
            counts[path] = edit.counts
            meta[path] = tuple(name for name in edit.meta if name not in items)
            if edit.counts.total or meta[path]:
                views[path] = old.after(edit)
        living.show(views, inside_only=True, rows=wanted)
    return CommitResult(None, repo.head_branch, counts, meta=meta, as_edits=bool(views))


def _message(filters: Sequence[str], source: str, columns: Sequence[str]) -> str:
    of = f"{', '.join(columns)} of " if columns else ""
    return f"Restore {of}{', '.join(filters) or 'all datasets'} from {source}"


def _edit(
    path: str,
    old: Dataset | None,
    new: Dataset | None,
    filter_: DatasetFilter,
    engine: Engine,
    columns: Sequence[str],
) -> TreeEdit:
    """Return the edit that brings parts of a dataset back."""
    if old is None or new is None:
        raise InvalidArgumentError(
            f"{path} is not on both sides, so it can only be restored as a whole",
            hints=(f"`havasu-vc restore {shlex.quote(path)}`",),
        )
    items = _items(old, new, filter_)
    if not filter_.rows:
        return edit_meta(old, items, engine)
    if not same_key(old.schema, new.schema):
        raise InvalidArgumentError(
            f"{path} has no key, or another one then, so its rows cannot be told apart",
            hints=(f"`havasu-vc restore {shlex.quote(path)}` brings all of it back",),
        )
    chosen = _columns_on_both(old, new, columns) if columns else None
    schema, documents = meta_documents(old, items)
    if set(schema.identifier_ids) != set(old.schema.identifier_ids):
        raise InvalidArgumentError(f"the key of {path} cannot be restored together with rows")
    more, edit = old.evolved(schema)
    with edit:
        changed = {name: data for name, data in documents.items() if old.folder.read(name) != data}
        edit.add_documents(changed)
        if filter_.keys is None and schema == new.schema and chosen is None:
            take_changes(edit, old, new, engine)
        else:
            edit.collect(_changes(old, new, filter_, schema, engine, chosen))
        if not (edit.counts.total or more or changed):
            return TreeEdit(path, {})
        return edit.finish()


def _columns_on_both(old: Dataset, new: Dataset, names: Sequence[str]) -> frozenset[int]:
    """Return the ids of columns as they are called now, which are there then as well."""
    by_name = {each.name: each.id for each in old.schema.fields}
    for name in names:
        if name not in by_name:
            raise InvalidArgumentError(
                f"{old.path} has no column {name!r}", hints=(f"it has {', '.join(by_name)}",)
            )
        if by_name[name] not in new.schema.by_id:
            raise InvalidArgumentError(f"{old.path} has no column {name!r} at the other revision")
        if by_name[name] in old.schema.identifier_ids:
            raise InvalidArgumentError(f"{name!r} is of the key, by which rows are told apart")
    return frozenset(by_name[name] for name in names)


def _items_apart(old: Dataset, new: Dataset) -> tuple[str, ...]:
    """Return the names of meta items that differ."""
    return tuple(each.name for each in meta_changes(old.header, new.header))


def _items(old: Dataset, new: Dataset, filter_: DatasetFilter) -> dict[str, Any]:
    """Return the meta items to set; None for those that go."""
    if not filter_.meta:
        return {}
    before, after = old.header.meta, new.header.meta
    names = before.keys() | after.keys()
    if filter_.items is not None:
        unknown = sorted(filter_.items - names)
        if unknown:
            raise InvalidArgumentError(f"{old.path} has no meta item {unknown[0]!r} on either side")
        names = names & filter_.items
    return {name: after.get(name) for name in sorted(names) if before.get(name) != after.get(name)}


def _changes(
    old: Dataset,
    new: Dataset,
    filter_: DatasetFilter,
    schema: Schema,
    engine: Engine,
    chosen: frozenset[int] | None,
) -> Iterator[ChangeBatch]:
    """Yield the changes of rows: old ones as they are, new ones in the columns to come.

    With `chosen` columns only these change, of rows that are on both sides.
    """
    if filter_.keys is None:
        batches: Iterator[ChangeBatch] = row_changes(old, new, engine)
    else:
        keys = _keys(filter_.keys, old)
        named = ChosenRows(keys, old.schema, engine)
        mine, other = named.rows(old), named.rows(new)
        if not mine.num_rows and not other.num_rows:
            raise RowNotFoundError(
                f"{old.path} has no row {min(filter_.keys)}, neither now nor then"
            )
        batches = pair_rows(mine, other, old.schema, new.schema)
    for batch in batches:
        yield _in_columns(batch, old.schema, new.schema, schema, chosen)


def _keys(texts: Collection[str], view: Dataset) -> pa.RecordBatch:
    """Return keys that are named; in Kart's datasets what cannot be one is that of no row."""
    try:
        return keys_batch(sorted(texts), view.schema)
    except InvalidArgumentError as error:
        if view.marker not in KART_MARKERS:
            raise
        what = f"{view.path} has no row {min(texts)}, neither now nor then"
        raise RowNotFoundError(what) from error


def _in_columns(
    batch: ChangeBatch, old: Schema, new: Schema, schema: Schema, chosen: frozenset[int] | None
) -> ChangeBatch:
    """Return changes whose new rows are in some columns; what changes nothing is left out."""
    mine = in_columns(batch.old, old, schema)
    other = in_columns(batch.new, new, schema)
    taken = new.by_id.keys() if chosen is None else chosen
    columns = [
        column if target.id in taken else kept
        for target, column, kept in zip(schema.fields, other.columns, mine.columns, strict=True)
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=other.schema)
    both = pc.and_(pc.is_valid(batch.old), pc.is_valid(batch.new))
    updates = both.to_numpy(zero_copy_only=False)
    same = equal_rows(mine, rows, schema, schema) & updates
    if chosen is not None:
        same |= ~updates
    come = struct_of(rows, mask=pc.is_null(batch.new))
    keep = arrow_array(np.flatnonzero(~same))
    return ChangeBatch.from_structs(batch.old.take(keep), come.take(keep))
