"""Requests of upkeep: optimize, repair, prune.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.history.conflicts import MergePolicy

__all__ = ["IndexRequest", "OptimizeRequest", "PruneRequest", "RepairRequest"]


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """A bringing along of the index of features that is asked for."""

    commits: Sequence[str] = ()
    """Commits whose features come in, with those of all before them; none for all refs."""
    anew: bool = False
    """Begin anew."""
    dry_run: bool = False
    """Tell from where to where, and stop."""


@dataclass(frozen=True, slots=True)
class OptimizeRequest:
    """A rewriting of files that is asked for."""

    datasets: Sequence[str] = ()
    """Datasets by path; none for all that are sound and in files."""
    message: str | None = None
    """The message of the commit."""
    dry_run: bool = False
    """Tell what would be done, and stop."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """A repair that is asked for."""

    datasets: Sequence[str] = ()
    """Datasets by path; none for all that are broken."""
    source: str | None = None
    """Take the version of this commit, and no other."""
    policy: MergePolicy | None = None
    """Decide conflicts between the last sound versions, as `merge -X` does."""
    message: str | None = None
    """The message of the commit."""


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """A remote's data files to be removed."""

    remote: str | None = None
    """Whose files they are.  [default: the remote that is followed]"""
    _: KW_ONLY
    grace_days: float = 14.0
    """How long a file stays after it was first found unreached."""
    delete: bool = False
    """Mark what is unreached, and delete what was long so."""
