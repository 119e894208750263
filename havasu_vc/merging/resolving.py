"""The conflicts of a merge that waits: choosing some, and resolving them.

Each conflict has a label, as Kart writes it: `parcels:feature:42` for a row,
`parcels:meta:title` for a meta item. A filter may name many at once. Either all that was
named is resolved or nothing is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import (
    InvalidArgumentError,
    NoConflictError,
    NoWorkingCopyError,
    RowNotFoundError,
    StateError,
)
from havasu_vc.history.conflicts import ColumnConflict, DatasetConflicts, conflict_columns
from havasu_vc.history.merge import conflict_keys
from havasu_vc.history.merge_datasets import DATASET, SCHEMA
from havasu_vc.merging.answers import (
    CHOICES,
    WORKING_COPY,
    Resolution,
    Standing,
    answer,
    has_counting_key,
    next_key,
)
from havasu_vc.merging.kart_merges import keep_answers, waiting_state
from havasu_vc.merging.merge_commits import merge_commits
from havasu_vc.merging.state import MergeState
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.schema import Schema
from havasu_vc.repo.filters import DatasetFilter, RepoFilter, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.writers.values import key_labels

__all__ = ["Resolution", "conflicts", "labels", "resolve"]

_Mask = npt.NDArray[np.bool_]


def conflicts(
    repo: OpenRepo, filters: Sequence[str] = (), state: MergeState | None = None
) -> Iterator[DatasetConflicts]:
    """Yield the conflicts that are not resolved, by dataset; `state` where it is known."""
    state = state or waiting_state(repo)
    wanted = parse_filters(filters)
    for each in state.conflicts:
        filter_ = wanted.of(each.path)
        chosen = None if filter_ is None else _chosen(each, filter_)
        if chosen is not None and chosen.total:
            yield _with_columns(repo, state, chosen)


def _chosen(found: DatasetConflicts, filter_: DatasetFilter) -> DatasetConflicts:
    """Return the unresolved conflicts of a dataset that a filter asks for."""
    rows = found.rows
    if rows is not None:
        rows = pc.filter(rows, arrow_array(_selected(rows, filter_)))
    items = dict.fromkeys(_selected_items(found, filter_))
    waiting = {name: each for name, each in found.columns.items() if each.side is None}
    return DatasetConflicts(
        found.path,
        rows if rows is not None and rows.num_rows else None,
        items,
        waiting if SCHEMA in items else {},
    )


def _selected_items(found: DatasetConflicts, filter_: DatasetFilter) -> list[str]:
    """Return the unresolved meta items that a filter means."""
    if not filter_.meta:
        return []
    wanted = filter_.items
    return [
        name
        for name, choice in found.items.items()
        if choice is None and (wanted is None or name in wanted)
    ]


def _selected(rows: pa.Table, filter_: DatasetFilter) -> _Mask:
    """Return which unresolved rows a filter means."""
    waiting: _Mask = pc.is_null(rows.column("resolution")).to_numpy()
    if not filter_.rows:
        return np.zeros(rows.num_rows, bool)
    if filter_.keys is not None:
        named = pc.is_in(labels(rows), value_set=pa.array(sorted(filter_.keys)))
        waiting = waiting & named.to_numpy(zero_copy_only=False)
    return waiting


def labels(rows: pa.Table) -> pa.StringArray:
    """Return what each row in conflict is called after `dataset:feature:`.

    Without a key, that is the beginning of the hash of its values.
    """
    schema = conflict_columns(rows)
    table = rows.combine_chunks()
    if not schema.key:
        return key_labels(table.column("base").combine_chunks(), schema)
    sides = [table.column(side).combine_chunks() for side in ("ours", "theirs", "base")]
    columns = [
        pc.coalesce(*(pc.struct_field(side, name) for side in sides)) for name in schema.key.names
    ]
    return key_labels(pa.StructArray.from_arrays(columns, list(schema.key.names)), schema)


def resolve(
    repo: OpenRepo,
    filters: Sequence[str],
    resolution: Resolution,
    standing: Standing | None = None,
) -> int:
    """Resolve the conflicts that filters name, all of them without one; return how many.

    `standing` gives the rows of a working copy, where these are to be taken.
    """
    resolution.check()
    if resolution.choice == WORKING_COPY and standing is None:
        raise NoWorkingCopyError(
            "there is no working copy to take rows from",
            hints=("`havasu-vc create-workingcopy` makes it, before the merge",),
        )
    state = waiting_state(repo)
    filters = _known(state, filters, renumbers=resolution.renumber is not None)
    wanted = parse_filters(filters)
    count = 0
    for each in state.conflicts:
        filter_ = wanted.of(each.path)
        if filter_ is not None:
            if resolution.renumber is not None and filters:
                _require_numbers(each)
            state, resolved = _resolve_dataset(repo, state, each, filter_, resolution, standing)
            count += resolved
    if not count:
        raise NoConflictError(
            "no insert/insert conflict with a key of whole numbers waits there"
            if resolution.renumber
            else "no conflict waits",
            hints=("`havasu-vc conflicts` lists what waits",),
        )
    keep_answers(repo, state)
    return count


def _require_numbers(found: DatasetConflicts) -> None:
    """Raise for a dataset that was named and has no key of whole numbers to renumber."""
    if found.rows is None or not has_counting_key(conflict_columns(found.rows)):
        raise StateError(
            f"Dataset {found.path} does not have an integer primary key, by which its rows could "
            "be renumbered"
        )


def _known(state: MergeState, filters: Sequence[str], *, renumbers: bool) -> list[str]:
    """Return filters that each mean a conflict that waits; raises for one that does not."""
    waiting = {each.path: _waiting_labels(each) for each in state.conflicts}
    found = []
    for text in filters:
        # `conflicts` prints labels with a colon behind them.
        known = next((t for t in (text, text.removesuffix(":")) if _means(t, waiting)), None)
        if known is None:
            raise _no_conflict(state, text, "to be renumbered " if renumbers else "")
        found.append(known)
    return found


def _no_conflict(state: MergeState, text: str, purpose: str) -> NoConflictError:
    """Return the error of a filter that means no conflict that waits, for some purpose."""
    every = {
        each.path: (
            frozenset(() if each.rows is None else labels(each.rows).to_pylist()),
            frozenset(each.items),
        )
        for each in state.conflicts
    }
    hint = "`havasu-vc conflicts -s` lists what waits"
    if _means(text, every):
        return NoConflictError(f"the conflict {text!r} is resolved already", hints=(hint,))
    return NoConflictError(f"no conflict that waits {purpose}is named {text!r}", hints=(hint,))


def _waiting_labels(found: DatasetConflicts) -> tuple[frozenset[str], frozenset[str]]:
    """Return the labels of the rows, and of the meta items, that wait."""
    everything = DatasetFilter(found.path)
    rows: frozenset[str] = frozenset()
    if found.rows is not None:
        chosen = pc.filter(found.rows, arrow_array(_selected(found.rows, everything)))
        rows = frozenset(labels(chosen).to_pylist())
    return rows, frozenset(_selected_items(found, everything))


def _means(text: str, waiting: Mapping[str, tuple[frozenset[str], frozenset[str]]]) -> bool:
    wanted: RepoFilter = parse_filters([text])
    for path, (rows, items) in waiting.items():
        filter_ = wanted.of(path)
        if filter_ is None:
            continue
        if filter_.rows and (rows if filter_.keys is None else rows & filter_.keys):
            return True
        if filter_.meta and (items if filter_.items is None else items & filter_.items):
            return True
    return False


def _resolve_dataset(
    repo: OpenRepo,
    state: MergeState,
    found: DatasetConflicts,
    filter_: DatasetFilter,
    resolution: Resolution,
    standing: Standing | None,
) -> tuple[MergeState, int]:
    """Resolve what a filter means of one dataset; return the state and how many."""
    names = _selected_items(found, filter_) if resolution.renumber is None else []
    by_column = SCHEMA in names and bool(resolution.columns) and not filter_.rows
    for name in names:
        if not (by_column and name == SCHEMA):
            _check_item(found.path, name, resolution)
    count = len(names)
    items = {**found.items, **dict.fromkeys(names, resolution.choice)}
    after = replace(found, items=items)
    if by_column:
        after, count = _resolve_columns(_with_columns(repo, state, found), resolution)
    if filter_.rows and after.unresolved_rows and items.get(SCHEMA, "") is None:
        raise InvalidArgumentError(
            f"the columns of {found.path} are in conflict, which decides what its rows look like",
            hints=(
                f"first `havasu-vc resolve {shlex.quote(found.path)}:meta:{SCHEMA} "
                f"--with=ours`, or theirs",
            ),
        )
    state = state.with_dataset(after)
    theirs = any(each.side == "theirs" for each in after.columns.values())
    if SCHEMA in names and (after.items[SCHEMA] == "theirs" or (theirs and after.items[SCHEMA])):
        after = _under_other_columns(repo, state, after)
    if after.rows is None:
        return state.with_dataset(after), count
    after, count = _resolve_rows(repo, state, after, filter_, resolution, standing)
    return state.with_dataset(after), len(names) + count


def _with_columns(repo: OpenRepo, state: MergeState, found: DatasetConflicts) -> DatasetConflicts:
    """Return conflicts that say which columns they are about, as old states do not."""
    if found.columns or found.items.get(SCHEMA, "") is not None:
        return found
    bare = next(each for each in state.conflicts if each.path == found.path)
    result = merge_commits(repo, state.with_dataset(replace(bare, rows=None)), dry_run=True)
    again = next((each for each in result.conflicts if each.path == found.path), found)
    return replace(found, columns=again.columns)


def _resolve_columns(
    found: DatasetConflicts, resolution: Resolution
) -> tuple[DatasetConflicts, int]:
    """Settle columns of the schema one by one; return how many."""
    label = f"{found.path}:meta:{SCHEMA}"
    wanted = dict(resolution.columns or {})
    waiting = [name for name, each in found.columns.items() if each.side is None]
    for name, side in wanted.items():
        if name not in waiting:
            raise NoConflictError(
                f"column {name!r} is not in conflict in {label}",
                hints=(f"in conflict: {', '.join(map(column_name, waiting))}",),
            )
        if side == "base":
            raise InvalidArgumentError(f"{label} is resolved with ours or theirs, by column too")
    if resolution.choice is not None:
        _check_item(found.path, SCHEMA, replace(resolution, columns=None))
        wanted = {**dict.fromkeys(waiting, resolution.choice), **wanted}
    columns = {
        name: ColumnConflict(each.kinds, wanted.get(name, each.side))
        for name, each in found.columns.items()
    }
    left = any(each.side is None for each in columns.values())
    items = {**found.items, SCHEMA: None if left else "columns"}
    return replace(found, items=items, columns=columns), len(wanted)


def column_name(name: str) -> str:
    """Return what a column in conflict is called."""
    return name or "the key"


def _check_item(path: str, name: str, resolution: Resolution) -> None:
    label = f"{path}:meta:{name}"
    choice = resolution.choice
    allowed: tuple[str, ...] = CHOICES
    if name in (SCHEMA, DATASET):
        allowed = ("ours", "theirs")
    elif name.startswith("crs/"):
        allowed = ("ours", "theirs", "base")
    if choice not in allowed or resolution.columns or resolution.gives_row:
        raise InvalidArgumentError(
            f"{label} is resolved with {', '.join(allowed[:-1])} or {allowed[-1]}"
        )


def _under_other_columns(
    repo: OpenRepo, state: MergeState, found: DatasetConflicts
) -> DatasetConflicts:
    """Return the conflicts of a dataset whose columns were decided: its rows are others now."""
    bare = replace(found, rows=None)
    result = merge_commits(repo, state.with_dataset(bare), dry_run=True)
    again = next((each for each in result.conflicts if each.path == found.path), bare)
    if again.items.get(SCHEMA, "") is None:
        # One answer may bring up another question.
        return again
    return replace(bare, rows=again.rows)


def _resolve_rows(
    repo: OpenRepo,
    state: MergeState,
    found: DatasetConflicts,
    filter_: DatasetFilter,
    resolution: Resolution,
    standing: Standing | None,
) -> tuple[DatasetConflicts, int]:
    if found.rows is None:
        return found, 0
    table = found.rows.combine_chunks()
    chosen = _selected(table, filter_)
    schema = conflict_columns(table)
    if resolution.renumber is not None:
        chosen = _renumberable(table, chosen, schema, filter_)
    places = np.flatnonzero(chosen)
    if not len(places):
        return found, 0
    picked = pc.take(table, arrow_array(places)).combine_chunks()
    names = [f"{found.path}:feature:{label}" for label in labels(picked).to_pylist()]
    first, order = None, None
    if resolution.renumber is not None:
        first = next_key(repo, state, found, len(places))
        listed = repo.dataset(found.path, state.ours).listing_order(
            conflict_keys(picked.to_batches()[0], schema), schema
        )
        order = None if listed is None else listed.to_numpy()
    rows = None
    if resolution.choice == WORKING_COPY and standing is not None and schema.key:
        rows = standing(found.path, conflict_keys(picked.to_batches()[0], schema), schema)
        _require_there(rows, names)
    given = answer(picked, schema, resolution, names, first_key=first, order=order, standing=rows)
    if resolution.gives_row and given["renumbered"].null_count == 0:
        _require_free(repo, state, found, given["renumbered"], schema)
    for name, column in given.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), _put(table.column(at), places, column))
    return replace(found, rows=table), len(places)


def _require_there(rows: pa.StructArray, names: Sequence[str]) -> None:
    """Raise for the first row that is gone from the working copy: a delete is said as such."""
    if rows.null_count:
        name = names[pc.is_valid(rows).to_pylist().index(False)]
        raise RowNotFoundError(
            f"the working copy has no row for {name}",
            hints=(f"`havasu-vc resolve {shlex.quote(name)} --with=delete` deletes it",),
        )


def _require_free(
    repo: OpenRepo,
    state: MergeState,
    found: DatasetConflicts,
    row: pa.StructArray,
    schema: Schema,
) -> None:
    """Raise where the row that is to stand under another key has one that is taken."""
    assert found.rows is not None
    (name,) = schema.key.names
    key = pc.struct_field(row, name)
    taken = pc.struct_field(found.rows.column("renumbered").combine_chunks(), name)
    there = pc.is_in(key, value_set=taken)[0].as_py()
    for commit in (state.ours, state.theirs):
        view = repo.dataset(found.path, commit)
        wanted = pa.RecordBatch.from_arrays([key], list(view.key.names))
        there = there or view.rows_with_keys(wanted).num_rows
    if there:
        raise InvalidArgumentError(
            f"{found.path} already has a row {key[0].as_py()!r}, so no other gets that key"
        )


def _renumberable(table: pa.Table, chosen: _Mask, schema: Schema, filter_: DatasetFilter) -> _Mask:
    """Return the conflicts among those chosen that a new key settles."""
    twice: _Mask = pc.equal(table.column("kind"), "insert/insert").to_numpy()
    # Who names rows gets told what is wrong with them; otherwise what fits is meant.
    named = filter_.keys is not None
    if named and (chosen & ~twice).any():
        raise InvalidArgumentError(
            "only rows that both sides inserted under one key can be renumbered"
        )
    if not has_counting_key(schema):
        if named:
            raise InvalidArgumentError(
                f"rows of {filter_.pattern} have no key of whole numbers to count on",
                hints=("resolve them with --with or --with-file",),
            )
        return np.zeros(len(chosen), bool)
    return chosen & twice


def _put(column: pa.ChunkedArray, places: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return a column with other values in some places."""
    before = column.combine_chunks()
    index = np.arange(len(before))
    index[places] = len(before) + np.arange(len(places))
    # A cast to its own type refuses nulls around what is required inside them.
    given = values if values.type == before.type else pc.cast(values, before.type)
    return pc.take(pa.concat_arrays([before, given]), arrow_array(index))
