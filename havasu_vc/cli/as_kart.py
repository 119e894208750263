"""In Kart's place: what scripts written for Kart look for, where this program stands for it.

In a repository of Kart's, results go to stdout as Kart's do, and JSON still stands there
alone. Who wants Kart's own words as well calls this program by the name `kart`, by a link of
that name: commands in texts are then `kart ...`, hints are for terminals alone, and some errors
have the text that scripts compare.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from havasu_vc.errors import ErrorKind
    from havasu_vc.store.repository import GitRepository

__all__ = [
    "error_code",
    "error_texts",
    "in_karts_words",
    "is_called_kart",
    "is_in_karts_place",
    "karts_usage",
    "lines_said",
    "or_head",
    "results_on_stdout",
    "stand_in",
    "stands_in",
    "stop_while_merging",
    "unknown_option",
    "usage_code",
]

_STANDS_IN = "havasu_vc.stands-in-for-kart"
_ONE_CONFLICT = "(?m)^( +[^ ].*: 1 conflict)$"
"""A line that counts conflicts, of which Kart says `1 conflicts`."""


def is_called_kart() -> bool:
    """Return whether this program was called by Kart's name."""
    return PurePath(sys.argv[0]).stem == "kart"


def is_in_karts_place(git: GitRepository) -> bool:
    """Whether a command stands where people expect Kart: by its name, or in Kart's repository."""
    return is_called_kart() or git.follows_kart


def in_karts_words(text: str) -> str:
    """Return a text whose commands are those of the name that this program was called by."""
    if not is_called_kart():
        return text
    return re.sub(_ONE_CONFLICT, r"\1s", text.replace("havasu-vc", "kart"))


def lines_said(text: str) -> tuple[str, ...]:
    """Return what Kart says of a result where we say `text`: no line where it says nothing."""
    context = click.get_current_context(silent=True)
    if context is None or not is_called_kart():
        return (text,)
    from havasu_vc.cli.kart.results import SAID

    for commands, ours, karts in SAID:
        if context.info_name not in commands.split():
            continue
        if (found := re.fullmatch(ours, text)) is not None:
            return tuple(found.expand(karts).split("\n")) if karts else ()
    return (text,)


def error_texts(
    kind: ErrorKind | None, message: str, command: str | None = None
) -> tuple[str, ...]:
    """Return an error's lines: what Kart says of it, where scripts compare that."""
    if not is_called_kart():
        return (message,)
    text = _karts_text(kind, message, command)
    return (text,) if text == message else tuple(text.split("\n"))


def _karts_text(kind: ErrorKind | None, message: str, path: str | None = None) -> str:
    from havasu_vc.cli.kart.texts import TEXTS, WORDS
    from havasu_vc.cli.kart.texts_of_git import GIT_TEXTS
    from havasu_vc.cli.kart.texts_of_items import ITEM_TEXTS
    from havasu_vc.cli.kart.texts_of_places import PLACE_TEXTS

    family = (path or "").partition(" ")[0]
    for commands, ours, karts in (*PLACE_TEXTS, *GIT_TEXTS, *ITEM_TEXTS, *TEXTS):
        if commands and family not in commands.split():
            continue
        if (found := re.fullmatch(ours, message)) is not None:
            text = found.expand(karts).replace("kart COMMAND", _spelt(path or ""))
            if "'KEY'" in karts:
                text = text.replace("'KEY'", repr(_key_from(found[1])))
            return text + "".join(f"\n{each}" for each in _like(found, path or "", karts))
    named = any(each == "-C" or each.startswith("--repo") for each in sys.argv[1:])
    if kind == "no-repository" and named:
        return "Invalid value for --repo: Not an existing Kart repository"
    return message if kind is None else WORDS.get(kind, message)


def _key_from(path: str) -> str:
    """Return the key that was to have what a file holds, in the letters that Kart gives it."""
    of_file = (each for each in sys.argv if each.endswith(f"=@{path}"))
    return next(of_file, "KEY").partition("=")[0].upper().replace("-", "_")


def _like(found: re.Match[str], path: str, text: str) -> Sequence[str]:
    """Return the lines that tell which commands are spelt like one that is not there."""
    if "is not a kart command" not in text:
        return ()
    from havasu_vc.cli.kart.options import like_command

    return like_command(found[1], path)


