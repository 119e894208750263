"""Merges and conflicts in Kart's forms: the outcome of a merge, and who writes its conflicts.

A merge, made or tried, is told in Kart's words and JSON (`kart.merge/v1`).

A writer prints each dataset as it comes and returns how many conflicts it saw. Rows are
called `<dataset>:feature:<key>` and their versions `ancestor`, `ours` and `theirs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.diffs import (
    ConflictCounts,
    ConflictedDataset,
    DatasetHeader,
    MergeContext,
    MergeSide,
)
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.terminal import printable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CONFLICT_WRITERS",
    "VERSIONS",
    "ConflictWriter",
    "MergeReport",
    "conflict_writer_named",
    "context_line",
    "context_object",
    "count_lines",
    "counts_object",
    "labels_of",
    "merge_lines",
    "merge_object",
    "sides_of",
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
        *(f"{dataset.path}:meta:{item.name}" for item in dataset.meta),
        *(f"{dataset.path}:feature:{label}" for label in rows),
    ]


def sides_of(
    dataset: ConflictedDataset, start: int, count: int
) -> Iterator[tuple[str, DatasetHeader, pa.StructArray]]:
    """Yield the versions that some rows have, each in its own columns."""
    assert dataset.rows is not None
    for name in VERSIONS:
        schema, side = dataset.own.get(name, (dataset.header.schema, dataset.rows.column(name)))
        some = side.slice(start, count)
        if some.null_count < len(some):
            yield name, replace(dataset.header, schema=schema), some


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


# The outcome of a merge.

NEXT_STEPS = (
    "View conflicts with `havasu-vc conflicts` and resolve them with `havasu-vc resolve`.",
    "Once no conflicts remain, complete this merge with `havasu-vc merge --continue`.",
    "Or use `havasu-vc merge --abort` to return to the previous state.",
)
"""The next steps with conflicts."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """A merge, for telling of it."""

    kind: str
    """`up-to-date`, `fast-forward`, `conflicts`, or what the commit is: `merge`, `squash`, …"""
    commit: str | None
    """HEAD's commit after it; None when it would be a new one."""
    context: MergeContext
    """The commits that were merged."""
    message: str | None = None
    """The message of the commit."""
    conflicts: Mapping[str, ConflictCounts] = field(default_factory=dict)
    """Counts of conflicts that have to be resolved, by dataset."""
    dry_run: bool = False
    """Whether nothing was done."""
    waits: bool = True
    """Whether the merge waits for its conflicts."""


def context_object(context: MergeContext) -> dict[str, Any]:
    """Return the commits of a merge as Kart's JSON."""
    return {
        name: _side_object(side)
        for name, side in (
            ("ancestor", context.ancestor),
            ("ours", context.ours),
            ("theirs", context.theirs),
        )
    }


def _side_object(side: MergeSide) -> dict[str, str]:
    value = {"commit": side.commit, "abbrevCommit": side.commit[:ABBREVIATED]}
    return value if side.branch is None else {**value, "branch": side.branch}


def merge_object(report: MergeReport) -> dict[str, Any]:
    """Return a merge as Kart's JSON, `kart.merge/v1`."""
    commit = report.commit or ("(dryRun)" if report.dry_run else None)
    value: dict[str, Any] = {
        "commit": report.context.ours.commit if report.conflicts else commit,
        "branch": report.context.ours.branch,
        "merging": context_object(report.context),
        "message": report.message,
        "conflicts": counts_object(report.conflicts) or None,
        "dryRun": report.dry_run,
    }
    if report.kind == "up-to-date":
        value |= {"message": None, "noOp": True, "fastForward": True}
    elif report.kind == "fast-forward":
        value |= {"commit": report.context.theirs.commit, "fastForward": True}
    elif report.conflicts and report.waits:
        value["state"] = "merging"
    return {"kart.merge/v1": value}


def context_line(context: MergeContext) -> str:
    """Return what is merged into what."""
    theirs, ours = context.theirs, context.ours
    named = (
        f'branch "{printable(theirs.branch)}"'
        if theirs.branch is not None
        else theirs.commit[:ABBREVIATED]
    )
    return f"Merging {named} into {printable(ours.branch or ours.commit[:ABBREVIATED])}"


def merge_lines(report: MergeReport) -> list[str]:
    """Return a merge for a person."""
    return [context_line(report.context), *_outcome(report)]


def _outcome(report: MergeReport) -> list[str]:
    commit = report.commit or ""
    if report.kind == "up-to-date":
        return ["Already up to date"]
    if report.kind == "fast-forward":
        target = report.context.theirs.commit
        if report.dry_run:
            return [
                f"Can fast-forward to {target}",
                "(Not actually fast-forwarding due to --dry-run)",
            ]
        return [f"Fast-forwarded to {target}"]
    if not report.conflicts:
        if report.dry_run:
            return ["No conflicts: merge will succeed!", "(Not actually merging due to --dry-run)"]
        if report.kind == "empty":
            return ["No conflicts, and nothing to commit"]
        what = "Squash" if report.kind == "squash" else "Merge"
        return ["No conflicts!", f"{what} committed as {commit}"]
    lines = ["Conflicts found:", "", *count_lines(report.conflicts)]
    if report.dry_run:
        return [*lines, "(Not actually merging due to --dry-run)"]
    if not report.waits:
        return [*lines, "Nothing was changed."]
    return [*lines, 'Repository is now in "merging" state.', *NEXT_STEPS]
