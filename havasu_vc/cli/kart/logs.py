"""Logs as git, to which Kart hands them, limits them, where this program is Kart.

A pattern of authors, committers or messages is then a basic regular expression of git's: only
behind a backslash `|`, `+`, `?` and parentheses mean more than themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.errors import InvalidArgumentError

__all__ = ["Count", "at_most", "people_named", "skipped", "words_named"]

_PARTS = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|\\.|[(){}|+?]|\*", re.DOTALL)
"""The parts that are spelt otherwise in a basic regular expression: lists, escapes, signs."""
_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:punct:]": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
}


_INVALID = "Invalid regular expression"
_WRONG = {"missing )": r"Unmatched ( or \(", "unbalanced parenthesis": r"Unmatched ) or \)"}
"""The words of git for errors in a pattern, by those of Python."""


def people_named(patterns: Sequence[str]) -> str:
    """Return the pattern of who made commits that matches where one of several does."""
    return _any_of(patterns, "header")


def words_named(patterns: Sequence[str]) -> str:
    """Return the pattern of messages that matches where one of several does."""
    return _any_of(patterns, "command line")


def _any_of(patterns: Sequence[str], place: str) -> str:
    read = [_extended(each, place) if is_called_kart() else each for each in patterns]
    return read[0] if len(read) == 1 else "|".join(f"({each})" for each in read)


def _extended(basic: str, place: str = "") -> str:
    r"""Return a basic regular expression as Python has it.

    >>> _extended(r"Ann\|Bob"), _extended("a+(b)"), _extended(r"a\{2\}"), _extended("*a")
    ('Ann|Bob', 'a\\+\\(b\\)', 'a{2}', '\\*a')
    """

    def spelt(found: re.Match[str]) -> str:
        part, before = found[0], basic[: found.start()]
        if part[0] == "[":
            for name, letters in _CLASSES.items():
                part = part.replace(name, letters)
            return "[" + part[1:-1].replace("[", r"\[") + "]"
        if part[0] == "\\":
            return part[1] if part[1] in "(){}|+?" else part
        begins = not before or before in ("^",) or before.endswith((r"\(", r"\|"))
        return part if part == "*" and not begins else f"\\{part}"

    found = _PARTS.sub(spelt, basic)
    try:
        re.compile(found)
    except re.error as error:
        what = next((text for of, text in _WRONG.items() if of in error.msg), _INVALID)
        raise InvalidArgumentError(f"fatal: {place}, '{basic}': {what}") from error
    return found


class Count(click.IntRange):
    """A number of commits; to git one below none says nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if is_called_kart():
            return click.INT.convert(value, param, ctx)
        return int(super().convert(value, param, ctx))


def at_most(number: int) -> int | None:
    """Return how many commits are wanted at most; None where all are."""
    return number if number >= 0 else None


def skipped(number: int) -> int:
    """Return how many commits are left out."""
    return max(number, 0)
