"""Reviews as diff formats: the writers of `html` and `markdown`.

A review of two revisions knows more than the rows that differ: commits, conflicts, policy,
neighbours on the map. `review_options` brings what is needed for it, and the writer then reads
the revisions itself. Without it, a writer reviews the diffs that it is given.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, count_meta
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.markdown import COMMENT_LIMIT, format_markdown
from havasu_vc.review.markdown_parts import code_span
from havasu_vc.review.page import Page, write_page
from havasu_vc.review.page.document import tiles_of
from havasu_vc.review.page.raster_pictures import raster_pictures
from havasu_vc.review.report import Review
from havasu_vc.review.requests import ReviewOptionsRequest, ReviewRequest
from havasu_vc.review.reviewing import review, review_diffs
from havasu_vc.transfer import Rasters
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions

__all__ = ["ReviewOptions", "review_options", "write_html", "write_markdown"]

SAMPLES = 40
"""Rows of each dataset that are worth seeing, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class ReviewOptions(WriterOptions):
    """How to print a review."""

    repo: OpenRepo | None = None
    """The repository whose revisions are reviewed; None where the diffs are, by themselves."""
    revisions: str = "HEAD..workspace"
    """Both versions as a range: names alone, where there is no repository."""
    filters: Sequence[str] = ()
    """The parts of the repository that are reviewed."""
    more: str | None = None
    """The command that shows all rows."""
    samples: int = SAMPLES
    """Rows of each dataset that are worth seeing."""
    limit: int = COMMENT_LIMIT
    """Bytes of Markdown at most."""
    home: str = ""
    """Where a page that is served beside others leads back to."""

    @property
    def command(self) -> str:
        """The command that shows all rows."""
        return self.more or shlex.join(["havasu-vc", "diff", self.revisions, *self.filters])


def review_options(repo: OpenRepo, request: ReviewOptionsRequest) -> ReviewOptions:
    """Return what the writers `html` and `markdown` need for a review of two revisions.

    Markdown has no more than `limit` bytes, as a comment on a host, and tells coordinates in
    `crs` where it is given.
    """
    return ReviewOptions(
        repo=repo,
        revisions=request.revisions,
        filters=request.filters,
        samples=request.samples,
        limit=request.limit or COMMENT_LIMIT,
        crs_name=request.crs,
    )


def write_html(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print one page with a map of all changed rows."""
    how = _review_options(options)
    if how.delta_filter is not None or how.crs_name is not None:
        raise InvalidArgumentError("a page shows both halves, on a map of the world or its own")
    read = _Counted(diffs)
    repo = how.repo
    if repo is None:
        page = Page(pictures=raster_pictures())
        found = _by_themselves(read, how, page)
        write_page(out, page, found, summary=False, more=how.command, home=how.home)
    else:
        page = Page(pictures=raster_pictures(Rasters(repo).open_url))
        tiles = tiles_of(repo.git.config)
        found = review(
            repo, ReviewRequest(how.revisions, how.filters, samples=how.samples, page=page)
        )
        name = repo.git.path.resolve().name
        more, home = how.command, how.home
        write_page(out, page, found, more=more, repository=name, tiles=tiles, home=home)
    return read.summary(found)


def write_markdown(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print a summary and rows worth seeing."""
    how = _review_options(options)
    if how.delta_filter is not None:
        raise InvalidArgumentError("a review shows both halves of each change")
    read = _Counted(diffs)
    if how.repo is None:
        found = _by_themselves(read, how)
        more = f"see all with {code_span(how.command, 300)}"
        out.write(format_markdown(found, limit=how.limit, more=more))
    else:
        samples, crs = how.samples, how.crs_name
        found = review(
            how.repo, ReviewRequest(how.revisions, how.filters, samples=samples, crs=crs)
        )
        out.write(format_markdown(found, limit=how.limit))
    return read.summary(found)


def _by_themselves(
    diffs: Iterable[DatasetDiff], how: ReviewOptions, page: Page | None = None
) -> Review:
    """Return what diffs tell without their repository; what a range lacks is HEAD."""
    old, dots, new = how.revisions.replace("...", "..").partition("..")
    names = (old or "HEAD", new or ("HEAD" if dots else "workspace"))
    # A page has all rows, so that it needs none that are worth seeing.
    samples = how.samples if page is None else 0
    return review_diffs(diffs, *names, page, samples=samples, crs=how.crs_name)


def _review_options(options: WriterOptions) -> ReviewOptions:
    """Return the options of any writer as those of a review."""
    if isinstance(options, ReviewOptions):
        return options
    return ReviewOptions(delta_filter=options.delta_filter, crs_name=options.crs_name)


class _Counted:
    """Diffs that are counted as they are reviewed."""

    def __init__(self, diffs: Iterable[DatasetDiff]) -> None:
        self._diffs = diffs
        self._meta: dict[str, ChangeCounts] = {}

    def __iter__(self) -> Iterator[DatasetDiff]:
        for diff in self._diffs:
            self._meta[diff.path] = count_meta(diff.meta)
            yield diff

    def summary(self, found: Review) -> ChangeSummary:
        """Return how much changed; a review of revisions knows meta items by its sentences."""
        datasets = {}
        for each in found.datasets:
            told = len(each.words) or int(each.state != "changed")
            meta = self._meta.get(each.path, ChangeCounts(updates=told))
            counts = DatasetSummary(meta, each.counts)
            if counts.has_changes:
                datasets[each.path] = counts
        return ChangeSummary(datasets)
