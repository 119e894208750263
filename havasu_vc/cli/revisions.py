"""Telling revisions from datasets among the arguments of a command, with a repository at hand."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import split_revisions
from havasu_vc.cli.options import after_dashes
from havasu_vc.errors import HavasuError, InvalidArgumentError, RevisionNotFoundError

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["revisions_and_filters"]


def revisions_and_filters(
    context: click.Context, repo: Repo, arguments: Sequence[str], *, most: int = 1
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the revisions and the filters that the person gave."""
    after = after_dashes(context)

    def is_revision(text: str) -> bool:
        try:
            repo.commit_info(text)
        except HavasuError:
            return False
        return True

    def is_dataset(text: str) -> bool:
        try:
            return text in repo.datasets()
        except HavasuError:
            return False

    revisions, filters = split_revisions(
        arguments, after, is_revision=is_revision, is_dataset=is_dataset, most=most
    )
    if filters and not revisions and after is None:
        from havasu_vc.repo.filters import is_inside

        first = filters[0].partition(":")[0]
        if ":" not in filters[0] and not is_inside(first) and not _matches(repo, first):
            raise InvalidArgumentError(
                f"{first!r} is neither a revision nor a dataset",
                hints=(
                    *_why(repo, first),
                    "`havasu-vc log` lists the commits, `havasu-vc data ls` the datasets",
                    f"`-- {first}` means a dataset that is not at HEAD",
                ),
            )
    return revisions, filters


def _why(repo: Repo, text: str) -> tuple[str, ...]:
    """Return what is known of a name that would be a revision's, as that a clone is shallow."""
    try:
        repo.commit_info(text)
    except RevisionNotFoundError as error:
        return error.hints if repo.git.handle.is_shallow and ("^" in text or "~" in text) else ()
    except HavasuError:
        pass
    return ()


def _matches(repo: Repo, pattern: str) -> bool:
    try:
        paths = repo.datasets()
    except HavasuError:
        return False
    if any(path == pattern.rstrip("/") or fnmatchcase(path, pattern) for path in paths):
        return True
    return repo.git.follows_kart and _is_file(repo, pattern.rstrip("/"))


def _is_file(repo: Repo, path: str) -> bool:
    """Return whether there is a file beside datasets at HEAD, which Kart's filters may name."""
    return bool(path) and not repo.git.git("cat-file", "-e", f"HEAD:{path}", check=False).code
