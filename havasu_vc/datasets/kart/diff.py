"""Planning a diff of two views: a walk of the trees that skips what is equal, no blob read.

What differs are files at paths, and a path is a key, so both sides pair up by path. The
keys that the names tell are sorted once, and cut into tasks that each read the blobs of
one interval of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.kart.trees import Blobs, Files, Form, Objects, changed_files, diff_files
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.features import column_of
from havasu_vc.model.arrays import ascending_order
from havasu_vc.model.task import Task, task_of
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.folders import DatasetInFeatures
    from havasu_vc.datasets.places import SideSource
    from havasu_vc.model.schema import Schema

__all__ = ["KartPlan", "can_pair", "plan_diff", "rows_diff"]

TASK_ROWS = 1 << 13


@dataclass(frozen=True, slots=True)
class KartPlan:
    """Two versions whose features pair up by path."""

    old: DatasetInFeatures
    """The old side."""
    new: DatasetInFeatures
    """The new side."""
    dealt: bool = False
    """Never: paths are keys."""
    unverified: tuple[str, ...] = ()
    """Nothing: features hold all of their values."""

    @property
    def old_schema(self) -> Schema:
        """The old side's columns."""
        return self.old.schema

    @property
    def new_schema(self) -> Schema:
        """The new side's columns."""
        return self.new.schema

    def tasks(self) -> list[Task]:
        """Return the tasks that pair rows in place, in key order."""
        return plan_diff(self.old, self.new)

    def halves(self) -> tuple[list[Task], list[Task], list[Task]]:
        """Return nothing to deal out."""
        return [], [], []

    def sides(self) -> tuple[Sequence[SideSource], Sequence[SideSource]]:
        """Return nothing to match."""
        return (), ()

    def pair(self, old: Sequence[Task], new: Sequence[Task], half_paired: Sequence[Task]) -> Task:
        """Refuse: nothing is dealt out."""
        raise NotImplementedError("features pair up by path")


def can_pair(old: DatasetInFeatures, new: DatasetInFeatures) -> bool:
    """Whether a path means the same key in both versions."""
    return bool(new.key) and (
        old.schema.identifier_ids == new.schema.identifier_ids
        and old.structure == new.structure
        and [f.type for f in old.key.fields] == [f.type for f in new.key.fields]
    )


def plan_diff(old: DatasetInFeatures, new: DatasetInFeatures) -> list[Task]:
    """Return tasks that yield, in key order, the changes from one view to another."""
    found = changed_files(old.objects, new.objects, old.features, new.features)
    folders, names = found.folders, found.names
    if not names:
        return []
    order = _key_order(folders, names, new)
    tasks = []
    for start in range(0, len(order), TASK_ROWS):
        chosen = order[start : start + TASK_ROWS].tolist()
        tasks.append(
            task_of(
                diff_files,
                _side(chosen, folders, names, found.old, old.objects),
                _side(chosen, folders, names, found.new, new.objects),
                old.form(),
                new.form(),
                _shows_equal_ones(old, new),
            )
        )
    return tasks


def _shows_equal_ones(old: DatasetInFeatures, new: DatasetInFeatures) -> bool:
    """Return whether a feature that was written anew is a change whatever is in it.

    It is for Kart, where a column has come or gone: the feature has it on one side alone.
    """
    return old.as_shown and old.schema.by_id.keys() != new.schema.by_id.keys()


def rows_diff(
    old: DatasetInFeatures, new: DatasetInFeatures, keys: Sequence[tuple[Any, ...]]
) -> list[Task]:
    """Return tasks that yield the changes of some rows; no other file is read.

    Keys are numbers or text, in the order of the key's columns.
    """
    wanted = sorted(keys)
    equal_ones = _shows_equal_ones(old, new)
    tasks = []
    for start in range(0, len(wanted), TASK_ROWS):
        some = wanted[start : start + TASK_ROWS]
        if equal_ones:
            some = [key for key in some if old.files_of([key]).blobs != new.files_of([key]).blobs]
        sides = old.files_of(some), new.files_of(some)
        tasks.append(task_of(diff_files, *sides, old.form(), new.form(), equal_ones))
    return tasks


def _side(
    chosen: list[int],
    folders: list[bytes],
    names: list[bytes],
    ids: list[bytes | None],
    objects: Objects,
) -> Files:
    there = [(index, identity) for index in chosen if (identity := ids[index]) is not None]
    return Files(
        [folders[index] for index, _ in there],
        [names[index] for index, _ in there],
        Blobs.of(objects, [identity for _, identity in there]),
    )


def _key_order(folders: list[bytes], names: list[bytes], view: DatasetInFeatures) -> Any:
    """Return the positions of files in the order of their keys."""
    form: Form = view.form()
    columns = Files(folders, names, Blobs(None)).keys(form)
    ids = view.schema.identifier_ids
    if len(columns) != len(ids):
        raise CorruptDatasetError(form.place(folders[0] + b"/" + names[0]), "its key has no column")
    if len(ids) == 1 and {type(value) for value in columns[0]} == {int}:
        return np.argsort(np.array(columns[0]), kind="stable")
    by_id = dict(zip(ids, columns, strict=True))
    fields = view.schema.key.fields
    try:
        arrays = [column_of(by_id[field.id], field) for field in fields]
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptDatasetError(
            view.where("feature"), f"a key does not fit its column: {error}"
        ) from error
    keys = pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))])
    return ascending_order(keys)
