"""The reference of the command line as Markdown, made from the commands themselves.

`docs/reference/cli.md` is this text; a test fails when it is out of date, and `make
golden` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from havasu_vc.cli.errors import BROKEN_PIPE, EXIT_CODES, INTERRUPTED
from havasu_vc.cli.main import PROGRAM, cli

__all__ = ["context_of", "format_reference"]

WIDTH = 90
_INTRODUCTION = """\
# Command line

`havasu-vc` works on the repository that the current folder is in, or that `-C PATH`
names. stdout carries data only; results, notes and progress go to stderr, and `--quiet`
silences them. Names, options and exit codes are those of git and Kart where these have
them.

`--repo`, `--verbose`, `--quiet`, `--no-progress`, `--no-pager`, `--no-color`, `--json-errors`
and `--progress` may stand before or after the name of a command. [JSON](json.md) tells what
`-o json`, `--json-errors` and `--progress=json` print.
"""
_ENVIRONMENT = """\
## Environment

| Variable | What it does |
|---|---|
| `NO_COLOR` | when set, no colours are used |
| `HAVASU_VC_DEBUG` | when set, errors come with a traceback |
| `GIT_AUTHOR_NAME`, `GIT_COMMITTER_DATE`, … | as in git |
"""


def format_reference() -> str:
    """Return the reference of all commands."""
    top = context_of(cli, PROGRAM)
    return "\n".join([_INTRODUCTION, *_sections(cli, top), _exit_codes(), _ENVIRONMENT])


def context_of(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """Return what a command's help is asked with, as wide as the reference."""
    return command.make_context(
        name,
        [],
        parent,
        resilient_parsing=True,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
    )


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _sections(child, context_of(child, name, context))


def _exit_codes() -> str:
    lines = ["## Exit codes", "", "| Code | When |", "|---|---|", "| 0 | all went well |"]
    differing = "there are differences (`--exit-code`, `-o quiet`) or problems (`fsck`, `validate`)"
    lines.append(f"| 1 | {differing} |")
    by_code: dict[int, list[str]] = {}
    for kind, code in EXIT_CODES.items():
        by_code.setdefault(code, []).append(kind.value)
    for code, kinds in sorted(by_code.items()):
        lines.append(f"| {code} | {', '.join(kinds)} |")
    lines.append(f"| {INTERRUPTED} | interrupted |")
    lines.append(f"| {BROKEN_PIPE} | the reader of the output went away |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    click.echo(format_reference(), nl=False)
