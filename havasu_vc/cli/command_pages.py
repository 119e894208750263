"""A page of Markdown for each command, for the site of the documentation.

`docs/reference/cli.md` has all of them as `--help` prints them; these are made from the same
commands when the site is built, with what the guides show of each.

The reference of the command line as Markdown, made from the commands themselves.

`docs/reference/cli.md` is this text; a test fails when it is out of date, and `make
golden` writes it anew.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import click

from havasu_vc.cli.errors import BROKEN_PIPE, EXIT_CODES, INTERRUPTED
from havasu_vc.cli.main import COMMANDS, PROGRAM, cli
from havasu_vc.records import dataclass

__all__ = [
    "GROUPS",
    "Use",
    "command_page",
    "commands_overview",
    "context_of",
    "format_reference",
    "uses_in",
]

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Begin and share": ("init", "clone", "remote", "fetch", "pull", "push"),
        "Tables in and out": (
            "import",
            "export",
            "checkout",
            "create-workingcopy",
            "spatial-filter",
            "add-dataset",
            "convert",
            "upgrade",
        ),
        "Look at data": ("head", "cat", "count", "describe", "grep", "sql", "raster", "data"),
        "See what changed": ("status", "log", "show", "diff", "blame", "git-diff", "reflog"),
        "Commit": ("commit", "commit-files", "mv", "rm", "meta", "create-patch", "apply"),
        "Branch and merge": (
            "branch",
            "switch",
            "tag",
            "merge",
            "conflicts",
            "resolve",
            "rebase",
            "cherry-pick",
            "revert",
        ),
        "Undo": ("clean", "restore", "stash", "reset"),
        "Review": ("review", "open", "check", "ci", "hook"),
        "Engines": ("serve", "shell", "spark-conf"),
        "Upkeep": ("optimize", "validate", "fsck", "repair", "gc"),
        "The program": ("config", "git", "version", "completion"),
    }
)
"""The purposes of the commands, in the order of a beginner's questions."""
_MOST_USES = 6


@dataclass(frozen=True, slots=True)
class Use:
    """An example of a command on its page."""

    command: str
    """The name of the command."""
    line: str
    """The line to type."""
    title: str
    address: str
    """The page, from the folder of the documentation."""


def uses_in(address: str, text: str) -> Iterator[Use]:
    """Yield each command that the console blocks of a page run, with the first line of it."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    title = heading[1] if heading else address
    seen = set()
    for found in re.finditer(rf"^\$ ({PROGRAM} ([a-z-]+).*)$", text, re.MULTILINE):
        line, name = found[1], found[2]
        if name in COMMANDS and name not in seen and not line.endswith("\\"):
            seen.add(name)
            yield Use(name, line, title, address)


def commands_overview() -> str:
    """Return the page that leads to those of all commands."""
    lines = [
        "# Commands",
        "",
        f"Names, options and exit codes are those of git and Kart where these have them."
        f" `{PROGRAM} COMMAND --help` prints what these pages say; [all of it on one"
        " page](../cli.md).",
    ]
    for group, names in GROUPS.items():
        lines += ["", f"## {group}", "", "| command | what it does |", "|---|---|"]
        lines += [f"| [`{name}`]({name}.md) | {COMMANDS[name][1]} |" for name in names]
    return "\n".join(lines) + "\n"


def command_page(name: str, uses: Sequence[Use] = ()) -> str:
    """Return the page of a command, those of its own commands as parts of it."""
    top = context_of(cli, PROGRAM)
    command = cli.get_command(top, name)
    assert command is not None
    parts = [f"# {PROGRAM} {name}", *_described(command, name, top)]
    if isinstance(command, click.Group):
        context = context_of(command, name, top)
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if below is not None and not below.hidden:
                parts += [f"## {PROGRAM} {name} {child}", *_described(below, child, context)]
    if uses:
        parts += ["## In use", "The tests run each of these where its page has it."]
        for use in uses[:_MOST_USES]:
            parts.append(f"[{use.title}](../../{use.address}):")
            parts.append(f"```console\n$ {use.line}\n```")
    return "\n\n".join(parts) + "\n"


def _described(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = context_of(command, name, parent)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"```text\n{usage}\n```"
    yield from _paragraphs(command.help or "")
    records = [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts
        if (record := parameter.get_help_record(context)) is not None
    ]
    if records:
        yield "**Options**"
        yield "\n\n".join(f"`{names}`\n:   {_escaped(text)}" for names, text in records)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help, those that click leaves as they are as blocks."""
    text = inspect.cleandoc(text.partition("\f")[0])
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("\b\n"):
            yield "```text\n" + paragraph.removeprefix("\b\n") + "\n```"
        else:
            yield _escaped(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    """Return a text of a help as Markdown: what is no code means itself."""
    code = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<>\[\]|\\])", r"\\\1", part) for part in code
    )


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
