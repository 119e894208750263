"""From an exception to what the shell sees: one line on stderr, hints, and an exit code.

Exit codes are Kart's, so that scripts written for it keep working. No traceback
reaches a user unless HAVASU_VC_DEBUG is set; text that comes from files and
repositories cannot control the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType

import click

from havasu_vc.cli.as_kart import (
    error_code,
    error_texts,
    in_karts_words,
    is_called_kart,
    karts_usage,
    unknown_option,
    usage_code,
)
from havasu_vc.errors import ErrorKind, HavasuError

__all__ = ["EXIT_CODES", "exit_code", "json_line", "report", "visible"]

EXIT_CODES: Mapping[ErrorKind, int] = MappingProxyType(
    {
        ErrorKind.ERROR: 11,
        ErrorKind.INVALID_ARGUMENT: 2,
        ErrorKind.INVALID_NAME: 2,
        ErrorKind.INVALID_FILE: 28,
        ErrorKind.UNSUPPORTED_TYPE: 23,
        ErrorKind.CRS: 25,
        ErrorKind.GEOMETRY: 26,
        ErrorKind.SCHEMA_VIOLATION: 23,
        ErrorKind.KEY_VIOLATION: 23,
        ErrorKind.PATCH: 22,
        ErrorKind.NOT_FOUND: 40,
        ErrorKind.NO_REPOSITORY: 41,
        ErrorKind.NO_REVISION: 47,
        ErrorKind.NO_DATASET: 49,
        ErrorKind.NO_SOURCE: 48,
        ErrorKind.NO_ROW: 40,
        ErrorKind.NO_DATA_FILE: 42,
        ErrorKind.NO_BRANCH: 43,
        ErrorKind.NO_CHANGES: 44,
        ErrorKind.NO_WORKING_COPY: 45,
        ErrorKind.NO_USER: 46,
        ErrorKind.NO_CONFLICT: 50,
        ErrorKind.STATE: 20,
        ErrorKind.UNCOMMITTED_CHANGES: 29,
        ErrorKind.WORKING_COPY_STATE: 70,
        ErrorKind.NO_SPATIAL_FILTER: 52,
        ErrorKind.SPATIAL_FILTER_CONFLICT: 27,
        ErrorKind.UNFINISHED_MERGE: 20,
        ErrorKind.CONFLICT: 21,
        ErrorKind.CONCURRENT_CHANGE: 20,
        ErrorKind.LOCKED: 20,
        ErrorKind.CORRUPTION: 11,
        ErrorKind.CORRUPT_DATASET: 11,
        ErrorKind.CORRUPT_DATA_FILE: 11,
        ErrorKind.UNSUPPORTED: 20,
        ErrorKind.UNSUPPORTED_VERSION: 24,
        ErrorKind.UNSUPPORTED_REPOSITORY: 24,
        ErrorKind.NOT_YET_SUPPORTED: 30,
        ErrorKind.MACHINE: 11,
        ErrorKind.MISSING_PROGRAM: 51,
        ErrorKind.STORAGE: 11,
        ErrorKind.ENGINE: 11,
    }
)
"""The exit code of each kind of error."""

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C stopped."""
BROKEN_PIPE = 141
"""The exit code of a program whose reader went away."""
MOST_TEXT = 2000
"""Characters of an error that are shown."""
_OTHER = 11
_OF_USAGE, _OF_GITS_USAGE = 2, 129
_GITS = ("fatal: ", "error: ")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DEBUG = "HAVASU_VC_DEBUG"


def exit_code(error: BaseException, *, in_karts_place: str | None = None) -> int:
    """Return the exit code for an exception; `in_karts_place` is the command that ran there."""
    match error:
        case HavasuError():
            code = error_code(error.kind, error.message, in_karts_place)
            return EXIT_CODES[error.kind] if code is None else code
        case click.NoSuchOption() if is_called_kart():
            return _OF_GITS_USAGE if unknown_option(error).startswith(_GITS) else _OF_USAGE
        case click.UsageError():
            return usage_code(in_karts_place, error.message) or error.exit_code
        case click.ClickException():
            return error.exit_code
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return BROKEN_PIPE
        case _:
            return _OTHER


