"""`havasu-vc ci`: what runs on GitHub, GitLab, Gitea and Forgejo for each pull request.

The job that this runs in, as its host tells it: by variables of the environment, and a file.

GITLAB_CI                        GitLab: CI_*
FORGEJO_ACTIONS, GITEA_ACTIONS   Forgejo, Gitea: FORGEJO_*, GITEA_*, or GITHUB_*, which they set
for programs that know GitHub alone
anything else                    GitHub: GITHUB_*
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.library import Repo
from havasu_vc.library.request_updates import update_request
from havasu_vc.remotes.hosts import GITEA, GitHub, GitLab, Host, PullRequest
from havasu_vc.review import (
    SUMMARY_LIMIT,
    QueuedMerge,
    ReviewedRequest,
    ReviewJob,
)

__all__ = [
    "asked",
    "command",
    "host_of_job",
    "job_token",
    "pushes_with",
    "queued",
    "requests_of_job",
    "run_address",
    "summary_file",
]

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


UPDATE = "/havasu-vc update"
_TOKEN = "HAVASU_TOKEN"
_PUSHES = "HAVASU_VC_PUSH_TOKEN"
_HELPER = (
    '!f() { test "$1" != get || '
    f'printf "username=x-access-token\\npassword=%s\\n" "${_PUSHES}"; }}; f'
)
"""Tells git a token that stands in the environment alone; hosts take any name with it."""


def _gitea() -> bool:
    return bool(os.environ.get("FORGEJO_ACTIONS") or os.environ.get("GITEA_ACTIONS"))


def _names(name: str) -> tuple[str, ...]:
    """Return the variables that tell something, the first that is set counts."""
    kinds = ("FORGEJO", "GITEA", "GITHUB") if _gitea() else ("GITHUB",)
    return tuple(f"{kind}_{name}" for kind in kinds)


def _said(name: str) -> str | None:
    return next((value for each in _names(name) if (value := os.environ.get(each))), None)


def _needed(*names: str) -> str:
    for name in names:
        if value := os.environ.get(name):
            return value
    raise InvalidArgumentError(
        f"{names[-1]} is not set", hints=("this runs in a job of GitHub, GitLab, Gitea or Forgejo",)
    )


def job_token() -> str | None:
    """Return what this job calls its host with, and pushes with."""
    if os.environ.get("GITLAB_CI"):
        return os.environ.get(_TOKEN) or os.environ.get("GITLAB_TOKEN")
    return os.environ.get(_TOKEN) or _said("TOKEN")


def _server() -> str:
    if os.environ.get("GITLAB_CI"):
        return _needed("CI_SERVER_URL")
    return _said("SERVER_URL") or "https://github.com"


def host_of_job(author: str | None = None) -> Host:
    """Return the host that runs this job."""
    token = job_token()
    if os.environ.get("GITLAB_CI"):
        api, project = _needed("CI_API_V4_URL"), _needed("CI_PROJECT_ID")
        return GitLab.of(api, project, token, server=_server())
    repository = _needed(*_names("REPOSITORY"))
    if not _gitea():
        api = _said("API_URL") or "https://api.github.com"
        return GitHub.of(api, repository, token, author, server=_server())
    api = _needed(*_names("API_URL"))
    if author is None and os.environ.get("FORGEJO_ACTIONS"):
        author = "forgejo-actions"
    return GitHub.of(api, repository, token, author, server=_server(), dialect=GITEA)


@contextmanager
def pushes_with(token: str) -> Iterator[None]:
    """Have git and Git LFS give a token to this job's server, and to no other, if it asks."""
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    before = dict(os.environ)
    os.environ |= {
        _PUSHES: token,
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"credential.{_server().rstrip('/')}.helper",
        f"GIT_CONFIG_VALUE_{count}": _HELPER,
    }
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ |= before


def _event() -> dict[str, Any]:
    """Return what the host says of the event that began the job."""
    path = _needed(*_names("EVENT_PATH"))
    try:
        value = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidFileError(path, "is no event of GitHub or Gitea") from error
    return value if isinstance(value, dict) else {}


def queued() -> QueuedMerge | None:
    """Return the merge that waits in GitHub's merge queue for this job; None in other jobs."""
    if os.environ.get("GITLAB_CI") or not _said("EVENT_PATH"):
        return None
    group = _event().get("merge_group")
    if not isinstance(group, dict):
        return None
    names = ("base_ref", "base_sha", "head_ref", "head_sha")
    return QueuedMerge(*(str(group.get(name, "")) for name in names))


def requests_of_job(host: Host, number: int | None) -> Iterator[PullRequest]:
    """Yield the pull requests that this job is about."""
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


def asked(host: Host, note: Callable[[str], None]) -> int | None:
    """Return the pull request that this job is to update; of a comment, if its writer may push."""
    if os.environ.get("GITLAB_CI"):
        return int(_needed("CI_MERGE_REQUEST_IID"))
    event = _event()
    # Gitea tells the pull request with a comment, too: what counts is who wrote it.
    if isinstance(event.get("pull_request"), dict) and "comment" not in event:
        return int(event["pull_request"]["number"])
    issue, comment = event.get("issue") or {}, event.get("comment") or {}
    text = str(comment.get("body", "")).strip()
    # Gitea says of each issue whether it is a pull request, if only by null.
    on_request = issue.get("pull_request") is not None
    if not on_request or not text or text.splitlines()[0].strip() != UPDATE:
        note(f"this is no comment {UPDATE!r} on a pull request")
        return None
    user = str((comment.get("user") or {}).get("login", ""))
    if not isinstance(host, GitHub) or not host.may_write(user):
        note(f"{visible(user)} may not push here, so nothing is done")
        return None
    return int(issue["number"])


def run_address() -> str | None:
    """Return where the files of this job can be looked at."""
    if run := _said("RUN_ID"):
        return f"{_server()}/{_said('REPOSITORY')}/actions/runs/{run}#artifacts"
    job = os.environ.get("CI_JOB_URL")
    return f"{job}/artifacts/browse" if job else None


def summary_file() -> Path | None:
    """Return the file whose text the host shows with the job."""
    path = _said("STEP_SUMMARY")
    return None if path is None else Path(path)
