"""Differences as people ask for them: of a range of revisions, or of one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from havasu_vc.looking.histories import commit_info
from havasu_vc.looking.requests import DiffRequest, ShowRequest
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.revisions import Revision, resolve_compared

__all__ = ["create_patch", "diff", "show"]


def diff(repo: OpenRepo, request: DiffRequest) -> Iterator[DatasetDiff]:
    """Yield how each dataset differs between two revisions, by path."""
    ends = resolve_compared(repo.git, request.revisions)
    return _shown(
        repo,
        diff_revisions(
            repo,
            ends.old,
            ends.new,
            request.filters,
            equal_ones=request.equal_ones,
            moves=request.moves and not repo.git.follows_kart,
            tables_only=True,
            shown=True,
        ),
    )


def show(repo: OpenRepo, request: ShowRequest) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
    """Return a commit and what it changed of its first parent."""
    info = commit_info(repo, request.revision)
    found = diff_revisions(
        repo,
        *_ends(repo, request.revision, info),
        request.filters,
        equal_ones=request.equal_ones,
        moves=request.moves and not repo.git.follows_kart,
        tables_only=True,
        shown=True,
    )
    return info, _shown(repo, found)


def _shown(repo: OpenRepo, diffs: Iterator[DatasetDiff]) -> Iterator[DatasetDiff]:
    """Return diffs as they are shown: in Kart's repositories inside of the spatial filter alone."""
    if not (repo.git.is_kart and repo.git.config.section(repo.git.spatial_filter_section)):
        return diffs
    from havasu_vc.repo.spatial_filters import diffs_inside

    return diffs_inside(repo, diffs)


def create_patch(
    repo: OpenRepo, revision: str = "HEAD", filters: Sequence[str] = ()
) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
    """Return a commit and all that it changed of its first parent, or an error.

    In Kart's repositories it is what is inside of the spatial filter, as there.
    """
    info = commit_info(repo, revision)
    ends = _ends(repo, revision, info)
    return info, _shown(repo, diff_revisions(repo, *ends, filters, shown=True))


def _ends(repo: OpenRepo, revision: str, info: CommitInfo) -> tuple[Revision, Revision]:
    return repo.resolve(f"{revision}^?"), repo.resolve(info.id)
