"""The conflicts of a merge that waits: looking at them, and resolving them.

Each conflict has a label, as Kart writes it: `parcels:feature:42` for a row,
`parcels:meta:title` for a meta item. A filter may name many at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidArgumentError, NotFoundError
from havasu_vc.repo.filters import DatasetFilter, RepoFilter, parse_filters
from havasu_vc.repo.merge_state import DatasetConflicts, require_state, write_state
from havasu_vc.repo.opened import OpenRepo

__all__ = ["Resolution", "conflicts", "key_names", "labels", "resolve"]

CHOICES = ("ours", "theirs", "base", "delete")
KEYS = b"havasu-vc.keys"


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are to be resolved."""

    choice: str | None = None
    """`ours`, `theirs`, `base` or `delete`; the side of columns that `columns` does not name."""
    columns: Mapping[str, str] | None = None
    """The side of some columns, the rest being `choice` or ours."""
    row: Mapping[str, Any] | None = None
    """The row itself, for a single conflict."""


def conflicts(repo: OpenRepo, filters: Sequence[str] = ()) -> Iterator[DatasetConflicts]:
    """Yield the conflicts that are not resolved, by dataset."""
    state = require_state(repo.git)
    wanted = parse_filters(filters)
    for each in state.conflicts:
        chosen = _chosen(each, wanted)
        if chosen.total:
            yield chosen


def _chosen(found: DatasetConflicts, wanted: RepoFilter) -> DatasetConflicts:
    """Return the unresolved conflicts of a dataset that a filter asks for."""
    filter_ = wanted.of(found.path)
    if filter_ is None:
        return DatasetConflicts(found.path)
    rows = found.rows
    if rows is not None:
        rows = rows.filter(pa.array(_selected(rows, filter_)))
    items = {
        name: side for name, side in found.items.items() if side is None and _is_item(filter_, name)
    }
    return DatasetConflicts(found.path, rows if rows is not None and rows.num_rows else None, items)


def _is_item(filter_: DatasetFilter, name: str) -> bool:
    return filter_.meta and (filter_.items is None or name in filter_.items)


def _selected(rows: pa.Table, filter_: DatasetFilter) -> npt.NDArray[np.bool_]:
    """Return which unresolved rows a filter means."""
    waiting: npt.NDArray[np.bool_] = rows.column("resolution").is_null().to_numpy()
    if not filter_.rows:
        return np.zeros(rows.num_rows, bool)
    if filter_.keys is not None:
        named = pc.is_in(pa.chunked_array([labels(rows)]), value_set=pa.array(sorted(filter_.keys)))
        waiting = waiting & named.to_numpy()
    return waiting


def key_names(rows: pa.Table) -> list[str]:
    """Return the key columns of conflicts; empty without a key."""
    text = (rows.schema.metadata or {}).get(KEYS, b"")
    return text.decode().split("\0") if text else []


def labels(rows: pa.Table) -> pa.Array:
    """Return what each row in conflict is called after `dataset:feature:`."""
    names = key_names(rows)
    if not names:
        return pa.array([str(number) for number in range(rows.num_rows)])
    table = rows.combine_chunks()
    parts = []
    for name in names:
        sides = [
            pc.struct_field(table.column(side).combine_chunks(), name)
            for side in ("ours", "theirs", "base")
        ]
        parts.append(pc.coalesce(*sides).cast(pa.string()))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",")


def resolve(repo: OpenRepo, filters: Sequence[str], resolution: Resolution) -> int:
    """Resolve the conflicts that filters name, all of them without one; return how many."""
    if resolution.choice is not None and resolution.choice not in CHOICES:
        raise InvalidArgumentError(
            f"conflicts cannot be resolved with {resolution.choice!r}",
            hints=(f"choose {', '.join(CHOICES)}",),
        )
    state = require_state(repo.git)
    wanted = parse_filters(filters)
    resolved = 0
    for each in state.conflicts:
        filter_ = wanted.of(each.path)
        if filter_ is None:
            continue
        after, count = _resolved(each, filter_, resolution)
        state = state.with_dataset(after)
        resolved += count
    if not resolved:
        raise NotFoundError(
            f"no conflict that waits is named {' '.join(filters)!r}"
            if filters
            else "no conflict waits",
            hints=("`havasu-vc conflicts` lists them",),
        )
    write_state(repo.git, state)
    return resolved


def _resolved(
    found: DatasetConflicts, filter_: DatasetFilter, resolution: Resolution
) -> tuple[DatasetConflicts, int]:
    count = 0
    rows = found.rows
    if rows is not None:
        chosen = _selected(rows, filter_)
        count = int(chosen.sum())
        if count:
            rows = _with_result(rows, chosen, resolution)
    items = dict(found.items)
    for name, side in found.items.items():
        if side is None and _is_item(filter_, name):
            if resolution.choice not in ("ours", "theirs"):
                raise InvalidArgumentError(
                    f"{found.path}:meta:{name} is resolved with ours or theirs"
                )
            items[name] = resolution.choice
            count += 1
    return replace(found, rows=rows, items=items), count


def _with_result(rows: pa.Table, chosen: npt.NDArray[np.bool_], resolution: Resolution) -> pa.Table:
    table = rows.combine_chunks()
    type_ = table.schema.field("result").type
    if resolution.row is not None:
        if int(chosen.sum()) != 1:
            raise InvalidArgumentError("a row resolves one conflict, name it by its label")
        unknown = sorted(set(resolution.row) - set(type_.names))
        if unknown:
            raise InvalidArgumentError(f"the dataset has no column {unknown[0]!r}")
        result = pa.array([dict(resolution.row)] * table.num_rows, type_)
        how = "row"
    else:
        how = resolution.choice or "columns"
        result = _side(table, resolution.choice or "ours", type_)
        if resolution.columns:
            result = _mixed(table, result, resolution.columns, type_)
            how = "columns"
    mask = pa.array(chosen)
    before = table.column("result").combine_chunks()
    said = table.column("resolution").combine_chunks()
    index = {name: table.schema.get_field_index(name) for name in ("resolution", "result")}
    table = table.set_column(
        index["resolution"], "resolution", pc.if_else(mask, pa.scalar(how), said)
    )
    return table.set_column(index["result"], "result", pc.if_else(mask, result, before))


def _side(table: pa.Table, choice: str, type_: pa.DataType) -> pa.StructArray:
    if choice == "delete":
        return pa.nulls(table.num_rows, type_)
    return table.column(choice).combine_chunks()


def _mixed(
    table: pa.Table, rest: pa.StructArray, columns: Mapping[str, str], type_: pa.DataType
) -> pa.StructArray:
    """Return rows whose columns come from different sides."""
    unknown = sorted(set(columns) - set(type_.names))
    if unknown:
        raise InvalidArgumentError(f"the dataset has no column {unknown[0]!r}")
    arrays = []
    for field in type_:
        side = columns.get(field.name)
        if side is None:
            arrays.append(pc.struct_field(rest, field.name))
        elif side in ("ours", "theirs", "base"):
            arrays.append(pc.struct_field(table.column(side).combine_chunks(), field.name))
        else:
            raise InvalidArgumentError(f"a column is ours, theirs or base, not {side!r}")
    return pa.StructArray.from_arrays(arrays, fields=list(type_))
