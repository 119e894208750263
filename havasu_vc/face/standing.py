"""How things stand: what a page has seen of the repository, and whether that is still so.

An action says what its page has seen; if a terminal or another tab changed that meanwhile, the
action is refused by the name of what changed, and nothing is overwritten unseen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from havasu_vc.errors import ConcurrentChangeError, InvalidArgumentError
from havasu_vc.face.queries import Query
from havasu_vc.library import Repo

__all__ = ["digest_of", "require_seen", "standing"]

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
