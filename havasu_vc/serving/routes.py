"""Requests and answers as values, and errors as Iceberg's clients expect them.

An error is a status, the name of an exception and a line. Nothing of this machine is shown: a
message of ours that names a folder or a URL is shown to the server's log, and the client is told
of what kind it is. Clients try again on 409 only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from havasu_vc.errors import (
    ConcurrentChangeError,
    ConflictError,
    CorruptionError,
    DataFileNotFoundError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    InvalidInputError,
    LockedError,
    NotFoundError,
    RevisionNotFoundError,
    StateError,
    UnsupportedError,
)
from havasu_vc.records import dataclass

__all__ = [
    "Answer",
    "Call",
    "ErrorAnswer",
    "Refused",
    "no_namespace",
    "no_table",
    "problem_of",
]

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


# Errors as answers.

_PLACE = re.compile(r"(?:\b[a-z0-9+]+://|(?<![\w.@{~^-])/)[^\s'\"`,;)]*")


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as it is answered."""

    status: int
    """HTTP's number."""
    kind: str
    """The exception that Iceberg's clients raise."""
    message: str
    """The line for a person."""

    @property
    def document(self) -> dict[str, Any]:
        """Return it as Iceberg's ErrorModel, the message in one line whatever name it tells."""
        shown = (
            each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in self.message
        )
        return {"error": {"message": "".join(shown), "type": self.kind, "code": self.status}}


class Refused(Exception):
    """A request that is answered by an error which has no class in our tree."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.problem = ErrorAnswer(status, kind, message)


def no_table(name: str) -> Refused:
    """Return that a table is missing; clients take it for one even if its namespace is missing."""
    return Refused(404, "NoSuchTableException", f"Table does not exist: {name}")


def no_namespace(name: str) -> Refused:
    """Return that a namespace is missing."""
    return Refused(404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")


def problem_of(error: BaseException) -> ErrorAnswer:
    """Return what to answer for an exception."""
    match error:
        case Refused():
            return error.problem
        case DatasetNotFoundError():
            kind = (404, "NoSuchTableException")
        case RevisionNotFoundError():
            kind = (404, "NotFoundException")
        case ConcurrentChangeError() | LockedError():
            kind = (409, "CommitFailedException")
        case ConflictError() | InvalidInputError():
            kind = (400, "BadRequestException")
        case DataFileNotFoundError() | CorruptionError():
            kind = (500, "InternalServerError")
        case NotFoundError() | StateError():
            kind = (400, "BadRequestException")
        case UnsupportedError():
            kind = (406, "UnsupportedOperationException")
        case _:
            return ErrorAnswer(
                500, "InternalServerError", "the server met an error; its log has more"
            )
    return ErrorAnswer(*kind, _shown(error))


def _shown(error: HavasuError) -> str:
    """Return the message of an error and its hints, without places of the server."""
    text = ". ".join([error.message, *error.hints])
    return _PLACE.sub("…", text)
