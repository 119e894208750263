"""The ASGI application: what comes over HTTP becomes a call, and an answer goes back.

Handlers run in threads, since git and files are read there; each thread has the repository open
for itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from havasu_vc.serving.catalog import Catalog, Route, Router, ServeSettings, route
from havasu_vc.serving.reading import READING, configuration
from havasu_vc.serving.routes import Answer, Call, Refused, problem_of
from havasu_vc.serving.tokens import NOBODY, admitted, give_token
from havasu_vc.serving.writes import WRITING

__all__ = ["Application", "app"]

MOST_BYTES = 32 << 20
"""The largest body that is taken in."""
MOST_HELD = 256 << 20
"""The memory that the bodies of all requests may take together while they come."""
SECONDS = 30.0
"""So long a client may take to send some more of a body."""
SECONDS_IN_ALL = 120.0
"""So long it may take to send all of it."""
THREADS = 8
"""So many requests are worked on at a time."""
_TAKEN = "havasu_vc.taken"
_log = logging.getLogger("havasu_vc.serving")


def app(path: Path | str = ".", settings: ServeSettings | None = None) -> ASGIApp:
    """Return the catalog of a repository as an ASGI application."""
    return Application(Catalog(path, settings or ServeSettings()))


class Application:
    """Answers requests about one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        """The catalog that is served."""
        self.router = Router(
            [route("GET", "/v1/config", self._configuration, stated=False), *_routes()]
        )
        self._held = 0
        self._threads = ThreadPoolExecutor(THREADS, "havasu-vc-serve")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request, scope)
        except ClientDisconnect:
            return
        except Exception as error:
            problem = problem_of(error)
            if problem.status >= 500:
                _log.exception("%s %s", request.method, request.url.path)
            # What is left of a body that was not taken in is not read to its end.
            rest = {} if scope.get(_TAKEN) else {"connection": "close"}
            answer = Answer(problem.status, problem.document, rest)
        await _response(request.method, answer)(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope) -> Answer:
        raw = scope.get("raw_path") or scope["path"].encode()
        found, names = self.router.find(request.method, raw.decode("latin-1").split("?")[0])
        headers = {name.lower(): value for name, value in request.headers.items()}
        settings = self.catalog.settings
        caller = NOBODY
        if found.handler is not _token:
            caller = admitted(self.catalog.tokens, headers, loopback=settings.loopback)
        if caller.read_only and found.writes:
            raise Refused(403, "ForbiddenException", f"{caller.name} may only read")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        body = await self._body(request)
        scope[_TAKEN] = True
        name = caller.name or None
        call = Call(request.method, names, dict(query), headers, body, name, caller.read_only)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, found.handler, self.catalog, call)

    async def _body(self, request: Request) -> bytes:
        """Return a request's body, which is refused as soon as it is too much or too slow."""
        stated = request.headers.get("content-length", "0")
        if not stated.isdecimal() or int(stated) > MOST_BYTES:
            raise _too_large()
        pieces: list[bytes] = []
        held = 0
        try:
            async with asyncio.timeout(SECONDS_IN_ALL):
                stream = aiter(request.stream())
                while True:
                    try:
                        piece = await asyncio.wait_for(anext(stream), SECONDS)
                    except StopAsyncIteration:
                        return b"".join(pieces)
                    held += len(piece)
                    self._held += len(piece)
                    if held > MOST_BYTES:
                        raise _too_large()
                    if self._held > MOST_HELD:
                        text = "too many clients send too much at one time; try again"
                        raise Refused(503, "ServiceUnavailableException", text)
                    pieces.append(piece)
        except TimeoutError:
            raise Refused(408, "BadRequestException", "the request did not come in time") from None
        finally:
            self._held -= held

    def _configuration(self, catalog: Catalog, call: Call) -> Answer:
        return configuration(catalog, call, [each for each in self.router.routes if each.stated])


def _too_large() -> Refused:
    return Refused(413, "BadRequestException", "the request's body is too large")


def _token(catalog: Catalog, call: Call) -> Answer:
    return give_token(catalog.tokens, call)


def _routes() -> tuple[Route, ...]:
    return (route("POST", "/v1/oauth/tokens", _token, stated=False), *READING, *WRITING)


def _response(method: str, answer: Answer) -> Response:
    content = answer.content
    if content is not None and not isinstance(content, bytes):
        content = json.dumps(content).encode()
    headers = dict(answer.headers)
    if content is not None:
        headers["content-type"] = "application/json"
    return Response(None if method == "HEAD" else content, answer.status, headers)


async def _live(receive: Receive, send: Send) -> None:
    """Say that the application has started and ended, to servers that ask."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
