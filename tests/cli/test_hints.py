"""Commands and options that hints, messages and helps name: each is there."""

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import click
import pytest

from havasu_vc.cli.errors import report
from havasu_vc.cli.main import cli
from havasu_vc.errors import StateError
from tests.cli.conftest import Run, succeed

PACKAGE = Path(__file__).parents[2] / "havasu_vc"
HOLE = "\N{REPLACEMENT CHARACTER}"
"""Stands for what is put into a text."""
NAMED = re.compile(r"`havasu-vc ([^`\n]*)`")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
OPTIONS_ALONE = re.compile(r"`(--[a-z][a-z-]+)[^`\n]*`")
"""An option named without its command."""
OTHERS = {"--help", "--theirs", "--ours"}
"""Options of every command, and of git."""


@cache
def texts(module: Path) -> tuple[tuple[int, str], ...]:
    """Return the texts of a module that a user may read, with their lines."""
    return tuple(_texts(module))


def _texts(module: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(module.read_text("utf-8"))
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(value) for node in whole for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = (v.value if isinstance(v, ast.Constant) else HOLE for v in node.values)
            yield node.lineno, "".join(map(str, values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in parts:
                yield node.lineno, node.value


def commands() -> Iterator[tuple[str, str]]:
    """Yield what is named as a command of ours, and where."""
    for module in sorted(PACKAGE.rglob("*.py")):
        for line, text in texts(module):
            for found in NAMED.findall(re.sub(r"\s*\n\s*", " ", text)):
                yield f"{module.relative_to(PACKAGE)}:{line}", found


@cache
def options_of(command: click.Command) -> frozenset[str]:
    return frozenset(o for p in command.params for o in (*p.opts, *p.secondary_opts))


def complaint(text: str) -> str | None:
    """Return what is wrong with a command line; None if a user could type it."""
    words = text.split()
    known = set(options_of(cli))
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        word = words.pop(0)
        if word in known | OTHERS:
            if word == "-C":
                words[:1] = []
            continue
        if HOLE in word or word.isupper() or word in ("…", "{}"):
            return None
        found = command.get_command(click.Context(command), word)
        if found is None:
            return f"there is no command {word!r}"
        command = found
        known |= options_of(command)
    wrong = [word for word in OPTION.findall(" ".join(words)) if word not in known]
    return f"{command.name} has no option {wrong[0]}" if wrong else None


def test_commands_that_texts_name_are_there() -> None:
    named = list(commands())
    assert len(named) > 250
    wrong = [f"{where}: `havasu-vc {text}`: {complaint(text)}" for where, text in named]
    assert [each for each in wrong if not each.endswith("None")] == []


OURS = {"kind", "begun.kind", "verb", "what", "short", "rest"}
OURS |= {"DEFAULT.name", "SCHEMA", "encoding", "given", "revision"}
"""Put into command lines: words of ours, hexadecimal digits, a revision as it was typed."""
QUOTED = re.compile(r"shlex\.(quote|join)\(.*\)|[\w.\[\]]+\[:(10|SHORT)\]")


def unquoted(text: ast.JoinedStr) -> Iterator[str]:
    """Yield what a command line in backquotes has of a person's that no shell would take."""
    line = ""
    for value in text.values:
        if isinstance(value, ast.Constant):
            line += str(value.value)
        elif isinstance(value, ast.FormattedValue):
            inside = line.count("`") % 2 and line.rpartition("`")[2].startswith("havasu-vc ")
            put_in = ast.unparse(value.value)
            if inside and put_in not in OURS and not QUOTED.fullmatch(put_in):
                yield put_in
            line += HOLE


def test_names_in_commands_can_be_pasted_into_a_shell() -> None:
    """A dataset may be called `Flurstücke 2024`."""
    found, all_texts = [], 0
    for module in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                all_texts += 1
                where = f"{module.relative_to(PACKAGE)}:{node.lineno}"
                found += [f"{where}: {name}" for name in unquoted(node)]
    assert all_texts > 1500
    assert found == []


def test_a_name_that_a_shell_would_part_is_found() -> None:
    tree = ast.parse('f"{a}: `havasu-vc rm {path}` or `havasu-vc rm {shlex.quote(path)}`"')
    (text,) = (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))
    assert list(unquoted(text)) == ["path"]


def test_options_that_texts_name_alone_are_there() -> None:
    every: set[str] = set()
    groups: list[click.Command] = [cli]
    while groups:
        command = groups.pop()
        every |= options_of(command)
        if isinstance(command, click.Group):
            context = click.Context(command)
            listed = command.list_commands(context)
            groups += filter(None, (command.get_command(context, name) for name in listed))
    named = {
        option: f"{module.relative_to(PACKAGE)}:{line}"
        for module in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(module)
        for option in OPTIONS_ALONE.findall(text)
    }
    assert len(named) > 40
    assert {o: where for o, where in named.items() if o not in every | OTHERS} == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("data fetch --on-demand", "fetch has no option --on-demand"),
        ("comit -m x", "there is no command 'comit'"),
        ("-C REPO commit --leave-out x", "commit has no option --leave-out"),
        ("import FILE --replace", None),
    ],
)
def test_a_mistake_is_found(text: str, wrong: str | None) -> None:
    assert complaint(text) == wrong


def test_a_hint_of_another_command_is_left_out(run: Run, tmp_path: Path) -> None:
    """One value is refused by two commands, and only one of them can leave its column out."""
    copy = tmp_path / "copy.gpkg"
    succeed(run("checkout", "--as", copy))
    with closing(sqlite3.connect(copy)) as database, database:
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE points SET height = 'seven' WHERE id = 2")

    commit = run("commit", "--from", copy, "-m", "m")
    taken_in = run("import", copy, "points:other")

    for refused in (commit, taken_in):
        assert refused.exit_code
        assert "'seven', which is not" in refused.output
        assert "Hint: mend it in the file" in refused.output
    assert "--leave-out" not in commit.output
    assert "Hint: --leave-out takes the table without the column" in taken_in.output


@pytest.mark.parametrize(
    ("hint", "stays"),
    [
        ("`havasu-vc merge --continue` concludes it, `--abort` drops it", True),
        ("make room, or take a part: `havasu-vc clone --filter=data`, `--bbox`", True),
        ("`--no-jar` does without it, in Python `havasu_vc.spark.read`", False),
        ("or use --replace", False),
        ("`--quiet` says less", True),
    ],
)
def test_options_after_a_command_are_its_own(
    hint: str, stays: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    command = cli.get_command(click.Context(cli), "status")
    report(StateError("no", hints=(hint,)), command=command)
    assert (hint in capsys.readouterr().err) == stays
