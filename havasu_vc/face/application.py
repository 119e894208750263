"""The page over HTTP: files of the package, and JSON about the repository.

    GET /                      the page
    GET /assets/NAME           a script, a style, the land of the world
    GET /review?…              the page of a review
    GET /api/v1/WHAT?…         JSON; docs/reference/page-api.md lists it
    POST /api/v1/do/WHAT       an action

Handlers run in threads, each with the repository opened anew: what a terminal did meanwhile is
seen by the next request.

Long work may name itself by the header `x-havasu-job`. While it lasts, another request may ask how
far it is, or cancel it: the work then ends at its next step, as one that failed there does, and
leaves all as it was.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from havasu_vc.engine.protocol import Progress
from havasu_vc.errors import (
    ConcurrentChangeError,
    HavasuError,
    InvalidArgumentError,
    NotFoundError,
)
from havasu_vc.face.actions import ACTIONS
from havasu_vc.face.conflicts import conflicts
from havasu_vc.face.edits import edits, work
from havasu_vc.face.guard import TOKEN, Guard, Turned
from havasu_vc.face.overview import changes, datasets, history, overview, refs, row
from havasu_vc.face.rows import dataset, differing, pictures, places, review, rows
from havasu_vc.face.standing import Query, require_seen, standing
from havasu_vc.library import Repo
from havasu_vc.review import asset
from havasu_vc.serving.server import ServerAddress, listen, run

__all__ = ["JOB", "POLICY", "CancelledError", "Face", "Job", "Jobs", "open_face"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
THREADS = 4
_OURS = frozenset(
    {"api.js", "app.js", "app.css", "boxes.js", "chart.js", "compare.js", "conflicts.js", "data.js"}
    | {"history.js", "jobs.js", "lanes.js", "overview.js", "past.js", "rasters.js", "words.js"}
    | {"work.js"}
)
_SHARED = frozenset(
    {"basemap.js", "elements.js", "page.css", "projection.js", "text.js", "countries-110m.json"}
)
"""Files that the page of a review has too."""
_KINDS = {"js": "text/javascript", "css": "text/css", "json": "application/json"}
_READING: dict[str, Callable[[Repo, Query], Any]] = {
    "overview": overview,
    "refs": refs,
    "history": history,
    "changes": changes,
    "dataset": dataset,
    "datasets": datasets,
    "rows": rows,
    "places": places,
    "differing": differing,
    "pictures": pictures,
    "row": row,
    "standing": standing,
    "conflicts": conflicts,
    "work": work,
}
_API, _DO = "/api/v1/", "/api/v1/do/"
MOST_BYTES = 1 << 20
"""The largest body that is taken in."""
_log = logging.getLogger("havasu_vc.face")


class Face:
    """Answers the browser of one person about one repository."""

    def __init__(self, open_repo: Callable[[], Repo], guard: Guard) -> None:
        self._open = open_repo
        self._guard = guard
        self._threads = ThreadPoolExecutor(THREADS, "havasu-vc-open")
        self._acting = threading.Lock()
        self._jobs = Jobs()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        for name, value in (
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("content-security-policy", POLICY),
        ):
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._checked(request)
        except Turned as error:
            return _refusal(error.status, error.message)
        except CancelledError as error:
            return _refusal(409, str(error))
        except ConcurrentChangeError as error:
            return _refusal(409, error.message, error.hints)
        except NotFoundError as error:
            return _refusal(404, error.message, error.hints)
        except HavasuError as error:
            return _refusal(400, error.message, error.hints)
        except Exception:
            _log.exception("%s %s", request.method, request.url.path)
            return _refusal(
                500, "something went wrong; the terminal of `havasu-vc open` tells more"
            )

    async def _checked(self, request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self._guard.check_place(headers)
        text = request.scope["query_string"].decode("latin-1")
        query = dict(parse_qsl(text, keep_blank_values=True))
        path = request.url.path
        if path.startswith(_DO):
            return await self._done(request, headers, path.removeprefix(_DO))
        if request.method not in ("GET", "HEAD"):
            raise Turned(405, f"{request.method} is not for this address")
        if path == "/" and TOKEN in query:
            return self._entered(headers, query[TOKEN])
        self._guard.check_cookie(headers)
        if path == "/":
            return _file("index.html", "text/html")
        if path.startswith("/assets/"):
            return _asset(path.removeprefix("/assets/"))
        loop = asyncio.get_running_loop()
        if path == "/review":
            page, policy = await loop.run_in_executor(self._threads, self._review, query)
            return Response(page, 200, {"content-security-policy": policy}, "text/html")
        if path == f"{_API}job":
            found = json.dumps({"job": self._jobs.value(query.get("name", ""))})
            return Response(found, media_type="application/json")
        if path == f"{_API}word":
            return Response(json.dumps({"word": self._guard.word}), media_type="application/json")
        reads = _READING.get(path.removeprefix(_API))
        if reads is None or not path.startswith(_API):
            raise Turned(404, "there is nothing at this address")
        name = headers.get(JOB, "")
        found = await loop.run_in_executor(self._threads, self._read, reads, query, name)
        return Response(found, 200, media_type="application/json")

    async def _done(self, request: Request, headers: Mapping[str, str], name: str) -> Response:
        """Do something, for our own page alone."""
        if request.method != "POST":
            raise Turned(405, "what changes something comes by POST")
        self._guard.check_cookie(headers)
        self._guard.check_word(headers)
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            raise Turned(415, "an action is a JSON object")
        if name not in ACTIONS and name != "cancel":
            raise Turned(404, "there is nothing at this address")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                raise Turned(413, "the request is too large")
        loop = asyncio.get_running_loop()
        if name == "cancel":
            # At once: all threads may be busy with what is to end.
            ended = self._jobs.cancel(str(_parsed(body).get("job", "")))
            said = "Cancelled" if ended else "It is done already"
        else:
            job = headers.get(JOB, "")
            said = await loop.run_in_executor(self._threads, self._act, name, body, job)
        return Response(json.dumps({"said": said}), media_type="application/json")

    def _act(self, name: str, body: bytes, job: str) -> str:
        asked = _parsed(body)
        with self._jobs.running(job) as heard, self._acting:
            repo = self._opened(heard)
            seen = asked.pop("seen", None)
            looks = isinstance(seen, dict) and "edits" in seen
            require_seen(repo, seen, edits(repo)[1] if looks else None)
            return ACTIONS[name](repo, asked)

    def _opened(self, progress: Progress) -> Repo:
        repo = self._open()
        return repo.with_settings(replace(repo.settings, progress=progress))

    def _entered(self, headers: Mapping[str, str], token: str) -> Response:
        """Answer who comes with a token; one who was here before needs none."""
        try:
            self._guard.check_cookie(headers)
            return Response(None, 303, {"location": "/"})
        except Turned:
            cookie = self._guard.enter(token)
            return Response(None, 303, {"location": "/", "set-cookie": cookie})

    def _read(self, reads: Callable[[Repo, Query], Any], query: Query, job: str) -> str:
        with self._jobs.running(job) as heard:
            found = reads(self._opened(heard), query)
        return json.dumps(found, ensure_ascii=True, allow_nan=False)

    def _review(self, query: Query) -> tuple[str, str]:
        return review(self._open(), query)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError("the request is not JSON") from error
    if not isinstance(asked, dict):
        raise InvalidArgumentError("the request is not a JSON object")
    return asked


def _refusal(status: int, message: str, hints: tuple[str, ...] = ()) -> Response:
    document = {"error": {"message": message, "hints": list(hints)}}
    return Response(json.dumps(document), status, media_type="application/json")


def _file(name: str, kind: str) -> Response:
    file = resources.files("havasu_vc.face").joinpath("assets", name)
    return Response(file.read_bytes(), 200, media_type=kind)


def _asset(name: str) -> Response:
    kind = _KINDS.get(name.rpartition(".")[2], "")
    if name in _OURS:
        return _file(name, kind)
    if name in _SHARED:
        return Response(asset(name), 200, media_type=kind)
    raise Turned(404, "there is nothing at this address")


# The server that `havasu-vc open` starts, on loopback alone.


def open_face(open_repo: Callable[[], Repo], port: int, *, started: Callable[[str], None]) -> None:
    """Show a repository until the process is told to stop; `started` hears the address."""
    address = ServerAddress("127.0.0.1", port)
    listening = listen(address)
    guard = Guard(listening.getsockname()[1])
    token = guard.new_token()
    run(
        Face(open_repo, guard),
        listening,
        address,
        started=lambda url: started(f"{url}/?{TOKEN}={token}"),
    )


JOB = "x-havasu-job"
LONGEST = 64
MOST = 200


class CancelledError(Exception):
    """Work was told to end: no error, so none of the tree's."""


