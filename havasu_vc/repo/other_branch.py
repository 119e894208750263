"""The branch that a commit goes to, where that is not the one that HEAD is on."""

from __future__ import annotations

from havasu_vc.errors import NoBranchError, StateError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.refs import list_branches

__all__ = ["other_branch"]


def other_branch(repo: OpenRepo, ref: str | None) -> str | None:
    """Return the branch to commit to; None for HEAD, or the branch that it is on."""
    name = None if ref is None else ref.removeprefix("refs/heads/")
    if name is None or name in ("HEAD", repo.head_branch):
        return None
    found = next((each for each in list_branches(repo.git) if each.name == name), None)
    if found is None:
        raise NoBranchError(
            f"there is no branch {name!r}", hints=("`havasu-vc branch NAME` makes it",)
        )
    if found.checked_out is not None:
        raise StateError(
            f"the branch {name} is checked out at {found.checked_out}",
            hints=("commit there",),
        )
    return name
