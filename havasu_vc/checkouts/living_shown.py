"""Edits of a living working copy as people are shown them.

A key that an editor changes is one row that goes and one that comes, alike in all else. Where
few did, each such pair is one change from the old key to the new, as Kart tells it of its working
copy; a commit holds them apart. Rows that would overwrite such as a spatial filter hides are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.checkouts.living_edits import LayerEdits
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import SpatialFilterConflictError
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch, count_changes, struct_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, meta_changes
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.writers.values import key_labels

__all__ = [
    "as_shown",
    "hidden_lines",
    "paired_keys",
    "require_none_hidden",
    "shown_counts",
    "unseen_items",
]


def require_none_hidden(edits: Iterable[LayerEdits]) -> None:
    """Raise where rows were inserted that have keys of rows outside of the spatial filter."""
    lines = hidden_lines(edits)
    if lines:
        raise SpatialFilterConflictError(
            "Aborting commit due to conflicting primary key values: rows outside of the spatial "
            f"filter have them, and would be overwritten. {' '.join(lines)}",
            hints=(
                "give these rows other keys",
                "`havasu-vc commit --allow-spatial-filter-conflicts` overwrites the rows outside",
            ),
        )


def hidden_lines(edits: Iterable[LayerEdits]) -> list[str]:
    """Return a line for each dataset that has rows outside of the filter under inserted keys."""
    lines = []
    for each in edits:
        if each.hidden is not None and each.hidden.num_rows:
            keys, more = each.hidden.slice(0, 50), each.hidden.num_rows - 50
            labels = key_labels(struct_of(keys), each.base.schema.select(each.base.key.names))
            names = ", ".join(labels.to_pylist()) + (f", (... {more} more)" if more > 0 else "")
            lines.append(f"In dataset {each.path} the conflicting primary key values are: {names}")
    return lines


MOST = 400
"""Rows that came and went, at which pairs are no more looked for; as many as Kart's."""
_MOST_HELD = 100_000
"""Changes of any kind that are held in memory to look for pairs."""


def as_shown(repo: OpenRepo, diff: DatasetDiff) -> DatasetDiff:
    """Return edits as they are shown, which in Kart's repositories is Kart's way.

    They are only such as were asked for: who names one key of a pair is shown no pair.
    """
    return paired_keys(diff) if repo.git.follows_kart else diff


def shown_counts(repo: OpenRepo, edits: LayerEdits) -> ChangeCounts:
    """Return how many rows are edited, as they are shown."""
    if not (repo.git.follows_kart and _may_pair(edits.counts)):
        return edits.counts
    return count_changes(paired_keys(edits.diff(repo)).changes)


def _may_pair(counts: ChangeCounts) -> bool:
    return bool(counts.inserts and counts.deletes) and counts.inserts + counts.deletes <= MOST


def paired_keys(diff: DatasetDiff) -> DatasetDiff:
    """Return a diff of edits in which a row with another key is one change."""
    old, new = diff.old, diff.new
    if old is None or new is None or old.schema != new.schema or not old.schema.key:
        return diff
    return replace(diff, changes=_paired(diff.changes, old.schema))


def _paired(changes: Iterator[ChangeBatch], schema: Schema) -> Iterator[ChangeBatch]:
    held: list[ChangeBatch] = []
    count = held_rows = 0
    for batch in changes:
        held.append(batch)
        count += batch.old.null_count + batch.new.null_count
        held_rows += len(batch)
        if count > MOST or held_rows > _MOST_HELD:
            yield from held
            yield from changes
            return
    comes_and_goes = any(b.old.null_count for b in held) and any(b.new.null_count for b in held)
    if not comes_and_goes or len({batch.data.schema for batch in held}) != 1:
        yield from held
        return
    table = pa.Table.from_batches([batch.data for batch in held]).combine_chunks()
    (whole,) = table.to_batches() or (held[0].data,)
    pairs = _pairs(ChangeBatch(whole), {field.name for field in schema.key.fields})
    if not pairs:
        yield from held
        return
    gone = set(pairs.values())
    rows = [row for row in range(whole.num_rows) if row not in gone]
    old = whole.column(0).take(pa.array(rows))
    new = whole.column(1).take(pa.array([pairs.get(row, row) for row in rows]))
    yield ChangeBatch.from_structs(old, new)


def _pairs(changes: ChangeBatch, key: set[str]) -> dict[int, int]:
    """Return the row that comes for each that goes and is alike but for its key."""

    def rest(row: dict[str, object]) -> str:
        return repr([(name, value) for name, value in sorted(row.items()) if name not in key])

    came: dict[str, list[int]] = {}
    for place, new in _alone(changes.new, changes.old):
        came.setdefault(rest(new), []).append(place)
    pairs: dict[int, int] = {}
    for place, old in _alone(changes.old, changes.new):
        if alike := came.get(rest(old)):
            pairs[place] = alike.pop(0)
    return pairs


def _alone(side: pa.StructArray, other: pa.StructArray) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the rows of one side that are not on the other, with their places."""
    for place in np.flatnonzero(pc.is_null(other)).tolist():
        yield place, side[place].as_py()


def unseen_items(shown: Collection[str], old: Dataset, new: Dataset) -> list[str]:
    """Return the meta items that two versions have differently, and a working copy cannot show.

    `shown` are those that it can show.
    """
    seen = {"schema.json", *shown}
    # Where none of ours has a title, its table has its own name for one, which is no edit.
    if "title" not in new.header.meta and old.marker == HAVASU_MARKER:
        seen.discard("title")
    systems = [_main_system(view) for view in (old, new)]
    if "crs" in shown and systems[0] != systems[1]:
        seen.update(f"crs/{name}.wkt" for name in systems)
    return [each.name for each in meta_changes(old.header, new.header) if each.name not in seen]


def _main_system(view: Dataset) -> str | None:
    """Return the system of the geometries that a table of a dataset is known by."""
    main = next(iter(view.schema.geometries), None)
    return None if main is None or main.geometry is None else main.geometry.crs
