"""Where what a command prints goes: stdout, or a file that appears whole or not at all.

Printing what can be read: a document is whole, and what it lacks is said after it.

A writer stands in the middle of its output when a dataset turns out to be broken or a data
file not to be here. So it is given what can be read; the rest is an error once it is done,
which names the dataset and sets the exit code.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.invocation import Invocation
from havasu_vc.errors import (
    CorruptionError,
    DataFileNotFoundError,
    HavasuError,
    StateError,
    StorageError,
)

if TYPE_CHECKING:
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.commits import ChangeCounts
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["Readable", "folder_for_geojson", "opened_output", "require_file"]


@contextmanager
def opened_output(path: Path | None) -> Iterator[TextIO]:
    """Yield the stream to print to; a file takes its place only when all went well."""
    if path is None or str(path) == "-":
        yield sys.stdout
    elif path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced.
        with _file_errors(path), path.open("w", encoding="utf-8") as stream:
            yield stream
    else:
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            with _file_errors(path), part.open("x", encoding="utf-8", newline="\n") as stream:
                yield stream
            with _file_errors(path):
                os.replace(part, path)
        finally:
            with suppress(OSError):
                part.unlink()


def folder_for_geojson(path: Path, *, as_kart: bool) -> bool:
    """Whether a file for each dataset goes into a folder of that name: one that is there.

    As in Kart, where this program stands for it, it is made, and has no other such files after.
    """
    if not as_kart or str(path) == "-":
        return path.is_dir()
    if path.is_file():
        raise click.BadParameter(
            "Output path should be a directory for GeoJSON format.", param_hint="--output"
        )
    with _file_errors(path):
        path.mkdir(exist_ok=True)
        for file in path.glob("*.geojson"):
            file.unlink()
    return True


def require_file(path: Path | None, form: str, *, as_kart: bool) -> None:
    """Raise as Kart does where what takes one file is to go into a folder."""
    if as_kart and path is not None and path.is_dir():
        option = form if form.startswith("-") else "--text" if form == "text" else "--json"
        raise click.BadParameter(
            f"Directory is not valid for --output with {option}",
            param_hint="--output",
        )


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


UNREAD = (CorruptionError, DataFileNotFoundError, StateError)
"""Errors of one dataset, which say nothing of others."""


class Readable:
    """Diffs, as far as they can be read."""

    def __init__(self, diffs: Iterable[DatasetDiff]) -> None:
        self._diffs = diffs
        self._errors: list[HavasuError] = []
        self.meta: dict[str, list[str]] = {}
        """Meta items that differ in what was printed so far, by dataset."""
        self.tiles = 0
        """How many tiles differ in what was printed so far."""
        self._hidden: list[list[ChangeCounts]] = []

    def __iter__(self) -> Iterator[DatasetDiff]:
        try:
            for diff in self._diffs:
                self.tiles += diff.tiles
                self._hidden.append(diff.hidden)
                if diff.meta:
                    self.meta[diff.path] = [change.name for change in diff.meta]
                yield replace(diff, changes=self._readable(diff))
        except UNREAD as error:
            self._errors.append(error)

    def _readable(self, diff: DatasetDiff) -> Iterator[ChangeBatch]:
        from havasu_vc.model.changes import CountableChanges, count_changes

        rows, changes = self._rows(diff), diff.changes
        if not isinstance(changes, CountableChanges):
            return rows
        count = changes.count

        def counted() -> ChangeCounts:
            try:
                return count()
            except UNREAD:
                # As far as they can be read.
                return count_changes(rows)

        return CountableChanges(rows, counted)

    def _rows(self, diff: DatasetDiff) -> Iterator[ChangeBatch]:
        try:
            yield from diff.changes
        except UNREAD as error:
            if diff.path not in error.message:
                error.message = f"{diff.path}: not all changes are shown: {error.message}"
            self._errors.append(error)

    @property
    def differs(self) -> bool:
        """Whether what is printed in no form differs: tiles, and to Kart what a filter hides."""
        if self.tiles or not is_called_kart():
            return bool(self.tiles)
        return any(each.total for hidden in self._hidden for each in hidden)

    def finish(self, invocation: Invocation) -> None:
        """Raise what could not be read, once everything else is printed."""
        for error in self._errors[1:]:
            invocation.note(error.message)
        for error in self._errors:
            raise error
