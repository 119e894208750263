"""New keys for rows that both sides inserted under one key: beyond all that there are.

The highest live key of either side comes from the statistics of data files where these
say it exactly; a file with deleted rows is read, its key column alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.history.conflicts import DatasetConflicts, conflict_columns
from havasu_vc.merging.state import MergeState
from havasu_vc.model import kernels as pc
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive, Type
from havasu_vc.repo.opened import OpenRepo

__all__ = ["has_counting_key", "next_key"]

_LAST: Mapping[Type, int] = {Primitive.INT: (1 << 31) - 1, Primitive.LONG: (1 << 63) - 1}


def has_counting_key(schema: Schema) -> bool:
    """Whether the key is one column of whole numbers."""
    return len(schema.key.fields) == 1 and schema.key.fields[0].type in _LAST


def next_key(repo: OpenRepo, state: MergeState, found: DatasetConflicts, count: int) -> int:
    """Return the first of `count` keys in a row that no row has or was given."""
    if found.rows is None:
        raise ValueError("there are no rows to renumber")
    (field,) = conflict_columns(found.rows).key.fields
    given = pc.max(pc.struct_field(found.rows.column("renumbered").combine_chunks(), field.name))
    sides = [repo.dataset(found.path, commit) for commit in (state.ours, state.theirs)]
    first = max(given.as_py() or 0, *(_highest(repo, view) for view in sides)) + 1
    if first + count - 1 > _LAST[field.type]:
        raise InvalidArgumentError(
            f"{found.path} has no keys left after {first - 1} to renumber rows with"
        )
    return first


def _highest(repo: OpenRepo, view: Dataset) -> int:
    """Return the highest key of a dataset, 0 without rows."""
    (field,) = view.key.fields
    files = view.in_files
    if files is None:
        with repo.settings.open_engine(view.size) as engine:
            keys = [
                pc.max(batch.column(0)).as_py() for batch in engine.run(view.scan([field.name]))
            ]
        return max((key for key in keys if key is not None), default=0)
    bounds = []
    for entry in files.data_entries:
        statistics = entry.statistics.get(field.id)
        upper = None if statistics is None else statistics.upper
        bounds.append((upper if isinstance(upper, int) else _LAST[Primitive.LONG], entry))
    best: int | None = None
    schema = view.schema.select((field.name,))
    for bound, entry in sorted(bounds, key=lambda each: (-each[0], each[1].file)):
        if best is not None and bound <= best:
            break
        if bound != _LAST[Primitive.LONG] and not files.deletes.get(entry.file):
            highest: int | None = bound
        else:
            with repo.settings.open_engine(entry.size) as engine:
                batches = list(engine.run(list(files.scan_file(entry, schema))))
            columns = [batch.column(0) for batch in batches]
            highest = pc.max(pa.chunked_array(columns, pa.int64())).as_py() if columns else None
        if highest is not None and (best is None or highest > best):
            best = highest
    return 0 if best is None else best
