"""Handing a command to git itself, which talks to the terminal as always."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.errors import MissingProgramError, StorageError

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["run_git_here"]


def run_git_here(
    arguments: Sequence[str], place: GitRepository | Path, *, color: bool = True
) -> int:
    """Run git in a repository, or in a folder, with this process's streams; return its exit code.

    What the child prints is shown as it is: git decides on pager, colours and escapes.
    """
    settings = [] if color else ["-c", "color.ui=never"]
    variables = dict(os.environ)
    if isinstance(place, Path):
        folder = place
    else:
        folder = place.path
        # A repository of Kart's is not where git would look.
        variables["GIT_DIR"] = str(place.git_directory)
        if place.work_tree is not None:
            variables["GIT_WORK_TREE"] = str(place.work_tree)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        return subprocess.run(
            ["git", *settings, *arguments], cwd=folder, env=variables, check=False
        ).returncode
    except FileNotFoundError as error:
        raise MissingProgramError(
            "git is not installed, or not on the PATH", hints=("install git 2.30 or later",)
        ) from error
    except OSError as error:
        raise StorageError(f"git could not be run: {error.strerror}") from error
