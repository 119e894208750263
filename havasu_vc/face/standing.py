"""How things stand: what a page has seen of the repository, and whether that is still so.

An action says what its page has seen; if a terminal or another tab changed that meanwhile, the
action is refused by the name of what changed, and nothing is overwritten unseen.

What stands behind the question mark, checked: nothing else of a request reaches the library.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from havasu_vc.errors import ConcurrentChangeError, InvalidArgumentError
from havasu_vc.library import Repo

__all__ = [
    "Query",
    "box_in",
    "dataset_in",
    "digest_of",
    "require_seen",
    "revision_in",
    "standing",
    "whole_number",
]

_WORDS = {
    "head": "HEAD has moved",
    "branches": "a branch has moved",
    "merge": "the merge that waited has changed",
    "edits": "what is edited has changed",
    "stashes": "what is set aside has changed",
}


def standing(repo: Repo, _: Query) -> dict[str, str]:
    """Return how things stand, each as a text that changes with it; cheap enough to ask often."""
    return {name: _stands(repo, name) for name in ("head", "branches", "merge", "stashes")}


def digest_of(parts: Iterable[object]) -> str:
    """Return a short text that differs where one of the parts does."""
    found = hashlib.sha256()
    for each in parts:
        text = repr(each).encode("utf-8", "surrogatepass")
        found.update(len(text).to_bytes(8, "little") + text)
    return found.hexdigest()[:20]


def require_seen(repo: Repo, seen: Any, edits: str | None) -> None:
    """Raise `ConcurrentChangeError` where something is not as it was seen; `edits` is as now."""
    if seen is None:
        return
    if not isinstance(seen, Mapping) or not all(isinstance(each, str) for each in seen.values()):
        raise InvalidArgumentError("what was seen is a JSON object of texts")
    for name, text in seen.items():
        if name not in _WORDS:
            raise InvalidArgumentError(f"{name!r} is nothing that is seen")
        now = edits if name == "edits" else _stands(repo, name)
        if now is not None and now != text:
            detail = f": it is at {now} now" if name == "head" else ""
            raise ConcurrentChangeError(
                f"{_WORDS[name]} since the page was shown{detail}",
                hints=("look again, then decide", "nothing was done"),
            )


def _stands(repo: Repo, name: str) -> str:
    if name == "head":
        head = repo.head()
        return f"{repo.head_branch or 'no branch'} {(head.commit or 'without a commit')[:10]}"
    if name == "branches":
        return digest_of((each.name, each.commit) for each in repo.branches())
    if name == "stashes":
        stashes = () if repo.git.is_bare else repo.workspace.stashes()
        return digest_of((each.ref, each.commit) for each in stashes)
    waiting = repo.status().waiting
    if waiting is None:
        return "none"
    counts = ((path, each.features, each.meta) for path, each in waiting.conflicts.items())
    return digest_of((waiting.kind, waiting.context.theirs.commit, *counts))


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
