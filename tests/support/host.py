"""A stand-in for GitHub, GitLab and Gitea: what `ci` calls of their APIs, with their real limits.

It keeps comments, pages lists, refuses texts that are too long (65,536 characters at
GitHub, 1,000,000 at GitLab) and tokens that may not write, and fails when it is told to. Below
`/api/v1` it is Gitea, which lists comments whole and pull requests of all branches.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

WRITER, READER = "ghs_writer", "ghs_reader"
GITHUB_LIMIT, GITLAB_LIMIT = 65_536, 1_000_000
BOT = "github-actions[bot]"
PROJECTS = {"me/data": 12, "you/data": 13}
"""Repositories by the numbers that GitLab has for them."""
GITEA = "/api/v1"


@dataclass
class StandIn:
    """What the host holds, and what was asked of it."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    permissions: dict[str, str] = field(default_factory=dict)
    failing: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Answers to the next requests, whatever they are."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    address: str = ""

    def add(self, body: str, user: str = BOT) -> dict[str, Any]:
        number = len(self.comments) + 1
        author = {"login": user, "id": 7 if user == BOT else 8}
        comment = {"id": number, "body": body, "user": author, "author": author}
        self.comments.append(comment)
        return comment

    def pull(
        self,
        number: int,
        base: str,
        head: str,
        *,
        repo: str = "me/data",
        edits: str | None = None,
    ) -> dict[str, Any]:
        """Open a pull request; `edits` is the flag that says that maintainers may push to it."""
        found: dict[str, Any] = {
            "number": number,
            "state": "open",
            "base": {"ref": base, "repo": {"full_name": "me/data"}},
            "head": {"ref": head, "repo": {"full_name": repo}},
        }
        if edits is not None:
            found[edits] = True
        self.pulls.append(found)
        return found

    def merge_request(self, number: int) -> dict[str, Any]:
        """Return a pull request as GitLab tells it."""
        pull = next(each for each in self.pulls if each["number"] == number)
        owner = pull["head"]["repo"]["full_name"]
        return {
            "iid": number,
            "target_branch": pull["base"]["ref"],
            "source_branch": pull["head"]["ref"],
            "source_project_id": PROJECTS[owner],
            "target_project_id": PROJECTS["me/data"],
            "allow_collaboration": pull.get("allow_collaboration", False),
        }

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        writes = method in ("POST", "PATCH", "PUT")
        gitea = parts.path.startswith(GITEA)
        place = parts.path.removeprefix(GITEA)
        if not token:
            return 401, {"message": "Requires authentication"}
        if writes and token != WRITER:
            return 403, {"message": "Resource not accessible by integration"}
        limit = GITLAB_LIMIT if "merge_requests" in path else GITHUB_LIMIT
        if writes and len(body["body"]) > limit:
            return 422, {"message": f"Body is too long (maximum is {limit} characters)"}
        match method, re.sub(r"\d+", "N", place):
            case "GET", "/repos/me/data/issues/N/comments" | "/projects/N/merge_requests/N/notes":
                return 200, self.comments if gitea else self.page(self.comments, query)
            case "POST", "/repos/me/data/issues/N/comments" | "/projects/N/merge_requests/N/notes":
                return 201, self.add(body["body"], "gitea-actions" if gitea else BOT)
            case ("PATCH", "/repos/me/data/issues/comments/N") | (
                "PUT",
                "/projects/N/merge_requests/N/notes/N",
            ):
                comment = self.comments[int(place.rpartition("/")[2]) - 1]
                comment["body"] = body["body"]
                return 200, comment
            case "GET", "/repos/me/data/pulls" if gitea:
                assert int(query["limit"]) <= 50
                return 200, self.pulls
            case "GET", "/repos/me/data/pulls":
                wanted = query["head"].partition(":")[2]
                return 200, self.page(
                    [each for each in self.pulls if each["head"]["ref"] == wanted], query
                )
            case "GET", "/repos/me/data/pulls/N":
                number = int(place.rpartition("/")[2])
                for each in self.pulls:
                    if each["number"] == number:
                        return 200, each
            case "GET", "/projects/N/merge_requests/N":
                return 200, self.merge_request(int(place.rpartition("/")[2]))
            case "GET", "/projects/N":
                number = int(place.rpartition("/")[2])
                name = next(name for name, each in PROJECTS.items() if each == number)
                return 200, {"id": number, "path_with_namespace": name}
            case "GET", "/user":
                return 200, {"id": 7}
        if found := re.fullmatch(r"/repos/me/data/collaborators/([^/]+)/permission", place):
            return 200, {"permission": self.permissions.get(found[1], "read")}
        return 404, {"message": "Not Found"}

    @staticmethod
    def page(items: list[Any], query: dict[str, str]) -> list[Any]:
        size, number = int(query.get("per_page", 30)), int(query.get("page", 1))
        assert size <= 100
        return items[(number - 1) * size : number * size]


@contextmanager
def serving(stand_in: StandIn) -> Iterator[StandIn]:
    """Serve on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            token = self.headers.get("Authorization", "").removeprefix(
                "Bearer "
            ) or self.headers.get("PRIVATE-TOKEN", "")
            stand_in.requests.append((self.command, self.path))
            stand_in.tokens.add(token)
            headers: dict[str, str] = {}
            if stand_in.failing:
                status, headers = stand_in.failing.pop(0)
                value: Any = {"message": "as it was told to"}
            else:
                status, value = stand_in.answer(self.command, self.path, token, body)
            data = json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = handle_any

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    stand_in.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
