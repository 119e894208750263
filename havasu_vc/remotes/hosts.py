"""GitHub, GitLab and Gitea, as far as pull requests need them: comments, and where the head is.

A comment of ours is told by its first line and by who wrote it: anybody can write the line.
What is pushed to is an address made of the host's own and a repository's name, never one that
an answer gives whole. Forgejo is Gitea here, and Gitea speaks GitHub's language with an accent.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any, Protocol

from havasu_vc.errors import StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.host_client import Answer, HostClient, require_safe

__all__ = ["GITEA", "Dialect", "GitHub", "GitLab", "Host", "PullRequest"]

GITHUB_LIMIT = 65_536
GITLAB_LIMIT = 1_000_000
WORKFLOWS = "github-actions[bot]"
"""Who writes with the token of a workflow."""
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)+")
"""A repository, as `owner/name`."""
_UNKNOWN = "what the host says of a pull request is not known here"
_WRITERS = ("owner", "admin", "maintain", "write")


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
    source: str = ""
    """The repository of `head`, as the host names it; nothing if that is gone or not known."""
    edits_allowed: bool = False
    """Whether people who may push to `base` may push to the branch of a fork."""


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

    def head_address(self, request: PullRequest) -> str | None:
        """Return the URL to push the head of a pull request to; None for the job's own remote."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """In what hosts of GitHub's kind differ."""

    author: str = WORKFLOWS
    """Who comments with the token of a job."""
    page: int = 100
    """Items on a page of a list."""
    page_named: str = "per_page"
    """What a list calls that number."""
    edits: str = "maintainer_can_modify"
    """What tells of a pull request that maintainers may push to its branch."""


GITEA = Dialect("gitea-actions", 50, "limit", "allow_maintainer_edit")
"""How Gitea and Forgejo speak."""


@dataclass(frozen=True, slots=True)
class GitHub:
    """GitHub, or a server of the same kind."""

    client: HostClient
    """How to call it."""
    repository: str
    """`owner/name`."""
    author: str = WORKFLOWS
    """Who our comments are by."""
    server: str = "https://github.com"
    """Where repositories are."""
    dialect: Dialect = Dialect()
    """How this one speaks."""
    limit: int = GITHUB_LIMIT
    """How many characters a comment may have."""

    @classmethod
    def of(
        cls,
        api: str,
        repository: str,
        token: str | None,
        author: str | None = None,
        *,
        server: str = "https://github.com",
        dialect: Dialect | None = None,
    ) -> GitHub:
        """Return a host that is called with a token."""
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        spoken = dialect or Dialect()
        return cls(HostClient(api, headers), repository, author or spoken.author, server, spoken)

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
        for each in self._pages(f"{self._path}/issues/{number}/comments"):
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
        found = [self._parsed(each) for each in self._pages(f"{self._path}/pulls?{query}")]
        # Gitea knows no such question, and tells of all.
        return [each for each in found if each.head == branch]

    def head_address(self, request: PullRequest) -> str | None:
        """Return the URL to push the head of a pull request to; None for the job's own remote."""
        return None if request.same_repository else _address(self.server, request.source)

    def _pages(self, path: str) -> Iterator[Any]:
        return self.client.pages(path, size=self.dialect.page, named=self.dialect.page_named)

    def may_write(self, user: str) -> bool:
        """Return whether a user may push to the repository."""
        name = urllib.parse.quote(user, safe="")
        answer = self.client.request("GET", f"{self._path}/collaborators/{name}/permission")
        value = answer.value if isinstance(answer.value, dict) else {}
        return answer.status == 200 and value.get("permission") in _WRITERS

    def _parsed(self, value: Any) -> PullRequest:
        try:
            head, base = value["head"], value["base"]
            source = str((head.get("repo") or {}).get("full_name") or "")
            return PullRequest(
                int(value["number"]),
                str(base["ref"]),
                str(head["ref"]),
                source == self.repository,
                source,
                value.get(self.dialect.edits) is True,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(_UNKNOWN) from error


@dataclass(frozen=True, slots=True)
class GitLab:
    """GitLab; its pull requests are called merge requests."""

    client: HostClient
    """How to call it."""
    project: str
    """The number of the project."""
    server: str = "https://gitlab.com"
    """Where repositories are."""
    limit: int = GITLAB_LIMIT
    """How many characters a comment may have."""

    @classmethod
    def of(
        cls, api: str, project: str, token: str | None, *, server: str = "https://gitlab.com"
    ) -> GitLab:
        """Return a host that is called with a token."""
        return cls(HostClient(api, {"PRIVATE-TOKEN": token} if token else {}), project, server)

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
        return self._parsed(answer.value)

    def _parsed(self, value: Any) -> PullRequest:
        try:
            source = value["source_project_id"]  # null where the fork is gone
            return PullRequest(
                int(value["iid"]),
                str(value["target_branch"]),
                str(value["source_branch"]),
                source == value["target_project_id"],
                "" if source is None else str(int(source)),
                value.get("allow_collaboration") is True,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StorageError(_UNKNOWN) from error

    def head_address(self, request: PullRequest) -> str | None:
        """Return the URL to push the head of a merge request to: a job's remote only reads."""
        answer = self.client.request("GET", f"/projects/{request.source or 'gone'}")
        if answer.status != 200 or not isinstance(answer.value, dict):
            raise StorageError(f"the project of its branch cannot be seen: {answer.message}")
        return _address(self.server, str(answer.value.get("path_with_namespace")))

    def pull_requests_of(self, branch: str) -> list[PullRequest]:
        """Return the open merge requests of a branch."""
        project = urllib.parse.quote(self.project, safe="")
        query = urllib.parse.urlencode({"state": "opened", "source_branch": branch})
        found = self.client.pages(f"/projects/{project}/merge_requests?{query}")
        return [self._parsed(each) for each in found]


def _address(server: str, name: str) -> str:
    """Return the URL of a repository."""
    require_safe(server, "the address of a host")
    if not _NAME.fullmatch(name) or ".." in name:
        raise StorageError("the repository of its branch is gone, or has no name that is known")
    return f"{server.rstrip('/')}/{name}.git"