def report(
    error: BaseException,
    *,
    verbose: bool = False,
    as_json: bool = False,
    command: click.Command | None = None,
    in_karts_place: bool = False,
) -> int:
    """Print an exception on stderr, a line of JSON or for a person, and return its exit code.

    `command` is the one that ran: hints that name options of others are left out, and
    `in_karts_place` says whether it was about a repository of Kart's.
    """
    name = command.name if command is not None and in_karts_place else None
    code = exit_code(error, in_karts_place=name)
    if command is not None and isinstance(error, HavasuError):
        known = _options(command)
        error.hints = tuple(hint for hint in error.hints if known.issuperset(_named(hint)))
    if os.environ.get(_DEBUG) and not isinstance(error, click.ClickException):
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if as_json:
        click.echo(_json_line(error, code), err=True)
        return code
    path = None if command is None else _path(command)
    lines = error_lines(error, path)
    if code == _OF_USAGE and is_called_kart() and not lines[0].startswith(_GITS):
        lines = [*karts_usage(path or "", error), *lines]
    for line in lines:
        click.echo(line, err=True)
    if verbose:
        for line in cause_lines(error):
            click.echo(line, err=True)
    return code


def _path(command: click.Command) -> str:
    """Return a command's name, of one in a family with the name before it, as `data ls`."""
    parts = command.commands if isinstance(command, click.Group) else {}
    return " ".join([command.name or "", *[each for each in sys.argv if each in parts][:1]])


