"""The number of rows that changed, as `--only-feature-count` prints it; or nothing at all.

Values are never looked at; batches are counted and dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from havasu_vc.model.changes import count_changes
from havasu_vc.model.diffs import DatasetDiff, count_meta
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions
from havasu_vc.writers.terminal import printable, styled

__all__ = ["write_feature_count", "write_feature_count_json", "write_quiet"]


def write_feature_count(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the counts for a person."""
    summary = _count(diffs)
    if not summary.total:
        out.write("0 features changed\n")
    for path, counts in summary.datasets.items():
        if counts.features.total:
            out.write(styled(f"{printable(path)}:", "bold", options.color))
            out.write(f"\n\t{counts.features.total} features changed\n")
    return summary


def write_feature_count_json(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print one JSON object of counts by dataset."""
    summary = _count(diffs)
    counts = {
        path: counts.features.total
        for path, counts in summary.datasets.items()
        if counts.features.total
    }
    out.write(LAYOUTS[options.json_style].dumps(counts) + "\n")
    return summary


def _count(diffs: Iterable[DatasetDiff]) -> ChangeSummary:
    datasets = {}
    for diff in diffs:
        summary = DatasetSummary(count_meta(diff.meta), count_changes(diff.changes))
        if summary.has_changes:
            datasets[diff.path] = summary
    return ChangeSummary(datasets)


# Nothing at all: the exit code says whether there are changes.
#
# Stops at the first change it sees, so its counts are a lower bound.


def write_quiet(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print nothing; report the first dataset that has a change."""
    for diff in diffs:
        if diff.meta:
            return ChangeSummary({diff.path: DatasetSummary(meta=count_meta(diff.meta))})
        for batch in diff.changes:
            if len(batch):
                return ChangeSummary({diff.path: DatasetSummary(features=batch.counts)})
    return ChangeSummary()
