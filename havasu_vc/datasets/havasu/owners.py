"""Orders for the owner of an interval of keys, and its report (`owning`)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.havasu.pieces import Interval
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import WrittenFile
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "UNSEEN",
    "GoneRows",
    "OldDeletes",
    "OldFile",
    "Owner",
    "OwnerReport",
    "parse_report",
    "parse_value",
    "report_batch",
]

UNSEEN = (
    "nothing was committed",
    "the repository must be in a folder that all machines of the cluster share under one path",
    "or its data in a bucket: `git config havasu.data.url s3://…`, then "
    "`git config havasu.data.fetch on-demand`",
)
"""The ways on where a machine does not see what others wrote."""
_REPORT = pa.schema([("report", pa.binary())])


@dataclass(frozen=True, slots=True)
class OldFile:
    """A data file that may hold keys of an interval."""

    path: str
    """Where it is."""
    name: str
    """Its sha256."""
    rows: int
    """Its rows, deleted ones included."""
    origin: Origin
    """How it was written."""
    deletes: tuple[str, ...]
    """Paths of the delete files that delete from it."""
    whole: bool
    """Whether no other interval has any of it, so that it may be written again."""


@dataclass(frozen=True, slots=True)
class OldDeletes:
    """A delete file that deletes from whole files of one interval alone."""

    path: str
    """Where it is."""
    name: str
    """Its sha256."""
    targets: tuple[str, ...]
    """The data files."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An order to edit an interval of keys."""

    path: str
    """The dataset's, for errors."""
    mode: str
    """The meaning of the rows: `upsert`, `append`, `delete`, or `overwrite` to be all there are; or
    `change` where changes are given instead."""
    interval: Interval
    """The keys."""
    files: tuple[OldFile, ...]
    """The data files that may hold some of them."""
    deletes: tuple[OldDeletes, ...]
    """Delete files that leave with the data files which they delete from."""
    before: Schema
    """The columns before the edit."""
    layout: FileLayout
    """The layout of new files."""
    place: str
    """The data file store that takes them: its folder, or its URL."""
    keys: str | None
    """The folder of key caches; None to write none."""
    few: int
    """Changes of no more rows come back as rows."""
    rewritten: frozenset[str] = frozenset()
    """Data files that leave, by whoever owns their rows: each writes again those it owns."""


@dataclass(frozen=True, slots=True)
class GoneRows:
    """Rows that an owner takes away and has written nowhere."""

    file: str
    """Their data file."""
    positions: Positions
    """Where they are in it, ascending."""
    rows: pa.RecordBatch
    """The rows themselves."""
    large: pa.ListArray | None
    """Digests of the large values that `rows` leaves null."""


@dataclass(frozen=True, slots=True)
class OwnerReport:
    """The report of an owner."""

    files: tuple[WrittenFile, ...] = ()
    """Files that it wrote, data files and delete files."""
    removed: tuple[str, ...] = ()
    """Files that leave."""
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    """How many rows change."""
    old: Mapping[int, Digest] = field(default_factory=dict)
    """The sums of the rows that go."""
    new: Mapping[int, Digest] = field(default_factory=dict)
    """The sums of the rows that come."""
    keys: Hashes | None = None
    """The keys whose rows change, None for too many to name."""
    come: tuple[pa.RecordBatch, ...] = ()
    """Rows that come and that it has written nowhere."""
    gone: tuple[GoneRows, ...] = ()
    """Rows that go and that it has written nowhere."""
    host: str = ""
    """The machine that it ran on."""
    number: int = 0
    """Which of the owners it was, in key order, where that matters."""
    aside: tuple[pa.RecordBatch, ...] = ()
    """Matters for somebody else to decide, such as conflicts, in key order."""


def report_batch(report: object) -> pa.RecordBatch:
    """Return a report, an owner's or another value, as a task yields it."""
    return pa.RecordBatch.from_arrays(
        [pa.array([pickle.dumps(report)], pa.binary())], schema=_REPORT
    )


def parse_value(batch: pa.RecordBatch) -> Any:
    """Return what was reported; it comes from a task of ours."""
    return pickle.loads(batch.column("report")[0].as_py())


def parse_report(batch: pa.RecordBatch) -> OwnerReport:
    """Return what an owner reported."""
    report = parse_value(batch)
    assert isinstance(report, OwnerReport)
    return report
