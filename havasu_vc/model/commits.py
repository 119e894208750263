"""A commit as people and writers see it: a value that costs nothing to import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

__all__ = ["Blame", "BlamedRow", "ChangeCounts", "CommitInfo", "moment_of"]


def moment_of(seconds: int, minutes: int = 0) -> datetime:
    """Return when something was, on a clock so many minutes ahead of UTC.

    git keeps 64 bits; a calendar holds fewer, and ends where those do not fit.

    >>> f"{moment_of(10 ** 12, 720):%Y-%m-%d}"
    '9999-12-31'
    """
    from datetime import UTC, datetime, timedelta, timezone

    latest = 253_402_300_799
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(seconds, 0), latest))
    try:
        return moment.astimezone(timezone(timedelta(minutes=min(max(minutes, -1439), 1439))))
    except OverflowError:
        return moment


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit, as writers print it."""

    id: str
    """40 hex digits."""
    parents: tuple[str, ...]
    """Ids of the parents."""
    message: str
    """As written."""
    author_name: str
    """Who made the change."""
    author_email: str
    """Where to reach them."""
    author_time: int
    """Seconds since 1970."""
    author_offset: int
    """Minutes east of UTC."""
    committer_name: str
    """Who made the commit."""
    committer_email: str
    """Where to reach them."""
    commit_time: int
    """Seconds since 1970."""
    commit_offset: int
    """Minutes east of UTC."""
    refs: tuple[str, ...] = ()
    """The names at this commit, as git writes them in its log: `HEAD -> main`, `tag: v1`."""
    notes: str = ""
    """The text that `git notes` has of it."""

    html: ClassVar[Callable[[CommitInfo], str] | None] = None
    """The writer for notebooks, which the library names: a value knows no writer."""

    def _repr_html_(self) -> str | None:
        make = CommitInfo.html
        return None if make is None else make(self)


# Who last changed what: rows of a dataset, or their cells, each with a commit.


@dataclass(frozen=True, slots=True)
class BlamedRow:
    """Who last changed one row, or each of its cells."""

    key: tuple[Any, ...]
    """Key values, in schema order."""
    commit: CommitInfo | None
    """Who last changed the row; None when cells were asked for."""
    cells: Mapping[str, CommitInfo]
    """Who last changed each cell, by column; empty when none were asked for."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Who last changed the rows of a dataset, or their cells."""

    path: str
    """The dataset."""
    revision: str
    """The commit at which it was looked at."""
    key: tuple[str, ...]
    """The key's columns."""
    columns: tuple[str, ...]
    """The columns whose cells are told; none when whole rows are."""
    commits: tuple[CommitInfo, ...]
    """All commits that something is blamed on."""
    batches: Iterator[pa.RecordBatch]
    """`key`, a struct of the key's columns; then `commit`, or `cells`, a struct with a field
    for each column: places in `commits` as int32. Read once."""

    def rows(self) -> Iterator[BlamedRow]:
        """Yield each row as a value of Python."""
        for batch in self.batches:
            for value in batch.to_pylist():
                key = tuple(value["key"].values())
                if self.columns:
                    cells = {name: self.commits[at] for name, at in value["cells"].items()}
                    yield BlamedRow(key, None, cells)
                else:
                    yield BlamedRow(key, self.commits[value["commit"]], {})


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many rows a change stream touches."""

    inserts: int = 0
    """Rows that appear."""
    updates: int = 0
    """Rows that change."""
    deletes: int = 0
    """Rows that go."""

    @property
    def total(self) -> int:
        """All changes."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
        )