class Job:
    """One request that is being answered; hears of progress from the engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._total = self._done = 0
        self._description = ""
        self._bytes = self._ends = False

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Hear that a run of so many tasks begins."""
        with self._lock:
            self._total, self._done, self._bytes = total_tasks, 0, in_bytes
            self._description = description
        self._check()

    def advance(self, tasks: int) -> None:
        """Hear that so many more tasks are done."""
        with self._lock:
            self._done += tasks
        self._check()

    def finish(self) -> None:
        """Hear that a run is over."""

    def cancel(self) -> None:
        """End the work at its next step."""
        with self._lock:
            self._ends = True

    def _check(self) -> None:
        if self._ends:
            raise CancelledError("this was cancelled; all is as it was")

    def value(self) -> dict[str, Any]:
        """Return how far the work is."""
        with self._lock:
            return {
                "what": self._description,
                "done": self._done,
                "total": self._total,
                "bytes": self._bytes,
                "seconds": round(time.monotonic() - self._since, 1),
            }


class Jobs:
    """The requests that are being answered, by the name that they gave themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Job] = {}

    @contextmanager
    def running(self, name: str) -> Iterator[Job]:
        """Know a request while it is answered; one without a name is known to nobody."""
        if len(name) > LONGEST or not name.isascii():
            raise InvalidArgumentError("the name of a job is a short text")
        job = Job()
        with self._lock:
            if name in self._known or len(self._known) >= MOST:
                raise InvalidArgumentError("there is a job of that name")
            if name:
                self._known[name] = job
        try:
            yield job
        finally:
            with self._lock:
                self._known.pop(name, None)

    def value(self, name: str) -> dict[str, Any] | None:
        """Return how far a job is; None where it is done, or waits for its turn."""
        with self._lock:
            job = self._known.get(name)
        return None if job is None else job.value()

    def cancel(self, name: str) -> bool:
        """End a job; return whether it was under way."""
        with self._lock:
            job = self._known.get(name)
        if job is not None:
            job.cancel()
        return job is not None
