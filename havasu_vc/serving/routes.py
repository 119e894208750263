"""Requests and answers as values, and which function answers which request.

A route is a method and a path of parts; a part in braces is a name that the handler gets. Paths
are split before they are decoded: the `%2F` of a name divides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.serving.errors import Refused

if TYPE_CHECKING:
    from havasu_vc.serving.catalog import Catalog

__all__ = ["Answer", "Call", "Handler", "Route", "Router", "route"]

_HALF = b"\\ud"
"""How JSON begins halves of characters, which alone are no text."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    """`GET`, `POST`, …"""
    names: Mapping[str, str]
    """The names in its path, by what the route calls them."""
    query: Mapping[str, str]
    """The part behind the question mark."""
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = b""
    """The bytes that were sent."""
    caller: str | None = None
    """Whose token came with it; None where none is asked for."""
    read_only: bool = False
    """Whether the caller may not commit."""

    def json(self) -> dict[str, Any]:
        """Return the JSON object that was sent."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError("the request's body is not JSON") from error
        if not isinstance(value, dict):
            raise InvalidArgumentError("the request's body is not a JSON object")
        if _HALF in self.body.lower():
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                raise InvalidArgumentError("the request's body has half a character") from error
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request."""

    status: int = 200
    """HTTP's number."""
    content: Mapping[str, Any] | bytes | None = None
    """JSON, or its bytes; None for no body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Besides the content's type and length."""


Handler = Callable[["Catalog", Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """Which function answers a request."""

    method: str
    """`GET`, `POST`, …"""
    path: str
    """As in `/v1/{prefix}/namespaces`."""
    handler: Handler
    """The function that answers."""
    stated: bool = True
    """Whether the list of endpoints names it."""

    @property
    def writes(self) -> bool:
        """Whether it changes the repository."""
        return self.method not in ("GET", "HEAD") and not self.path.endswith("/metrics")

    @property
    def endpoint(self) -> str:
        """How the catalog's configuration calls it."""
        return f"{self.method} {self.path}"


def route(method: str, path: str, handler: Handler, *, stated: bool = True) -> Route:
    """Return a route.

    >>> route("GET", "/v1/config", lambda catalog, call: Answer()).endpoint
    'GET /v1/config'
    """
    return Route(method, path, handler, stated)


class Router:
    """All routes, by their number of parts."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for each in routes:
            parts = tuple(each.path.strip("/").split("/"))
            self._by_length.setdefault(len(parts), []).append((parts, each))

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """Return what answers a request, and the names in its path."""
        parts = raw_path.strip("/").split("/")
        known = False
        for pattern, each in self._by_length.get(len(parts), ()):
            if all(p == part or p.startswith("{") for p, part in zip(pattern, parts, strict=True)):
                known = True
                if each.method == method:
                    pairs = zip(pattern, parts, strict=True)
                    names = {p[1:-1]: unquote(part) for p, part in pairs if p.startswith("{")}
                    return each, names
        if known:
            raise Refused(405, "MethodNotAllowedException", f"{method} is not allowed here")
        raise Refused(404, "NotFoundException", "this catalog has nothing at this path")
