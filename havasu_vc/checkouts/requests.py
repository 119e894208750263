"""Requests of what is checked out: how tables are to be, and where HEAD goes.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    pass

__all__ = ["ResetRequest", "SwitchRequest"]


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A move of the branch that is asked for."""

    revision: str = "HEAD"
    """The commit to move it to."""
    _: KW_ONLY
    mode: str | None = None
    """`soft`, `mixed`, `hard` or `keep`, as git means them; None is `mixed`."""
    discard: bool = False
    """With --hard, or alone in a Kart repository, drop edits in tables as well."""


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    """A move of HEAD that is asked for."""

    target: str
    """The branch, or the commit."""
    _: KW_ONLY
    create: bool = False
    """Whether to make the branch."""
    start: str | None = None
    """Where the branch that is made begins; None for HEAD."""
    discard: bool = False
    """Drop edits in the way."""
