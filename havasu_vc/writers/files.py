"""Files beside datasets in a diff, as Kart prints them: attachments, a README, and the like.

Each side is told by the first digits of its git id or, where contents are wanted, by
what it holds: text as it is, and anything else in Base64. One side that is no text
makes both of them none.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TextIO

from havasu_vc.model.diffs import FileChange
from havasu_vc.writers.terminal import printable, styled

__all__ = ["FILES_KEY", "file_object", "is_binary", "write_file_changes"]

FILES_KEY = "<files>"
"""The key that stands in place of a dataset's path."""
_DIGITS = 7


def is_binary(change: FileChange) -> bool:
    """Whether a side of a change is no text."""
    return any(_text(side) is None for side in change.contents or () if side is not None)


def file_object(change: FileChange, *, patch: bool = False) -> dict[str, str]:
    """Return the change of a file as an object; in a patch text is marked as such."""
    binary, contents = is_binary(change), change.contents or (None, None)
    found = {}
    for label, identity, data in zip("-+", (change.old, change.new), contents, strict=True):
        if identity is None:
            continue
        if data is None:
            found[label] = identity[:_DIGITS]
        elif binary:
            found[label] = "base64:" + base64.urlsafe_b64encode(data).decode()
        else:
            found[label] = ("text:" if patch else "") + data.decode()
    return found


def write_file_changes(changes: Sequence[FileChange], out: TextIO, *, color: bool) -> None:
    """Print changes of files for people."""
    for change in changes:
        out.writelines(f"{line}\n" for line in _lines(change, color=color))


def _lines(change: FileChange, *, color: bool) -> Iterator[str]:
    sides = (("-", change.old, "red"), ("+", change.new, "green"))
    for sign, identity, _ in sides:
        if identity is not None:
            yield styled(f"{sign * 3} {printable(change.path)}", "bold", color)
    binary = is_binary(change)
    contents = change.contents or (None, None)
    for (sign, identity, style), data in zip(sides, contents, strict=True):
        if identity is None:
            continue
        lines = [f"({'binary ' if binary else ''}file {identity[:_DIGITS]})"]
        if data is not None and not binary:
            lines = [printable(line) for line in data.decode().split("\n")]
        yield from (styled(f"{sign} {line}", style, color) for line in lines)


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
