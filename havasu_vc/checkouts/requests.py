"""Requests of what is checked out: how tables are to be, and where HEAD goes.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

from havasu_vc.records import dataclass

__all__ = ["CheckoutRequest", "ResetRequest", "SwitchRequest"]


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
