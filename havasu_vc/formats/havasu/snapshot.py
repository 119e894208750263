"""What the deltas of a dataset add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from havasu_vc.records import dataclass

__all__ = ["FORMAT", "Digest", "Snapshot"]

FORMAT = 2
"""The version of the dataset format that this code reads and writes."""

Digest = tuple[int, int]
"""Two lanes of 64 bits."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sums of a dataset."""

    rows: int
    """Live rows."""
    deleted_rows: int
    """Rows in data files that delete files take away."""
    size: int
    """Bytes of all files."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """By field id: the sum of the hashes of its live cells."""
