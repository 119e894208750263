"""Moves of HEAD: which branch a person means who switches, and where HEAD is then.

Branches are named as in git, also the one before, and one of a remote.

`-` is the branch that HEAD was on before, and `@{-2}` the one before that. A branch that
only one remote has is made here, and follows that remote's.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Head
    from havasu_vc.cli.invocation import Invocation
    from havasu_vc.library import Repo

__all__ = [
    "Goal",
    "find_goal",
    "follow",
    "head_object",
    "is_unborn",
    "open_to_switch",
    "tell_head",
    "tell_move",
    "tell_parts",
    "tell_update",
]


@dataclass(frozen=True, slots=True)
class Goal:
    """Where HEAD is to be put."""

    name: str
    """A branch, or a revision where there is no branch of that name."""
    is_branch: bool
    """Whether there is such a branch, here or on a remote."""
    remote: str | None = None
    """The branch of a remote to make it from, such as `origin/dev`."""


def find_goal(repo: Repo, text: str, *, revisions: bool = False, remotes: bool = True) -> Goal:
    """Return what a person means who names a branch to switch to.

    Where `revisions` are meant too, a tag or commit goes before a remote's branch, and without
    `remotes` those are not looked for. Raises `InvalidArgumentError` where several remotes have it.
    """
    if text == "-" or text.startswith("@{-"):
        text = _before(repo, "@{-1}" if text == "-" else text)
    if any(branch.name == text for branch in repo.branches()):
        return Goal(text, is_branch=True)
    if revisions:
        with suppress(HavasuError):
            repo.commit_info(text)
            return Goal(text, is_branch=False)
    found = [
        branch.name
        for branch in repo.branches(remote=True)
        if remotes and branch.name.partition("/")[2] == text
    ]
    if len(found) > 1:
        raise InvalidArgumentError(
            f"several remotes have a branch {text!r}: {', '.join(found)}",
            hints=(
                f"`havasu-vc switch -c {shlex.quote(text)} {shlex.quote(found[0])}` takes one "
                f"of them",
            ),
        )
    return Goal(text, is_branch=bool(found), remote=found[0] if found else None)


def is_unborn(repo: Repo, branch: str | None) -> bool:
    """Whether a branch is the one that HEAD is on, where there is no commit yet."""
    return branch is not None and branch == repo.head_branch and repo.head().commit is None


def _before(repo: Repo, text: str) -> str:
    """Return the branch, or the commit, that HEAD was on before."""
    names = repo.git.git("rev-parse", "--symbolic-full-name", text, check=False)
    if names.code == 0 and names.text:
        return names.text.removeprefix("refs/heads/")
    commits = repo.git.git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}", check=False)
    if commits.code or not commits.text.strip():
        raise InvalidArgumentError("HEAD was on no other branch before")
    return commits.text.strip()


def follow(repo: Repo, branch: str, start: str | None) -> bool:
    """Let a new branch follow the branch of a remote that it was made from, if it was."""
    follows = start is not None and any(each.name == start for each in repo.branches(remote=True))
    if follows:
        repo.git.git("branch", "--quiet", f"--set-upstream-to={start}", branch)
    return follows


def tell_move(
    invocation: Invocation,
    repo: Repo,
    was: str | None,
    *,
    created: bool = False,
    renewed: bool = False,
    start: str | None = None,
    written: bool = False,
) -> None:
    """Tell where HEAD is now, and in Kart's place that the working copy is brought there.

    HEAD `was` at a commit. A branch that was created, or put elsewhere as if it were new, may
    have a `start` that is to be told of. The working copy may have been `written` wherever
    HEAD is, as where edits were dropped.
    """
    as_new = created or (renewed and is_called_kart())
    tell_head(invocation, repo, created=as_new, start=start)
    if written or repo.head().commit != was:
        tell_update(invocation, repo)


def tell_update(invocation: Invocation, repo: Repo) -> None:
    """Tell as Kart does that the working copy is written, if there is one."""
    if is_called_kart() and (living := repo.workspace.living) is not None:
        invocation.say(f"Updating {living.name} ...")
        tell_parts(invocation, repo)


def tell_parts(invocation: Invocation, repo: Repo) -> None:
    """Tell as Kart does of tables that were made with the rows inside a spatial filter alone."""
    for read, made in repo.workspace.take_parts_made().values():
        invocation.say(
            f"(of {read} features read, wrote {made} matching features to the working copy "
            "due to spatial filter)"
        )


def head_object(repo: Repo) -> Head:
    """Return where HEAD is."""
    return {"branch": repo.head_branch, "commit": repo.head().commit}


def open_to_switch(invocation: Invocation) -> Repo:
    """Open the repository; Arrow is loaded only where there are tables to bring along."""
    repo = invocation.open_repo(rows=False)
    if repo.workspace.is_meant:
        from havasu_vc.quick_arrow import leave_pandas_out

        leave_pandas_out()
    return repo


def tell_head(
    invocation: Invocation, repo: Repo, *, created: bool = False, start: str | None = None
) -> None:
    """Tell where HEAD is now, on a branch that was created from a `start` perhaps."""
    branch = repo.head_branch
    if branch is not None:
        if created and is_called_kart():
            upstream = next(each.upstream for each in repo.branches() if each.is_head)
            track = "" if start is None else f" from '{start}'"
            track = track if upstream is None else f" to track '{upstream}'"
            invocation.say(f"Creating new branch '{branch}'{track}...")
        else:
            invocation.say(f"Switched to {'a new ' if created else ''}branch '{branch}'")
        return
    info = repo.commit_info()
    subject = info.message.partition("\n")[0]
    invocation.say(f"HEAD is now at {info.id[:ABBREVIATED]} {subject}")
