"""The editor that git would open, for the message of a commit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart, results_on_stdout
from havasu_vc.errors import InvalidArgumentError, MissingProgramError

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.store.repository import GitRepository
    from havasu_vc.writers.protocol import ChangeSummary

__all__ = ["asked_as_in_kart", "asks_editor", "can_edit", "edit_message", "karts_summary"]

FILE = "COMMIT_EDITMSG"
_QUESTION = (
    "Please enter the commit message for your changes. Lines that begin with '{}' are",
    "left out, and an empty message stops the commit.",
    "",
)


_KARTS_QUESTION = (
    "Please enter the commit message for your changes. Lines starting",
    "with '{}' will be ignored, and an empty message aborts the commit.",
    "",
)


class _KartsEditorError(click.ClickException):
    """Tells in Kart's words of an editor that failed, with the exit code that Kart adds up."""

    def __init__(self, editor: str, path: Path, code: int) -> None:
        super().__init__(
            f"There was a problem with the editor '{editor}': Command '{editor} {path}' returned "
            f"non-zero exit status {code}."
        )
        self._code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The sums that Kart tells, as far as a shell sees them."""
        return (128 + self._code) % 256


def asks_editor(repo: Repo) -> bool:
    """Whether an editor is asked for the message; Kart starts one also where no person sits."""
    if can_edit():
        return True
    if not is_called_kart():
        return False
    named = any(os.environ.get(name) for name in ("GIT_EDITOR", "VISUAL", "EDITOR"))
    return named or repo.config.get("core.editor") is not None


def asked_as_in_kart(repo: Repo, message: str | None, text: str = "") -> str | None:
    """Return the message, which an editor is asked for where none is given and Kart would ask."""
    if message is not None or not (is_called_kart() and asks_editor(repo)):
        return message
    return edit_message(repo.git, (), text=text)


def karts_summary(repo: Repo, changes: ChangeSummary) -> list[str]:
    """Return what Kart tells in an editor: where HEAD is, and how much is to be committed."""
    from havasu_vc.writers.commits import ABBREVIATED
    from havasu_vc.writers.status import summary_lines

    where = repo.head_branch
    lines = list(summary_lines(changes)) or ["  No changes (empty commit)"]
    commit = str(repo.head().commit)[:ABBREVIATED]
    here = f"HEAD detached at {commit}" if where is None else f"On branch {where}"
    return [here, "", "Changes to be committed:", "", *lines, ""]


def can_edit() -> bool:
    """Return whether a person sits there to write."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def edit_message(git: GitRepository, summary: Iterable[str], *, text: str = "") -> str:
    """Open git's editor on a message file and return what was written.

    `summary` says as comments what is to be committed; `text` stands there already.
    """
    sign = _comment_sign(git)
    question = _KARTS_QUESTION if is_called_kart() else _QUESTION
    lines = [*(line.format(sign) for line in question), *summary]
    page = "\n".join([text, *(f"{sign} {line}".rstrip() for line in lines)]) + "\n"
    path = git.git_directory / FILE
    path.write_text(page, encoding="utf-8", errors="surrogateescape")
    if is_called_kart() and results_on_stdout():
        click.echo("hint: Waiting for your editor to close the file...")
    editor = git.git("var", "GIT_EDITOR").text
    try:
        code = subprocess.run(
            ["/bin/sh", "-c", f'{editor} "$@"', "/bin/sh", str(path)], env=os.environ, check=False
        ).returncode
    except OSError as error:
        raise MissingProgramError(f"the editor {editor!r} could not be started") from error
    if code and is_called_kart():
        raise _KartsEditorError(editor, path, code)
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
