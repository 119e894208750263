"""Files beside datasets in a diff, as Kart prints them: attachments, a README, and the like.

Each side is told by the first digits of its git id or, where contents are wanted, by
what it holds: text as it is, and anything else in Base64. One side that is no text
makes both of them none.

Changes of meta items for people: schemas side by side, other items whole.

A schema shows each column as JSON. Columns are paired by id; what stays is unmarked,
a column that comes, goes or moves is marked as a whole, one that changes is marked
by property.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, TextIO, TypeGuard

from havasu_vc.model.columns import Column
from havasu_vc.model.diffs import FileChange, MetaChange
from havasu_vc.writers.terminal import printable, styled

__all__ = ["FILES_KEY", "file_object", "format_meta_change", "is_binary", "write_file_changes"]

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


_STYLES = {"-": "red", "+": "green", " ": ""}


def format_meta_change(path: str, change: MetaChange, *, color: bool = False) -> str:
    """Return the change of one meta item, headings first."""
    name = f"{printable(path)}:meta:{printable(change.name)}"
    sides = (("-", change.old), ("+", change.new))
    lines = [
        styled(f"{sign * 3} {name}", "bold", color) for sign, value in sides if value is not None
    ]
    marked: list[str] = []
    if change.name == "schema.json" and _are_columns(change.old) and _are_columns(change.new):
        marked += _schema_lines(change.old, change.new)
    else:
        for sign, value in sides:
            if value is not None:
                marked += [f"{sign} {line}" for line in _item_lines(value)]
    lines += [_colored(line, color) for line in marked]
    return "\n".join(lines) + "\n"


def _colored(line: str, color: bool) -> str:
    style = _STYLES[line[0]]
    return styled(line, style, color) if style else line


def _item_lines(value: Any) -> list[str]:
    if not isinstance(value, str):
        value = json.dumps(value, indent=2)
    return [printable(line) for line in value.split("\n")]


def _are_columns(value: Any) -> TypeGuard[list[Column]]:
    return isinstance(value, list) and all(isinstance(column, dict) for column in value)


def _schema_lines(old: Sequence[Column], new: Sequence[Column]) -> Iterator[str]:
    yield "  ["
    for before, after in _pairs(old, new):
        if before is not None and after is not None and before != after:
            yield from _property_lines(before, after)
        else:
            mark = " " if before == after else "+" if before is None else "-"
            text = json.dumps(before or after, indent=2) + ","
            yield from (f"{mark}   {line}" for line in text.split("\n"))
    yield "  ]"


def _pairs(
    old: Sequence[Column], new: Sequence[Column]
) -> Iterator[tuple[Column | None, Column | None]]:
    """Yield columns with the same id together, the others alone, in an order true to both."""
    old_ids, new_ids = ([str(column.get("id")) for column in side] for side in (old, new))
    matcher = SequenceMatcher(None, old_ids, new_ids, autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(old[i:j], new[k:m], strict=True)
        else:
            yield from ((column, None) for column in old[i:j])
            yield from ((None, column) for column in new[k:m])


def _property_lines(old: Column, new: Column) -> Iterator[str]:
    yield "    {"
    for name in {**old, **new}:
        sides = [("-", old), ("+", new)]
        if name in old and name in new and old[name] == new[name]:
            sides = [(" ", new)]
        for mark, side in sides:
            if name in side:
                yield f"{mark}     {json.dumps(name)}: {json.dumps(side[name])},"
    yield "    },"
