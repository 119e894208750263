"""Running git, in one place.

Every run says which repository it means (`GIT_DIR`, `GIT_WORK_TREE`) instead of
letting git find one, speaks English, and takes paths literally. What the caller's
own git left in the environment about *its* repository (a hook's `GIT_INDEX_FILE`,
say) is removed; configuration given there (`GIT_CONFIG_COUNT`, `git -c`) stays. A
failure becomes an error of ours with git's own line as its text.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    LockedError,
    MissingProgramError,
    NoUserError,
    RepositoryNotFoundError,
    StateError,
    StorageError,
    UncommittedChangesError,
    UnsupportedRepositoryError,
)
from havasu_vc.records import dataclass

__all__ = [
    "GitConfig",
    "GitResult",
    "is_locked",
    "is_push",
    "parse_boolean",
    "parse_integer",
    "raise_for",
    "run_git",
]


_OF_ANOTHER_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DEFAULT_HASH",
    "GIT_DIR",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)


@dataclass(frozen=True, slots=True)
class GitResult:
    """The output of one run of git."""

    code: int
    """The exit code."""
    output: bytes
    """Standard output."""
    errors: str
    """Standard error, as git wrote it."""

    @property
    def text(self) -> str:
        """Return the output as text, without the newline at its end."""
        return self.output.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def lines(self) -> list[str]:
        """Return the lines of the output that hold anything.

        Names hold what Python takes for the end of a line, or for a space between two words.
        """
        return [line for line in self.text.split("\n") if line]

    @property
    def error_lines(self) -> list[str]:
        """Return the lines of the errors that hold anything, progress among them."""
        return [line for part in re.split("[\r\n]", self.errors) if (line := part.strip())]

    @property
    def remote_words(self) -> list[str]:
        """Return the lines that the other side sent, such as those of its hooks."""
        sent = [line.removeprefix("remote:").strip() for line in self.error_lines if _sent(line)]
        return [line for line in sent if line and not _PROGRESS.search(line)]

    @property
    def hook_words(self) -> list[str]:
        """Return what hooks here said, which are the lines that are neither git's nor sent."""
        gits = ("fatal: ", "error: ", "warning: ", "hint: ", "To ", "Pushing to ")
        told = [each for each in self.error_lines if not _sent(each)]
        told += [line for line in self.lines if "\t" not in line and line != "Done"]
        return [line for line in told if not line.startswith(gits)]

    @property
    def message(self) -> str:
        """Return the one line of the errors that says what went wrong."""
        lines = self.error_lines
        # git goes on to guess at another command, in the last line.
        if lines and (unknown := _NO_HELPER.match(lines[0])):
            return f"it knows no remotes of {unknown[1]}://, which may hold data and no commits"
        for prefix in ("fatal: ", "error: "):
            for line in lines:
                if line.startswith(prefix):
                    return line.removeprefix(prefix)
        if lines:
            return lines[-1]
        return f"exit code {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"


_NO_HELPER = re.compile(r"git: 'remote-([\w.+-]+)' is not a git command")
_PROGRESS = re.compile(r"\d+% \(\d+/\d+\)|^(Enumerating|Counting|Total) ")
_LOCKED = r"\.lock': File exists|(?i:unable|could not) lock|cannot lock ref"
_STORAGE = "No space left on device|Input/output error|: Permission denied|: Read-only file system"
_TALKING = frozenset(("clone", "fetch", "ls-remote", "push"))
SILENT_SECONDS = "300"


def _sent(line: str) -> bool:
    return line.startswith("remote:")


