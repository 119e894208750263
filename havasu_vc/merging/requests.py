"""Requests of merges: merge, cherry-pick, revert, rebase, reset.

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

__all__ = ["MergeRequest", "PickRequest", "RebaseRequest", "SequenceRequest"]


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """A merge that is asked for."""

    revision: str
    """The commit to merge."""
    message: str | None = None
    """The message of the merge commit."""
    fast_forward: str = "auto"
    """`only` refuses to merge, `never` always makes a commit."""
    squash: bool = False
    """Make a commit with one parent, at once: git would leave that to `commit`."""
    dry_run: bool = False
    """Tell what would happen, and stop."""
    policy: MergePolicy | None = None
    """Decide conflicts: ours, theirs, COLUMN=ours, COLUMN=theirs, or fill-nulls, by which a null
    yields to a value. May be repeated."""
    into: str | None = None
    """Merge into this branch, which nothing has checked out, and leave HEAD where it is; no
    conflict is kept."""


@dataclass(frozen=True, slots=True)
class PickRequest:
    """A cherry-pick, or a revert, that is asked for."""

    revision: str
    """The commit."""
    mainline: int | None = None
    """Of a merge, what it changed of its parent N; 1 is the branch merged into."""
    message: str | None = None
    """The message of the commit."""
    record: bool = False
    """Name REV in the message."""
    dry_run: bool = False
    """Tell what would happen, and stop."""
    policy: MergePolicy | None = None
    """Decide conflicts: ours, theirs, COLUMN=ours, COLUMN=theirs, or fill-nulls."""


@dataclass(frozen=True, slots=True)
class RebaseRequest:
    """A rebase that is asked for."""

    upstream: str | None
    """The revision that the commits are made anew upon; None for all of them, upon `onto`."""
    branch: str | None = None
    """The branch to rebase, which is switched to first; None for HEAD's."""
    onto: str | None = None
    """Make the commits upon REV instead of UPSTREAM."""
    merges: bool = False
    """Make merges again; else left out."""
    fork_point: bool = False
    """Whether the reflog of upstream tells which commits were its own once."""
    policy: MergePolicy | None = None
    """Decide conflicts: ours (UPSTREAM's), theirs, COLUMN=ours, COLUMN=theirs, fill-nulls."""


@dataclass(frozen=True, slots=True)
class SequenceRequest:
    """Cherry-picks, or reverts, of several commits that are asked for."""

    kind: str
    """`cherry-pick` or `revert`."""
    revisions: Sequence[str]
    """Commits, and ranges of them."""
    _: KW_ONLY
    mainline: int | None = None
    """Of merges, what they changed of their parent N."""
    record: bool = False
    """Name each commit in the message."""
    policy: MergePolicy | None = None
    """How conflicts are decided."""
