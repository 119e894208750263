"""Requests of reviews: of two versions, of the options of its writers, of what is broken.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.review.conflicting import Settling
    from havasu_vc.review.page import Page
    from havasu_vc.review.policy import Policy
    from havasu_vc.store.revisions import Revision

__all__ = ["BrokenRequest", "ReviewOptionsRequest", "ReviewRequest"]


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """A review that is asked for."""

    revisions: str
    """The versions as a range, `A..B` or `A...B`."""
    filters: Sequence[str] = ()
    """Datasets, rows or meta items; all without."""
    _: KW_ONLY
    samples: int = 40
    """How many rows of each dataset are worth seeing."""
    page: Page | None = None
    """The page that takes rows in, to be drawn."""
    policy: Policy | None = None
    """The policy that the change is held against; None for the repository's own."""
    crs: str | None = None
    """Tell coordinates in this CRS where they can be."""
    settling: Settling | None = None
    """How to settle conflicts, as it is told; None for as it is done in this clone."""


@dataclass(frozen=True, slots=True)
class ReviewOptionsRequest:
    """The options of the writers `html` and `markdown` that are asked for."""

    revisions: str
    """The versions as a range, `A..B` or `A...B`."""
    filters: Sequence[str] = ()
    """Datasets, rows or meta items; all without."""
    _: KW_ONLY
    samples: int = 40
    """Show at most so many rows of each dataset."""
    limit: int | None = None
    """With markdown: write no more than this.  [default: 65536, a comment on GitHub; 1048576 is a
    step summary]"""
    crs: str | None = None
    """With markdown or json: tell coordinates in this CRS."""


@dataclass(frozen=True, slots=True)
class BrokenRequest:
    """The broken datasets that are asked for."""

    revision: Revision
    """The revision that has them."""
    _: KW_ONLY
    refuses: bool = True
    """Whether they refuse the change, or warn."""
    since: Revision | None = None
    """Only those that were not broken here, or are `changed`."""
    changed: Container[str] = ()
    """Datasets that were changed since."""
