"""`havasu-vc switch`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.checkouts import SwitchRequest
from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.branches import (
    find_goal,
    follow,
    head_object,
    is_unborn,
    open_to_switch,
    tell_move,
)
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import NoBranchError, nearest
from havasu_vc.library import Repo

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Switched

__all__ = ["command"]


@click.command("switch", cls=Command)
@click.argument("name", metavar="[BRANCH]", required=False, shell_complete=complete_branches)
@click.option("-c", "--create", "new", metavar="NAME", help="Make a branch, at BRANCH or HEAD.")
@click.option(
    "-C", "--force-create", "renewed", metavar="NAME", help="The same; one that is there is moved."
)
@click.option("--guess/--no-guess", default=True, help="Make a branch that only a remote has.")
@click.option("-d", "--detach", is_flag=True, help="Put HEAD on the commit itself.")
@takes(
    SwitchRequest,
    discard=Spelt("-f --force --discard-changes"),
    without=("target", "create", "start"),
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: SwitchRequest,
    name: str | None,
    new: str | None,
    renewed: str | None,
    guess: bool,
    detach: bool,
) -> None:
    """Switch to another branch, or make one of a revision with -c NAME [REV].

    - is the branch before. A branch that only a remote has is made, and follows it.

    Tables that are checked out come along. Edits in them that are not committed are never
    passed over: unless the dataset is the same on the other branch, commit them first.
    """
    if is_called_kart():
        name, new, renewed = name or None, new or None, renewed or None  # empty is not given
    repo = _opened(invocation, name, new, renewed, detach=detach)
    made = new or renewed
    was = repo.head().commit
    if is_called_kart() and not (made or detach) and is_unborn(repo, name):
        return _print(invocation, repo, created=False)
    request = replace(
        request,
        target=made or name or "HEAD",
        create=made is not None,
        start=None if made is None else name,
    )
    if renewed is not None and any(branch.name == renewed for branch in repo.branches()):
        # The branch that HEAD is on is moved by itself, which brings tables along.
        start = request.start or "HEAD"
        if renewed == repo.head_branch:
            mode = "hard" if request.discard else "keep"
            repo.reset(start, mode=mode, discard=request.discard)
            _tell(invocation, repo, was, request, start=name, renewed=True)
            return
        repo.create_branch(renewed, start, force=True)
        follow(repo, renewed, start)
        request = replace(request, create=False, start=None)
    if detach:
        revision = "@{-1}" if request.target == "-" else request.target
        repo.switch.by(replace(request, target=repo.commit_info(revision).id))
    else:
        if made is None:
            request = _to_branch(repo, request, guess=guess)
        repo.switch.by(request)
        follow(repo, request.target, request.start)
    _tell(
        invocation,
        repo,
        was,
        request,
        start=None if made is None else name,
        renewed=renewed is not None,
    )


def _opened(
    invocation: Invocation, name: str | None, new: str | None, renewed: str | None, *, detach: bool
) -> Repo:
    """Open the repository; a merge that waits stops Kart before it looks at what is asked."""
    if not is_called_kart():
        _require_one_way(name, new, renewed, detach=detach)
        return open_to_switch(invocation)
    repo = open_to_switch(invocation)
    stop_while_merging(repo.git)
    _require_one_way(name, new, renewed, detach=detach)
    return repo


def _require_one_way(
    name: str | None, new: str | None, renewed: str | None, *, detach: bool
) -> None:
    """Raise where nothing is named to switch to, or what contradicts itself."""
    made = new is not None or renewed is not None
    if not (made or detach) and name is None:
        raise click.UsageError("Missing argument 'BRANCH'.")
    if made and detach:
        raise click.UsageError("-c and -d contradict each other")
    if new is not None and renewed is not None:
        raise click.UsageError("-c and -C contradict each other")


def _print(invocation: Invocation, repo: Repo, *, created: bool) -> None:
    value: Switched = {**head_object(repo), "created": created}
    invocation.result("havasu.switch/v1", value)


def _to_branch(repo: Repo, request: SwitchRequest, *, guess: bool) -> SwitchRequest:
    """Return the request for the branch that is named, here or at a remote."""
    name = request.target
    here = repo.head_branch
    if is_called_kart() and here is not None and name == f"refs/heads/{here}":
        return replace(request, target=here)
    goal = find_goal(repo, name, remotes=guess)
    if not goal.is_branch and any(each.name == name for each in repo.branches(remote=True)):
        raise NoBranchError(
            f"a branch is expected, and {name!r} is one of a remote",
            hints=(
                f"`havasu-vc switch {shlex.quote(name.partition('/')[2])}` makes one that "
                "follows it",
            ),
        )
    if not goal.is_branch and goal.name != name:
        raise NoBranchError(
            f"a branch is expected, and before this HEAD was on commit {goal.name[:10]}",
            hints=(f"`havasu-vc switch -d {goal.name[:10]}` puts HEAD on it again",),
        )
    if not goal.is_branch:
        raise NoBranchError(
            f"there is no branch {goal.name!r}",
            hints=(
                *nearest(goal.name, (each.name for each in repo.branches())),
                f"`havasu-vc switch -c {shlex.quote(name)}` makes it",
                "`-d` puts HEAD on a commit",
            ),
        )
    return replace(request, target=goal.name, start=goal.remote, create=goal.remote is not None)


def _tell(
    invocation: Invocation,
    repo: Repo,
    was: str | None,
    request: SwitchRequest,
    *,
    start: str | None,
    renewed: bool,
) -> None:
    _print(invocation, repo, created=request.create)
    # Which is told of in Kart's words alone, so other switches read no branches for it.
    from_branch = is_called_kart() and start in {branch.name for branch in repo.branches()}
    tell_move(
        invocation,
        repo,
        was,
        created=request.create,
        renewed=renewed,
        start=start if from_branch else None,
        written=request.discard,
    )
