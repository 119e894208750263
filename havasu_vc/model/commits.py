"""A commit as people and writers see it: a value that costs nothing to import."""

from __future__ import annotations

from havasu_vc.records import dataclass

__all__ = ["CommitInfo"]


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
    """Names of branches and tags at this commit."""
