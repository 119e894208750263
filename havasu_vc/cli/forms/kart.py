"""Kart's forms, as this program prints them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

__all__ = [
    "BranchList",
    "ChangedRows",
    "Committed",
    "Counts",
    "FeatureIndexForm",
    "Merge",
    "MergeSides",
    "RowCounts",
    "ShownCommit",
    "SpatialFilterForm",
    "Status",
]


class Counts(TypedDict):
    """Numbers of rows."""

    inserts: int
    """New ones."""
    updates: int
    """Changed ones."""
    deletes: int
    """Those that went."""


class SomeCounts(TypedDict, total=False):
    """Numbers of rows; those that are 0 are left out."""

    inserts: int
    """New ones."""
    updates: int
    """Changed ones."""
    deletes: int
    """Those that went."""


class EditCounts(SomeCounts, total=False):
    """Edits of a kind, counted."""

    spatialFilterConflicts: int
    """New ones whose keys are those of rows outside of the spatial filter."""


class RowCounts(TypedDict, total=False):
    """Changes of a dataset, counted."""

    feature: SomeCounts
    """Its rows."""
    meta: SomeCounts
    """Its meta items."""


class Committed(TypedDict):
    """A commit that was made, or would be."""

    commit: str | None
    """Its id; null for a dry run and where nothing changed."""
    abbrevCommit: str | None
    """Its first digits."""
    author: str | None
    """The email of who made the change."""
    committer: str | None
    """The email of who committed it."""
    branch: str | None
    """The branch that has it."""
    message: str | None
    """Its message."""
    changes: dict[str, RowCounts]
    """The rows that changed, by dataset."""
    commitTime: str | None
    """When, in UTC."""
    commitTimeOffset: str | None
    """The time zone of the committer, as `+12:00`."""


class MergeSide(TypedDict):
    """One of the commits of a merge."""

    commit: str
    """Its id."""
    abbrevCommit: str
    """Its first digits."""
    branch: NotRequired[str]
    """The branch by which it was named."""


class MergeSides(TypedDict):
    """The commits of a merge."""

    ancestor: MergeSide
    """The commit that both sides come from."""
    ours: MergeSide
    """HEAD."""
    theirs: MergeSide
    """The side that is merged into it."""


class Merge(TypedDict):
    """The outcome of a merge, made or tried."""

    commit: str | None
    """HEAD after it; `(dryRun)` for one that would be made."""
    branch: str | None
    """The branch that HEAD is on."""
    merging: MergeSides
    """The commits that are merged."""
    message: str | None
    """The message of the commit."""
    conflicts: dict[str, Any] | None
    """Numbers of conflicts, by dataset and kind; null without."""
    dryRun: bool
    """Whether nothing was done."""
    noOp: NotRequired[bool]
    """True where there was nothing to do."""
    fastForward: NotRequired[bool]
    """True where the branch only moved."""
    state: NotRequired[str]
    """`merging` where the merge waits for its conflicts."""


class Upstream(TypedDict):
    """The branch that a branch follows."""

    branch: str
    """Its name."""
    ahead: int
    """Commits that it lacks."""
    behind: int
    """Commits that only it has."""


class EditedRowCounts(TypedDict, total=False):
    """Edits of a dataset, counted."""

    feature: EditCounts
    """Its rows."""
    meta: SomeCounts
    """Its meta items."""


class SpatialFilterForm(TypedDict):
    """The area that working copies are limited to."""

    geometry: str
    """The polygon as hexadecimal WKB."""
    crs: str
    """Its system."""
    reference: NotRequired[str | None]
    """The ref that names the object that has it."""
    objectId: NotRequired[str | None]
    """That object."""


class FeatureIndexForm(TypedDict):
    """The index of where features are, as it was brought along."""

    known: list[str]
    """The commits up to which it went before."""
    commits: list[str]
    """Those up to which it goes now; none where it had them all."""
    features: int
    """How many features were looked at."""
    dryRun: bool
    """Whether nothing was done."""


class WorkingCopyPart(TypedDict):
    """A place where datasets are edited."""

    type: NotRequired[str]
    """`gpkg`, or `iceberg` for the tables of `checkout`."""
    location: NotRequired[str]
    """The file or the folder; in Kart's repositories as `kart.workingcopy.location` says it."""
    status: str
    """`ok`, `damaged` or `notFound`."""
    path: NotRequired[str]
    """In Kart's repositories, the file or the folder, whole."""
    commit: NotRequired[str | None]
    """The commit that the file shows."""
    tree: NotRequired[str | None]
    """The tree of that commit."""
    missingTriggers: NotRequired[list[str]]
    """Tables whose edits are not tracked, as something dropped their triggers."""
    lockedByEditor: NotRequired[bool]
    """Whether a program holds the file at this moment."""


