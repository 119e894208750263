"""Each command has a page on the site, and each page of the site a place in its navigation."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from havasu_vc.cli.command_pages import GROUPS, Use, command_page, commands_overview, uses_in
from havasu_vc.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]


def test_every_command_is_in_one_group() -> None:
    names = [name for group in GROUPS.values() for name in group]

    assert sorted(names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option(name: str) -> None:
    def options(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                yield from (each for each in parameter.opts if each.startswith("--"))
        for child in command.commands.values() if isinstance(command, click.Group) else ():
            yield from () if child.hidden else options(child)

    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    page = command_page(name)

    assert page.startswith(f"# havasu-vc {name}\n")
    assert [option for option in options(command) if option not in page] == []
    assert f"]({name}.md) | {COMMANDS[name][1]} |" in commands_overview()


def test_pages_show_how_a_command_is_used() -> None:
    text = "# Two\n\n```console\n$ havasu-vc init a\n$ havasu-vc init b\n$ havasu-vc log -1\n```\n"

    uses = list(uses_in("guides/two.md", text))

    assert uses == [
        Use("init", "havasu-vc init a", "Two", "guides/two.md"),
        Use("log", "havasu-vc log -1", "Two", "guides/two.md"),
    ]
    assert "[Two](../../guides/two.md):\n\n```console\n$ havasu-vc log -1\n" in command_page(
        "log", uses[1:]
    )


def test_what_is_no_code_means_itself() -> None:
    assert "\\<" not in command_page("diff").replace("`", "")
    page = command_page("completion")
    assert "```text\nhavasu-vc completion" in page


def test_every_page_is_in_the_navigation() -> None:
    def pages(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        for below in part if isinstance(part, list) else ():
            yield from pages(below)
        for below in part.values() if isinstance(part, dict) else ():
            yield from pages(below)

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]

    assert sorted(pages(nav)) == sorted(there)


@pytest.mark.parametrize("name", ["sql", "commit", "export"])
def test_examples_of_a_help_stay_lines_of_their_own(name: str) -> None:
    page = command_page(name)

    assert "\b" not in page
    assert re.search(rf"```text\nhavasu-vc {name} .*\nhavasu-vc {name} ", page)
