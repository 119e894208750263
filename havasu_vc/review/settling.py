"""How a person settles what is in conflict: commands to copy, in order, with the right names."""

from __future__ import annotations

from collections.abc import Iterable

from havasu_vc.records import dataclass
from havasu_vc.remotes.hosts import PullRequest
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.conflicts import Conflicts
from havasu_vc.store.refs import list_branches

__all__ = ["Settling", "commands", "settling_here", "settling_of_request"]


@dataclass(frozen=True, slots=True)
class Settling:
    """Where a person settles conflicts: commands, each as its words, and what the sides are called.

    All of it is text for people; nothing is run here.
    """

    ours: str
    """The branch."""
    theirs: str
    """The branch that it is to be merged into."""
    begin: tuple[tuple[str, ...], ...]
    """How to get onto the branch."""
    merge: tuple[str, ...]
    """How to merge the other by rows."""
    merge_by_git: tuple[tuple[str, ...], ...]
    """How to have git merge the other, for files that only a person can merge."""
    push: tuple[str, ...] | None = None
    """How to make it known."""


def settling_here(repo: OpenRepo, base: str, head: str) -> Settling:
    """Return how a range of this clone is settled, in it."""
    branches = {branch.name for branch in list_branches(repo.git)}
    branch: str | None = repo.head_branch if head in ("HEAD", "@") else head
    remotes = set(repo.git.git("remote").lines)
    if branch is not None and branch not in branches:
        remote, _, name = branch.partition("/")
        branch = name if remote in remotes and name else None
    begin = ("git", "switch", branch) if branch else ("git", "switch", "--detach", head)
    push = None
    if branch is not None:
        remote = repo.git.config.get(f"branch.{branch}.remote") or "origin"
        push = ("havasu-vc", "push", remote, branch) if remote in remotes else None
    merge, by_git = ("havasu-vc", "merge", base), (("git", "merge", base),)
    return Settling(branch or head, base, (begin,), merge, by_git, push)


def settling_of_request(repo: OpenRepo, request: PullRequest, remote: str) -> Settling:
    """Return how a pull request is settled, in a clone of the one who may push to its branch."""
    base, head = request.base, request.head
    place, begin = remote, [("git", "switch", head)]
    if request.same_repository:
        begin.insert(0, ("havasu-vc", "fetch", remote))
    else:
        # In a clone of the fork, which has a name for the fork alone.
        place = hidden_secrets(repo.git.config.get(f"remote.{remote}.url") or remote)
        remote = "origin"
    return Settling(
        head,
        base,
        tuple(begin),
        ("havasu-vc", "pull", place, base),
        (("git", "fetch", place, base), ("git", "merge", "FETCH_HEAD")),
        ("havasu-vc", "push", remote, head),
    )


def commands(settling: Settling, found: Conflicts) -> Iterable[tuple[str, ...]]:
    """Yield what to do, each command as its words."""
    lines = list(settling.begin)
    if found.files:
        goes_on = ("havasu-vc", "merge", "--continue")
        lines += [*settling.merge_by_git, ("git", "add", *found.files), goes_on]
    else:
        lines.append(settling.merge)
    if found.datasets:
        schemas = [
            f"{each.path}:meta:{item.name}"
            for each in found.datasets
            for item in each.items
            if item.columns
        ]
        lines.append(("havasu-vc", "conflicts"))
        lines += [("havasu-vc", "resolve", label, "--with=ours") for label in schemas]
        if found.rows or found.items > len(schemas):
            lines.append(("havasu-vc", "resolve", "--all", "--with=ours"))
        lines.append(("havasu-vc", "merge", "--continue"))
    if settling.push is not None:
        lines.append(settling.push)
    # What looks like an option would be taken for one.
    odd = any(word.startswith("-") for word in (settling.ours, settling.theirs, *found.files))
    return () if odd else lines
