"""What every kind of dataset can do. Nothing here writes.

A `Dataset` is a read-only view of one dataset in one git tree. Scans and diffs come
back as tasks for an engine to run; `apply` returns the edit that a commit would make,
and only `Repo` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from havasu_vc.model.diffs import ChangeCounts, DatasetHeader
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.records import dataclass
from havasu_vc.store.trees import Change

if TYPE_CHECKING:
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.task import Task

__all__ = ["Dataset", "Predicate", "TreeEdit"]


_ITEMS = ("title", "description", "schema.json")


@dataclass(frozen=True, slots=True)
class TreeEdit:
    """What a commit changes in one dataset."""

    path: str
    """The dataset's path."""
    blobs: Mapping[str, Change]
    """By path below the dataset's own folder: new bytes, what is stored, or None to remove."""
    fresh: bool = False
    """Whether the dataset starts from an empty folder."""
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    """How many rows it changes."""
    marker: str = HAVASU_MARKER
    """The name of the dataset's own folder."""

    @property
    def meta(self) -> tuple[str, ...]:
        """The meta items that it changes, of those that people see and set."""
        names = {path.removeprefix("meta/") for path in self.blobs if path.startswith("meta/")}
        if any(path.startswith("columns/") for path in self.blobs):
            names.add("schema.json")
        return tuple(sorted(name for name in names if name.startswith("crs/") or name in _ITEMS))


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which rows a scan must give; it may give more only where it says so."""

    keys: tuple[tuple[Any, ...], ...] | None = None
    """Only rows with these keys."""
    box: tuple[float, float, float, float] | None = None
    """Only files whose geometries may touch this box (not exact)."""


class Dataset(Protocol):
    """A read-only view of one dataset in one git tree."""

    @property
    def kind(self) -> str:
        """`havasu` or `kart`."""

    @property
    def path(self) -> str:
        """Where it is in the repository."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    @property
    def key(self) -> KeySpec:
        """Its key columns."""

    @property
    def crs(self) -> Mapping[str, str]:
        """Coordinate reference systems as WKT, by name."""

    @property
    def header(self) -> DatasetHeader:
        """What it says of itself."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    @property
    def size(self) -> int:
        """Bytes of the files a full scan reads."""

    def scan(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> list[Task]:
        """Return tasks that yield the live rows, in file order."""

    def diff(self, new: Dataset) -> list[Task]:
        """Return tasks that yield, in key order, the changes from this view to `new`."""

    def apply(self, changes: Iterator[ChangeBatch]) -> TreeEdit:
        """Return the edit that makes the changes, after checking each `old` row."""
