"""Forms of commands that only look, printed with `-o json`."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from havasu_vc.cli.forms.kart import ShownCommit

__all__ = [
    "BlamedRow",
    "Checked",
    "Described",
    "Issue",
    "ListedDataset",
    "ListedTag",
    "LoggedCommit",
]


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
