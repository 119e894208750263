"""Requests of edits that a program makes: a patch, what is brought back.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, BinaryIO

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    pass

__all__ = ["PatchRequest", "RestoreRequest"]


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """A patch that is to be applied."""

    source: bytes | BinaryIO
    """The patch, as bytes or an open file."""
    _: KW_ONLY
    ref: str | None = None
    """Commit to this branch; HEAD stays where it is."""
    allow_empty: bool = False
    """Commit even if the patch changes nothing."""
    message: str | None = None
    """Use this message instead of the patch's."""
    commit: bool = True
    """Whether to commit it; else it is tried, or made in the working copy."""
    rows_left_out: bool = False
    """Take a patch that says only whether rows changed, and make its other changes."""
    needs_message: bool = False
    """Refuse to commit a patch without a message."""
    needs_base: bool = False
    """Refuse a row that is there and has the new half alone, if the patch names no base."""
    keeps_columns: bool = False
    """Refuse to add or drop columns in the working copy."""
    limit: int | None = None
    """Take patches up to this size, such as 1G."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Things to bring back."""

    filters: Sequence[str] = ()
    """Datasets, rows or meta items; all without."""
    _: KW_ONLY
    source: str
    """Bring things back as they are there."""
    message: str | None = None
    """The message of the commit."""
    dry_run: bool = False
    """Tell what would change, and stop."""
    columns: Sequence[str] = ()
    """With --source: bring back only the cells of this column; may be given more than once."""
