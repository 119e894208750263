"""A commit message written in the editor that git would open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from havasu_vc.errors import InvalidArgumentError, MissingProgramError

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["can_edit", "edit_message"]

FILE = "COMMIT_EDITMSG"
_QUESTION = (
    "Please enter the commit message for your changes. Lines that begin with '{}' are",
    "left out, and an empty message stops the commit.",
    "",
)


def can_edit() -> bool:
    """Return whether a person sits there to write."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def edit_message(git: GitRepository, summary: Iterable[str], *, text: str = "") -> str:
    """Open git's editor on a message file and return what was written.

    `summary` says as comments what is to be committed; `text` stands there already.
    """
    sign = _comment_sign(git)
    lines = [*(line.format(sign) for line in _QUESTION), *summary]
    page = "\n".join([text, *(f"{sign} {line}".rstrip() for line in lines)]) + "\n"
    path = git.git_directory / FILE
    path.write_text(page, encoding="utf-8", errors="surrogateescape")
    editor = git.git("var", "GIT_EDITOR").text
    try:
        code = subprocess.run(
            ["sh", "-c", f'{editor} "$@"', editor, str(path)], env=os.environ, check=False
        ).returncode
    except OSError as error:
        raise MissingProgramError(f"the editor {editor!r} could not be started") from error
    if code:
        raise InvalidArgumentError(
            f"the editor {editor!r} failed with exit code {code}; nothing is committed",
            hints=("give the message with -m",),
        )
    written = git.git("stripspace", "--strip-comments", stdin=path.read_bytes()).text.strip()
    if not written:
        raise InvalidArgumentError("the message is empty; nothing is committed")
    return written


def _comment_sign(git: GitRepository) -> str:
    return git.git("stripspace", "--comment-lines", stdin=b"x\n").text.partition("x")[0].strip()
