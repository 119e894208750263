"""GitHub, GitLab and Gitea, as far as pull requests need them: comments, and where the head is.

A comment of ours is told by its first line and by who wrote it: anybody can write the line.
What is pushed to is an address made of the host's own and a repository's name, never one that
an answer gives whole. Forgejo is Gitea here, and Gitea speaks GitHub's language with an accent.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.records import dataclass

__all__ = [
    "GITEA",
    "Dialect",
    "GitHub",
    "GitLab",
    "Host",
    "HostAnswer",
    "HostClient",
    "PullRequest",
    "require_safe",
]


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
    """Its number."""
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

    def keep_comment(self, number: int, marker: str, text: str) -> HostAnswer:
        """Write our comment with this first line, or change it if it is there."""

    def comment(self, number: int, text: str) -> HostAnswer:
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
    """The parameter of a list that takes that number."""
    edits: str = "maintainer_can_modify"
    """The field that lets maintainers push to a pull request's branch."""


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

    def keep_comment(self, number: int, marker: str, text: str) -> HostAnswer:
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

    def comment(self, number: int, text: str) -> HostAnswer:
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

    def keep_comment(self, number: int, marker: str, text: str) -> HostAnswer:
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

    def comment(self, number: int, text: str) -> HostAnswer:
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


# Calls to the API of a git host: JSON over HTTPS, bounded, without surprises.
#
# The token goes to the one host it is for: redirects are not followed, and without TLS only
# this machine is talked to. Answers are bounded in size and time; what a busy host asks to
# be tried again is tried again, a few times. The host's own words about an error are kept,
# the token never is.

TIMEOUT = 30.0
MOST_BYTES = 16 * 1024 * 1024
TRIES = 4
PATIENCE = 90.0
"""Seconds that a host may ask us to wait; GitHub asks for a minute after too many requests."""
PAGES = 50
"""Pages of a list that are read."""
_AGAIN = (429, 500, 502, 503, 504)
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The answer of a host."""

    status: int
    """The HTTP status."""
    value: Any
    """The JSON of the answer; None where there is none."""
    pause: float | None = None
    """Seconds after which it may be asked again, where it says so."""

    @property
    def limited(self) -> bool:
        """Whether it was asked too often."""
        return self.status == 429 or (self.status == 403 and self.pause is not None)

    @property
    def refused(self) -> bool:
        """Whether the token does not allow it; GitHub says 404 of what one may not see."""
        return self.status in (401, 403, 404) and not self.limited

    @property
    def message(self) -> str:
        """The host's own words."""
        words = self.value.get("message", "") if isinstance(self.value, dict) else ""
        said = f"{self.status} {str(words)[:300]}".strip()
        if self.limited and self.pause is not None:
            said += f" (it asks to wait {self.pause:,.0f} s)"
        return said


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class HostClient:
    """Talks to one API."""

    api: str
    """Its address, such as `https://api.github.com`."""
    headers: Mapping[str, str]
    """Sent with each request, the token among them."""
    wait: Callable[[float], None] = time.sleep
    """How to wait before trying again."""

    def __post_init__(self) -> None:
        require_safe(self.api, "the address of an API")

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> HostAnswer:
        """Send one request; an answer of any status comes back, silence is an error."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "User-Agent": "havasu-vc", **self.headers}
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(
            self.api.rstrip("/") + path, data=data, method=method, headers=headers
        )
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                answer = self._send(request)
            except (OSError, ValueError) as error:
                # Whether a comment was made is not known then: only what may be done twice is.
                if last or method == "POST":
                    raise StorageError(f"{self._name} does not answer: {error}") from error
                self.wait(2.0**attempt)
                continue
            again = answer.limited or answer.status in ((503,) if method == "POST" else _AGAIN)
            pause = 2.0**attempt if answer.pause is None else answer.pause
            if not again or last or pause > PATIENCE:
                return answer
            self.wait(pause)
        raise AssertionError("the last try returns or raises")

    def _send(self, request: urllib.request.Request) -> HostAnswer:
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            response = opener.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            data = response.read(MOST_BYTES + 1)
            pause = _pause(response.headers)
            status = int(response.status)
        if len(data) > MOST_BYTES:
            raise ValueError("its answer is too large")
        try:
            value = json.loads(data) if data else None
        except (ValueError, RecursionError):
            value = None
        return HostAnswer(status, value, pause)

    def pages(self, path: str, *, size: int = 100, named: str = "per_page") -> Iterator[Any]:
        """Yield the items of a list, page by page; `named` is what the host calls their size."""
        join = "&" if "?" in path else "?"
        before: Any = None
        for page in range(1, PAGES + 1):
            answer = self.request("GET", f"{path}{join}{named}={size}&page={page}")
            if answer.status != 200 or not isinstance(answer.value, list):
                raise StorageError(f"{self._name} refuses {path}: {answer.message}")
            if answer.value == before:
                return  # the host gives this list as a whole, whatever page is asked for
            yield from answer.value
            if len(answer.value) < size:
                return
            before = answer.value

    @property
    def _name(self) -> str:
        return str(urllib.parse.urlsplit(self.api).hostname)


def require_safe(address: str, what: str) -> None:
    """Raise unless a token may go to an address: over TLS, or to this machine."""
    parts = urllib.parse.urlsplit(address)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    if not secure or not parts.hostname or parts.username or parts.query:
        raise InvalidArgumentError(f"{address!r} is not {what} over HTTPS")


def _pause(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a host asks to be left alone; None where it does not."""
    after = headers.get("Retry-After", "").strip()
    if after.isdecimal():
        return float(after)
    if after:
        with suppress(ValueError):
            return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    names = ("X-RateLimit-Remaining", "RateLimit-Remaining")
    if any(headers.get(name, "").strip() == "0" for name in names):
        for name in ("X-RateLimit-Reset", "RateLimit-Reset"):
            reset = headers.get(name, "").strip()
            if reset.isdecimal():
                return max(1.0, float(reset) - time.time())
    return None