_QUOTED = re.compile(r"`([^`]*)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def _named(hint: str) -> set[str]:
    """Return the options that a hint names alone, which are to be added to what was typed.

    >>> sorted(_named("`--no-jar` or --replace; `havasu-vc merge --continue`, `--abort`"))
    ['--no-jar', '--replace']
    """
    # What begins otherwise is a command, which has its own options, as have those after it.
    commands = (each.start() for each in _QUOTED.finditer(hint) if each[1][:1] not in ("-", ""))
    return set(_OPTION.findall(hint[: next(commands, None)]))


def _options(command: click.Command) -> set[str]:
    """Return the options of a command, or of all in its family."""
    found = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if isinstance(command, click.Group):
        found.update(*map(_options, command.commands.values()))
    return found


def _json_line(error: BaseException, code: int) -> str:
    """Return what a program reads of an exception."""
    text, hints = told(error)
    of_kind = error.kind if isinstance(error, HavasuError) else None
    kind = _kind(error) if of_kind is None else of_kind.value
    return json_line(
        "error",
        code=kind,
        message=_cut(in_karts_words(error_texts(of_kind, text)[0])),
        hints=[_cut(in_karts_words(hint)) for hint in hints],
        exitCode=code,
    )


def _kind(error: BaseException) -> str:
    match error:
        case KeyboardInterrupt():
            return "interrupted"
        case click.UsageError():
            return "usage"
        case click.ClickException():
            return ErrorKind.INVALID_ARGUMENT.value
        case OSError():
            return ErrorKind.STORAGE.value
        case MemoryError():
            return "memory"
        case _:
            return "internal"


def error_lines(error: BaseException, command: str | None = None) -> list[str]:
    r"""Return what a person reads of an exception of a command.

    >>> error_lines(HavasuError("no\nway", hints=("try again",)))
    ['Error: no\\nway', 'Hint: try again']
    """
    match error:
        case BrokenPipeError():
            return []
        case KeyboardInterrupt():
            return ["Interrupted"]
    if isinstance(error, HavasuError) and error.said and is_called_kart():
        return list(map(_line, error.said))
    text, hints = told(error)
    if is_called_kart() and not sys.stderr.isatty():
        hints = ()  # a script compares what it reads with what Kart prints
    kind = error.kind if isinstance(error, HavasuError) else None
    first, *more = map(_line, error_texts(kind, text, command))
    # What git says ends a command of Kart's as git says it.
    begin = "" if first.startswith(_GITS) and is_called_kart() else "Error: "
    usage = is_called_kart() and isinstance(error, click.UsageError)
    if usage and exit_code(error, in_karts_place=command) == _OF_GITS_USAGE:
        from havasu_vc.cli.kart.texts_of_git import usage_of_git

        return [*([first] if begin == "" else []), *usage_of_git(command or "")]
    lines = [f"{begin}{first}", *more, *(f"Hint: {_short(hint)}" for hint in hints)]
    return [in_karts_words(line) for line in lines]


_NOT_STAGED = "nothing is staged: `havasu-vc diff` shows what is edited and not committed"
_SIGNED = "`git config commit.gpgsign true` has commits signed, by git's settings"
_SHOWN = "leave it out: rows are shown"
_COMMIT_ALONE = "`havasu-vc log -n1 REV` shows a commit alone, by --format or --oneline too"
_NO_EDITOR = "no editor is asked; `-m` gives another message"
_WHOLE = "a dataset goes as a whole, so leave it out; edits that are not committed stand in the way"
_UNTRIED = "it makes a commit, which `havasu-vc revert HEAD` takes back"
_ALL_REFS = "`--all` takes every branch, remote branch and tag"
_POLICY = "`-X ours` or `-X theirs` decides rows that both sides changed"
_ROWS_WHOLE = "rows are compared by value; a changed row is shown with its columns"
_ALL_EDITS = "every edit is committed, unless datasets or rows are named"
_ROWS_BY_NAME = "rows are chosen by name: `havasu-vc {} DATASET:feature:KEY`"
_AT_ONCE = "it commits at once; `havasu-vc commit --amend -m` words it anew, `reset` takes it back"
_THEN_IMPORT = "`havasu-vc init`, then `havasu-vc import`, which has more options"
OPTIONS_OF_GIT: Mapping[str, str] = MappingProxyType(
    {
        "diff --cached": _NOT_STAGED,
        "diff --staged": _NOT_STAGED,
        "commit -a": _ALL_EDITS,
        "commit --all": _ALL_EDITS,
        "commit -p": _ROWS_BY_NAME.format("commit"),
        "commit --patch": _ROWS_BY_NAME.format("commit"),
        "restore -p": _ROWS_BY_NAME.format("restore"),
        "restore --patch": _ROWS_BY_NAME.format("restore"),
        "checkout -p": _ROWS_BY_NAME.format("restore"),
        "checkout --patch": _ROWS_BY_NAME.format("restore"),
        "reset -p": _ROWS_BY_NAME.format("restore"),
        "reset --patch": _ROWS_BY_NAME.format("restore"),
        "commit -S": _SIGNED,
        "commit --gpg-sign": _SIGNED,
        "commit -v": "`havasu-vc diff` shows what is edited, before it is committed",
        "commit --fixup": "`git commit --fixup` and `git rebase -i --autosquash` take care of it",
        "commit --author": "GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL say who made a commit",
        "commit --date": "GIT_AUTHOR_DATE says when a commit was made",
        "diff -p": _SHOWN,
        "diff -u": _SHOWN,
        "diff --patch": _SHOWN,
        "diff --numstat": "`--stat` counts rows; `--only-feature-count` with -o json for a program",
        "diff -U": _ROWS_WHOLE,
        "diff -w": _ROWS_WHOLE,
        "diff -b": _ROWS_WHOLE,
        "diff --word-diff": _ROWS_WHOLE,
        "diff -R": "give the revisions the other way round",
        "log --branches": _ALL_REFS,
        "log --remotes": _ALL_REFS,
        "log --tags": _ALL_REFS,
        "log --numstat": "`--stat` counts rows; `diff A..B --only-feature-count` for a program",
        "log --pickaxe-regex": "`-G REGEX` finds commits that changed a row with a matching value",
        "log -i": "`(?i)` begins a regular expression in which small and capital letters are one",
        "log -L": "`log -- DATASET:feature:KEY` follows a row; `blame` names who changed it",
        "log --abbrev-commit": "`--oneline` has short ids",
        "log --first-parent": "`git log --first-parent` follows one side, without counts of rows",
        "log -g": "`havasu-vc reflog` shows where HEAD was",
        "log --show-signature": "`--format '%h %G? %GS'` tells of signatures",
        "merge -s": _POLICY,
        "merge -S": _SIGNED,
        "merge --no-commit": "`--dry-run` tells what would be in conflict, and changes nothing",
        "mv -f": _WHOLE,
        "mv -n": _UNTRIED,
        "mv --dry-run": _UNTRIED,
        "pull --autostash": "`havasu-vc stash` before it, `havasu-vc stash pop` after it",
        "rebase --autostash": "`havasu-vc stash` before it, `havasu-vc stash pop` after it",
        "rebase --autosquash": "`git rebase -i --autosquash UPSTREAM` edits the list of commits",
        "restore --staged": _NOT_STAGED,
        "revert -e": _NO_EDITOR,
        "rm -r": _WHOLE,
        "rm -f": _WHOLE,
        "rm --cached": "`havasu-vc checkout --not-dataset DATASET` keeps a dataset out of the "
        "working copy alone",
        "rm -n": _UNTRIED,
        "rm --dry-run": _UNTRIED,
        "show -p": _SHOWN,
        "show -s": _COMMIT_ALONE,
        "show --no-patch": _COMMIT_ALONE,
        "show --format": _COMMIT_ALONE,
        "show --oneline": _COMMIT_ALONE,
        "show --pretty": _COMMIT_ALONE,
        "switch --orphan": "`git switch --orphan NAME` begins a history; import into it then",
        "gc --prune": "`--prune-now` removes all that nothing needs, `--grace-days` what is older",
        "status -b": "the branch stands first without it; leave it out",
        "cherry-pick --no-commit": _AT_ONCE,
        "revert --no-commit": _AT_ONCE,
        "grep --all": "`git rev-list --all` names the commits, and `grep VALUE REV` looks in one",
        "grep -w": "`-E` takes a regular expression, such as '\\boak\\b'",
        "blame -L": "`havasu-vc blame DATASET:feature:KEY` tells of rows that are named",
        "grep -n": "leave it out: rows are named by their keys",
        "init --crs": _THEN_IMPORT,
        "init --dataset": _THEN_IMPORT,
        "init --layer": _THEN_IMPORT,
        "cherry-pick -e": _NO_EDITOR,
        "import --key": "`--primary-key COLUMN` names the key, `--primary-key auto` finds one",
    }
)
"""The line to read instead of an option that git has and a command has not."""


def told(error: BaseException) -> tuple[str, tuple[str, ...]]:
    """Return what went wrong, and the next steps."""
    hints: tuple[str, ...] = ()
    match error:
        case KeyboardInterrupt():
            text = "interrupted"
        case HavasuError():
            text, hints = error.message, error.hints
        case click.UsageError():
            text = error.format_message().strip()
            if error.ctx is not None:
                hints = (f"`{error.ctx.command_path} --help` tells what it takes",)
            if isinstance(error, click.NoSuchOption) and is_called_kart():
                text = unknown_option(error)
            elif isinstance(error, click.NoSuchOption) and error.ctx is not None:
                of_git = OPTIONS_OF_GIT.get(f"{error.ctx.info_name} {error.option_name}")
                if of_git is not None:  # rather than an option that is spelt alike
                    text, hints = error.message, (of_git,)
        case click.ClickException():
            text = error.format_message()
        case OSError():
            text = _of_the_system(error)
        case MemoryError():
            text, hints = "not enough memory", _bug_hints()
        case RecursionError():
            text, hints = "internal error: something nests too deeply", _bug_hints()
        case _:
            text, hints = f"internal error: {_first_line(error)}", _bug_hints()
    return text, hints


def _short(text: str) -> str:
    """Return a text to be seen, cut where a name or a value in it is longer than any should."""
    return visible(_cut(text))


def _line(text: str) -> str:
    """Return a line of several to be seen, with the tab that Kart may begin it with."""
    return "\t" * text.startswith("\t") + _short(text.removeprefix("\t"))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def cause_lines(error: BaseException) -> list[str]:
    """Return one line for each exception that led to this one."""
    lines: list[str] = []
    cause = error.__cause__
    while cause is not None and len(lines) < 10:
        lines.append(f"Cause: {visible(_first_line(cause))}")
        cause = cause.__cause__
    return lines


def json_line(kind: str, **told: object) -> str:
    r"""Return a line that tells a program something on stderr.

    >>> json_line("note", message="two\nlines")
    '{"type": "note", "message": "two\\nlines"}'
    """
    import json

    return json.dumps({"type": kind, **told})


def visible(text: str) -> str:
    r"""Return a text on one line, whatever cannot be seen in it shown as an escape.

    Like `writers.terminal.printable`, and stricter: it is here so that telling of an
    error imports nothing.

    >>> print(visible("a\x1b[31mb\nc"))
    a\x1b[31mb\nc
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _of_the_system(error: OSError) -> str:
    """Return what the system says of a file that it failed to read or write.

    >>> _of_the_system(OSError(5, "Input/output error", "a.parquet"))
    'a.parquet: Input/output error'
    """
    if error.strerror is None:
        return _first_line(error).removeprefix(f"{type(error).__name__}: ")
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])


def _bug_hints() -> tuple[str, ...]:
    if os.environ.get(_DEBUG):
        return ()
    return (
        f"set {_DEBUG}=1 and run it again to see the traceback, and please report it together"
        " with what `havasu-vc version --all` prints",
    )
