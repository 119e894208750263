"""The reference in the documentation is that of the commands as they are."""

from pathlib import Path

import click

from havasu_vc.cli.command_pages import format_reference
from havasu_vc.cli.main import COMMANDS, cli
from tests.support.golden import Golden

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_reference_is_up_to_date(golden: Golden) -> None:
    golden(format_reference(), REFERENCE)


def test_the_reference_has_every_command() -> None:
    text = format_reference()

    assert [name for name in COMMANDS if f"## havasu-vc {name}\n" not in text] == []
    assert "## havasu-vc data ls\n" in text


def test_every_command_of_the_table_is_there() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_every_option_has_help() -> None:
    def commands(command: click.Command) -> list[click.Command]:
        children = command.commands.values() if isinstance(command, click.Group) else ()
        return [command, *(each for child in children for each in commands(child))]

    context = click.Context(cli)
    lacking = []
    for name in COMMANDS:
        top = cli.get_command(context, name)
        assert top is not None
        lacking += [
            f"{command.name} {parameter.opts}"
            for command in commands(top)
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
        ]
    assert lacking == []
