"""The page on errors lists those that there are, with the exit codes that they have.

`make golden` writes the page anew.
"""

import inspect
from pathlib import Path

from havasu_vc import errors
from havasu_vc.cli.errors import EXIT_CODES
from havasu_vc.cli.kart.codes import CODES_OF_COMMANDS
from tests.support.golden import Golden

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
HEAD = """\
# Errors and exit codes

A command that fails prints one line that begins with `Error:`, and perhaps hints that tell the next
step, on stderr. Nothing else is printed there that is not for people. `HAVASU_VC_DEBUG=1` adds the
traceback, `-v` the causes. Exit codes are Kart's, so that scripts written for it keep working.

| exit code | when |
|---|---|
| 0 | it worked |
| 1 | differences: `diff --exit-code`, `-o quiet`; something is wrong: `fsck`, `validate` |
| 2 | the command line makes no sense |
| 130 | Ctrl-C; nothing is changed |
| 141 | the reader of the output went away |

In a program, errors are classes of `havasu_vc.errors`. Catch a group by what you would do about
it, or tell errors apart by `error.kind`, whose values never change their meaning. `error.hints`
are the next steps. A class is also the built-in exception shown in brackets.

| class | kind | exit code | what it says |
|---|---|---|---|
"""


IN_KART = """
In a repository of Kart's some commands end as Kart does, with another code than that of the kind.
Where a kind has two, the words of the error tell them apart.

| kind | command | exit code |
|---|---|---|
"""


def rows_of_kart() -> list[str]:
    """Return the codes of commands in Kart's repositories, by kind."""
    found: dict[tuple[str, str], list[int]] = {}
    for commands, kind, _, code in CODES_OF_COMMANDS:
        for command in commands.split():
            codes = found.setdefault((kind.value, command), [])
            codes += [code] if code not in codes else []
    return [
        f"| `{kind}` | `{command}` | {', '.join(map(str, codes))} |"
        for (kind, command), codes in sorted(found.items())
    ]


def rows(kind: type[errors.HavasuError], depth: int) -> list[str]:
    """Return the rows of a class and of those below it."""
    builtin = next((base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"), "")
    also = f" (`{builtin}`)" if builtin and builtin != "Exception" else ""
    says = (inspect.getdoc(kind) or "").splitlines()[0]
    name = f"{'· ' * depth}`{kind.__name__}`{also}"
    found = [f"| {name} | `{kind.kind.value}` | {EXIT_CODES[kind.kind]} | {says} |"]
    for below in kind.__subclasses__():
        found += rows(below, depth + 1)
    return found


def test_the_page_lists_every_error(golden: Golden) -> None:
    lines = "\n".join(rows(errors.HavasuError, 0)), IN_KART + "\n".join(rows_of_kart())
    golden(HEAD + "\n".join(lines) + "\n", PAGE)