def karts_usage(path: str, error: BaseException) -> Sequence[str]:
    """Return the lines that begin Kart's error of how a command was used."""
    from havasu_vc.cli.kart.options import lines_without_source, usage_lines

    if isinstance(error, click.BadOptionUsage):
        return ()  # what reads options tells of their values before it knows the command
    by_name = next((name for name in ("table-export", "table-import") if name in sys.argv), None)
    if path == "import" and str(error).startswith("Missing argument"):
        return lines_without_source(by_name)
    return usage_lines(path, by_name)


def unknown_option(error: click.NoSuchOption) -> str:
    """Return what Kart says of an option that it has not."""
    from havasu_vc.cli.kart.options import THROUGH_GIT, like_option

    path = "" if error.ctx is None else error.ctx.command_path.partition(" ")[2]
    if path in THROUGH_GIT:
        return f"error: unknown option `{error.option_name.lstrip('-')}'"
    if path == "log":
        return f"No such option: {error.option_name}"
    near = like_option(path, error.option_name)
    if near is None:
        return error.format_message()
    return click.NoSuchOption(error.option_name, possibilities=near).format_message()


def _spelt(command: str) -> str:
    """Return a command as Kart names it in errors: `merge` with what is asked of a merge."""
    if command in ("import", "export"):
        from havasu_vc.cli.kart.options import started_by

        by_name = f"table-{command}"
        return f"kart {by_name}" if by_name in sys.argv else started_by(command)
    asked = [each for each in ("--abort", "--continue") if each in sys.argv]
    return " ".join(["kart", command, *(asked[:1] if command == "merge" else ())])


def error_code(kind: ErrorKind, message: str, command: str | None = None) -> int | None:
    """Return an error's exit code in Kart, where that is not the one of its kind.

    `command` is the one that ran in Kart's place, None where it ran elsewhere.
    """
    from havasu_vc.cli.kart.codes import CALLED_KART, CODES, CODES_OF_COMMANDS
    from havasu_vc.cli.kart.texts import AMBIGUOUS

    known = (*CALLED_KART, *CODES_OF_COMMANDS) if is_called_kart() else CODES_OF_COMMANDS
    for commands, of_kind, begins, code in known if command else ():
        if of_kind == kind and command in commands.split() and re.match(begins, message):
            return code
    if command is None and not is_called_kart():
        return None
    text = _karts_text(kind, message)
    if text.startswith(AMBIGUOUS) and not is_called_kart():
        return None  # of `restore`, which Kart lets pass
    return next((code for known, code in CODES if re.match(known, text)), None)


def usage_code(command: str | None, message: str) -> int | None:
    """Return the exit code with which Kart ends where a command was used so, if it is git's."""
    from havasu_vc.cli.kart.codes import CODES_OF_USAGE

    if command is None or not is_called_kart():
        return None
    return next(
        (
            code
            for commands, begins, code in CODES_OF_USAGE
            if command in commands.split() and re.match(begins, message)
        ),
        None,
    )


def stand_in() -> None:
    """Print the results of this command as Kart does: it is about a repository of Kart's."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_STANDS_IN] = True


def stands_in(context: click.Context | None) -> bool:
    """Return whether the command of this context is about a repository of Kart's."""
    return context is not None and bool(context.meta.get(_STANDS_IN))


def stop_while_merging(git: GitRepository) -> None:
    """Raise while a merge waits, where Kart stops and this program is called `kart`."""
    if is_called_kart():
        from havasu_vc.merging import require_no_merge_of_kart

        require_no_merge_of_kart(git)


def or_head(revision: str) -> str:
    """Return a revision: in Kart that of an empty text is HEAD."""
    return revision or ("HEAD" if is_called_kart() else "")


def results_on_stdout() -> bool:
    """Return whether what a command tells of its result goes to stdout: as text in Kart's place."""
    context = click.get_current_context(silent=True)
    if context is None or not stands_in(context):
        return False
    if getattr(context.obj, "json", None) is not None:
        return False
    form = context.params.get("output_format")
    return form is None or str(form).partition(":")[0] == "text"
