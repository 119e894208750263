"""Who may ask: bearer tokens in a file, one a line, each with a name for commits.

    # token                            who it is
    6f1c8a0b5f8e4d1f9a7c3b2e1d0f4a5b   Ann Miller <ann@example.org>
    b0d2…                              bot <bot@example.org> read-only

Only hashes of tokens are held. The file is read again when it changes, so a token that is taken
out of it is good for nothing from then on.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from havasu_vc.errors import InvalidFileError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.serving.errors import Refused

__all__ = ["Caller", "Tokens"]

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
