"""Differences of two versions of a repository, or of one dataset.

A `DatasetDiff` is handed from `history` to `writers`: its description of both
sides is small and ready, its row changes are a stream that is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.model.changes import ChangeBatch

__all__ = [
    "ChangeCounts",
    "DatasetDiff",
    "DatasetHeader",
    "FileChange",
    "MetaChange",
    "count_meta",
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

    @property
    def header(self) -> DatasetHeader:
        """The version after, or the one before when the dataset is removed."""
        header = self.new or self.old
        if header is None:
            raise ValueError(f"{self.path} is on neither side")
        return header


# How many rows a change stream touches.


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many rows a change stream touches."""

    inserts: int = 0
    """Rows that appear."""
    updates: int = 0
    """Rows that change."""
    deletes: int = 0
    """Rows that go."""

    @property
    def total(self) -> int:
        """All changes."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
        )


def count_meta(changes: Sequence[MetaChange]) -> ChangeCounts:
    """Count the meta items that come, change and go."""
    inserts = sum(change.old is None for change in changes)
    deletes = sum(change.new is None for change in changes)
    return ChangeCounts(inserts, len(changes) - inserts - deletes, deletes)
