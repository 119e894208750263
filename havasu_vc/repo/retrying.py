"""Trying again what lost a race: another process moved the branch meanwhile.

Edits are brought onto the new head where they are committed (`transaction`). What is made
of HEAD as a whole, such as a revert, is made again of the new one, and nobody hears of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from havasu_vc.errors import ConcurrentChangeError
from havasu_vc.repo.opened import OpenRepo

__all__ = ["on_newest_head"]

_T = TypeVar("_T")

ATTEMPTS = 20
_PAUSE = 0.05


def on_newest_head(repo: OpenRepo, attempt: Callable[[], _T]) -> _T:
    """Return what an attempt does; it looks at HEAD anew each time that HEAD had moved on.

    The branch stays the one that HEAD was on at first.
    """
    branch = repo.head_branch
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except ConcurrentChangeError:
            if repo.head_branch != branch:
                raise
            # Whoever commits all the time lets go for a moment now and then.
            time.sleep(_PAUSE * number)
    return attempt()
