"""Differences as people ask for them: of a range of revisions, or of one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from havasu_vc.looking.histories import commit_info
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.revisions import resolve_range

__all__ = ["diff", "show"]


def diff(
    repo: OpenRepo, revisions: str, filters: Sequence[str], *, equal_ones: bool = False
) -> Iterator[DatasetDiff]:
    """Yield how each dataset differs between two revisions, by path."""
    ends = resolve_range(repo.git, revisions)
    return diff_revisions(
        repo, ends.old, ends.new, filters, equal_ones=equal_ones, tables_only=True
    )


def show(
    repo: OpenRepo,
    revision: str,
    filters: Sequence[str],
    *,
    equal_ones: bool = False,
    tables_only: bool = True,
) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
    """Return a commit and what it changed of its first parent."""
    info = commit_info(repo, revision)
    parent = repo.resolve(f"{revision}^?")
    end = repo.resolve(info.id)
    return info, diff_revisions(
        repo, parent, end, filters, equal_ones=equal_ones, tables_only=tables_only
    )
