"""The protocol of diff writers: their input, their promises and their report.

A writer takes the datasets that differ, in order of their paths, and prints them to
a text stream as they come. It holds one change batch at a time, never a whole diff,
and returns how much changed, from which the command picks its exit code; one that prints
names alone counts only the first rows of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO, TypeAlias

from havasu_vc.model.commits import ChangeCounts, CommitInfo
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, FileChange
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ChangeSummary",
    "DatasetSummary",
    "DiffWriter",
    "JsonStyle",
    "Labels",
    "Reproject",
    "WriterOptions",
]

Reproject: TypeAlias = "Callable[[pa.Array, Field, DatasetHeader], pa.Array]"
"""From a geometry column, its field and its side's header to the same column, in the same
encoding, in the CRS that was asked for."""
Labels: TypeAlias = "Callable[[pa.StructArray, Schema], pa.StringArray]"
"""From one side of a change batch to what each row is called after `dataset:feature:`."""

DELTA_HALVES = ("--", "-", "+", "++")
"""Deleted rows, old and new rows of updates, inserted rows."""


class JsonStyle(StrEnum):
    """How JSON is laid out."""

    PRETTY = "pretty"
    COMPACT = "compact"
    EXTRACOMPACT = "extracompact"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How to print; every writer takes the options that it knows and leaves the others."""

    json_style: JsonStyle = JsonStyle.PRETTY
    """The layout of JSON and GeoJSON."""
    color: bool = False
    """Whether text may hold ANSI colours."""
    commit: CommitInfo | None = None
    """Printed first: the commit that the diff is of (`show`, `create-patch`)."""
    delta_filter: frozenset[str] | None = None
    """The halves of changes to print, of `--`, `-`, `+`, `++`. When given, JSON tells inserts
    and deletes from updates by these labels, and a half left out is null."""
    reproject: Reproject | None = None
    """Brings geometries into the CRS that was asked for."""
    crs_name: str | None = None
    """The name of that CRS; a patch names it."""
    labels: Labels | None = None
    """Labels of the rows; by default their key values joined by commas."""
    files: Sequence[FileChange] = ()
    """Files beside datasets that differ; printed after all datasets."""
    data_changes: bool = False
    """Whether JSON says only whether rows of a dataset changed, as Kart's does when asked."""
    header_alone: bool = False
    """Whether JSON holds the commit and no diff."""
    counts_at_end: str | None = None
    """The accuracy asked for, where JSON lines end with the numbers of rows that differ."""
    directory: Path | None = None
    """Where to write one file per dataset (GeoJSON) instead of to the stream."""
    template: Path | None = None
    """The template of a page, where that is not our own."""
    title: str = ""
    """The title of a page."""
    as_kart: bool = False
    """Whether text is Kart's: line ends in values as they are and not as escapes, days padded."""
    flat: bool = False
    """Whether labels of conflicts stand in one list, not by dataset."""

    def __post_init__(self) -> None:
        unknown = (self.delta_filter or frozenset()).difference(DELTA_HALVES)
        if unknown:
            raise ValueError(f"no half of a change is called {min(unknown)!r}")


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """How much of one dataset changed."""

    meta: ChangeCounts = field(default_factory=ChangeCounts)
    """Meta items."""
    features: ChangeCounts = field(default_factory=ChangeCounts)
    """Rows."""
    hidden: int = 0
    """Those updates of rows that are inserts under keys outside of the spatial filter."""
    moved: bool = False
    """Whether it stands elsewhere."""

    @property
    def has_changes(self) -> bool:
        """Whether anything differs."""
        return bool(self.meta.total or self.features.total or self.moved)


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """How much of each dataset changed.

    >>> ChangeSummary({"roads": DatasetSummary(features=ChangeCounts(updates=2))}).total
    2
    """

    datasets: Mapping[str, DatasetSummary] = field(default_factory=dict)
    """Datasets that differ, by path."""

    @property
    def has_changes(self) -> bool:
        """Whether anything differs."""
        return any(summary.has_changes for summary in self.datasets.values())

    @property
    def total(self) -> int:
        """Rows that changed, in all datasets."""
        return sum(summary.features.total for summary in self.datasets.values())


class DiffWriter(Protocol):
    """Prints a diff in one format."""

    def __call__(
        self, diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
    ) -> ChangeSummary:
        """Print every dataset that differs and say how much did."""
