"""Requests of who looks: a log, a diff, the rows that hold a value, a page of rows.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.records import dataclass

__all__ = ["LogRequest", "SeekRequest"]


@dataclass(frozen=True, slots=True)
class SeekRequest:
    """The rows that are sought."""

    text: str
    """VALUE, the text that they hold."""
    revision: str = "HEAD"
    """The revision at which they do."""
    filters: Sequence[str] = ()
    """The datasets that are looked in; all without."""
    ignore_case: bool = False
    """Take small and capital letters as one."""
    regex: bool = False
    """VALUE is a regular expression, for text alone."""
    columns: Sequence[str] = ()
    """Look in these alone."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which commits are wanted."""

    revision: str = "HEAD"
    """Where to start, or a range."""
    filters: Sequence[str] = ()
    """Datasets, rows or meta items of which a commit changed some."""
    limit: int | None = None
    """How many."""
    skip: int | None = None
    """How many of the first are left out."""
    since: str | None = None
    """A date as git reads it: those after."""
    until: str | None = None
    """A date as git reads it: those before."""
    author: str | None = None
    """A pattern that git finds in the author's name and address."""
    committer: str | None = None
    """A pattern that git finds in the committer's."""
    grep: str | None = None
    """A pattern that git finds in the message."""
    columns: Sequence[str] = ()
    """Of rows, columns of which a commit changed a cell."""
    holds: str | None = None
    """A value that a row held which a commit changed, before or after; merges change none."""
    box: tuple[float, float, float, float] | None = None
    """A place: west, south, east and north of a box in which a row lies that a commit changed,
    before or after; merges change none."""
    full_refs: bool = False
    """Whether refs at commits are named with `refs/heads/` and the like."""
