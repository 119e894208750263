"""Requests of who looks: a log, a diff, the rows that hold a value, a page of rows.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.exchange.boxes import Box

__all__ = [
    "BlameRequest",
    "DiffRequest",
    "FileChangesRequest",
    "LogRequest",
    "PageRequest",
    "RowsRequest",
    "SeekRequest",
    "ShowRequest",
]


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
    """VALUE is a regular expression, which numbers and dates match as they are printed."""
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
    """Print at most so many."""
    skip: int = 0
    """Leave the first so many out."""
    since: str | None = None
    """Only commits after DATE."""
    until: str | None = None
    """Only commits before DATE."""
    author: str | None = None
    """Only commits whose author matches."""
    committer: str | None = None
    """Only commits whose committer matches."""
    grep: str | None = None
    """Only commits whose message matches."""
    columns: Sequence[str] = ()
    """Only commits that changed cells of these columns."""
    holds: str | None = None
    """Only commits that changed a row which holds VALUE."""
    matches: str | None = None
    """Only commits that changed a row of which a value matches REGEX, before or after."""
    merges: bool | None = None
    """Only merges, or only what is none."""
    reverse: bool = False
    """The oldest of those that are wanted first."""
    box: tuple[float, float, float, float] | None = None
    """A place: west, south, east and north of a box in which a row lies that a commit changed,
    before or after; merges change none."""
    full_refs: bool = False
    """Whether refs at commits are named with `refs/heads/` and the like."""
    also: Sequence[str] = ()
    """More revisions and ranges: what any of them reaches, without what a range, or a revision
    behind `^`, leaves out."""
    every_ref: bool = False
    """Also the commits that any branch, remote branch or tag reaches."""
    decorate_refs: Sequence[str] = ()
    """Name only the refs at commits that match PATTERN, as `refs/tags/*`."""
    decorate_refs_exclude: Sequence[str] = ()
    """Name no ref at commits that matches PATTERN."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """The difference of two revisions that is asked for."""

    revisions: str = "HEAD^?...HEAD"
    """Two revisions as a range, `A..B` or `A...B`; one alone is compared with HEAD."""
    filters: Sequence[str] = ()
    """Datasets, rows or meta items; all without."""
    _: KW_ONLY
    equal_ones: bool = False
    """Have Kart datasets that do not differ come too, with nothing that changed."""
    moves: bool = False
    """Have a dataset that was moved come once, by what differs in it, and not as removed and added;
    never in Kart's repositories, where nothing tells that it is the same."""


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """The commit whose changes are asked for."""

    revision: str = "HEAD"
    """The commit."""
    filters: Sequence[str] = ()
    """Datasets, rows or meta items; all without."""
    _: KW_ONLY
    equal_ones: bool = False
    """Have Kart datasets that do not differ come too, with nothing that changed."""
    moves: bool = False
    """Have a dataset that was moved come once, by what differs in it, and not as removed and added;
    never in Kart's repositories, where nothing tells that it is the same."""


@dataclass(frozen=True, slots=True)
class FileChangesRequest:
    """The files beside datasets that are asked for."""

    revisions: str = "HEAD^?...HEAD"
    """Two revisions as a range, `A..B` or `A...B`; one alone is compared with HEAD."""
    filters: Sequence[str] = ()
    """Folders and files by their paths; all without."""
    _: KW_ONLY
    contents: bool = False
    """Have them come with what they held and hold."""


@dataclass(frozen=True, slots=True)
class BlameRequest:
    """The rows whose last changes are asked for."""

    dataset: str
    """The dataset's path."""
    _: KW_ONLY
    keys: Sequence[object] | None = None
    """Rows by values of the key, tuples of values, or text as in filters; None for all."""
    columns: Sequence[str] | None = None
    """Tell it of the cells of these columns."""
    revision: str = "HEAD"
    """The revision to look at."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of rows that is asked for."""

    path: str
    """The dataset's path."""
    revision: str = "HEAD"
    """The revision."""
    _: KW_ONLY
    start: int = 0
    """The number of the first row."""
    count: int = 100
    """How many rows."""
    around: str | None = None
    """A key as filters name it: the page has it in its middle."""
    box: Box | None = None
    """Count only rows that lie there; `looking.placing` says what that is."""


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """Rows with some values that are asked for."""

    path: str
    """The dataset's path."""
    revision: str = "HEAD"
    """The revision."""
    _: KW_ONLY
    columns: Sequence[str] = ()
    """Print only these columns."""
    where: Mapping[str, str] | None = None
    """Only rows with this value; COLUMN= means null. Several must all be so."""
