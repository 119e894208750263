"""Who may ask: the browser that was given the address, and no page of somebody else's.

The address that `havasu-vc open` prints has a token, which is good once: whoever comes with it
gets a cookie that scripts cannot read and that no other site's page sends. Names that lead to
this machine without being its own (DNS rebinding) and requests that another page makes are
refused. What changes anything comes by POST, with a word that only our own page can read.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

__all__ = ["Guard", "Turned"]

TOKEN = "token"
WORD = "x-havasu-word"
"""The header of what acts."""


class Turned(Exception):
    """A request that is turned away."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Guard:
    """The conditions of one server for its callers."""

    def __init__(self, port: int) -> None:
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self._hosts |= {"127.0.0.1", "localhost"}
        self.cookie = f"havasu-{port}"
        """The cookie's name: cookies do not know ports."""
        self._secret = secrets.token_urlsafe(32)
        self.word = secrets.token_urlsafe(32)
        """The word of a page that wants something done."""
        self._tokens: set[str] = set()
        self._lock = threading.Lock()

    def new_token(self) -> str:
        """Return a token that opens the page once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens.add(token)
        return token

    def enter(self, token: str) -> str:
        """Return the cookie for a token, which is good no more."""
        with self._lock:
            if token not in self._tokens:
                raise Turned(403, "this address was used already; `havasu-vc open` gives a new one")
            self._tokens.discard(token)
        return f"{self.cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    def check_place(self, headers: Mapping[str, str]) -> None:
        """Raise unless a request was sent to this machine by its own name, by our own page."""
        host = headers.get("host", "")
        if host not in self._hosts:
            raise Turned(403, "this page is for the browser of this machine")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise Turned(403, "another site's page asked")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Turned(403, "another site's page asked")

    def check_cookie(self, headers: Mapping[str, str]) -> None:
        """Raise unless a request has the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            found = None
        if found is None or not _same(found.value, self._secret):
            raise Turned(403, "this page is opened by `havasu-vc open`")

    def check_word(self, headers: Mapping[str, str]) -> None:
        """Raise unless a request that acts comes from our page itself."""
        if "origin" not in headers:
            raise Turned(403, "a request that changes something names the page that it is from")
        if not _same(headers.get(WORD, ""), self.word):
            raise Turned(403, "the page is older than this server; load it anew")


def _same(text: str, expected: str) -> bool:
    return secrets.compare_digest(text.encode(), expected.encode())
