"""Forms of commands that change something, or only look, printed with `-o json`.

These classes are documents: nothing at run time needs them. Type checkers hold the commands against
them, and the schemas and the page of the reference are made of them.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from havasu_vc.cli.forms.kart import Counts, Merge, RowCounts, ShownCommit

__all__ = [
    "BlamedRow",
    "Checked",
    "CheckedOut",
    "Cloned",
    "Described",
    "Dropped",
    "Fetched",
    "FoundProblem",
    "Head",
    "Imported",
    "Initialized",
    "Issue",
    "ListedDataset",
    "ListedTag",
    "LoggedCommit",
    "Moved",
    "Picked",
    "PickedSeveral",
    "Place",
    "Pruned",
    "Pulled",
    "Pushed",
    "PushedRef",
    "Remote",
    "Removed",
    "Resolved",
    "Restored",
    "StashEntry",
    "State",
    "Switched",
    "Tables",
    "TakenInColumn",
    "TakenTable",
    "Upgraded",
    "WrittenCopy",
]


class Head(TypedDict):
    """Where HEAD is."""

    branch: str | None
    """The branch; null where HEAD is on a commit by itself."""
    commit: str | None
    """The commit; null before the first."""


class Switched(Head):
    """Where HEAD is after `switch`."""

    created: bool
    """Whether the branch was made."""


class Tables(TypedDict):
    """The tables of a checkout."""

    root: str
    """The folder or the URL that they are in."""
    commit: str | None
    """The commit that they show."""
    tables: list[str]
    """The datasets that have a table."""
    changed: list[str]
    """Those whose table changed."""
    removed: list[str]
    """Those whose table went."""
    kept: list[str]
    """Those that stay behind, as they have edits."""
    notes: list[str]
    """Lines that a person should know."""


class WrittenCopy(TypedDict):
    """A file to edit."""

    path: str
    """Where it is."""
    rows: int
    """The rows in it."""
    notes: list[str]
    """Lines that a person should know."""


class CheckedOut(Head):
    """The outcome of `checkout`: HEAD, and what was written."""

    created: bool
    """Whether a branch was made."""
    tables: Tables | None
    """The tables that were made or looked at."""
    copy: WrittenCopy | None
    """The file that `--as` wrote."""


class Fetched(TypedDict):
    """The outcome of a fetch."""

    remote: str
    """From where."""
    refs: list[str]
    """The words of git on each ref that moved."""
    files: int
    """Data files that came."""
    size: int
    """Their bytes."""


class Cloned(Head):
    """A clone that was made."""

    path: str
    """Where it is."""
    files: int
    """Data files that came."""
    size: int
    """Their bytes."""
    tables: Tables | None
    """The tables that were made."""
    workingCopy: WrittenCopy | None
    """The working copy that was made."""


class Initialized(TypedDict):
    """A repository that was made, or prepared."""

    path: str
    """Where it is."""
    bare: bool
    """Whether it has no work tree."""
    kind: str
    """`havasu`, or `kart` for one laid out as Kart does it."""
    imported: Imported | None
    """The outcome of `--import`."""


class TakenInColumn(TypedDict):
    """A column as an import took it."""

    name: str
    """Its name."""
    type: str
    """The type of its values; of a geometry, `geometry`."""
    geometryType: str | None
    """The geometry type that it announces; null for any, and for other columns."""
    crs: str | None
    """The coordinate reference system of its geometries; null if it has none."""


class TakenTable(TypedDict):
    """A table as an import understood it."""

    rows: int
    """How many rows it has."""
    key: list[str]
    """The columns that tell its rows apart."""
    keyFrom: str | None
    """Where the key comes from: `option`, `file`, `dataset`, `found`; `made` where rows get
    numbers; null without one."""
    possibleKeys: list[str]
    """Where it has no key, columns that could be one: unique and never null."""
    crsFrom: str | None
    """Where the CRS comes from: `option`, `file`, `assumed`, `dataset`; null without one."""
    columns: list[TakenInColumn]
    """Its columns, in order."""


class Imported(TypedDict):
    """The outcome of an import."""

    commit: str | None
    """The commit; null for a dry run and where nothing changed."""
    branch: str | None
    """The branch that has it."""
    datasets: dict[str, Counts]
    """The rows that changed, by dataset."""
    understood: dict[str, TakenTable]
    """How each table was taken, by dataset."""
    notes: list[str]
    """Lines that a person should know."""


class PushedRef(TypedDict):
    """A ref that was sent."""

    flag: str
    """The flag in git's words: a space moved, `+` forced, `-` deleted, `*` new, `=` as it was."""
    source: str
    """The ref here; empty where it is deleted there."""
    target: str
    """The ref there."""
    summary: str
    """From which commit to which, in git's words."""


