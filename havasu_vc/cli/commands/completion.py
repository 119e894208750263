"""`havasu-vc completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from havasu_vc.cli.options import Command
from havasu_vc.errors import UnsupportedError

__all__ = ["command"]

PROGRAM = "havasu-vc"
VARIABLE = "_HAVASU_VC_COMPLETE"


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    r"""Print a script that lets a shell complete commands, branches and datasets.

    \b
    bash   havasu-vc completion bash > ~/.local/share/bash-completion/completions/havasu-vc
    zsh    havasu-vc completion zsh > "${fpath[1]}/_havasu-vc"
    fish   havasu-vc completion fish > ~/.config/fish/completions/havasu-vc.fish
    """
    found = get_completion_class(shell)
    root = context.find_root().command
    if found is None:
        raise UnsupportedError(f"{shell} cannot be completed for")
    click.echo(found(root, {}, PROGRAM, VARIABLE).source())
