"""Calls to the API of a git host: JSON over HTTPS, bounded, without surprises.

The token goes to the one host it is for: redirects are not followed, and without TLS only
this machine is talked to. Answers are bounded in size and time; what a busy host asks to
be tried again is tried again, a few times. The host's own words about an error are kept,
the token never is.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.records import dataclass

__all__ = ["Answer", "HostClient", "require_safe"]

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
class Answer:
    """What a host said."""

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

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
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

    def _send(self, request: urllib.request.Request) -> Answer:
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
        return Answer(status, value, pause)

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