class Pushed(TypedDict):
    """The outcome of a push."""

    remote: str
    """To where."""
    refs: list[PushedRef]
    """The refs that moved; none where everything was there."""
    files: int
    """Data files that were sent."""
    size: int
    """Their bytes."""
    dryRun: bool
    """Whether nothing was sent."""


class Picked(TypedDict):
    """Commits that were made again, or the opposite of one."""

    commit: str | None
    """The last commit; null where none was made."""
    abbrevCommit: str | None
    """Its first digits."""
    branch: str | None
    """The branch that has it."""
    message: str | None
    """Its message."""
    changes: dict[str, RowCounts]
    """The rows that changed, by dataset."""
    conflicts: dict[str, dict[str, object]] | None
    """Counts of conflicts that wait, by dataset."""
    noOp: bool
    """Whether there was nothing to do."""
    dryRun: bool
    """Whether nothing was done."""


class PickedSeveral(Picked, total=False):
    """The same of several commits."""

    commits: list[str]
    """The commits that were made, oldest first."""


class Pulled(TypedDict):
    """The outcome of a pull: what came, and how it was joined."""

    fetch: Fetched
    """The fetch that it began with."""
    merge: Merge | None
    """The merge; null where it was rebased."""
    rebase: PickedSeveral | None
    """The rebase."""


class Restored(TypedDict):
    """The outcome of a restore."""

    dropped: list[str]
    """Datasets whose edits were dropped."""
    commit: str | None
    """The commit that `--source` made."""
    changes: dict[str, RowCounts]
    """The rows that `--source` changes, by dataset."""
    asEdits: bool
    """Whether these changes stand in the working copy, not committed."""
    dryRun: bool
    """Whether nothing was done."""


class StashEntry(TypedDict):
    """A stash."""

    number: int
    """Its place in the list; 0 is the newest."""
    commit: str
    """Its commit."""
    message: str
    """The trouble in words."""


class Resolved(TypedDict):
    """Conflicts that were decided."""

    resolved: int
    """How many this command decided."""
    unresolved: int
    """How many are left; with none, `merge --continue` concludes the merge."""


class State(TypedDict):
    """State beside Kart's status where something is not as it should be."""

    state: str
    """`clean`, or what is not finished, as `merge` or `rebase`."""
    problems: list[str]
    """Troubles that stand in the way of other commands."""
    notes: NotRequired[list[str]]
    """Lines that a person should know."""


class Removed(TypedDict):
    """Garbage that `gc` removed, or would."""

    files: int
    """Data files."""
    size: int
    """Their bytes."""
    keptYoung: int
    """Files that nothing needs and that are too young to go."""
    packed: int
    """Bytes that git's objects need less."""
    dryRun: bool
    """Whether nothing was removed."""


class Remote(TypedDict):
    """A remote."""

    name: str
    """Its name."""
    url: str
    """Its URL, without passwords."""
    data: str | None
    """Where its data files are, if that is elsewhere."""


class Upgraded(TypedDict):
    """The outcome of `upgrade`."""

    datasets: list[str]
    """The datasets."""
    commit: str | None
    """The commit; null where a repository was made anew."""
    path: str | None
    """The repository that was made."""


class Moved(TypedDict):
    """Data files that were sent, or came."""

    remote: str
    """To where, or from where."""
    files: int
    """How many."""
    size: int
    """Their bytes."""


class Dropped(Moved):
    """Data files here that were dropped, or would be."""

    kept: int
    """Files that stay, as the remote lacks them."""
    dryRun: bool
    """Whether nothing was dropped."""


