"""Requests of what is shared: clone, fetch, push, data files.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.exchange.boxes import Box

__all__ = ["CloneRequest", "DataRequest", "DropRequest", "FetchRequest", "Part", "PushRequest"]


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """A clone that is asked for."""

    url: str
    """Any URL that git takes."""
    folder: Path
    """Where to; must not be there, or be empty."""
    branch: str | None = None
    """Be on this branch."""
    bare: bool = False
    """Make a repository without a work tree."""
    depth: int | None = None
    """Bring only so many commits of history."""
    data_url: str | None = None
    """The folder or bucket with the data files."""
    on_demand: bool = False
    """Whether data files come only when something reads them."""
    part: Part | None = None
    """The part that comes at once then; None for nothing."""
    base: Path | None = None
    """The folder that a relative URL is relative to; None for the current one."""
    tables: bool = False
    """Whether whoever asks makes tables yet, and calls `finish_clone` then."""
    kart: bool = False
    """Whether the clone is to be one that Kart opens."""
    filter: str | None = None
    """With `data`, leave data files until something reads them; with a filter of git's, such as
    blob:none, git's objects, and so the rows of Kart datasets."""
    bundle_uri: str | None = None
    """Take objects from this bundle first."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A push that is asked for."""

    remote: str | None = None
    """The remote; None for the one that the branch follows."""
    refspecs: Sequence[str] = ()
    """As git takes them; none for what git's settings say."""
    options: Sequence[str] = ()
    """More options of `git push`, long ones."""
    dry_run: bool = False
    """Send nothing."""
    allow_broken: bool = False
    """Send broken datasets too."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A fetch that is asked for."""

    remote: str | None = None
    """The remote; None for the one that the branch follows."""
    refspecs: Sequence[str] = ()
    """As git takes them; none for what git's settings say."""
    _: KW_ONLY
    options: Sequence[str] = ()
    """More options of `git fetch`, long ones."""
    data: bool = True
    """Whether data files come too."""


@dataclass(frozen=True, slots=True)
class DataRequest:
    """Data files to be brought."""

    remote: str | None = None
    """The remote; None for the one that the branch follows."""
    _: KW_ONLY
    part: Part | None = None
    """The part that comes; None for all that commits here name."""
    revision: str = "HEAD"
    """With the two above, of this commit."""
    verify: bool = False
    """Read the files that are here too: what is damaged comes anew."""


@dataclass(frozen=True, slots=True)
class DropRequest:
    """Data files to be removed here."""

    remote: str | None = None
    """The remote that has them; None for the one that the branch follows."""
    _: KW_ONLY
    everything: bool = False
    """Also the files that HEAD names."""
    dry_run: bool = False
    """Only tell what would go."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which data files to take."""

    datasets: Sequence[str] = ()
    """Bring only this dataset's data; may be repeated."""
    box: Box | None = None
    """Bring only data files that may have geometries in this box, in their own coordinates."""

    def has(self, path: str) -> bool:
        """Whether a dataset is one of them.

        >>> Part(("wells",)).has("roads"), Part(box=(0, 0, 1, 1)).has("roads")
        (False, True)
        """
        return not self.datasets or path in {each.strip("/") for each in self.datasets}
