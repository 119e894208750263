"""Changes of meta items for people: schemas side by side, other items whole.

A schema shows each column as JSON. Columns are paired by id; what stays is unmarked,
a column that comes, goes or moves is marked as a whole, one that changes is marked
by property.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeGuard

from havasu_vc.model.columns import Column
from havasu_vc.model.diffs import MetaChange
from havasu_vc.writers.terminal import printable, styled

__all__ = ["format_meta_change"]

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
