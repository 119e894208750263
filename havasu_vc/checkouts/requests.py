"""Requests of what is checked out: how tables are to be, and where HEAD goes.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from havasu_vc.formats.iceberg.values import Flavour

__all__ = [
    "CheckoutRequest",
    "CheckoutToRequest",
    "CleanRequest",
    "ResetRequest",
    "SwitchRequest",
    "TableCommitRequest",
    "WorkspaceCommitRequest",
]


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A move of the branch that is asked for."""

    revision: str = "HEAD"
    """The commit to move it to."""
    _: KW_ONLY
    mode: str | None = None
    """`soft`, `mixed`, `hard` or `keep`, as git means them; None is `mixed`."""
    discard: bool = False
    """With --hard, or alone in a Kart repository, drop edits in tables as well."""


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    """A move of HEAD that is asked for."""

    target: str
    """The branch, or the commit."""
    _: KW_ONLY
    create: bool = False
    """Whether to make the branch."""
    start: str | None = None
    """Where the branch that is made begins; None for HEAD."""
    discard: bool = False
    """Drop edits in the way."""


@dataclass(frozen=True, slots=True)
class CheckoutRequest:
    """How a workspace is to be; None leaves it as it is."""

    flavour: str | None = None
    """The readers that tables are written for: all of Iceberg (the choice of auto), the Havasu
    specification to the letter, or the same for Iceberg's Spark."""
    copy: bool | None = None
    """Copy data files, or link them where possible."""
    refs: bool | None = None
    """Show branches and tags in the tables."""
    clustered: bool | None = None
    """Sort rows anew into files of the tables' own, along a Hilbert curve or by the partition spec;
    or have the files of the commits, as is so at first."""
    dataset: str | None = None
    """With --to, one dataset: FOLDER is its table. With --layout, the one to lay out so. Alone, one
    that --not-dataset left out of the working copy, which takes it in again."""
    partition_by: str | None = None
    """With --layout clustered, the partition spec, as 'days(at), bucket(16, id)'.  [default: the
    dataset's]"""


@dataclass(frozen=True, slots=True)
class CheckoutToRequest:
    """Tables elsewhere that are asked for."""

    folder: str | Path
    """Where the table goes, a folder or a URL, or all tables where no dataset is named."""
    revision: str = "HEAD"
    """The revision that they show."""
    _: KW_ONLY
    dataset: str | None = None
    """The one dataset that is wanted."""
    flavour: Flavour | None = None
    """The engine that they are written for; None chooses for each."""
    copy: bool = False
    """Whether files are copied rather than linked."""
    discard: bool = False
    """Whether edits that are in the way are dropped."""
    clustered: bool = False
    """Whether rows are sorted anew."""
    partition_by: str | None = None
    """With `clustered`, a partition spec such as `days(at)`; None takes the dataset's own."""


@dataclass(frozen=True, slots=True)
class WorkspaceCommitRequest:
    """A commit of the edits of what is checked out that is asked for."""

    filters: Sequence[str] = ()
    """The datasets, or rows of them, whose edits are committed; all without."""
    _: KW_ONLY
    message: str | None = None
    """The message of the commit."""
    dry_run: bool = False
    """Tell what would be committed, and stop."""
    allow_empty: bool = False
    """Commit even if nothing changed."""
    refs: bool = False
    """Also commit branches of the tables to git's branches."""
    allow_broken: bool = False
    """Commit beside broken datasets."""
    allow_hidden: bool = False
    """Overwrite rows outside of the spatial filter whose keys were given to new ones."""


@dataclass(frozen=True, slots=True)
class TableCommitRequest:
    """A commit of the edits of a table elsewhere that is asked for."""

    location: str
    """The folder or the URL of the table."""
    _: KW_ONLY
    filters: Sequence[str] = ()
    """The parts of the edits that are committed, upon which the table stays; all without."""
    message: str | None = None
    """The message of the commit."""
    dry_run: bool = False
    """Tell what would be committed, and stop."""
    allow_empty: bool = False
    """Commit even if nothing changed."""
    allow_broken: bool = False
    """Commit beside broken datasets."""


@dataclass(frozen=True, slots=True)
class CleanRequest:
    """A removal of what nothing tracks that is asked for."""

    paths: Sequence[Path] = ()
    """The places that it is about."""
    _: KW_ONLY
    folder: Path | None = None
    """Without `paths`, the folder that it is about; None for the work tree."""
    dry_run: bool = False
    """Tell what would be removed, and stop."""
    folders: bool = False
    """Also folders, and tables of the workspace of no dataset."""
    ignored: bool = False
    """Also files that are ignored."""