class Pruned(Moved):
    """Data files of a remote that were deleted, or would be."""

    waiting: int
    """Files that nothing reaches, but not for long."""
    unfinished: int
    """Files below `temporary` of writers that died, which count by themselves."""
    unfinishedSize: int
    """Their bytes."""
    dryRun: bool
    """Whether nothing was deleted."""


class Place(TypedDict):
    """Where the data files are."""

    url: str | None
    """The folder or the bucket; null where they are with the remote."""


class FoundProblem(TypedDict):
    """Something that is not sound."""

    where: str
    """A dataset, document or file."""
    message: str
    """The fault."""
    hint: str | None
    """The next step."""


class LoggedCommit(ShownCommit):
    """A commit of `log`."""

    refs: NotRequired[list[str]]
    """The branches and tags that are at it."""
    datasetChanges: NotRequired[list[str]]
    """The datasets that it changed, with `--dataset-changes`."""
    featureChanges: NotRequired[dict[str, Any]]
    """Numbers of changed rows by dataset, with `--with-feature-count`."""


class BlamedRow(TypedDict):
    """Who last changed a row, or its cells."""

    key: dict[str, Any]
    """The key of the row, by column."""
    commit: NotRequired[ShownCommit]
    """The commit that last changed the row."""
    cells: NotRequired[dict[str, ShownCommit]]
    """The commit that last changed each cell, with `--columns`."""


class ColumnFacts(TypedDict):
    """A column, and what is known of its values without reading a row."""

    name: str
    """Its name."""
    type: str
    """Its type."""
    key: bool
    """Whether it is of the key."""
    required: bool
    """Whether no value is null."""
    nulls: int | None
    """How many values are null, if that is known."""
    lower: Any
    """No value is less."""
    upper: Any
    """No value is greater."""


class Extent(TypedDict):
    """A rectangle of longitudes and latitudes."""

    west: float
    """Its western edge."""
    south: float
    """Its southern edge."""
    east: float
    """Its eastern edge, less than the western one across the antimeridian."""
    north: float
    """Its northern edge."""


class Described(TypedDict):
    """A dataset, described."""

    path: str
    """Where it is."""
    kind: str
    """`havasu` or `kart`."""
    rows: int
    """How many rows it has."""
    size: int
    """Bytes of its files."""
    title: str | None
    """Its title."""
    crs: list[str]
    """Its reference systems."""
    extent: Extent | None
    """Where its rows lie."""
    columns: list[ColumnFacts]
    """Its columns."""


class Finding(TypedDict):
    """Something that is against the policy."""

    rule: str
    """The key of the policy."""
    message: str
    """It in words."""
    refuses: bool
    """Whether it fails the check; else it is a warning."""
    dataset: str
    """The dataset; empty where it is about the whole."""
    count: int
    """Rows that it is about."""
    rows: list[str]
    """Some of them, by key."""


class Checked(TypedDict):
    """The findings of `check`."""

    range: str
    """The commits that were looked at."""
    refused: int
    """How many findings fail the check."""
    findings: list[Finding]
    """All findings."""


class Issue(TypedDict):
    """A value that is not what its column says."""

    dataset: str
    """The dataset."""
    key: dict[str, Any] | None
    """The key of the row."""
    column: str | None
    """The column."""
    level: str
    """`error` or `warning`."""
    rule: str
    """The rule that it breaks."""
    cause: str
    """It in words."""


class ListedDataset(TypedDict):
    """A dataset."""

    path: str
    """Where it is."""
    type: str
    """`table`, or what Kart calls it."""
    version: int
    """The version of its format."""
    format: NotRequired[str]
    """`havasu` for a Havasu table."""
    title: NotRequired[str | None]
    """Its title, with `--long`."""
    rows: NotRequired[int | None]
    """How many rows it has, with `--long`."""
    size: NotRequired[int | None]
    """Bytes of its files, with `--long`."""


class ListedTag(TypedDict):
    """A tag."""

    commit: str
    """Its commit."""
    abbrevCommit: str
    """The first digits of that."""
    message: str | None
    """Its message, where it has one."""
