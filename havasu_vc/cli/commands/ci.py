"""`havasu-vc ci`: what runs on GitHub, GitLab, Gitea and Forgejo for each pull request."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.jobs import (
    asked,
    host_of_job,
    job_token,
    pushes_with,
    queued,
    requests_of_job,
    run_address,
    summary_file,
)
from havasu_vc.cli.options import Command
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.library import Repo
from havasu_vc.library.request_updates import update_request
from havasu_vc.review import (
    SUMMARY_LIMIT,
    ReviewedRequest,
    ReviewJob,
)

__all__ = ["command"]

_number = click.option(
    "--pull", "number", type=click.IntRange(1), help="The pull request.  [default: of the event]"
)
_remote = click.option("--remote", default="origin", show_default=True, help="Where it is.")


@click.group("ci")
def command() -> None:
    """Review pull requests, and bring them up to date, in jobs of a git host."""


@command.command("review", cls=Command, short_help="Review the pull request of this job")
@_number
@_remote
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("havasu-review"),
    show_default=True,
    help="Where to write comment.md, summary.md, review.json and review.html.",
)
@click.option("--author", help="Who comments here, where that is not github-actions[bot].")
@click.option("--no-fail", is_flag=True, help="Exit with 0 even if the policy refuses something.")
@click.pass_obj
def review(
    invocation: Invocation,
    number: int | None,
    remote: str,
    folder: Path,
    author: str | None,
    no_fail: bool,
) -> int:
    """Review the pull request of this job: one comment kept up to date, and a page.

    The token is that of HAVASU_TOKEN, or else of GITHUB_TOKEN, GITLAB_TOKEN, GITEA_TOKEN or
    FORGEJO_TOKEN, as the job's host has it. Without one that may comment, the summary and the
    page are written all the same; in a merge queue there is nothing to comment on. The exit code
    is 1 if the policy refuses something. Data files come into this clone as they are read.
    """
    repo = _opened(invocation)
    waiting = queued() if number is None else None
    if waiting is not None:
        found = repo.review_queued(waiting, ReviewJob(remote, folder, run_address()))
        refused = _report(invocation, found, f"Reviewed what waits in the merge queue: {folder}")
        return 1 if refused and not no_fail else 0
    host = host_of_job(author)
    requests = list(requests_of_job(host, number))
    refused = 0
    for request in requests:
        place = folder if len(requests) == 1 else folder / str(request.number)
        found = repo.review_request(host, request, ReviewJob(remote, place, run_address()))
        refused += _report(invocation, found, f"Reviewed pull request {request.number}: {place}")
    if not requests:
        invocation.say("There is no open pull request of this branch")
    return 1 if refused and not no_fail else 0


@command.command(
    "update", cls=Command, short_help="Merge the base into a pull request's branch, and push it"
)
@_number
@_remote
@click.pass_obj
def update(invocation: Invocation, number: int | None, remote: str) -> int:
    """Merge the base into a pull request's branch, row by row, and push it.

    This is for rows that both sides changed: where git merges the two by itself, nothing is done.
    A branch of a fork is pushed to if the fork allows edits by maintainers. It runs in jobs of
    GitHub, GitLab, Gitea and Forgejo, and pushes with HAVASU_TOKEN, or the token of `ci review`.
    A comment `/havasu-vc update` of somebody who may push asks for it, or a pull request's own job.
    """
    if number is None and queued() is not None:
        invocation.say("Nothing is done: what is in the merge queue, git has merged")
        return 0
    token = job_token()
    if token is None:
        raise InvalidArgumentError(
            "there is no token to push with", hints=("set HAVASU_TOKEN to one that may push",)
        )
    host = host_of_job()
    if number is None:
        number = asked(host, invocation.note)
        if number is None:
            return 0
    request = host.pull_request(number)
    with pushes_with(token):
        result = update_request(_opened(invocation), host, request, remote)
    invocation.say(visible(result.message))
    answer = host.comment(number, result.message)
    if answer.status not in (200, 201):
        invocation.note(f"the comment was not written: {answer.message}")
    return 0 if result.done else 1


def _report(invocation: Invocation, found: ReviewedRequest, said: str) -> int:
    """Tell what a review found; return how much of it the policy refuses."""
    if not _append(summary_file(), found.summary):
        invocation.note("the step summary is full; summary.md has it")
    invocation.say(said)
    if found.note is not None:
        invocation.note(found.note)
    for finding in found.review.findings:
        level = "refused" if finding.refuses else "warning"
        text = finding.message.replace("`", "")
        click.echo(visible(f"{level}: {finding.dataset}: {text}"))
    return sum(finding.refuses for finding in found.review.findings)


def _opened(invocation: Invocation) -> Repo:
    """Open the clone of this job, which brings the data that is read and no more."""
    invocation.open_repo().config.set("havasu.data.fetch", "on-demand")
    return invocation.open_repo()


def _append(file: Path | None, text: str) -> bool:
    """Add to the step summary, which may hold no more than a mebibyte; return whether it fits."""
    if file is None:
        return True
    size = file.stat().st_size if file.exists() else 0
    if size + len(text.encode()) > SUMMARY_LIMIT:
        return False
    with file.open("a", encoding="utf-8") as out:
        out.write(text)
    return True
