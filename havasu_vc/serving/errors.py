"""Errors as Iceberg's clients expect them: a status, the name of an exception, a line.

Nothing of this machine is shown: a message of ours that names a folder or a URL is shown to
the server's log, and the client is told of what kind it is. Clients try again on 409 only.
"""

from __future__ import annotations

import re
from typing import Any

from havasu_vc.errors import (
    ConcurrentChangeError,
    ConflictError,
    CorruptionError,
    DataFileNotFoundError,
    DatasetNotFoundError,
    HavasuError,
    InvalidInputError,
    LockedError,
    NotFoundError,
    RevisionNotFoundError,
    StateError,
    UnsupportedError,
)
from havasu_vc.records import dataclass

__all__ = ["ErrorAnswer", "Refused", "no_namespace", "no_table", "problem_of"]

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
