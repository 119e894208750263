"""git's configuration, as git itself reads it.

One `git config --list` gives the settings that are in force: every file, includes
with conditions, the environment and `git -c` among them. It runs when the first
setting is asked for, and again after a change.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.command import GitResult

__all__ = ["GitConfig", "parse_boolean", "parse_integer"]

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
