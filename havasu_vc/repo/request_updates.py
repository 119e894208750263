"""Bringing the branch of a pull request up to date, row by row, which git hosts cannot.

The base is merged on a branch of this clone, and the merge is pushed to the request's own
branch, never by force: where somebody pushed meanwhile, the push is refused and told.
"""

from __future__ import annotations

from contextlib import suppress

from havasu_vc.errors import HavasuError
from havasu_vc.records import dataclass
from havasu_vc.remotes.hosts import Host, PullRequest
from havasu_vc.repo.pull_requests import fetch_request
from havasu_vc.repo.repository import Repo
from havasu_vc.review.markup import code_span

__all__ = ["Update", "update_request"]


@dataclass(frozen=True, slots=True)
class Update:
    """What became of a pull request that was to be brought up to date."""

    done: bool
    """Whether it is up to date now."""
    message: str
    """What to tell, as Markdown."""


def update_request(repo: Repo, host: Host, request: PullRequest, remote: str) -> Update:
    """Merge the base into a pull request's branch, and push it."""
    if not request.same_repository:
        return Update(False, "The branch is in another repository: this job cannot push there.")
    try:
        base, head = fetch_request(repo.opened, host, request, remote)
        branch = f"havasu-update/{request.number}"
        repo.switch(head)
        if any(each.name == branch for each in repo.branches()):
            repo.delete_branch(branch, force=True)
        repo.switch(branch, create=True, start=head)
        return _merged(repo, request, base, remote)
    except HavasuError as error:
        return Update(False, f"It could not be brought up to date: {code_span(str(error), 500)}")


def _merged(repo: Repo, request: PullRequest, base: str, remote: str) -> Update:
    try:
        message = f"Merge branch '{request.base}' into {request.head}"
        merged = repo.merge(base, message=message)
        if merged.conflicts:
            lines = [
                f"- {code_span(each.path)}: {each.total:,} conflicts" for each in merged.conflicts
            ]
            how = code_span(f"havasu-vc merge {remote}/{request.base}")
            text = ["Both sides changed the same cells:", "", *lines, "", f"Merge by hand: {how}"]
            return Update(False, "\n".join(text))
        if merged.kind == "up-to-date":
            return Update(True, f"There is nothing of {code_span(request.base)} to bring in.")
        repo.push(remote, [f"HEAD:refs/heads/{request.head}"])
    finally:
        with suppress(HavasuError):
            repo.abort_merge()
    rows = sum(counts.total for counts in merged.changes.values())
    return Update(True, f"{code_span(request.base)} is merged in: {rows:,} rows changed with it.")
