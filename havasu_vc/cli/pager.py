"""Long output on a terminal goes through the pager that git would use.

Only what a person reads is paged, and only when stdout is a terminal: a script sees
stdout itself. `git var GIT_PAGER` names the pager; `cat` or nothing means none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["paged_output"]

# As git sets them: leave when all fits, show colours, keep the screen.
_DEFAULTS = {"LESS": "FRX", "LV": "-c"}


@contextmanager
def paged_output(git: GitRepository, *, wanted: bool = True) -> Iterator[TextIO]:
    """Yield the stream to print to: a pager's, or stdout."""
    command = _pager(git) if wanted and sys.stdout.isatty() else None
    if command is None:
        yield sys.stdout
        return
    sys.stdout.flush()
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        env={**_DEFAULTS, **os.environ},
        encoding="utf-8",
        errors="backslashreplace",
    ) as pager:
        if pager.stdin is None:
            raise ValueError("the pager was started without a pipe")
        try:
            yield cast(TextIO, pager.stdin)
        finally:
            # A pager that was left early has closed its end.
            with suppress(BrokenPipeError):
                pager.stdin.close()
            _wait(pager)


def _pager(git: GitRepository) -> str | None:
    found = git.git("var", "GIT_PAGER", check=False)
    return None if found.code or found.text.strip() in ("", "cat") else found.text


def _wait(pager: subprocess.Popen[str]) -> None:
    # Ctrl-C is for the pager, which goes on until the person leaves it.
    while True:
        with suppress(KeyboardInterrupt):
            pager.wait()
            return
