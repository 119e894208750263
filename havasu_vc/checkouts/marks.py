"""The mark that stands while HEAD may be moving and what is checked out has yet to follow.

It names the process that is at work, so who only reads meanwhile does not wait for it; whoever
finds a mark of nobody at work does what was left undone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from havasu_vc.errors import HavasuError
from havasu_vc.store.disk import replace_file
from havasu_vc.store.locks import still_runs, this_process

__all__ = ["is_left_undone", "marked", "read_mark", "unmark"]


@contextmanager
def marked(mark: Path, **said: bool) -> Iterator[None]:
    """Let a mark stand during a block, and after it unless it was removed; it names nobody then."""
    _write(mark, {**said, "by": this_process()})
    try:
        yield
    finally:
        if mark.exists():
            _write(mark, said)


def is_left_undone(mark: Path) -> bool:
    """Whether a mark stands and the process that it names, if any, is not known to run."""
    return mark.exists() and not still_runs(str(read_mark(mark).get("by", "")))


def unmark(mark: Path) -> None:
    """Take a mark away; a read-only file system refuses that of one that is not there, too."""
    if mark.exists():
        mark.unlink(missing_ok=True)


def read_mark(mark: Path) -> dict[str, Any]:
    """Return what a mark says; nothing where it is gone or cannot be read."""
    try:
        said = json.loads(mark.read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _write(mark: Path, said: dict[str, Any]) -> None:
    # Where it cannot be written, neither can what it would stand for.
    with suppress(OSError, HavasuError):
        replace_file(mark, json.dumps(said).encode(), durable=False)
