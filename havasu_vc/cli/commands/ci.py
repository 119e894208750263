"""`havasu-vc ci`: what runs on GitHub and GitLab for each pull request."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.remotes.hosts import GitHub, GitLab, Host, PullRequest
from havasu_vc.repo import Repo
from havasu_vc.repo.pull_requests import ReviewJob, review_request
from havasu_vc.repo.request_updates import update_request
from havasu_vc.review.markdown import SUMMARY_LIMIT

__all__ = ["command"]

UPDATE = "/havasu-vc update"
_number = click.option(
    "--pull", "number", type=click.IntRange(1), help="The pull request.  [default: of the event]"
)
_remote = click.option("--remote", default="origin", show_default=True, help="Where it is.")


@click.group("ci")
def command() -> None:
    """Review pull requests, and bring them up to date, in jobs of GitHub and GitLab."""


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

    The token is that of HAVASU_TOKEN, GITHUB_TOKEN or GITLAB_TOKEN. Without one that may
    comment, the summary and the page are written all the same. The exit code is 1 if the
    policy refuses something. Data files come into this clone as they are read.
    """
    host = _host(author)
    requests = list(_requests(host, number))
    repo = _opened(invocation)
    refused = 0
    for request in requests:
        place = folder if len(requests) == 1 else folder / str(request.number)
        found = review_request(repo.opened, host, request, ReviewJob(remote, place, _run_address()))
        if not _append(os.environ.get("GITHUB_STEP_SUMMARY"), found.summary):
            invocation.note(f"the step summary is full; {place / 'summary.md'} has it")
        invocation.say(f"Reviewed pull request {request.number}: {place}")
        if found.note is not None:
            invocation.note(found.note)
        for finding in found.review.findings:
            level = "refused" if finding.refuses else "warning"
            text = finding.message.replace("`", "")
            click.echo(visible(f"{level}: {finding.dataset}: {text}"))
            refused += finding.refuses
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

    On GitHub, a comment `/havasu-vc update` of somebody who may push asks for it.
    """
    host = _host(None)
    if number is None:
        number = _asked(host, invocation.note)
        if number is None:
            return 0
    request = host.pull_request(number)
    result = update_request(_opened(invocation), host, request, remote)
    invocation.say(result.message)
    answer = host.comment(number, result.message)
    if answer.status not in (200, 201):
        invocation.note(f"the comment was not written: {answer.message}")
    return 0 if result.done else 1


def _opened(invocation: Invocation) -> Repo:
    """Open the clone of this job, which brings the data that is read and no more."""
    invocation.open_repo().config.set("havasu.data.fetch", "on-demand")
    return invocation.open_repo()


def _host(author: str | None) -> Host:
    get = os.environ.get
    if get("GITLAB_CI"):
        token = get("HAVASU_TOKEN") or get("GITLAB_TOKEN")
        return GitLab.of(_needed("CI_API_V4_URL"), _needed("CI_PROJECT_ID"), token)
    token = get("HAVASU_TOKEN") or get("GITHUB_TOKEN")
    api = get("GITHUB_API_URL") or "https://api.github.com"
    return GitHub.of(api, _needed("GITHUB_REPOSITORY"), token, author)


def _needed(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise InvalidArgumentError(
            f"{name} is not set", hints=("this runs in a job of GitHub or GitLab",)
        )
    return value


def _event() -> dict[str, Any]:
    """Return what GitHub says of the event that began the job."""
    path = _needed("GITHUB_EVENT_PATH")
    try:
        value = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidFileError(path, "is no event of GitHub") from error
    return value if isinstance(value, dict) else {}


def _requests(host: Host, number: int | None) -> Iterator[PullRequest]:
    if number is None and os.environ.get("GITLAB_CI"):
        number = int(_needed("CI_MERGE_REQUEST_IID"))
    if number is not None:
        yield host.pull_request(number)
        return
    event = _event()
    request = event.get("pull_request")
    if isinstance(request, dict):
        head, base = request["head"], request["base"]
        same = (head.get("repo") or {}).get("full_name") == base["repo"]["full_name"]
        yield PullRequest(int(request["number"]), base["ref"], head["ref"], same)
    elif str(event.get("ref", "")).startswith("refs/heads/"):
        yield from host.pull_requests_of(event["ref"].removeprefix("refs/heads/"))


def _asked(host: Host, note: Callable[[str], None]) -> int | None:
    """Return the pull request that a comment asks to update, if its writer may push."""
    event = _event()
    issue, comment = event.get("issue") or {}, event.get("comment") or {}
    text = str(comment.get("body", "")).strip()
    if "pull_request" not in issue or not text or text.splitlines()[0].strip() != UPDATE:
        note(f"this is no comment {UPDATE!r} on a pull request")
        return None
    user = str((comment.get("user") or {}).get("login", ""))
    if not isinstance(host, GitHub) or not host.may_write(user):
        note(f"{visible(user)} may not push here, so nothing is done")
        return None
    return int(issue["number"])


def _run_address() -> str | None:
    get = os.environ.get
    if get("GITHUB_RUN_ID"):
        server = get("GITHUB_SERVER_URL", "https://github.com")
        return f"{server}/{get('GITHUB_REPOSITORY')}/actions/runs/{get('GITHUB_RUN_ID')}#artifacts"
    return f"{get('CI_JOB_URL')}/artifacts/browse" if get("CI_JOB_URL") else None


def _append(path: str | None, text: str) -> bool:
    """Add to the step summary, which may hold no more than a mebibyte; return whether it fits."""
    if path is None:
        return True
    file = Path(path)
    size = file.stat().st_size if file.exists() else 0
    if size + len(text.encode()) > SUMMARY_LIMIT:
        return False
    with file.open("a", encoding="utf-8") as out:
        out.write(text)
    return True
