"""The parts of a review: small values, whatever the size of the change.

A `Review` is made in one pass over the change streams and printed by the writers beside
this module. Texts in it are as they are in the data; writers make them safe. Geometries are WKB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.records import dataclass

__all__ = [
    "Area",
    "Cell",
    "ColumnReview",
    "ConflictCell",
    "ConflictedRow",
    "Conflicts",
    "DatasetFacts",
    "DatasetInConflict",
    "DatasetReview",
    "Flag",
    "FlagKind",
    "ItemInConflict",
    "NumberShift",
    "PolicyFinding",
    "Review",
    "ReviewedCommit",
    "Sample",
    "Transition",
]


class FlagKind(StrEnum):
    """The kinds of oddities of a change."""

    DATASET_REMOVED = "dataset-removed"
    MASS_DELETE = "mass-delete"
    CRS_CHANGED = "crs-changed"
    KEY_CHANGED = "key-changed"
    COLUMN_REMOVED = "column-removed"
    EMPTIED_GEOMETRY = "emptied-geometry"
    INVALID_GEOMETRY = "invalid-geometry"
    OTHER_COORDINATES = "other-coordinates"
    FAR_FROM_THE_REST = "far-from-the-rest"
    MOVED_FAR = "moved-far"
    NEW_NULLS = "new-nulls"
    OUT_OF_RANGE = "out-of-range"
    DUPLICATES = "duplicates"
    UNVERIFIED = "unverified"
    CHANGED_BACK = "changed-back"


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Facts of one version of a dataset, known without reading its rows."""

    rows: int
    """How many rows it has."""
    nulls: Mapping[int, int] = field(default_factory=dict)
    """By field id, how many nulls at most; a column that is not named is not known."""
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By field id of numbers, the least and greatest value."""
    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """By field id of geometries, the area they cover."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that a person should look at."""

    kind: FlagKind
    """The kind of oddity."""
    message: str
    """It in words, without the dataset's name."""
    count: int = 0
    """Rows that it is about; 0 where it is about the whole."""
    rows: tuple[str, ...] = ()
    """Some of them, by key."""


@dataclass(frozen=True, slots=True)
class NumberShift:
    """How the numbers of a column moved, over the updates that touched them."""

    old_mean: float | None
    """Before."""
    new_mean: float | None
    """After."""
    least: float | None
    """The least new value."""
    greatest: float | None
    """The greatest new value."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One value that became another in several rows."""

    old: str | None
    """Before; None for null."""
    new: str | None
    """After; None for null."""
    count: int
    """In how many rows."""


@dataclass(frozen=True, slots=True)
class ColumnReview:
    """The changes of one column in the rows that were updated."""

    name: str
    """As it is called now."""
    changed: int
    """Rows whose value changed."""
    filled: int = 0
    """Of these, how many were null before."""
    emptied: int = 0
    """Of these, how many are null now."""
    numbers: NumberShift | None = None
    """For columns of numbers."""
    transitions: tuple[Transition, ...] = ()
    """For columns of few values: the commonest changes."""


@dataclass(frozen=True, slots=True)
class Area:
    """Where changes are, in the dataset's own coordinates."""

    touched: Bounds | None
    """All changed geometries, before and after."""
    before: Bounds | None
    """The whole dataset before."""
    after: Bounds | None
    """The whole dataset after."""
    crs: str | None
    """The system of the coordinates."""
    moved: int = 0
    """Geometries that changed."""
    farthest: float = 0.0
    """The greatest distance that one moved."""
    geographic: tuple[float, float, float, float] | None = None
    """West, south, east and north of what is touched, in degrees; west is greater than east
    over the antimeridian. None where that is not known."""
    covered: tuple[float, float] | None = None
    """Square metres that deleted and that inserted polygons cover; None where there are not
    both, or it is not known."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a changed row."""

    column: str
    """The column's name."""
    old: str | None
    """Before; None for null, or where the row or the column was not there."""
    new: str | None
    """After; None for null, or where the row or the column is not there."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A changed row worth seeing."""

    kind: ChangeKind
    """Insert, update or delete."""
    key: str
    """The key of the row."""
    reason: str
    """Why it is shown."""
    cells: tuple[Cell, ...]
    """For an update the cells that changed, else all that are not null."""
    old_geometry: bytes | None = None
    """Before, in longitude and latitude; None where there is none or its place is not known."""
    new_geometry: bytes | None = None
    """After, in longitude and latitude; None where there is none or its place is not known."""
    label: str | None = None
    """The name that people have for the row, where a column beside the key tells that."""


@dataclass(frozen=True, slots=True)
class DatasetReview:
    """The changes of one dataset."""

    path: str
    """Where it is in the repository."""
    title: str | None
    """Its title."""
    state: str
    """`added`, `removed` or `changed`."""
    rows_before: int | None
    """Rows before; None where only the changes are known."""
    rows_after: int | None
    """Rows after; None where only the changes are known."""
    counts: ChangeCounts
    """Rows that changed."""
    words: tuple[str, ...] = ()
    """Changes of schema, CRS and other meta items, a sentence each."""
    columns: tuple[ColumnReview, ...] = ()
    """Columns that updates touched, the most touched first."""
    area: Area | None = None
    """None without geometries."""
    flags: tuple[Flag, ...] = ()
    """Oddities, the gravest first."""
    samples: tuple[Sample, ...] = ()
    """Rows worth seeing, the most telling first."""
    unread: str | None = None
    """Why rows could not be read, and what is known without; counts are of those read."""


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """Something that is against the policy of the repository."""

    rule: str
    """The key of the policy, such as `max-deletes`."""
    message: str
    """It in words, names from the data between backticks."""
    refuses: bool
    """Whether it fails the check; else it is a warning."""
    dataset: str = ""
    """The dataset that it is about; empty when it is about the whole."""
    count: int = 0
    """Rows that it is about; 0 where it is about the whole."""
    rows: tuple[str, ...] = ()
    """Some of them, by key."""


