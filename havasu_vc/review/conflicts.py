"""Where a branch does not merge with its target: what a person has to decide, and how.

`ours` is the branch under review and `theirs` what it is to be merged into: so they are called
while it is settled, on the branch, by merging the target. Rows are a few of each kind, whatever
their number. Texts are as they are in the data; writers make them safe. Geometries are WKB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from havasu_vc.records import dataclass

__all__ = ["ConflictCell", "ConflictedRow", "Conflicts", "DatasetInConflict", "ItemInConflict"]


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
