"""Conflicts in Kart's forms: which writers there are, and conflicts as numbers alone.

A writer prints each dataset as it comes and returns how many conflicts it saw. Rows are
called `<dataset>:feature:<key>` and their versions `ancestor`, `ours` and `theirs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, TextIO, cast

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.diffs import ConflictCounts, ConflictedDataset
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.terminal import printable

__all__ = [
    "CONFLICT_WRITERS",
    "VERSIONS",
    "ConflictWriter",
    "conflict_writer_named",
    "count_lines",
    "counts_object",
    "labels_of",
]

VERSIONS = ("ancestor", "ours", "theirs")
"""The versions of what is in conflict, in the order in which they are printed."""

CONFLICT_WRITERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "text": ("havasu_vc.writers.conflicts_text", "write_conflicts_text"),
        "json": ("havasu_vc.writers.conflicts_json", "write_conflicts_json"),
        "geojson": ("havasu_vc.writers.conflicts_geojson", "write_conflicts_geojson"),
        "quiet": ("havasu_vc.writers.conflicts", "write_conflicts_quiet"),
    }
)
"""Where each format's writer is: module and function."""


class ConflictWriter(Protocol):
    """Prints conflicts in one format."""

    def __call__(
        self,
        datasets: Iterable[ConflictedDataset],
        out: TextIO,
        options: WriterOptions,
        summary: int = 0,
    ) -> int:
        """Print them in full, as labels (`summary` 1) or as numbers (2); return how many."""


def conflict_writer_named(name: str) -> ConflictWriter:
    """Return the writer of a format."""
    if name not in CONFLICT_WRITERS:
        raise InvalidArgumentError(
            f"conflicts are not printed as {name!r}",
            hints=(f"one of {', '.join(CONFLICT_WRITERS)}",),
        )
    module, function = CONFLICT_WRITERS[name]
    return cast(ConflictWriter, getattr(import_module(module), function))


def write_conflicts_quiet(
    datasets: Iterable[ConflictedDataset],
    out: TextIO,
    options: WriterOptions,
    summary: int = 0,
) -> int:
    """Print nothing; return how many there are."""
    return sum(conflict_total(each) for each in datasets)


def conflict_total(dataset: ConflictedDataset) -> int:
    """Return how many conflicts a dataset has."""
    counts = counts_of(dataset)
    return counts.features + counts.meta


def counts_of(dataset: ConflictedDataset) -> ConflictCounts:
    """Return how much is in conflict."""
    rows = dataset.rows
    return ConflictCounts(0 if rows is None else rows.num_rows, len(dataset.meta))


def labels_of(dataset: ConflictedDataset) -> list[str]:
    """Return the labels of what is in conflict, by which it is resolved."""
    rows = [] if dataset.rows is None else dataset.rows.column("label").to_pylist()
    return [
        *(f"{dataset.path}:feature:{label}" for label in rows),
        *(f"{dataset.path}:meta:{item.name}" for item in dataset.meta),
    ]


def counts_object(counts: Mapping[str, ConflictCounts]) -> dict[str, Any]:
    """Return numbers of conflicts as Kart's JSON.

    >>> counts_object({"roads": ConflictCounts(features=4)})
    {'roads': {'feature': 4}}
    """
    return {path: dict(_named(each)) for path, each in counts.items()}


def _named(counts: ConflictCounts) -> list[tuple[str, int]]:
    found = (("feature", counts.features), ("meta", counts.meta))
    return [(name, count) for name, count in found if count]


def count_lines(counts: Mapping[str, ConflictCounts]) -> list[str]:
    """Return numbers of conflicts for a person, an empty line after each dataset.

    >>> count_lines({"roads": ConflictCounts(features=4)})
    ['roads:', '    roads:feature: 4 conflicts', '']
    """
    lines: list[str] = []
    for path, each in counts.items():
        shown = printable(path)
        lines.append(f"{shown}:")
        for name, count in _named(each):
            lines.append(f"    {shown}:{name}: {count} conflict{'' if count == 1 else 's'}")
        lines.append("")
    return lines