def run_git(
    arguments: Sequence[str],
    *,
    folder: Path | None = None,
    git_directory: Path | None = None,
    work_tree: Path | None = None,
    stdin: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    check: bool = True,
) -> GitResult:
    """Run git and return what it gave; raise when it fails, unless `check` is false.

    A log has no signatures among its lines, whatever `log.showSignature` says: it is parsed.
    """
    if arguments[0] == "log":
        arguments = ("log", "--no-show-signature", *arguments[1:])
    variables = {k: v for k, v in os.environ.items() if k not in _OF_ANOTHER_REPOSITORY}
    variables |= {"LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1"}
    if not _TALKING.isdisjoint(arguments):
        # A server that says nothing at all is given up, which git would never do by itself.
        variables = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": SILENT_SECONDS} | (
            variables
        )
    if git_directory is not None:
        variables["GIT_DIR"] = str(git_directory)
    if work_tree is not None and not is_push(arguments):
        variables["GIT_WORK_TREE"] = str(work_tree)
    variables |= environment or {}
    place = folder or work_tree or git_directory
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=place,
            env=variables,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        if place is not None and not place.is_dir():
            raise RepositoryNotFoundError(str(place)) from error
        raise MissingProgramError(
            "git is not installed, or not on the PATH", hints=("install git 2.30 or later",)
        ) from error
    except OSError as error:
        raise StorageError(f"git could not be run: {error.strerror}") from error
    result = GitResult(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
    if check:
        raise_for(result, arguments, str(place or Path.cwd()))
    return result


def is_push(arguments: Sequence[str]) -> bool:
    """Return whether git is to push, perhaps with settings of `-c` in front.

    `GIT_WORK_TREE` would serve its hook alone, and Kart, which Kart's hook runs, stops at it.
    """
    first = 0
    while first < len(arguments) and arguments[first] == "-c":
        first += 2
    return list(arguments[first : first + 1]) == ["push"]


def raise_for(result: GitResult, arguments: Sequence[str], place: str) -> None:
    """Raise what it means that git failed in a place, if it did."""
    if result.code:
        raise _translated(result, arguments, place)


def is_locked(result: GitResult) -> bool:
    """Whether git failed as something was locked."""
    return re.search(_LOCKED, result.errors) is not None


def _translated(result: GitResult, arguments: Sequence[str], place: str) -> HavasuError:
    text, line = result.errors, result.message
    if re.search(_STORAGE, text):
        return StorageError(f"git says: {line}")
    if is_locked(result):
        return LockedError(
            f"git says: {line}", hints=("wait for the other git command, then try again",)
        )
    if "dubious ownership" in text:
        return UnsupportedRepositoryError(
            f"{place} is a repository of another user",
            hints=(f"`git config --global --add safe.directory {place}` if you trust it",),
        )
    if "not a git repository" in text:
        return RepositoryNotFoundError(place)
    if "would be overwritten" in text:
        return UncommittedChangesError(
            f"files that are not committed are in the way: {_listed(text)}",
            hints=("commit them, `git stash` them, or discard them",),
        )
    if re.search(r"tell me who you are|no (email|name) was given|empty ident name", text):
        return NoUserError(
            "nobody's name and e-mail are configured for the commit",
            hints=(
                "`git config --global user.name NAME`",
                "`git config --global user.email ADDRESS`",
            ),
        )
    if result.code == 129:
        error = InvalidArgumentError(f"git {arguments[0]}: {line}")
        error.said = tuple(text.rstrip("\n").split("\n"))
        return error
    return StateError(f"git says: {line}")


def _listed(text: str) -> str:
    names = [line.strip() for line in text.split("\n") if line.startswith("\t")]
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


# git's configuration, as git itself reads it.
#
# One `git config --list` gives the settings that are in force: every file, includes
# with conditions, the environment and `git -c` among them. It runs when the first
# setting is asked for, and again after a change.

_T = TypeVar("_T", bool, int)

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off", "")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class _RunsGit(Protocol):
    def __call__(self, *arguments: str, check: bool = True) -> GitResult: ...


class GitConfig:
    """The settings of one repository.

    Names are git's: `section.name` or `section.subsection.name`, where only the
    subsection's case matters.
    """

    def __init__(self, git: _RunsGit) -> None:
        """Read and write settings by running `git`."""
        self._git = git
        self._values: dict[str, list[str | None]] | None = None

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value in force, as text."""
        values = self._read().get(_canonical(name))
        return default if not values else values[-1] or ""

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a setting that may stand more than once."""
        return tuple(value or "" for value in self._read().get(_canonical(name), ()))

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return a setting that is on or off."""
        values = self._read().get(_canonical(name))
        if not values:
            return default
        # A name without `=` means true, one with nothing after it false.
        return values[-1] is None or _checked(name, values[-1], parse_boolean)

    def integer(self, name: str, default: int = 0) -> int:
        """Return a setting that is a whole number; `k`, `m` and `g` multiply by 1024."""
        text = self.get(name)
        return default if text is None else _checked(name, text, parse_integer)

    def section(self, prefix: str) -> dict[str, str]:
        """Return the settings below `prefix` by what follows it.

        The section of the prefix is in lower case.
        """
        start = prefix + "."
        return {
            name.removeprefix(start): values[-1] or ""
            for name, values in self._read().items()
            if name.startswith(start)
        }

    def names(self) -> tuple[str, ...]:
        """Return the name of every setting in force."""
        return tuple(self._read())

    def set(self, name: str, value: str | bool | int, *, worktree: bool = False) -> None:
        """Write a setting into the repository's own configuration."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self._git("config", "--worktree" if worktree else "--local", name, text)
        self._values = None

    def unset(self, name: str) -> None:
        """Remove a setting from the repository's own configuration, if it is there."""
        result = self._git("config", "--local", "--unset-all", name, check=False)
        if result.code not in (0, 5):
            raise InvalidArgumentError(f"git config: {result.message}")
        self._values = None

    def forget(self) -> None:
        """Read the settings again when one is asked for, as another process may have set some."""
        self._values = None

    def _read(self) -> dict[str, list[str | None]]:
        if self._values is None:
            self._values = {}
            listing = self._git("config", "--null", "--list").output
            for item in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
                name, separator, value = item.partition("\n")
                self._values.setdefault(name, []).append(value if separator else None)
        return self._values


def parse_boolean(text: str) -> bool:
    """Return what git takes a value of an on/off setting to mean.

    >>> parse_boolean("On"), parse_boolean("0")
    (True, False)
    """
    lowered = text.lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    return parse_integer(text) != 0


def parse_integer(text: str) -> int:
    """Return a whole number written as git allows it.

    >>> parse_integer("2g") == 2 * 1024**3
    True
    """
    unit = _UNITS.get(text[-1:].lower())
    return int(text[:-1]) * unit if unit else int(text)


def _checked(name: str, text: str, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"the git setting {name} has the value {text!r}, which it cannot have",
            hints=(f"`git config {name} VALUE` changes it",),
        ) from error


def _canonical(name: str) -> str:
    parts: Sequence[str] = name.split(".")
    if len(parts) < 2:
        raise ValueError(f"{name!r} is not the name of a setting: it has no section")
    return ".".join([parts[0].lower(), *parts[1:-1], parts[-1].lower()])
