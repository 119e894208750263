"""Blame as text and JSON: each row's key, and the commit that last changed it or its cells.

Text is a table: short id, author, date, key; with cells, one line for each. JSON names
commits as `log` does, `{"key": …, "commit": …}` or `{"key": …, "cells": {column: …}}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from havasu_vc.datasets.pairing import describe_key
from havasu_vc.model.commits import Blame, CommitInfo
from havasu_vc.writers.commits import ABBREVIATED, commit_object, format_time
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import JsonStyle
from havasu_vc.writers.terminal import printable, styled

__all__ = ["write_blame", "write_blame_json_lines"]


def write_blame(blame: Blame, out: TextIO, *, color: bool = False) -> None:
    """Print blame for a person."""
    who = [printable(info.author_name) for info in blame.commits]
    widest = max(map(len, who), default=0)
    column_width = max((len(printable(name)) for name in blame.columns), default=0)
    for keys, column, places in _columns(blame):
        for key, place in zip(keys, places, strict=True):
            info = blame.commits[place]
            commit = styled(info.id[:ABBREVIATED], "yellow", color)
            cell = f"  {printable(column):<{column_width}}" if column is not None else ""
            out.write(f"{commit}  {who[place]:<{widest}}  {_date(info)}  {key}{cell}\n")


def _date(info: CommitInfo) -> str:
    return format_time(info.author_time).replace("T", " ").removesuffix("Z")


def _columns(blame: Blame) -> Iterator[tuple[list[str], str | None, list[int]]]:
    """Yield keys as text, a column or None for whole rows, and places; rows stay together."""
    for batch in blame.batches:
        keys = [
            printable(describe_key(tuple(_text(value) for value in key.values())))
            for key in batch.column("key").to_pylist()
        ]
        if not blame.columns:
            yield keys, None, batch.column("commit").to_pylist()
            continue
        for key, cells in zip(keys, batch.column("cells").to_pylist(), strict=True):
            for name, place in cells.items():
                yield [key], name, [place]


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def write_blame_json_lines(blame: Blame, out: TextIO, *, as_list: bool = False) -> None:
    """Print one JSON object for each row, on lines of their own or as one list."""
    layout = LAYOUTS[JsonStyle.PRETTY if as_list else JsonStyle.COMPACT]
    commits = [commit_object(info) for info in blame.commits]
    if as_list:
        _write_list((layout.dumps(row, 1) for row in _objects(blame, commits)), out)
        return
    for row in _objects(blame, commits):
        out.write(layout.dumps(row) + "\n")


def _write_list(texts: Iterable[str], out: TextIO) -> None:
    layout = LAYOUTS[JsonStyle.PRETTY]
    empty = True
    out.write("[")
    for text in texts:
        out.write((layout.line(1) if empty else layout.between(1)) + text)
        empty = False
    out.write(("" if empty else layout.line(0)) + "]\n")


def _objects(blame: Blame, commits: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for batch in blame.batches:
        for row in batch.to_pylist():
            key = {name: _plain(value) for name, value in row["key"].items()}
            if blame.columns:
                cells = {name: commits[place] for name, place in row["cells"].items()}
                yield {"key": key, "cells": cells}
            else:
                yield {"key": key, "commit": commits[row["commit"]]}


def _plain(value: Any) -> Any:
    """Return a key's value as JSON has it."""
    return value if isinstance(value, bool | int | float | str) else _text(value)
