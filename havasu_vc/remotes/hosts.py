"""GitHub and GitLab, as far as a review needs them: one comment that is kept up to date.

A comment of ours is told by its first line and by who wrote it: anybody can write the line.
"""

from __future__ import annotations

import urllib.parse
from typing import Any, Protocol

from havasu_vc.errors import StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.host_client import Answer, HostClient

__all__ = ["GitHub", "GitLab", "Host", "PullRequest"]

GITHUB_LIMIT = 65_536
GITLAB_LIMIT = 1_000_000
WORKFLOWS = "github-actions[bot]"
"""Who writes with the token of a workflow."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A request to merge one branch into another."""

    number: int
    """What it is called."""
    base: str
    """The branch to merge into."""
    head: str
    """The branch to merge."""
    same_repository: bool
    """Whether both are in one repository."""


class Host(Protocol):
    """Where pull requests are."""

    @property
    def limit(self) -> int:
        """How many characters a comment may have."""

    def head_ref(self, number: int) -> str:
        """Return the ref by which the head of a pull request can be fetched."""

    def keep_comment(self, number: int, marker: str, text: str) -> Answer:
        """Write our comment with this first line, or change it if it is there."""

    def comment(self, number: int, text: str) -> Answer:
        """Write a comment."""

    def pull_request(self, number: int) -> PullRequest:
        """Return what a pull request is of."""

    def pull_requests_of(self, branch: str) -> list[PullRequest]:
        """Return the open pull requests of a branch of this repository."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """GitHub, or a server of the same kind."""

    client: HostClient
    """How to call it."""
    repository: str
    """`owner/name`."""
    author: str = WORKFLOWS
    """Who our comments are by."""
    limit: int = GITHUB_LIMIT
    """How many characters a comment may have."""

    @classmethod
    def of(cls, api: str, repository: str, token: str | None, author: str | None = None) -> GitHub:
        """Return a host that is called with a token."""
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return cls(HostClient(api, headers), repository, author or WORKFLOWS)

    @property
    def _path(self) -> str:
        return f"/repos/{urllib.parse.quote(self.repository)}"

    def head_ref(self, number: int) -> str:
        """Return the ref by which the head of a pull request can be fetched."""
        return f"refs/pull/{number}/head"

    def keep_comment(self, number: int, marker: str, text: str) -> Answer:
        """Write our comment with this first line, or change it if it is there."""
        known = self._ours(number, marker)
        if known is None:
            return self.comment(number, text)
        path = f"{self._path}/issues/comments/{known}"
        return self.client.request("PATCH", path, {"body": text})

    def _ours(self, number: int, marker: str) -> int | None:
        for each in self.client.pages(f"{self._path}/issues/{number}/comments"):
            user = each.get("user") or {}
            ours = user.get("login") == self.author
            if ours and str(each.get("body", "")).startswith(marker):
                return int(each["id"])
        return None

    def comment(self, number: int, text: str) -> Answer:
        """Write a comment."""
        path = f"{self._path}/issues/{number}/comments"
        return self.client.request("POST", path, {"body": text})

    def pull_request(self, number: int) -> PullRequest:
        """Return what a pull request is of."""
        answer = self.client.request("GET", f"{self._path}/pulls/{number}")
        if answer.status != 200:
            raise StorageError(f"pull request {number} cannot be seen: {answer.message}")
        return self._parsed(answer.value)

    def pull_requests_of(self, branch: str) -> list[PullRequest]:
        """Return the open pull requests of a branch of this repository."""
        owner = self.repository.partition("/")[0]
        query = urllib.parse.urlencode({"state": "open", "head": f"{owner}:{branch}"})
        return [self._parsed(each) for each in self.client.pages(f"{self._path}/pulls?{query}")]

    def may_write(self, user: str) -> bool:
        """Return whether a user may push to the repository."""
        name = urllib.parse.quote(user, safe="")
        answer = self.client.request("GET", f"{self._path}/collaborators/{name}/permission")
        value = answer.value if isinstance(answer.value, dict) else {}
        return answer.status == 200 and value.get("permission") in ("admin", "maintain", "write")

    def _parsed(self, value: Any) -> PullRequest:
        try:
            head, base = value["head"], value["base"]
            source = (head.get("repo") or {}).get("full_name")
            return PullRequest(
                int(value["number"]), str(base["ref"]), str(head["ref"]), source == self.repository
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError("what the host says of a pull request is not known here") from error


@dataclass(frozen=True, slots=True)
class GitLab:
    """GitLab; its pull requests are called merge requests."""

    client: HostClient
    """How to call it."""
    project: str
    """The number of the project."""
    limit: int = GITLAB_LIMIT
    """How many characters a comment may have."""

    @classmethod
    def of(cls, api: str, project: str, token: str | None) -> GitLab:
        """Return a host that is called with a token."""
        return cls(HostClient(api, {"PRIVATE-TOKEN": token} if token else {}), project)

    def _path(self, number: int) -> str:
        project = urllib.parse.quote(self.project, safe="")
        return f"/projects/{project}/merge_requests/{number}"

    def head_ref(self, number: int) -> str:
        """Return the ref by which the head of a merge request can be fetched."""
        return f"refs/merge-requests/{number}/head"

    def keep_comment(self, number: int, marker: str, text: str) -> Answer:
        """Write our comment with this first line, or change it if it is there."""
        path = f"{self._path(number)}/notes"
        me = self.client.request("GET", "/user")
        mine = me.value.get("id") if me.status == 200 and isinstance(me.value, dict) else None
        if mine is not None:
            for each in self.client.pages(f"{path}?sort=asc"):
                author = (each.get("author") or {}).get("id")
                if author == mine and str(each.get("body", "")).startswith(marker):
                    return self.client.request("PUT", f"{path}/{int(each['id'])}", {"body": text})
        return self.comment(number, text)

    def comment(self, number: int, text: str) -> Answer:
        """Write a note."""
        return self.client.request("POST", f"{self._path(number)}/notes", {"body": text})

    def pull_request(self, number: int) -> PullRequest:
        """Return what a merge request is of."""
        answer = self.client.request("GET", self._path(number))
        if answer.status != 200:
            raise StorageError(f"merge request {number} cannot be seen: {answer.message}")
        value = answer.value
        same = value.get("source_project_id") == value.get("target_project_id")
        return PullRequest(number, value["target_branch"], value["source_branch"], same)

    def pull_requests_of(self, branch: str) -> list[PullRequest]:
        """Return the open merge requests of a branch."""
        project = urllib.parse.quote(self.project, safe="")
        query = urllib.parse.urlencode({"state": "opened", "source_branch": branch})
        found = self.client.pages(f"/projects/{project}/merge_requests?{query}")
        return [
            PullRequest(each["iid"], each["target_branch"], branch, same_repository=True)
            for each in found
        ]
