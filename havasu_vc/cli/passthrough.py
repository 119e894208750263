"""Handing a command to git itself, and what it says to the person.

What strangers wrote, as messages of commits and names of branches, git prints as it is.
So whatever it lists comes through here and has its control characters shown as escapes;
only where it asks the person something does it get the terminal itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from havasu_vc.cli.options import Command
from havasu_vc.cli.pager import paged_output
from havasu_vc.errors import MissingProgramError, StorageError
from havasu_vc.store.command import is_push
from havasu_vc.writers.terminal import git_line

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["git_command", "run_git_here", "show_git"]


def git_command(
    name: str, *, help_option: bool = True
) -> Callable[[Callable[..., int]], click.Command]:
    """Return what makes a command of a function, which is given all arguments as they stand."""
    arguments = click.argument(
        "arguments", metavar="[ARGUMENT...]", nargs=-1, type=click.UNPROCESSED
    )
    command = click.command(
        name,
        cls=Command,
        add_help_option=help_option,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )

    def decorate(function: Callable[..., int]) -> click.Command:
        return command(arguments(click.pass_obj(function)))

    return decorate


def run_git_here(
    arguments: Sequence[str], place: GitRepository | Path, *, color: bool = True
) -> int:
    """Run git in a repository, or in a folder, with this process's streams; return its exit code.

    What the child prints is shown as it is: git decides on pager, colours and escapes.
    """
    settings = [] if color else ["-c", "color.ui=never"]
    with _started([*settings, *arguments], place) as child:
        return child.wait()


def show_git(
    arguments: Sequence[str], repository: GitRepository, *, color: bool, pager: bool
) -> int:
    """Run git in a repository and print what it prints, made safe to show; return its exit code."""
    if color:
        # git sees a pipe, so it is told what it would find by itself.
        answer = repository.git("config", "--get-colorbool", "color.ui", "true", check=False)
        color = answer.text == "true"
    settings = ["-c", f"color.ui={'always' if color else 'never'}"]
    settings += ["-c", "i18n.logOutputEncoding=UTF-8"]
    with (
        tempfile.TemporaryFile() as errors,
        _started([*settings, *arguments], repository, subprocess.PIPE, errors) as child,
    ):
        with paged_output(repository, wanted=pager) as out:
            for line in child.stdout or ():
                text, end, _ = line.decode("utf-8", "surrogateescape").partition("\n")
                out.write(git_line(text, color) + end)
        code = child.wait()
        errors.seek(0)
        told = errors.read().decode("utf-8", "surrogateescape")
        for text in told.rstrip("\n").split("\n") if told else ():
            click.echo(git_line(text, color=False), err=True)
        return code


def _started(
    arguments: Sequence[str],
    place: GitRepository | Path,
    out: int | None = None,
    errors: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    variables = dict(os.environ)
    if isinstance(place, Path):
        folder = place
    else:
        folder = place.path
        # A repository of Kart's is not where git would look.
        variables["GIT_DIR"] = str(place.git_directory)
        if place.work_tree is not None and not is_push(arguments):
            variables["GIT_WORK_TREE"] = str(place.work_tree)
        if place.is_kart:
            # Kart keeps git from the index, which it locks, so as not to lose what is in the tree.
            variables["GIT_INDEX_FILE"] = str(place.git_directory / "unlocked_index")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        return subprocess.Popen(
            ["git", *arguments], cwd=folder, env=variables, stdout=out, stderr=errors
        )
    except FileNotFoundError as error:
        raise MissingProgramError(
            "git is not installed, or not on the PATH", hints=("install git 2.30 or later",)
        ) from error
    except OSError as error:
        raise StorageError(f"git could not be run: {error.strerror}") from error
