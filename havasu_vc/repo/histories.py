"""Looking back: commits as writers print them, and what they changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from havasu_vc.errors import InvalidArgumentError, NotFoundError
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.commit_values import info_of
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import read_commit
from havasu_vc.store.log import Alike, LogFilter, commits, parse_date
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.revisions import Revision, resolve_range

__all__ = ["commit_info", "log"]


def commit_info(repo: OpenRepo, revision: str) -> CommitInfo:
    """Return a commit as writers print it."""
    identity = repo.resolve(revision).commit
    if identity is None:
        raise NotFoundError(f"{revision} is no commit")
    return info_of(read_commit(repo.git.objects, identity), _names(repo))


def _names(repo: OpenRepo) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for branch in list_branches(repo.git):
        names.setdefault(branch.commit, []).append(branch.name)
    for tag in list_tags(repo.git):
        names.setdefault(tag.commit, []).append(f"tag: {tag.name}")
    return names


def log(
    repo: OpenRepo, revision: str, filters: Sequence[str], conditions: Mapping[str, Any]
) -> Iterator[CommitInfo]:
    """Yield the commits that a revision or range reaches, newest first."""
    hide: list[str] = []
    if ".." in revision:
        ends = resolve_range(repo.git, revision)
        start = ends.new
        hide = [ends.old.commit] if ends.old.commit else []
    else:
        start = repo.resolve(revision) if revision != "HEAD" else repo.head()
    if start.commit is None:
        raise NotFoundError("there is no commit yet", hints=("`havasu-vc import` makes the first",))
    paths = tuple(_path_of(repo, start, text) for text in filters)
    wanted = LogFilter(
        paths,
        since=_date(repo, conditions.get("since")),
        until=_date(repo, conditions.get("until")),
        author=conditions.get("author"),
        grep=conditions.get("grep"),
        skip=conditions.get("skip") or 0,
        limit=conditions.get("limit"),
    )
    names = _names(repo)
    with ExitStack() as stack:
        alike = _row_history(repo, start, filters, conditions, stack)
        for commit in commits(repo.git, start.commit, wanted, hide=hide, alike=alike):
            yield info_of(commit, names)


def _row_history(
    repo: OpenRepo,
    start: Revision,
    filters: Sequence[str],
    conditions: Mapping[str, Any],
    stack: ExitStack,
) -> Alike | None:
    """Return what looks at rows, where rows or columns are asked for."""
    columns = tuple(conditions.get("columns") or ())
    if not columns and not any(":feature:" in text for text in filters):
        return None
    from havasu_vc.repo.row_histories import RowHistory

    engine = stack.enter_context(repo.settings.open_engine(0))
    return RowHistory(repo, start, filters, columns, engine).alike


def _date(repo: OpenRepo, text: str | None) -> int | None:
    return None if text is None else parse_date(repo.git, text)


def _path_of(repo: OpenRepo, start: Revision, text: str) -> str:
    """Return the folder whose changes a filter asks for."""
    path, _, what = text.partition(":")
    folder = repo.folders(start).get(path)
    marker = HAVASU_MARKER if folder is None else folder.marker
    kind, _, item = what.partition(":")
    if kind == "meta":
        return f"{path}/{marker}/meta/{item}".rstrip("/")
    if kind == "feature":
        # Files of rows; a key looks closer.
        return f"{path}/{marker}/{'files' if marker == HAVASU_MARKER else 'feature'}"
    if what:
        raise InvalidArgumentError(
            f"{text!r} is no filter",
            hints=("write DATASET, DATASET:feature:KEY or DATASET:meta:ITEM",),
        )
    return path
