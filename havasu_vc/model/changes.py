"""Row changes: what diff produces, merge combines, apply consumes, writers print.

A *change batch* is a record batch of two columns, `old` and `new`, each a struct
of a whole row. A null struct means that the row is not there: `old` null is an
insert, `new` null a delete, neither null an update. The two structs may have
different fields when the schema changed; old rows are in the old schema.

A *change stream* is an iterator of change batches, sorted by key in the dataset's
own order, with at most one change per key. In a dataset without a key there are
no updates, rows sort by their hash, and equal rows may stand several times.
Every producer promises this; every consumer may rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa

from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.records import dataclass

__all__ = ["MOST_BATCH_BYTES", "ChangeBatch", "ChangeKind", "CountableChanges", "RowChange"]

MOST_BATCH_BYTES = 32 * 1024 * 1024
"""Producers cut batches at about this size."""


class ChangeKind(StrEnum):
    """The kind of a row's change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row going from `old` to `new`, for code at the edges.

    >>> RowChange((1,), old={"name": "Te Mata"}, new={"name": "Te Mata Peak"}).kind
    <ChangeKind.UPDATE: 'update'>
    """

    key: tuple[Any, ...]
    """Key values in schema order; empty without a key."""
    old: Mapping[str, Any] | None = None
    """The row before; None for an insert."""
    new: Mapping[str, Any] | None = None
    """The row after; None for a delete."""

    def __post_init__(self) -> None:
        if self.old is None and self.new is None:
            raise ValueError(f"change of {self.key!r} has neither an old row nor a new one")

    @property
    def kind(self) -> ChangeKind:
        """Insert, update or delete."""
        if self.old is None:
            return ChangeKind.INSERT
        return ChangeKind.DELETE if self.new is None else ChangeKind.UPDATE


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Some changes, in order."""

    data: pa.RecordBatch
    """Columns `old` and `new`."""

    def __post_init__(self) -> None:
        if self.data.schema.names != ["old", "new"]:
            raise ValueError(f"not a change batch: {self.data.schema.names}")

    @classmethod
    def from_structs(cls, old: pa.StructArray, new: pa.StructArray) -> ChangeBatch:
        """Put two columns of rows side by side."""
        return cls(pa.RecordBatch.from_arrays([old, new], ["old", "new"]))

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def old(self) -> pa.StructArray:
        """Rows before; null where a row is inserted."""
        return self.data.column(0)

    @property
    def new(self) -> pa.StructArray:
        """Rows after; null where a row is deleted."""
        return self.data.column(1)

    @property
    def counts(self) -> ChangeCounts:
        """How many of each kind."""
        inserts, deletes = self.old.null_count, self.new.null_count
        return ChangeCounts(inserts, len(self) - inserts - deletes, deletes)

    def old_rows(self) -> pa.RecordBatch:
        """Return the rows that leave, as a batch of their own."""
        return present_rows(self.old)

    def new_rows(self) -> pa.RecordBatch:
        """Return the rows that come, as a batch of their own."""
        return present_rows(self.new)

    def invert(self) -> ChangeBatch:
        """Return the changes that undo these."""
        return ChangeBatch.from_structs(self.new, self.old)

    def slice(self, offset: int, length: int) -> ChangeBatch:
        """Return some of the changes."""
        return ChangeBatch(self.data.slice(offset, length))

    def rows(self, key: tuple[str, ...]) -> Iterator[RowChange]:
        """Yield each change as a value of Python, for code at the edges."""
        for old, new in zip(self.old.to_pylist(), self.new.to_pylist(), strict=True):
            row = new if new is not None else old
            yield RowChange(tuple(row[name] for name in key), old, new)


def present_rows(side: pa.StructArray) -> pa.RecordBatch:
    """Return the rows of one side that are there."""
    if side.null_count:
        side = pc.filter(side, pc.is_valid(side))
    return pa.RecordBatch.from_struct_array(side)


def struct_of(batch: pa.RecordBatch, mask: pa.BooleanArray | None = None) -> pa.StructArray:
    """Return the rows of a batch as one struct column; rows where `mask` is true are null."""
    fields = list(batch.schema)
    if mask is None:
        return pa.StructArray.from_arrays(batch.columns, fields=fields)
    # With a mask, that would import `pyarrow.compute` for turning the mask around.
    present = arrow_array(~mask.to_numpy(zero_copy_only=False))
    validity = present.buffers()[1]
    return pa.Array.from_buffers(pa.struct(fields), len(batch), [validity], children=batch.columns)


class CountableChanges(Iterator[ChangeBatch]):
    """A change stream that can be counted where its changes are found, instead of being read."""

    def __init__(self, batches: Iterator[ChangeBatch], count: Callable[[], ChangeCounts]) -> None:
        self._batches = batches
        self._count = count

    def __next__(self) -> ChangeBatch:
        return next(self._batches)

    def count(self) -> ChangeCounts:
        """Return how many changes there are; as if they had been read, none are left then."""
        found = self._count()
        # What they would be read from may hold files of its own, which go with it.
        self._batches, self._count = iter(()), ChangeCounts
        return found


def count_changes(batches: Iterable[ChangeBatch]) -> ChangeCounts:
    """Count a whole stream."""
    if isinstance(batches, CountableChanges):
        return batches.count()
    total = ChangeCounts()
    for batch in batches:
        total += batch.counts
    return total
