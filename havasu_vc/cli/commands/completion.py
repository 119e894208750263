"""`havasu-vc completion`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.options import Command
from havasu_vc.errors import InvalidArgumentError, StorageError, UnsupportedError

__all__ = ["command", "install"]

PROGRAM = "havasu-vc"
VARIABLE = "_HAVASU_VC_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    r"""Print a script that lets a shell complete commands, branches and datasets.

    \b
    bash   havasu-vc completion bash > ~/.local/share/bash-completion/completions/havasu-vc
    zsh    havasu-vc completion zsh > "${fpath[1]}/_havasu-vc"
    fish   havasu-vc completion fish > ~/.config/fish/completions/havasu-vc.fish
    """
    click.echo(_script(context, shell, PROGRAM))


def _script(context: click.Context, shell: str, program: str) -> str:
    found = get_completion_class(shell)
    if found is None:
        raise UnsupportedError(f"{shell} cannot be completed for")
    return found(context.find_root().command, {}, program, VARIABLE).source()


@click.group("install", hidden=True)
def install() -> None:
    """Put in place what comes with the program, as Kart does."""


@install.command("tab-completion", cls=Command)
@click.option("--shell", type=click.Choice((*SHELLS, "auto")), default="auto", show_default=True)
@click.pass_context
def tab_completion(context: click.Context, shell: str) -> None:
    """Have a shell complete commands, branches and datasets, by files in your home."""
    if shell == "auto":
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            raise InvalidArgumentError(
                f"it is not known which shell this is: {shell or 'SHELL says none'}",
                hints=(f"name it: --shell, with one of {', '.join(SHELLS)}",),
            )
    program = "kart" if is_called_kart() else PROGRAM
    home = Path.home()
    line = start = None
    match shell:
        case "bash":
            place = home / ".bash_completions" / f"{program}.sh"
            start, line = home / ".bashrc", f"source '{place}'"
        case "zsh":
            place = home / ".zfunc" / f"_{program}"
            start, line = home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
        case _:
            place = home / ".config" / "fish" / "completions" / f"{program}.fish"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_script(context, shell, program) + "\n", encoding="utf-8")
        if start is not None and line is not None:
            _add_line(start, line)
    except OSError as error:
        raise StorageError(
            f"{error.filename or place} cannot be written: {error.strerror}"
        ) from error
    click.echo(f"{shell} completion installed in {place}")
    click.echo("Completion will take effect once you restart the terminal")


def _add_line(path: Path, line: str) -> None:
    """Have a file that a shell starts with end in a line, unless it is in there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line in text.splitlines():
        return
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
