"""Conflicts as people look at them: meta items and rows of a dataset in three versions.

Handed from `repo` to `writers`. The versions are called `ancestor`, `ours` and `theirs`
as in Kart; one in which the thing is not there is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ConflictCounts", "ConflictedDataset", "MergeContext", "MergeSide", "MetaConflict"]


@dataclass(frozen=True, slots=True)
class MetaConflict:
    """One meta item that both sides changed differently."""

    name: str
    """Such as `title`."""
    versions: Mapping[str, Any]
    """Text or JSON values by version; a version without the item is left out."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For the schema what is in conflict in each column (empty: the key), such as `type`, `name`,
    `drop`, `add` or the name of a property."""


@dataclass(frozen=True, slots=True)
class ConflictedDataset:
    """The conflicts in one dataset."""

    header: DatasetHeader
    """The dataset, with the columns that its rows have here."""
    meta: tuple[MetaConflict, ...] = ()
    """Meta items, by name."""
    rows: pa.RecordBatch | None = None
    """The rows as structs by version, each null where the row is not there, after `label`, what
    each row is called."""

    @property
    def path(self) -> str:
        """Where the dataset is."""
        return self.header.path


@dataclass(frozen=True, slots=True)
class ConflictCounts:
    """How much is in conflict in one dataset."""

    features: int = 0
    """Rows."""
    meta: int = 0
    """Meta items."""


@dataclass(frozen=True, slots=True)
class MergeSide:
    """One of the commits of a merge."""

    commit: str
    """40 hex digits."""
    branch: str | None = None
    """The branch by which it was named."""


@dataclass(frozen=True, slots=True)
class MergeContext:
    """The commits of a merge."""

    ancestor: MergeSide
    """The commit that both sides come from."""
    ours: MergeSide
    """Where HEAD is."""
    theirs: MergeSide
    """The side that is merged."""