class WorkingCopy(TypedDict):
    """Where datasets are edited, and what is edited."""

    parts: dict[str, WorkingCopyPart]
    """The places; `tabular` is the one of tables, and `workdir`, in Kart's repositories alone,
    that of tiles, which is never there."""
    changes: dict[str, EditedRowCounts]
    """Edits by dataset."""
    nonCheckoutDatasets: list[str]
    """Always empty."""
    untrackedTables: NotRequired[list[str]]
    """Tables that an editor made and that are no dataset yet."""


class Status(TypedDict):
    """Where HEAD is, what is edited, and what is being merged."""

    commit: str | None
    """HEAD's commit; null before the first."""
    abbrevCommit: str | None
    """Its first digits."""
    branch: str | None
    """The branch; null where HEAD is on a commit by itself."""
    upstream: Upstream | None
    """The branch that it follows."""
    spatialFilter: SpatialFilterForm | None
    """The area that the working copy is limited to; null for none."""
    workingCopy: NotRequired[WorkingCopy | None]
    """Where datasets are edited; null without such a place. Left out while a merge waits, but
    for a GeoPackage."""
    merging: NotRequired[MergeSides]
    """The commits of the merge that waits for its conflicts."""
    conflicts: NotRequired[dict[str, Any]]
    """Numbers of conflicts that are left, by dataset and kind."""
    state: NotRequired[str]
    """`merging` where a merge waits."""


class ListedBranch(TypedDict):
    """A branch."""

    commit: str
    """Its commit."""
    abbrevCommit: str
    """The first digits of that."""
    branch: str
    """Its name."""
    upstream: Upstream | None
    """The branch that it follows."""


class BranchList(TypedDict):
    """The branches."""

    current: str | None
    """The branch that HEAD is on."""
    branches: dict[str, ListedBranch]
    """All of them, by name."""


class ShownCommit(TypedDict):
    """A commit, as `show` heads what it changed."""

    commit: str
    """Its id."""
    abbrevCommit: str
    """Its first digits."""
    message: str
    """Its message."""
    authorName: str
    """Who made the change."""
    authorEmail: str
    """Their email."""
    authorTime: str
    """When, in UTC."""
    authorTimeOffset: str
    """The time zone of the author."""
    committerName: str
    """Who committed it."""
    committerEmail: str
    """Their email."""
    commitTime: str
    """When, in UTC."""
    commitTimeOffset: str
    """The time zone of the committer."""
    parents: list[str]
    """The commits before it."""
    abbrevParents: list[str]
    """Their first digits."""


class ChangedRows(TypedDict, total=False):
    """The changed rows of a dataset."""

    meta: dict[str, Any]
    """Meta items: `-` is the old value, `+` the new one."""
    feature: list[Any]
    """Rows, each with `-` the old one, `+` the new one, or `*` with both by column."""
    data_changes: bool
    """Instead of rows, with `--diff-format=no-data-changes` in a repository of Kart's: whether
    some changed."""
