"""The page on errors lists those that there are, with the exit codes that they have.

`make golden` writes the page anew.
"""

import inspect
from pathlib import Path

from havasu_vc import errors
from havasu_vc.cli.errors import EXIT_CODES
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
    golden(HEAD + "\n".join(rows(errors.HavasuError, 0)) + "\n", PAGE)
