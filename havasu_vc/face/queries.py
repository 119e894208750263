"""What stands behind the question mark, checked: nothing else of a request reaches the library."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.library import Repo

__all__ = ["Query", "box_in", "dataset_in", "revision_in", "whole_number"]

Query: TypeAlias = Mapping[str, str]


def whole_number(query: Query, name: str, default: int, most: int) -> int:
    """Return a number, at most `most`."""
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InvalidArgumentError(f"{name} is a whole number, not {text!r}")
    return min(int(text), most)


def box_in(query: Query) -> tuple[float, float, float, float] | None:
    """Return a box: west, south, east and north, as four numbers between commas."""
    text = query.get("box", "")
    if not text:
        return None
    try:
        west, south, east, north = (float(each) for each in text.split(","))
    except ValueError as error:
        raise InvalidArgumentError(f"a box is four numbers, not {text!r}") from error
    if not all(map(math.isfinite, (west, south, east, north))) or south > north:
        raise InvalidArgumentError(f"a box is west, south, east and north, not {text!r}")
    return west, south, east, north


def revision_in(query: Query, name: str = "at") -> str:
    """Return a revision; a name that git would take for an option is none."""
    text = query.get(name, "") or "HEAD"
    if text.startswith("-") or "\x00" in text or ".." in text:
        raise InvalidArgumentError(f"{text!r} is no revision")
    return text


def dataset_in(repo: Repo, query: Query, revision: str) -> str:
    """Return the path of a dataset that is there."""
    return repo.dataset(query.get("dataset", ""), revision).path
