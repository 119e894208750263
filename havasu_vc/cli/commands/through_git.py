"""`havasu-vc git`, `config` and `reflog`: git's own, also on a repository of Kart's."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.passthrough import git_command, run_git_here, show_git
from havasu_vc.errors import RepositoryNotFoundError, StateError
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository

__all__ = ["config", "git", "reflog"]

_BY_INDEX = frozenset(
    "add am apply checkout cherry-pick commit merge mv pull read-tree rebase reset restore revert"
    " rm sparse-checkout stash switch update-index worktree write-tree".split()
)
_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path")


@git_command("git", help_option=False)
def git(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    """Run git on the repository, also on one of Kart's, where git alone finds no index.

    There what would commit from an index or fill the work tree is refused, once there is a
    commit: git's index is empty, and its next commit would hold no dataset.
    """
    place: GitRepository | None = None
    try:
        place = GitRepository.open(invocation.place)
    except RepositoryNotFoundError:
        pass  # `git clone` and `git init` need none
    verb = _verb(arguments)
    if place is not None and place.is_kart and verb in _BY_INDEX and read_head(place).commit:
        raise StateError(
            f"`git {verb}` works on an index, which a repository of Kart's keeps from git",
            hints=("`havasu-vc --help` lists what does it for datasets; `commit-files` for files",),
        )
    if place is not None and verb in ("mv", "rm") and read_head(place).commit:
        _require_no_dataset(invocation, verb, arguments)
    if verb in ("clone", "init"):
        place = None  # these are about another repository, and know nothing of this one
    return run_git_here(arguments, place or invocation.folder, color=invocation.color)


def _require_no_dataset(invocation: Invocation, verb: str, arguments: Sequence[str]) -> None:
    """Raise where git would be asked for a dataset, whose files it has not in the work tree."""
    known = invocation.open_repo(rows=False).datasets()
    for argument in arguments:
        for path in known:
            if argument.rstrip("/") == path or argument.startswith(f"{path}/."):
                rest = " NEW" if verb == "mv" else ""
                raise StateError(
                    f"{path} is a dataset, whose files git has not in the work tree",
                    hints=(f"`havasu-vc {verb} {shlex.quote(path)}{rest}`",),
                )


def _verb(arguments: Sequence[str]) -> str:
    """Return the command among git's arguments.

    >>> _verb(["-c", "user.name=A", "--no-pager", "log", "-1"])
    'log'
    """
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return ""


@git_command("config")
def config(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    r"""Get and set options, as `git config` does, which is given all arguments.

    \b
    user.name, user.email   who commits are by
    core.editor             the editor for commit messages
    init.defaultBranch      the first branch of new repositories
    """
    place: GitRepository | None = None
    try:
        place = GitRepository.open(invocation.place)
    except RepositoryNotFoundError:
        if "--local" in arguments:
            raise
    line = ["config", *arguments]
    if place is None or not sys.stdout.isatty() or {"-e", "--edit"} & set(arguments):
        # What a script asks for is what is set.
        return run_git_here(line, place or invocation.folder, color=invocation.color)
    return show_git(line, place, color=False, pager=invocation.pager)


@git_command("reflog")
def reflog(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    """Show where HEAD and branches were, as `git reflog` does, which is given all arguments."""
    repo = invocation.open_repo(rows=False)
    color = invocation.colored(sys.stdout)
    return show_git(["reflog", *arguments], repo.git, color=color, pager=invocation.pager)
