"""Pull requests on a git host: reviewing what one changes, or what waits to be merged.

Nothing that a pull request holds is run, and none of its files is put anywhere: its
commits are fetched to a ref of ours, and read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.hosts import Host, PullRequest
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.conflicting import Settling, settling_of_request
from havasu_vc.review.json import format_json
from havasu_vc.review.markdown import COMMENT_LIMIT, MARKER, SUMMARY_LIMIT, format_markdown
from havasu_vc.review.page import Page, write_page
from havasu_vc.review.page.raster_pictures import raster_pictures
from havasu_vc.review.report import Review
from havasu_vc.review.requests import ReviewRequest
from havasu_vc.review.reviewing import review
from havasu_vc.store.disk import replace_file

__all__ = [
    "QueuedMerge",
    "ReviewJob",
    "ReviewedRequest",
    "fetch_request",
    "review_queued",
    "review_request",
]

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ReviewJob:
    """How pull requests are to be reviewed."""

    remote: str = "origin"
    """Where their commits are."""
    folder: Path | None = None
    """Where `comment.md`, `summary.md`, `review.json` and `review.html` are written."""
    run: str | None = None
    """The address of the job's own page, with the file to look at."""
    samples: int = 200
    """Rows of each dataset to choose from."""


@dataclass(frozen=True, slots=True)
class ReviewedRequest:
    """The outcome of reviewing a pull request."""

    review: Review
    """The review of its changes."""
    summary: str
    """It as Markdown for a step summary."""
    note: str | None = None
    """Why there is no comment where there should be one."""


@dataclass(frozen=True, slots=True)
class QueuedMerge:
    """A merge that a merge queue made by itself, and asks about before it becomes the base."""

    base_ref: str
    """The branch that it is to become."""
    base: str
    """The commit of that branch that it is made upon."""
    head_ref: str
    """The branch on which it waits."""
    head: str
    """Its commit."""


def fetch_request(repo: OpenRepo, host: Host, request: PullRequest, remote: str) -> tuple[str, str]:
    """Fetch both ends of a pull request; return their commits."""
    here = f"refs/havasu/pull/{request.number}"
    refs = {"head": host.head_ref(request.number), "base": f"refs/heads/{request.base}"}
    specs = [f"+{there}:{here}/{name}" for name, there in refs.items()]
    _fetch(repo, remote, specs, f"pull request {request.number}")
    commits = [repo.resolve(f"{here}/{name}").commit for name in ("base", "head")]
    return str(commits[0]), str(commits[1])


def _fetch(repo: OpenRepo, remote: str, specs: Sequence[str], what: str) -> None:
    # The two sides may have parted before the commits that a shallow clone has, as jobs make one.
    deeper = ["--unshallow"] if repo.git.handle.is_shallow else []
    done = repo.git.git("fetch", "--no-tags", "--quiet", *deeper, remote, *specs, check=False)
    if done.code:
        raise StorageError(f"{what} cannot be fetched: {done.errors.strip()[:300]}")


def review_request(
    repo: OpenRepo, host: Host, request: PullRequest, job: ReviewJob
) -> ReviewedRequest:
    """Review a pull request, write the files and keep the comment."""
    ends = fetch_request(repo, host, request, job.remote)
    names = (request.base, request.head)
    settling = settling_of_request(repo, request, job.remote)
    room = min(host.limit, COMMENT_LIMIT)
    found, comment = _reviewed(repo, ends, names, job, room, settling)
    return replace(found, note=_posted(host, request, comment))


def review_queued(repo: OpenRepo, queued: QueuedMerge, job: ReviewJob) -> ReviewedRequest:
    """Review what a merge queue has merged, and write the files."""
    commits = (queued.base, queued.head)
    if not all(_COMMIT.fullmatch(commit) for commit in commits) or not _named(queued):
        raise InvalidArgumentError("the event of the merge queue names no commits")
    spec = f"+{queued.head_ref}:refs/havasu/queue"
    _fetch(repo, job.remote, [spec], "what waits in the merge queue")
    names = (queued.base_ref.removeprefix("refs/heads/"), "the merge queue")
    found, _ = _reviewed(repo, commits, names, job, COMMENT_LIMIT)
    return found


def _named(queued: QueuedMerge) -> bool:
    return queued.head_ref.startswith("refs/heads/") and ":" not in queued.head_ref


def _reviewed(
    repo: OpenRepo,
    ends: tuple[str, str],
    names: tuple[str, str],
    job: ReviewJob,
    room: int,
    settling: Settling | None = None,
) -> tuple[ReviewedRequest, str]:
    """Review what is between two commits and write the files; return the comment as well."""
    base, head = ends
    page = Page(pictures=raster_pictures())  # of what is here: no file is opened that rows name
    span = f"{base}...{head}"
    found = review(repo, ReviewRequest(span, samples=job.samples, page=page, settling=settling))
    found = replace(found, base=names[0], head=names[1])
    more = None
    if job.run is not None:
        more = f"all of them are on the page [review.html]({job.run})"
    comment, summary = (
        format_markdown(found, limit=limit, more=more) for limit in (room, SUMMARY_LIMIT)
    )
    if job.folder is not None:
        out = io.StringIO()
        named = repo.git.path.resolve().name
        write_page(out, page, found, more=f"havasu-vc diff {found.range}", repository=named)
        job.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("comment.md", comment),
            ("summary.md", summary),
            ("review.json", format_json(found)),
            ("review.html", out.getvalue()),
        ):
            replace_file(job.folder / name, text.encode("utf-8", "surrogatepass"))
    return ReviewedRequest(found, summary), comment


def _posted(host: Host, request: PullRequest, text: str) -> str | None:
    """Keep the comment; return why it could not be."""
    try:
        answer = host.keep_comment(request.number, MARKER, text)
    except StorageError as error:
        return f"the comment was not written: {error}"
    if answer.status in (200, 201):
        return None
    if answer.refused:
        return (
            f"the comment was not written, as this job may not ({answer.message}); "
            "the step summary and the page say the same"
        )
    return f"the comment was not written: {answer.message}"
