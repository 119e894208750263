"""What stands behind the question mark, checked: nothing else of a request reaches the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.library import Repo

__all__ = ["Query", "dataset_in", "revision_in", "whole_number"]

Query: TypeAlias = Mapping[str, str]


def whole_number(query: Query, name: str, default: int, most: int) -> int:
    """Return a number, at most `most`."""
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InvalidArgumentError(f"{name} is a whole number, not {text!r}")
    return min(int(text), most)


def revision_in(query: Query, name: str = "at") -> str:
    """Return a revision; a name that git would take for an option is none."""
    text = query.get(name, "") or "HEAD"
    if text.startswith("-") or "\x00" in text or ".." in text:
        raise InvalidArgumentError(f"{text!r} is no revision")
    return text


def dataset_in(repo: Repo, query: Query, revision: str) -> str:
    """Return the path of a dataset that is there."""
    return repo.dataset(query.get("dataset", ""), revision).path
