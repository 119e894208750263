"""Nothing at all: the exit code says whether there are changes.

Stops at the first change it sees, so its counts are a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions, meta_counts

__all__ = ["write_quiet"]


def write_quiet(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print nothing; report the first dataset that has a change."""
    for diff in diffs:
        if diff.meta:
            return ChangeSummary({diff.path: DatasetSummary(meta=meta_counts(diff))})
        for batch in diff.changes:
            if len(batch):
                return ChangeSummary({diff.path: DatasetSummary(features=batch.counts)})
    return ChangeSummary()
