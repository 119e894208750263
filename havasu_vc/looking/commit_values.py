"""A commit of git as the value that writers print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from havasu_vc.model.commits import CommitInfo
from havasu_vc.store.commits import Commit
from havasu_vc.store.refs import list_refs
from havasu_vc.store.repository import GitRepository

__all__ = ["info_of", "with_notes"]

_AT_ONCE = 100


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


def with_notes(repository: GitRepository, commits: Iterable[CommitInfo]) -> Iterator[CommitInfo]:
    """Yield commits with what `git notes` has of each, from the refs that git's settings name."""
    left = iter(commits)
    if not list_refs(repository, "refs/notes/"):
        yield from left
        return
    while batch := list(islice(left, _AT_ONCE)):
        ids = [commit.id for commit in batch]
        told = repository.git("log", "--no-walk=unsorted", "--format=%x00%H%x00%N", *ids, "--")
        parts = told.text.split("\0")[1:]
        notes = dict(zip(parts[::2], parts[1::2], strict=True))
        for commit in batch:
            yield replace(commit, notes=notes.get(commit.id, "").strip("\n"))
