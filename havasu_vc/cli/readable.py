"""Printing what can be read: a document is whole, and what it lacks is said after it.

A writer stands in the middle of its output when a dataset turns out to be broken or a data
file not to be here. So it is given what can be read; the rest is an error once it is done,
which names the dataset and sets the exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from havasu_vc.cli.invocation import Invocation
from havasu_vc.errors import CorruptionError, DataFileNotFoundError, HavasuError, StateError

if TYPE_CHECKING:
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["Readable"]

UNREAD = (CorruptionError, DataFileNotFoundError, StateError)
"""Errors of one dataset, which say nothing of others."""


class Readable:
    """Diffs, as far as they can be read."""

    def __init__(self, diffs: Iterable[DatasetDiff]) -> None:
        self._diffs = diffs
        self._errors: list[HavasuError] = []

    def __iter__(self) -> Iterator[DatasetDiff]:
        try:
            for diff in self._diffs:
                yield replace(diff, changes=self._rows(diff))
        except UNREAD as error:
            self._errors.append(error)

    def _rows(self, diff: DatasetDiff) -> Iterator[ChangeBatch]:
        try:
            yield from diff.changes
        except UNREAD as error:
            if diff.path not in error.message:
                error.message = f"{diff.path}: not all changes are shown: {error.message}"
            self._errors.append(error)

    def finish(self, invocation: Invocation) -> None:
        """Raise what could not be read, once everything else is printed."""
        for error in self._errors[1:]:
            invocation.note(error.message)
        for error in self._errors:
            raise error
