"""Commands that Kart has and that nothing is left to do for here: they say so, and succeed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from havasu_vc.cli.options import Command

__all__ = ["NEEDLESS", "needless_command"]

NEEDLESS: Mapping[str, str] = MappingProxyType(
    {
        "build-annotations": "numbers of changed rows are counted when they are asked for",
        "helper": "commands start quickly without a process in the background",
        "install": "`havasu-vc completion SHELL` prints what a shell needs to complete commands",
    }
)
"""Names, and why there is nothing to do."""


def needless_command(name: str) -> click.Command:
    """Return a command that takes any arguments and does nothing but say why."""

    @click.command(
        name,
        cls=Command,
        hidden=True,
        help=f"Do nothing: {NEEDLESS[name]}.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_obj
    def command(invocation: object, arguments: tuple[str, ...]) -> None:
        from havasu_vc.cli.invocation import Invocation

        if isinstance(invocation, Invocation):
            invocation.note(f"nothing is to be done: {NEEDLESS[name]}")

    return command
