"""Differences of two versions of a repository, or of one dataset.

A `DatasetDiff` is handed from `history` to `writers`: its description of both
sides is small and ready, its row changes are a stream that is read once.

Conflicts as people look at them: meta items and rows of a dataset in three versions.

Handed from `repo` to `writers`. The versions are called `ancestor`, `ours` and `theirs`
as in Kart; one in which the thing is not there is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.model.changes import ChangeBatch

__all__ = [
    "ConflictCounts",
    "ConflictedDataset",
    "DatasetDiff",
    "DatasetHeader",
    "FileChange",
    "MergeContext",
    "MergeSide",
    "MetaChange",
    "MetaConflict",
    "count_meta",
    "meta_changes",
]


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """The description that one version of a dataset gives of itself."""

    path: str
    """Where it is in the repository."""
    kind: str
    """`havasu` or `kart`."""
    schema: Schema
    """Its columns."""
    meta: Mapping[str, Any]
    """Meta items as people see them, by name: `title`, `description`, `schema.json`
    (Kart's list of columns) and `crs/<id>.wkt`; text or JSON values."""
    version: int | None = None
    """The version of its form, where it is an older one."""

    @property
    def crs(self) -> dict[str, str]:
        """Coordinate reference systems as WKT, by name."""
        return {
            name.removeprefix("crs/").removesuffix(".wkt"): value
            for name, value in self.meta.items()
            if name.startswith("crs/")
        }


@dataclass(frozen=True, slots=True)
class MetaChange:
    """One meta item going from `old` to `new`."""

    name: str
    """Such as `title` or `crs/EPSG:2193.wkt`."""
    old: Any | None = None
    """Text or a JSON value; None when it is added."""
    new: Any | None = None
    """Text or a JSON value; None when it is removed."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file beside the datasets going from one version to another."""

    path: str
    """Where it is in the repository."""
    old: str | None
    """The git id of what it held; None when it is added."""
    new: str | None
    """The git id of what it holds; None when it is removed."""
    contents: tuple[bytes | None, bytes | None] | None = None
    """The bytes before and after; None where only the ids are of interest."""


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """How one dataset differs between two versions."""

    path: str
    """Where it is in the repository."""
    old: DatasetHeader | None
    """The version before; None when the dataset is added."""
    new: DatasetHeader | None
    """The version after; None when the dataset is removed."""
    meta: tuple[MetaChange, ...]
    """Meta items that differ, by name."""
    changes: Iterator[ChangeBatch]
    """Row changes; read once."""
    html: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Asks for them anew and tells them as a notebook shows them, if the library made this."""
    moved_from: str | None = None
    """Where it was before, if it was moved and both sides are one dataset."""
    tiles: int = 0
    """How many tiles differ, of a set of rasters or point clouds of Kart's."""
    hidden: list[ChangeCounts] = field(default_factory=list, repr=False, compare=False)
    """The changes that a spatial filter left out, of each batch of them that has been read."""

    def _repr_html_(self) -> str | None:
        return None if self.html is None else self.html()

    @property
    def left_out(self) -> ChangeCounts:
        """How many changes a spatial filter left out, of those that have been read."""
        return sum(self.hidden, ChangeCounts())

    @property
    def header(self) -> DatasetHeader:
        """The version after, or the one before when the dataset is removed."""
        header = self.new or self.old
        if header is None:
            raise ValueError(f"{self.path} is on neither side")
        return header


def meta_changes(old: DatasetHeader | None, new: DatasetHeader | None) -> tuple[MetaChange, ...]:
    """Return the meta items that differ, by name."""
    before = dict(old.meta) if old is not None else {}
    after = dict(new.meta) if new is not None else {}
    return tuple(
        MetaChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


# How many rows a change stream touches.


def count_meta(changes: Sequence[MetaChange]) -> ChangeCounts:
    """Count the meta items that come, change and go."""
    inserts = sum(change.old is None for change in changes)
    deletes = sum(change.new is None for change in changes)
    return ChangeCounts(inserts, len(changes) - inserts - deletes, deletes)


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
    own: Mapping[str, tuple[Schema, pa.StructArray]] = field(default_factory=dict)
    """Versions whose columns are others than the header's: these columns, and the rows in them."""

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
