"""Requests and answers as values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass

__all__ = ["Answer", "Call"]

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
