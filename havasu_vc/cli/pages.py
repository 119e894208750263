"""Writing a review or a diff as a page, to a file or down a pipe, never to a terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.output import opened_output

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.model.diffs import DatasetDiff
    from havasu_vc.review import Review

__all__ = ["write_diff_page", "write_review_page"]


def write_review_page(
    repo: Repo, revisions: str, filters: Sequence[str], *, samples: int, output: Path | None
) -> bool:
    """Write the page of a review; return whether anything differs."""
    from havasu_vc.review import Page, raster_pictures, tiles_of, write_page

    _check(output)
    tiles = tiles_of(repo.config)
    page = Page(pictures=raster_pictures(repo.rasters.open_url))
    found = repo.review(revisions, filters, samples=samples, page=page)
    with opened_output(output) as out:
        write_page(
            out,
            page,
            found,
            more=_command(revisions, filters),
            repository=repo.git.path.resolve().name,
            tiles=tiles,
        )
    return _differs(found)


def write_diff_page(
    diffs: Iterable[DatasetDiff], revisions: str, *, filters: Sequence[str], output: Path | None
) -> bool:
    """Write the page of a diff; return whether anything differs."""
    from havasu_vc.review import Page, raster_pictures, review_diffs, write_page

    _check(output)
    page = Page(pictures=raster_pictures())
    found = review_diffs(diffs, *_names(revisions), page)
    with opened_output(output) as out:
        write_page(out, page, found, summary=False, more=_command(revisions, filters))
    return _differs(found)


def _differs(review: Review) -> bool:
    return any(
        each.counts.total or each.words or each.state != "changed" for each in review.datasets
    )


def _names(revisions: str) -> tuple[str, str]:
    """Return what the ends of a range are called; what a range lacks is HEAD.

    >>> _names("main...HEAD"), _names("main.."), _names("HEAD")
    (('main', 'HEAD'), ('main', 'HEAD'), ('HEAD', 'workspace'))
    """
    old, dots, new = revisions.replace("...", "..").partition("..")
    return old or "HEAD", new or ("HEAD" if dots else "workspace")


def _command(revisions: str, filters: Sequence[str]) -> str:
    return shlex.join(["havasu-vc", "diff", revisions, *filters])


def _check(output: Path | None) -> None:
    if output is None and sys.stdout.isatty():
        raise click.UsageError("a page is not for a terminal: name a file with --output")
