"""Looks at the row conflicts of a merge without making it: all are counted, few are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import arrow_array

__all__ = ["Glance", "few_of"]


class Glance:
    """Looks at conflicts without merging: counts all rows, and keeps the first of each kind."""

    def __init__(self, most: int) -> None:
        self.most = most
        """How many of a kind are kept in a dataset."""
        self.rows: Counter[str] = Counter()
        """How many rows are in conflict, by dataset that has any."""

    def few(self, path: str, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Take in the row conflicts of a dataset; return those that are kept, in their order."""
        return self.take(path, *few_of(batches, self.most))

    def take(self, path: str, count: int, kept: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Take in how many there are in a dataset; return those that were kept."""
        if count:
            self.rows[path] += count
        return kept


def few_of(batches: Iterable[pa.RecordBatch], most: int) -> tuple[int, list[pa.RecordBatch]]:
    """Return how many conflicts there are, and the first of each kind in their order."""
    kept: list[pa.RecordBatch] = []
    seen: Counter[str] = Counter()
    count = 0
    for batch in batches:
        count += batch.num_rows
        kinds = np.array(batch.column("kind").to_pylist())
        chosen = np.zeros(len(kinds), bool)
        for kind in np.unique(kinds):
            first = np.flatnonzero(kinds == kind)[: most - seen[kind]]
            chosen[first] = True
            seen[kind] += len(first)
        if chosen.any():
            # Taken, not sliced: a slice would keep the whole batch in memory.
            kept.append(pc.take(batch, arrow_array(np.flatnonzero(chosen))))
    return count, kept
