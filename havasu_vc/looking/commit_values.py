"""A commit of git as the value that writers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from havasu_vc.model.commits import CommitInfo
from havasu_vc.store.commits import Commit

__all__ = ["info_of"]


def info_of(commit: Commit, names: Mapping[str, Sequence[str]]) -> CommitInfo:
    """Return a commit as writers print it, with the names that are given for it."""
    return CommitInfo(
        commit.id,
        commit.parents,
        commit.message,
        commit.author.name,
        commit.author.email,
        commit.author.time,
        commit.author.offset,
        commit.committer.name,
        commit.committer.email,
        commit.committer.time,
        commit.committer.offset,
        tuple(names.get(commit.id, ())),
    )
