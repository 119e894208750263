"""Results of operations on a repository: values for commands to print and programs to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import ConflictCounts, MergeContext
from havasu_vc.records import dataclass

__all__ = [
    "CheckoutResult",
    "CommitResult",
    "DatasetInfo",
    "ExportResult",
    "GcResult",
    "ImportResult",
    "Problem",
    "RepoStatus",
    "TakenColumn",
    "Understood",
    "WaitingMerge",
]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """One dataset of a revision."""

    path: str
    """Where it is."""
    kind: str
    """`havasu`, `kart`, or the name of a kind that is left untouched."""
    version: int
    """The version of its format."""
    title: str | None = None
    """Its title."""
    rows: int | None = None
    """How many rows, where that is known without counting."""
    size: int | None = None
    """Bytes of its files."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A commit that was made, or would be."""

    commit: str | None
    """Its id; None for a dry run or when nothing changed."""
    branch: str | None
    """The branch that has it now; None on a detached HEAD."""
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)
    """Rows changed, by dataset."""
    notes: tuple[str, ...] = ()
    """Notes for a person, one line each."""
    meta: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Meta items changed, by dataset."""
    as_edits: bool = False
    """Whether the changes stand in the living working copy, not committed."""
    hidden: int = 0
    """How many of its rows left the working copy, as they are outside of the spatial filter."""


@dataclass(frozen=True, slots=True)
class TakenColumn:
    """A column as an import took it."""

    name: str
    """Its name."""
    type: str
    """The type of its values; of a geometry, `geometry`."""
    shape: str | None = None
    """The geometry type that it announces; None for any, and for other columns."""
    crs: str | None = None
    """The coordinate reference system of its geometries; None if it has none."""


@dataclass(frozen=True, slots=True)
class Understood:
    """A table as an import understood it."""

    rows: int
    """How many rows it has."""
    columns: tuple[TakenColumn, ...]
    """Its columns, in order."""
    key: tuple[str, ...] = ()
    """The columns that tell its rows apart; `()` for none."""
    key_from: str | None = None
    """Where the key comes from: `option`, `file`, `dataset`, `found`; `made` where rows
    get numbers; None without one."""
    possible_keys: tuple[str, ...] = ()
    """Where it has no key, columns that could be one: unique and never null, likely ones first."""
    crs_from: str | None = None
    """Where the CRS comes from: `option`, `file`, `assumed`, `dataset`; None without one."""
    layer: str = ""
    """The layer of the source that it is."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The outcome of an import."""

    commit: str | None
    """The commit's id; None for a dry run or when nothing changed."""
    branch: str | None
    """The branch that has it now."""
    datasets: Mapping[str, ChangeCounts] = field(default_factory=dict)
    """Rows inserted, updated and deleted, by dataset."""
    notes: tuple[str, ...] = ()
    """Notes for a person, one line each."""
    understood: Mapping[str, Understood] = field(default_factory=dict)
    """How each table was taken, by dataset."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The outcome of an export."""

    path: str
    """The file."""
    rows: int
    """Rows in it."""
    notes: tuple[str, ...] = ()
    """Losses of the format, one line each."""
    changes: ChangeCounts | None = None
    """The changes that an export of them has; an update is two of its rows."""


@dataclass(frozen=True, slots=True)
class WaitingMerge:
    """A merge that waits for its conflicts to be resolved."""

    kind: str
    """`merge`, `squash`, `cherry-pick` or `revert`."""
    context: MergeContext
    """Its commits."""
    message: str
    """The message that its commit will have."""
    conflicts: Mapping[str, ConflictCounts] = field(default_factory=dict)
    """Counts of conflicts that are not resolved, by dataset."""


@dataclass(frozen=True, slots=True)
class RepoStatus:
    """The state of a repository."""

    commit: str | None
    """HEAD's commit; None before the first."""
    branch: str | None
    """HEAD's branch; None when detached."""
    upstream: str | None = None
    """The branch it follows."""
    ahead: int = 0
    """Commits that upstream lacks."""
    behind: int = 0
    """Commits that only upstream has."""
    state: str = "clean"
    """`clean`, or what git, Kart (`merge of Kart's`) or we are in the middle of, as `merge`."""
    problems: tuple[str, ...] = ()
    """Obstacles to other commands, one line each."""
    waiting: WaitingMerge | None = None
    """The merge that waits, if one does and its state can be read."""
    elsewhere: str | None = None
    """A branch to switch to that has commits, here or on a remote, where HEAD's has none."""
    cut_off: bool = False
    """Whether git was cut off in the middle of `state`, which can only be put back."""
    staged: Mapping[str, str] = field(default_factory=dict)
    """Of datasets of which git itself has staged something its letter: D for all of it gone."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `fsck` found."""

    where: str
    """A dataset, document or file."""
    message: str
    """The fault."""
    hint: str | None = None
    """The next step."""


@dataclass(frozen=True, slots=True)
class CheckoutResult:
    """The outcome of a checkout of a work tree's tables."""

    root: Path | str
    """The folder that they are in, or the URL."""
    commit: str | None
    """The commit that they show; None before the first."""
    tables: tuple[str, ...] = ()
    """The datasets that are checked out."""
    changed: tuple[str, ...] = ()
    """Those whose table changed."""
    removed: tuple[str, ...] = ()
    """Those whose table went."""
    kept: tuple[str, ...] = ()
    """Those that stay behind, as they have edits."""
    notes: tuple[str, ...] = ()
    """Notes for a person, one line each."""


@dataclass(frozen=True, slots=True)
class GcResult:
    """The things that `gc` removed, or would."""

    files: int
    """Data files."""
    size: int
    """Their bytes."""
    kept_young: int = 0
    """Unreachable files that are younger than the grace period."""
    packed: int = 0
    """Bytes that git's objects need less, packed anew."""