@dataclass(frozen=True, slots=True)
class ReviewedCommit:
    """A commit of the change."""

    id: str
    """40 hex digits."""
    author: str
    """Whoever made the change, by name."""
    date: str
    """The day on which, where the author was: `2026-11-20`."""
    subject: str
    """The first line of the message."""


@dataclass(frozen=True, slots=True)
class Review:
    """The changes between two revisions."""

    base: str
    """The revision before, as people call it."""
    head: str
    """The revision after."""
    datasets: tuple[DatasetReview, ...]
    """Datasets that differ, by path."""
    notes: tuple[str, ...] = ()
    """Notes on the whole, a sentence each."""
    merge_base: str | None = None
    """The commit that `head` is compared with, where that is not `base` itself."""
    three_dots: bool = False
    """Whether it was asked for as `base...head`."""
    findings: tuple[PolicyFinding, ...] = ()
    """Breaches of the policy."""
    conflicts: Conflicts | None = None
    """Why git does not merge `head` with `base`; None where it does, or nobody asked."""
    commits: tuple[ReviewedCommit, ...] = ()
    """Commits that `head` has and `base` has not, newest first; the first of many."""
    commit_count: int = 0
    """How many there are."""

    @property
    def range(self) -> str:
        """The revisions as a range."""
        return f"{self.base}{'...' if self.three_dots else '..'}{self.head}"

    @property
    def counts(self) -> ChangeCounts:
        """Rows that changed, in all datasets."""
        return sum((each.counts for each in self.datasets), ChangeCounts())

    def _repr_html_(self) -> str:
        from havasu_vc.review.notebook import review_html

        return review_html(self)


# Where a branch does not merge with its target: what a person has to decide, and how.
#
# `ours` is the branch under review and `theirs` what it is to be merged into: so they are called
# while it is settled, on the branch, by merging the target. Rows are a few of each kind, whatever
# their number. Texts are as they are in the data; writers make them safe. Geometries are WKB.


@dataclass(frozen=True, slots=True)
class ConflictCell:
    """One cell of a row in conflict."""

    column: str
    """The column's name."""
    base: str | None
    """Before both; None for null, or without a row."""
    ours: str | None
    """On our side; None for null, or without a row."""
    theirs: str | None
    """On theirs; None for null, or without a row."""
    clashes: bool
    """Whether it has to be decided; else one side changed it."""


@dataclass(frozen=True, slots=True)
class ConflictedRow:
    """A row that both sides changed otherwise."""

    key: str
    """The key of the row."""
    kind: str
    """As `ConflictKind` names it."""
    ours: str
    """Our change of it, in a word or two."""
    theirs: str
    """Their change of it."""
    cells: tuple[ConflictCell, ...]
    """Cells that are not alike in all three."""
    base_geometry: bytes | None = None
    """Its shape there, in degrees; None where there is none or its place is not known."""
    ours_geometry: bytes | None = None
    """Its shape there, in degrees; None where there is none or its place is not known."""
    theirs_geometry: bytes | None = None
    """Its shape there, in degrees; None where there is none or its place is not known."""


@dataclass(frozen=True, slots=True)
class ItemInConflict:
    """A meta item, the columns, or a dataset as a whole that both sides changed otherwise."""

    name: str
    """Such as `title`; `dataset` for the whole, `schema.json` for the columns."""
    base: str | None = None
    """Before both; None where it was not there, and for columns."""
    ours: str | None = None
    """On our side."""
    theirs: str | None = None
    """On theirs."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For `schema.json` what is in conflict in each column (empty: the key)."""


@dataclass(frozen=True, slots=True)
class DatasetInConflict:
    """The conflicts in one dataset."""

    path: str
    """Where it is in the repository."""
    rows: int = 0
    """How many rows."""
    items: tuple[ItemInConflict, ...] = ()
    """Meta items, by name."""
    samples: tuple[ConflictedRow, ...] = ()
    """Some of the rows, in the order of their keys."""


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Why git does not merge a branch with its target; nothing of it may be in conflict here."""

    ours: str
    """The branch under review, as people call it."""
    theirs: str
    """The branch that it is to be merged into."""
    rows: int = 0
    """How many rows are in conflict, of all datasets."""
    items: int = 0
    """How many meta items are in conflict, of all datasets."""
    datasets: tuple[DatasetInConflict, ...] = ()
    """Those with conflicts, by path."""
    files: tuple[str, ...] = ()
    """Files beside the datasets that git cannot merge."""
    unknown: str | None = None
    """Why it could not be looked at."""
    commands: tuple[str, ...] = ()
    """Lines for a shell that settle it."""
