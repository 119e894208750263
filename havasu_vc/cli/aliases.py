"""Aliases of git's configuration: `alias.last = log -1 --stat` makes `last` a command.

As with git, no alias stands in the place of a command, and one may be made of others. One
that begins with `!` is a program of the shell, which git runs and this does not: what is
said names `git`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from havasu_vc.errors import HavasuError

__all__ = ["written_out"]


def written_out(
    arguments: Sequence[str], folder: Path, is_command: Callable[[str], bool]
) -> list[str]:
    """Return arguments with the alias that they begin with written out, until it is none."""
    args, seen = list(arguments), set[str]()
    while not is_command(args[0]) and (text := _alias(args[0], folder)) is not None:
        name = args[0]
        if name in seen:
            raise click.UsageError(f"alias.{name} of git's configuration leads to itself")
        seen.add(name)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise click.UsageError(f"alias.{name} of git's configuration: {error}") from error
        if not words or words[0].startswith(("!", "-")):
            raise click.UsageError(
                f"{name!r} is an alias for {text!r}, which git alone can run: `git {name}`"
            )
        args = [*words, *args[1:]]
    return args


def _alias(name: str, folder: Path) -> str | None:
    from havasu_vc.store.command import run_git

    here = {key: os.environ[key] for key in ("GIT_DIR",) if key in os.environ}
    try:
        asked = ["config", "--get", f"alias.{name}"]
        done = run_git(asked, folder=folder, environment=here, check=False)
    except (HavasuError, OSError):
        # There is no git, or no such folder: the command itself is what is wrong then.
        return None
    return done.text if done.code == 0 else None
