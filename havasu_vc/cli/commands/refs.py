"""`havasu-vc branch` and `tag`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.branches import follow
from havasu_vc.cli.completing import complete_branches, complete_tags
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, join_message, styled_json
from havasu_vc.cli.passthrough import run_git_here, show_git
from havasu_vc.library import Repo
from havasu_vc.writers.commits import ABBREVIATED
from havasu_vc.writers.terminal import printable, styled

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import Upstream
    from havasu_vc.store.refs import Branch

__all__ = ["branch", "tag"]


@click.command("branch", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    metavar="[NAME [START]]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_branches,
)
@click.option("-d", "--delete", is_flag=True, help="Delete branches that are merged.")
@click.option("-D", "force_delete", is_flag=True, help="Delete branches even if they are not.")
@click.option("--show-current", is_flag=True, help="Print the name of the branch HEAD is on.")
@format_option("text", "json")
@click.pass_context
def branch(
    context: click.Context,
    arguments: tuple[str, ...],
    delete: bool,
    force_delete: bool,
    show_current: bool,
    output_format: str,
) -> int:
    """List branches, make the branch NAME at START or HEAD, or delete branches.

    Any other option of `git branch` is handed to git.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo(rows=False)
    stop_while_merging(repo.git)  # in which Kart shows no branches
    if output_format == "json" and (arguments or delete or force_delete or show_current):
        raise click.UsageError("-o json is of the list of branches alone")
    if any(argument.startswith("-") for argument in arguments):
        return _git_branch(invocation, repo, arguments, delete=delete, force_delete=force_delete)
    if show_current:
        click.echo(printable(repo.head_branch or ""), nl=repo.head_branch is not None)
    elif delete or force_delete:
        _delete(invocation, repo, arguments, force=force_delete)
    elif arguments:
        if len(arguments) > 2:
            raise click.UsageError("a new branch has one name and one start")
        repo.create_branch(*arguments)
        invocation.say(f"Made branch '{arguments[0]}'")
        if arguments[1:] and follow(repo, *arguments):
            invocation.say(f"branch '{arguments[0]}' set up to track '{arguments[1]}'.")
    elif output_format == "json":
        click.echo(styled_json(context, _json(repo)))
    else:
        _list(repo, color=invocation.colored(sys.stdout))
    return 0


def _git_branch(
    invocation: Invocation,
    repo: Repo,
    arguments: Sequence[str],
    *,
    delete: bool,
    force_delete: bool,
) -> int:
    options = [*["--delete"] * delete, *["-D"] * force_delete]
    color = invocation.colored(sys.stdout)
    line = ["branch", *options, *arguments]
    if any(argument.startswith("--edit") for argument in arguments):
        return run_git_here(line, repo.git, color=color)
    return show_git(line, repo.git, color=color, pager=invocation.pager)


def _delete(invocation: Invocation, repo: Repo, names: Sequence[str], *, force: bool) -> None:
    if not names:
        raise click.UsageError("name the branches to delete")
    for name in names:
        was = next((each.commit for each in repo.branches() if each.name == name), "")
        repo.delete_branch(name, force=force)
        invocation.say(f"Deleted branch '{name}' (was {was[:ABBREVIATED]})")


def _list(repo: Repo, *, color: bool) -> None:
    if repo.head_branch is None:
        short = repo.commit_info().id[:7]
        click.echo(f"* {styled(f'(HEAD detached at {short})', 'green', color)}")
    for branch in repo.branches():
        name = visible(branch.name)
        click.echo(f"* {styled(name, 'green', color)}" if branch.is_head else f"  {name}")


def _upstream(repo: Repo, branch: Branch) -> Upstream | None:
    """Return the branch that one follows, and how far they are apart where both are here."""
    if branch.upstream is None:
        return None
    from havasu_vc.store.refs import count_apart

    ahead, behind = count_apart(repo.git, branch.commit, branch.upstream) or (0, 0)
    return {"branch": branch.upstream, "ahead": ahead, "behind": behind}


def _json(repo: Repo) -> dict[str, object]:
    """Return the branches in Kart's form."""
    branches = {}
    for branch in repo.branches():
        item: dict[str, object] = {"commit": branch.commit, "abbrevCommit": branch.commit[:7]}
        item |= {"branch": branch.name, "upstream": _upstream(repo, branch)}
        branches[branch.name] = item
    return {"kart.branch/v1": {"current": repo.head_branch, "branches": branches}}


_EDITING = re.compile("-[a-z]*[aseu]|--(annotate|sign|local-user|edit)")
"""Options with which git may open an editor, or ask for a passphrase."""


@click.command("tag", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    metavar="[NAME [REV]]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_tags,
)
@click.option("-d", "--delete", is_flag=True, help="Delete tags.")
@click.option(
    "-m",
    "--message",
    "messages",
    metavar="TEXT",
    multiple=True,
    help="Give the tag a message, author and time of its own.",
)
@format_option("text", "json")
@click.pass_context
def tag(
    context: click.Context,
    arguments: tuple[str, ...],
    delete: bool,
    messages: tuple[str, ...],
    output_format: str,
) -> int:
    """List tags, make the tag NAME at REV or HEAD, or delete tags.

    Any other option of `git tag` is handed to git.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo(rows=False)
    if any(argument.startswith("-") for argument in arguments):
        options = [*["--delete"] * delete, *(f"--message={text}" for text in messages)]
        line = ["tag", *options, *arguments]
        if any(map(_EDITING.match, arguments)):
            return run_git_here(line, repo.git, color=invocation.colored(sys.stdout))
        return show_git(line, repo.git, color=False, pager=invocation.pager)
    if messages and not any(messages) and arguments and is_called_kart():
        return show_git(["tag", "-m", "", *arguments], repo.git, color=False, pager=False)
    if messages and not (arguments or delete):
        raise click.UsageError("-m goes with the name of a tag")
    if delete:
        if not arguments and is_called_kart():
            return 0  # as git, to which Kart hands this
        if not arguments:
            raise click.UsageError("name the tags to delete")
        for name in arguments:
            was = next((each.commit for each in repo.tags() if each.name == name), None)
            repo.delete_tag(name)
            of = "" if was is None else f" (was {was[:ABBREVIATED]})"
            invocation.say(f"Deleted tag '{name}'{of}")
    elif arguments:
        if len(arguments) > 2:
            raise click.UsageError("a new tag has one name and one revision")
        repo.create_tag(*arguments, message=join_message(messages))
        invocation.say(f"Made tag '{arguments[0]}'")
    elif output_format == "json":
        tags = {
            tag.name: {"commit": tag.commit, "abbrevCommit": tag.commit[:7], "message": tag.message}
            for tag in repo.tags()
        }
        click.echo(styled_json(context, {"havasu.tag/v1": tags}))
    else:
        for tag in repo.tags():
            click.echo(visible(tag.name))
    return 0
