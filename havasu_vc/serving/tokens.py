"""Who may ask: bearer tokens in a file, one a line, each with a name for commits.

    # token                            who it is
    6f1c8a0b5f8e4d1f9a7c3b2e1d0f4a5b   Ann Miller <ann@example.org>
    b0d2…                              bot <bot@example.org> read-only

Only hashes of tokens are held. The file is read again when it changes, so a token that is taken
out of it is good for nothing from then on.

Whether a request may be answered at all: who sends it, and by which way.

A server without tokens listens to this machine alone, where web pages run too. A page can send a
request to any port; what no Iceberg client sends, and every page must, is the header `Origin`. And
a name that a page has made to mean this machine is not the name of this machine.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

from havasu_vc.errors import InvalidFileError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.serving.routes import Answer, Call, Refused

__all__ = ["NOBODY", "Caller", "Tokens", "admitted", "give_token"]

SHORTEST = 16
"""A token has at least so many characters: shorter ones can be guessed."""
READ_ONLY = "read-only"
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a token belongs to."""

    name: str
    """As in `Ann Miller <ann@example.org>`."""
    read_only: bool = False
    """Whether it may not commit."""


class Tokens:
    """The tokens of a file."""

    def __init__(self, path: Path) -> None:
        """Read the file, which must be there and hold a token."""
        self._path = path
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int, int], dict[bytes, Caller]] | None = None
        self._read()

    def caller(self, authorization: str | None) -> Caller:
        """Return who sent a request with this header; raise unless it has a token that is good."""
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() == "bearer":
            found = self.find(token.strip())
            if found is not None:
                return found
        raise Refused(401, "NotAuthorizedException", "this catalog asks for a bearer token")

    def find(self, token: str) -> Caller | None:
        """Return whose token this is."""
        return self._read().get(_hashed(token))

    def _read(self) -> dict[bytes, Caller]:
        try:
            with open(self._path, "rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_mtime_ns, status.st_size, status.st_ino)
                with self._lock:
                    if self._known is not None and self._known[0] == seen:
                        return self._known[1]
                found = _parsed(file.read(_LARGEST + 1), self._path)
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read: {error.strerror}") from error
        with self._lock:
            self._known = (seen, found)
        return found


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _parsed(data: bytes, path: Path) -> dict[bytes, Caller]:
    found: dict[bytes, Caller] = {}
    if len(data) > _LARGEST:
        raise InvalidFileError(str(path), "it is too large for a file of tokens")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        token, _, rest = line.strip().partition(" ")
        if not token or token.startswith("#"):
            continue
        if len(token) < SHORTEST:
            raise InvalidFileError(
                str(path),
                f"the token of line {number} has fewer than {SHORTEST} characters",
                hints=("`python -c 'import secrets; print(secrets.token_hex(16))'` makes one",),
            )
        name = rest.strip()
        read_only = name.endswith(READ_ONLY)
        name = name.removesuffix(READ_ONLY).strip()
        found[_hashed(token)] = Caller(name, read_only)
    if not found:
        raise InvalidFileError(
            str(path), "it has no token", hints=("a line is a token and a name",)
        )
    return found


NOBODY = Caller("")
"""Who sends a request where no token is asked for."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def admitted(tokens: Tokens | None, headers: Mapping[str, str], *, loopback: bool) -> Caller:
    """Return who sends a request; raise where it is not to be answered."""
    if "origin" in headers:
        raise Refused(403, "ForbiddenException", "web pages may not ask this catalog")
    if tokens is not None:
        return tokens.caller(headers.get("authorization"))
    host = headers.get("host", "localhost")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if loopback and name.lower() not in _LOOPBACK:
        raise Refused(403, "ForbiddenException", "this catalog is asked by another name")
    return NOBODY


def give_token(tokens: Tokens | None, call: Call) -> Answer:
    """Answer as OAuth does, for clients that ask for a token first: the secret is the token."""
    form = dict(parse_qsl(call.body.decode("utf-8", "replace")))
    secret = form.get("client_secret") or form.get("subject_token") or _basic(call)
    if tokens is not None and tokens.find(secret) is None:
        error = {"error": "invalid_client", "error_description": "this is no token of the catalog"}
        return Answer(401, error)
    return Answer(
        content={
            "access_token": secret or "none",
            "token_type": "bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
    )


def _basic(call: Call) -> str:
    kind, _, text = call.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (ValueError, binascii.Error):
        return ""
