"""Commands that Kart has and that nothing is left to do for here: they say so, and succeed."""

from __future__ import annotations

import click

from havasu_vc.cli.options import Command

__all__ = ["needless_command"]


def needless_command(name: str, why: str) -> click.Command:
    """Return a command that takes any arguments and does nothing but say why."""

    @click.command(
        name,
        cls=Command,
        hidden=True,
        help=f"Do nothing: {why}.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_obj
    def command(invocation: object, arguments: tuple[str, ...]) -> None:
        from havasu_vc.cli.invocation import Invocation

        if isinstance(invocation, Invocation):
            invocation.note(f"nothing is to be done: {why}")

    return command
