"""Results of `Repo.diff`, `Repo.show` and `Repo.log`, and a repository, as a notebook shows them.

    repo.diff("main...survey")       # the last line of a cell: in words, with a map

Both are iterators, read once like a file. To show one asks the repository again and leaves what
is there to be read, so a cell that ends in a diff does not use it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from havasu_vc import looking, review
from havasu_vc.errors import HavasuError
from havasu_vc.model.commits import CommitInfo
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.refs import list_branches
from havasu_vc.store.revisions import parse_range

if TYPE_CHECKING:
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["Shown", "diff", "log", "repo_html", "show"]

T = TypeVar("T")

COMMITS = 20
"""Commits of a log that are shown."""
DATASETS, RECENT = 30, 5
"""Datasets and commits of a repository that are shown."""
SAMPLES = 60
"""Changed rows of a dataset that are drawn."""


class Shown(Generic[T], Iterator[T]):
    """An iterator that a notebook shows."""

    def __init__(self, found: Iterator[T], html: Callable[[], str]) -> None:
        self._found = found
        self._html = html

    def __next__(self) -> T:
        return next(self._found)

    def _repr_html_(self) -> str:
        return self._html()


def diff(repo: OpenRepo, request: looking.DiffRequest) -> Shown[DatasetDiff]:
    """Yield how each dataset differs between two revisions, by path."""
    found = looking.diff(repo, request)
    again = partial(_diffs_html, repo, request.revisions, tuple(request.filters))
    return Shown(_each_shown(found, again), again)


def show(repo: OpenRepo, request: looking.ShowRequest) -> tuple[CommitInfo, Shown[DatasetDiff]]:
    """Return a commit and what it changed of its first parent."""
    info, found = looking.show(repo, request)
    again = partial(_diffs_html, repo, f"{info.id}^?..{info.id}", tuple(request.filters))
    return info, Shown(_each_shown(found, again), again)


def _each_shown(found: Iterable[DatasetDiff], again: Callable[..., str]) -> Iterator[DatasetDiff]:
    """Yield diffs of which a notebook shows each by itself."""
    for each in found:
        yield replace(each, html=partial(again, each.path))


def _diffs_html(
    repo: OpenRepo, revisions: str, filters: Sequence[str], dataset: str | None = None
) -> str:
    """Return what differs, of all datasets or of one, as HTML."""
    ends = parse_range(revisions)
    diffs = looking.diff(repo, looking.DiffRequest(revisions, filters))
    if dataset is not None:
        diffs = (each for each in diffs if each.path == dataset)
    base = repo.resolve(ends.old).git_name
    found = review.review_diffs(diffs, base, ends.new or "HEAD", samples=SAMPLES)
    return review.review_html(replace(found, three_dots=ends.from_merge_base))


def log(repo: OpenRepo, request: looking.LogRequest) -> Shown[CommitInfo]:
    """Yield the commits that a revision or range reaches, newest first.

    `filters` name datasets, rows or meta items, and `columns` those of the rows that
    count. The other conditions are git's. A dataset is followed where it was moved.
    """

    def html() -> str:
        found = list(islice(looking.log(repo, request), COMMITS + 1))
        return looking.commits_html(found[:COMMITS], more=len(found) > COMMITS)

    return Shown(looking.log(repo, request), html)


def repo_html(repo: OpenRepo) -> str:
    """Return a repository as HTML: its branches, its datasets, and what happened last."""
    from havasu_vc.writers.notebook import shown, shown_note, shown_table

    name = repo.git.path.resolve().name
    head = repo.git.head_branch
    others = [each.name for each in list_branches(repo.git) if each.name != head]
    on = "HEAD is on no branch" if head is None else f"on branch <b>{shown(head)}</b>"
    parts = [f"<div><b>{shown(name)}</b>, {on}</div>"]
    if others:
        more = f" and {len(others) - 10:,} more" if len(others) > 10 else ""
        parts.append(shown_note(f"other branches: {', '.join(others[:10])}{more}"))
    if repo.head().commit is None:
        return f"<div>{''.join(parts)}{shown_note('there is no commit yet')}</div>"
    try:
        datasets = looking.list_datasets(repo)
    except HavasuError as error:
        return f"<div>{''.join(parts)}{shown_note(error.message)}</div>"
    rows = [
        (each.path, each.title or "", "?" if each.rows is None else f"{each.rows:,}")
        for each in datasets[:DATASETS]
    ]
    parts.append(shown_table(["dataset", "title", "rows"], rows))
    if len(datasets) > DATASETS:
        parts.append(shown_note(f"and {len(datasets) - DATASETS:,} more datasets"))
    found = list(islice(looking.log(repo, looking.LogRequest(limit=RECENT + 1)), RECENT + 1))
    parts.append(looking.commits_html(found[:RECENT], more=len(found) > RECENT))
    return f"<div>{''.join(parts)}</div>"
